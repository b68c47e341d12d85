//! Base and operands are on their way to memory together: what a disk sees of the reads that are
//! under way at once, none of it timed.

use super::collection::{assert_sound, widths};
use super::delta_reads::key;
use super::deltas::{buckets, lists};
use super::late_disk::Late;
use super::*;
use crate::StrategyKind;
use crate::base::widths::Widths;

const STRATEGIES: [StrategyKind; 4] =
    [StrategyKind::Unified, StrategyKind::Wisckey, StrategyKind::Novkv, StrategyKind::Wayfinder];

/// A keyspace whose keys have a value of so many bytes, and an operand of so many in a bucket.
/// Nothing of the values is in memory.
fn merged(db: &Db, keys: u64, (base_bytes, operand_bytes): (usize, usize)) -> Keyspace {
    let keyspace = lists(db);
    (0..keys).for_each(|number| keyspace.put(key(number), "b".repeat(base_bytes)).unwrap());
    // Out of the memory of what was just written, and into a file that is read.
    (0..200).for_each(|number| keyspace.put(format!("x {number}"), "b".repeat(200)).unwrap());
    db.flush().unwrap();
    (0..keys).for_each(|number| keyspace.merge(key(number), "m".repeat(operand_bytes)).unwrap());
    db.flush().unwrap();
    keyspace
}

#[test]
fn a_base_is_read_while_its_deltas_are_on_their_way() {
    for strategy in STRATEGIES {
        let late = Late::new(&MemoryDisk::new());
        let db = late.open(small().strategy(strategy), widths());
        let keyspace = merged(&db, 20, (200, 1));
        let wanted = format!("{},m", "b".repeat(200));
        let get =
            |number| assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), wanted.as_bytes());
        // The first one has the bucket's filters read.
        get(0);
        // Its index block is in memory; so are those of its neighbours.
        let seen = late.seen(|| get(1));
        let [(begun, ended)] = seen.calls[..] else { panic!("{strategy:?}: {seen:?}") };
        assert!(ended > begun, "{strategy:?}: the base was not read before the deltas were there");
        assert_sound(&db);
    }
}

#[test]
fn bases_and_deltas_of_many_keys_are_under_way_at_once() {
    for strategy in STRATEGIES {
        let late = Late::new(&MemoryDisk::new());
        let db = late.open(small().strategy(strategy), widths());
        // A value fills a segment, so that each is a read of its own.
        let keyspace = merged(&db, 41, (2_100, 1));
        let wanted = format!("{},m", "b".repeat(2_100));
        // Filters of the bucket and the blocks of the index come to memory, the values do not.
        assert!(keyspace.contains(key(0)).unwrap());
        let keys: Vec<String> = (1..41).map(key).collect();
        let seen = late.seen(|| {
            for value in keyspace.multi_get(&keys).unwrap() {
                assert_eq!(value.unwrap(), wanted.as_bytes());
            }
        });
        assert_eq!(seen.submitted[0], 40, "{strategy:?}: the reads of deltas are submitted first");
        assert_eq!(seen.submitted.iter().sum::<usize>(), 80, "{strategy:?}: {seen:?}");
        assert_eq!(seen.most.0, 80, "{strategy:?}: all are under way at once: {seen:?}");
        assert_eq!(seen.under_way, (0, 0));
        assert_sound(&db);
    }
}

#[test]
fn index_and_filters_of_buckets_come_together_and_with_the_base() {
    for strategy in STRATEGIES {
        let late = Late::new(&MemoryDisk::new());
        let open = || late.open(small().strategy(strategy), buckets());
        let mut db = open();
        let mut keyspace = merged(&db, 100, (200, 60));
        for _ in 0..3 {
            (0..100).for_each(|n| keyspace.merge(key(n), "m".repeat(60)).unwrap());
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
        let wanted = format!("{}{}", "b".repeat(200), format!(",{}", "m".repeat(60)).repeat(4));
        let keys: Vec<String> = (0..100).map(key).collect();
        for is_batch in [false, true] {
            drop(keyspace);
            db.close().unwrap();
            db = open();
            keyspace = lists(&db);
            let seen = late.seen(|| match is_batch {
                false => assert_eq!(keyspace.get(&keys[7]).unwrap().unwrap(), wanted.as_bytes()),
                true => {
                    let values = keyspace.multi_get(&keys).unwrap();
                    values.iter().for_each(|v| assert_eq!(v.as_deref(), Some(wanted.as_bytes())));
                }
            });
            let stats = db.stats().deltas;
            let loads = if is_batch { stats.buckets as usize } else { 1 };
            assert_eq!(seen.submitted[0], loads, "{strategy:?}: {seen:?}");
            assert_eq!(stats.loads as usize, loads);
            let (begun, ended) = seen.calls[0];
            assert!(ended > begun, "{strategy:?}: the base was not read meanwhile");
        }
    }
}

#[test]
fn reads_of_very_many_deltas_go_out_part_by_part() {
    let late = Late::new(&MemoryDisk::new());
    let (keys, operand_bytes) = (6_000, 1_000);
    let options = Options::new().memory_budget(64 << 20).reserve_bytes(0);
    let db = late.open(options, Widths::for_budget(64 << 20));
    let keyspace = merged(&db, keys, (10, operand_bytes));
    let keys: Vec<String> = (0..keys).map(key).collect();
    let wanted = format!("{},{}", "b".repeat(10), "m".repeat(operand_bytes));
    let seen = late.seen(|| {
        for value in keyspace.multi_get(&keys).unwrap() {
            assert_eq!(value.unwrap(), wanted.as_bytes());
        }
    });
    assert!(seen.submitted.iter().sum::<usize>() >= keys.len(), "{:?}", seen.submitted);
    // On top come what the last key has, and blocks of the index.
    assert!((2 << 20..(4 << 20) + (512 << 10)).contains(&seen.most.1), "{:?}", seen.most);
}
