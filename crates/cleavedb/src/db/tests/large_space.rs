//! The room that large values take: counted while they live, given back by itself when they are
//! dead, whatever made them so.

use super::large::{assert_reads, assert_sound, keyspaces, large_files, long, open};
use super::*;

fn reclaim(db: &Db) {
    db.reclaim(None, &mut |_| {}).unwrap();
}

#[test]
fn live_and_dead_bytes_are_counted() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    keyspace.put("a", long(1, 3000)).unwrap();
    keyspace.put("b", long(2, 5000)).unwrap();
    for _ in 0..2 {
        let stats = db.stats();
        assert_eq!(stats.values.large_files, 2);
        assert_eq!(stats.values.large_live_bytes, stats.values.large_bytes);
        assert!((8000..8700).contains(&stats.values.large_bytes), "{}", stats.values.large_bytes);
        assert!(stats.live_bytes >= 8000, "{}", stats.live_bytes);
        db.flush().unwrap();
    }
    let stats = db.stats();
    assert!(stats.disk_bytes >= stats.values.large_bytes);
    // Far below what one live value would be if only its handle counted.
    assert!(stats.space_amplification < 2.0, "{}", stats.space_amplification);
    let snapshot = db.snapshot();
    keyspace.delete("a").unwrap();
    reclaim(&db);
    let stats = db.stats();
    assert_eq!(stats.values.large_files, 2, "the snapshot keeps one that is dead");
    assert!((5000..5500).contains(&stats.values.large_live_bytes), "{:?}", stats.values);
    drop(snapshot);
    reclaim(&db);
    let stats = db.stats();
    assert_eq!(stats.values.large_files, 1);
    assert_eq!(stats.values.large_live_bytes, stats.values.large_bytes);
    assert_sound(&db);
}

#[test]
fn a_dropped_keyspace_of_large_values_alone_is_counted_off() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, within] = keyspaces(&db);
    drop(within);
    keyspace.put("k", long(1, 1000)).unwrap();
    let name = keyspace.name().to_owned();
    db.flush().unwrap();
    drop(keyspace);
    let snapshot = db.snapshot();
    db.drop_keyspace(&name).unwrap();
    assert_sound(&db);
    drop(snapshot);
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 0);
    assert_sound(&db);
}

#[test]
fn reclaim_ends_where_the_last_file_goes_before_it_looks() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    assert!(keyspace.compare_and_swap("k", None, Some(&long(1, 664))).unwrap());
    keyspace.put("k", "short").unwrap();
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 0);
    assert_sound(&db);
}

#[test]
fn ranges_and_dropped_keyspaces_take_their_files_along() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [apart, within] = keyspaces(&db);
    for keyspace in [&apart, &within] {
        for number in 0..6 {
            keyspace.put(format!("k{number}"), long(number, 1000)).unwrap();
        }
    }
    db.flush().unwrap();
    assert_eq!(large_files(&disk).len(), 12);
    let snapshot = db.snapshot();
    apart.delete_range("k1".."k5").unwrap();
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 12, "a snapshot needs them");
    assert_eq!(snapshot.get(&apart, "k3").unwrap().unwrap(), long(3, 1000));
    drop(snapshot);
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 8);
    let rest = [("k0".to_owned(), long(0, 1000)), ("k5".to_owned(), long(5, 1000))];
    assert_reads(&apart, &rest);
    // One that is not flushed goes as well.
    within.put("k9", long(9, 1000)).unwrap();
    drop(within);
    db.drop_keyspace("within").unwrap();
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 2);
    assert_reads(&apart, &rest);
    assert_sound(&db);
    drop(apart);
    db.close().unwrap();
    let db = open(&disk);
    assert_reads(&keyspaces(&db)[0], &rest);
    assert_eq!(large_files(&disk).len(), 2);
}

#[test]
fn what_collection_folds_to_a_large_value_gets_a_file_of_its_own() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    let base = long(1, 250);
    keyspace.put("folded", &base).unwrap();
    for number in 0..12 {
        keyspace.put(format!("dead{number}"), long(2, 200)).unwrap();
    }
    db.flush().unwrap();
    keyspace.merge("folded", long(3, 100)).unwrap();
    keyspace.merge("folded", long(4, 100)).unwrap();
    keyspace.delete_range("dead".."deae").unwrap();
    let expected = [base, long(3, 100), long(4, 100)].concat();
    assert!(large_files(&disk).is_empty());
    assert_eq!(keyspace.get("folded").unwrap().unwrap(), expected);
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 1, "{:?}", db.stats().collection);
    let expected = [("folded".to_owned(), expected)];
    assert_reads(&keyspace, &expected);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    assert_reads(&keyspaces(&db)[0], &expected);
    assert_sound(&db);
}

#[test]
fn writing_over_large_values_comes_to_rest_by_itself() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    for round in 0..40 {
        for number in 0..3 {
            keyspace.put(format!("k{number}"), long(round, 2000)).unwrap();
        }
        if round % 4 == 3 {
            db.flush().unwrap();
        }
    }
    reclaim(&db);
    assert_eq!(large_files(&disk).len(), 3);
    let expected = [0, 1, 2].map(|number| (format!("k{number}"), long(39, 2000)));
    assert_reads(&keyspace, &expected);
    let freed = db.stats().collection.files_removed;
    assert!(freed >= 117, "{freed} of 117 removed");
    assert_sound(&db);
}
