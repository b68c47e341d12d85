//! The memtable against a list of everything that was inserted.

use super::*;
use crate::base::entry::compare_entries;
use proptest::prelude::*;

const MEMTABLE_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug)]
struct Entry {
    keyspace: KeyspaceId,
    key: Vec<u8>,
    seq: Seq,
    kind: Kind,
    value: Vec<u8>,
}

fn small_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, b'a', b'b', 0xff]), 0..3)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Put,
        Kind::PutSeparated,
        Kind::Delete,
        Kind::Merge,
        Kind::Merge,
        Kind::RangeDelete,
    ])
}

/// Most entries of a list. What is checked is quadratic, and Miri a thousand times as slow.
const ENTRIES_MAX: usize = if cfg!(miri) { 24 } else { 60 };

/// Entries with the seqs 1, 2, ...; for a range delete the value is the end.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let one = (1u32..4, small_key(), kind(), small_key());
    prop::collection::vec(one, 0..ENTRIES_MAX).prop_map(|list| {
        list.into_iter()
            .zip(1..)
            .map(|((keyspace, key, kind, value), seq)| Entry {
                keyspace: KeyspaceId(keyspace),
                key,
                seq,
                kind,
                value,
            })
            .collect()
    })
}

fn insert(memtable: &Memtable, entry: &Entry) {
    let Entry { keyspace, key, seq, kind, value } = entry;
    if *kind == Kind::RangeDelete {
        memtable.insert_range_delete(*keyspace, key, value, *seq);
    } else {
        memtable.insert(*keyspace, key, *seq, *kind, value);
    }
}

/// What a lookup must come to: from the list of all entries.
fn naive_get(all: &[Entry], keyspace: KeyspaceId, key: &[u8], lookup: &mut Lookup) -> bool {
    let snapshot = lookup.snapshot;
    let visible = |e: &&Entry| e.keyspace == keyspace && e.seq <= snapshot;
    let cover = all
        .iter()
        .filter(visible)
        .filter(|e| e.kind == Kind::RangeDelete && *e.key <= *key && *key < *e.value)
        .map(|e| e.seq)
        .max()
        .unwrap_or(0);
    lookup.cover(cover);
    let versions = all.iter().rev().filter(visible);
    for e in versions.filter(|e| e.kind != Kind::RangeDelete && e.key == key) {
        if lookup.offer(e.seq, e.kind, || Value::copy_from(&e.value)) {
            return true;
        }
    }
    lookup.end_source()
}

fn outcome(lookup: &Lookup) -> String {
    format!("{:?} {:?} {}", lookup.found, lookup.operands, lookup.newest_seq)
}

/// The entries of a keyspace in cursor order.
fn sorted(all: &[Entry], keyspace: KeyspaceId) -> Vec<Entry> {
    let mut list: Vec<Entry> = all
        .iter()
        .filter(|e| e.keyspace == keyspace && e.kind != Kind::RangeDelete)
        .cloned()
        .collect();
    list.sort_by(|a, b| compare_entries((&a.key, a.seq), (&b.key, b.seq)));
    list
}

fn assert_stands_on(cursor: &MemtableCursor, entry: Option<&Entry>) {
    assert_eq!(cursor.valid(), entry.is_some());
    if let Some(e) = entry {
        let found = (cursor.key(), cursor.seq(), cursor.kind(), cursor.value());
        assert_eq!(found, (e.key.as_slice(), e.seq, e.kind, e.value.as_slice()));
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, ..Default::default() }
}

#[test]
fn an_empty_one_says_so() {
    let memtable = Memtable::new(9, MEMTABLE_BYTES);
    assert!(memtable.is_empty() && memtable.keyspaces().is_empty());
    assert_eq!((memtable.id(), memtable.entries(), memtable.user_bytes()), (9, 0, 0));
    assert_eq!((memtable.first_seq(), memtable.last_seq()), (u64::MAX, 0));
    assert!(memtable.memory_bytes() < 4096, "{}", memtable.memory_bytes());
    let mut lookup = Lookup::new(SEQ_MAX);
    assert!(!memtable.get(KeyspaceId(1), b"k", &mut lookup));
    let mut cursor = memtable.cursor(KeyspaceId(1));
    cursor.seek_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek_last().unwrap();
    assert!(!cursor.valid());
    cursor.next().unwrap();
    cursor.prev().unwrap();
}

#[test]
fn the_last_keyspace_number_has_a_last_entry() {
    let memtable = Memtable::new(1, MEMTABLE_BYTES);
    memtable.insert(KeyspaceId(u32::MAX), b"k", 1, Kind::Put, b"v");
    let mut cursor = memtable.cursor(KeyspaceId(u32::MAX));
    cursor.seek_last().unwrap();
    assert_eq!((cursor.key(), cursor.value()), (b"k".as_slice(), b"v".as_slice()));
    assert_eq!(memtable.keyspaces(), [KeyspaceId(u32::MAX)]);
}

#[test]
fn a_cursor_outlives_the_owners_handle() {
    let memtable = Memtable::new(1, MEMTABLE_BYTES);
    memtable.insert(KeyspaceId(1), b"k", 1, Kind::Put, &[7; 5000]);
    let mut cursor = memtable.cursor(KeyspaceId(1));
    drop(memtable);
    cursor.seek_first().unwrap();
    assert_eq!(cursor.value(), [7; 5000]);
}

#[test]
fn separated_puts_are_counted_and_what_supersedes_them() {
    let memtable = Memtable::new(1, MEMTABLE_BYTES);
    let insert = |key: &[u8], seq, kind| memtable.insert(KeyspaceId(1), key, seq, kind, b"v");
    insert(b"a", 1, Kind::PutSeparated);
    insert(b"b", 2, Kind::Put);
    assert_eq!(memtable.separated(), (1, 0));
    insert(b"b", 3, Kind::PutSeparated);
    assert_eq!(memtable.separated(), (2, 0), "what it supersedes was not separated");
    insert(b"a", 4, Kind::PutSeparated);
    insert(b"b", 5, Kind::Delete);
    assert_eq!(memtable.separated(), (3, 2));
    memtable.insert(KeyspaceId(2), b"a", 6, Kind::PutSeparated, b"v");
    assert_eq!(memtable.separated(), (4, 2), "the key of another keyspace");
}

#[test]
fn memory_of_range_deletes_is_counted() {
    let memtable = Memtable::new(1, MEMTABLE_BYTES);
    let before = memtable.memory_bytes();
    for seq in 1..=100u64 {
        memtable.insert_range_delete(KeyspaceId(1), &seq.to_be_bytes(), &[0xff; 8], seq);
    }
    let waiting = memtable.memory_bytes();
    assert!(waiting > before + 1600);
    assert_eq!(memtable.tombstones(KeyspaceId(1)).len(), 100);
    assert!(memtable.memory_bytes() > before + 1600);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn gets_answer_as_the_list_does(
        all in entries(),
        read_every in 1usize..20,
        probes in prop::collection::vec((1u32..5, small_key(), 0u64..64), 1..8),
        // With one word, the filter soon lets everything pass.
        bytes in prop::sample::select(vec![0, 4 << 10, MEMTABLE_BYTES]),
    ) {
        let memtable = Memtable::new(1, bytes);
        for (i, entry) in all.iter().enumerate() {
            insert(&memtable, entry);
            if i % read_every != 0 && i + 1 != all.len() {
                continue;
            }
            for (keyspace, key, snapshot) in &probes {
                let (mut found, mut expected) = (Lookup::new(*snapshot), Lookup::new(*snapshot));
                let keyspace = KeyspaceId(*keyspace);
                let decided = memtable.get(keyspace, key, &mut found);
                prop_assert_eq!(decided, naive_get(&all[..=i], keyspace, key, &mut expected));
                prop_assert_eq!(outcome(&found), outcome(&expected));
                let newest = all[..=i].iter().rev().find(|e| {
                    e.keyspace == keyspace && if e.kind == Kind::RangeDelete {
                        e.key <= *key && *key < e.value
                    } else {
                        e.key == *key
                    }
                });
                prop_assert_eq!(memtable.newest_seq(keyspace, key), newest.map_or(0, |e| e.seq));
            }
            let keyspace = KeyspaceId(2);
            let asked = || probes.iter().map(|(_, key, snapshot)| (key, Lookup::new(*snapshot)));
            let mut many: Vec<_> = asked().collect();
            let keys = &mut many.iter_mut().map(|(key, lookup)| (key.as_slice(), lookup));
            memtable.get_many(keyspace, keys);
            for ((key, mut alone), (_, found)) in asked().zip(many) {
                memtable.get(keyspace, key, &mut alone);
                prop_assert_eq!(outcome(&found), outcome(&alone));
            }
        }
    }

    #[test]
    fn cursors_walk_one_keyspace(
        all in entries(),
        steps in prop::collection::vec((0u8..8, small_key(), 0u64..64), 1..40),
    ) {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        all.iter().for_each(|entry| insert(&memtable, entry));
        let keyspace = KeyspaceId(2);
        let twin = sorted(&all, keyspace);
        let mut cursor = memtable.cursor(keyspace);
        let mut at: Option<usize> = None;
        for (step, key, seq) in &steps {
            let spot = twin.partition_point(|e| {
                compare_entries((&e.key, e.seq), (key, *seq)).is_lt()
            });
            match step {
                0 => { cursor.seek_first().unwrap(); at = Some(0); }
                1 => { cursor.seek_last().unwrap(); at = twin.len().checked_sub(1); }
                2 => { cursor.seek(key, *seq).unwrap(); at = Some(spot); }
                3 => { cursor.seek_before(key, *seq).unwrap(); at = spot.checked_sub(1); }
                4 | 5 => { cursor.next().unwrap(); at = at.map(|at| at + 1); }
                _ => { cursor.prev().unwrap(); at = at.and_then(|at| at.checked_sub(1)); }
            }
            at = at.filter(|at| *at < twin.len());
            assert_stands_on(&cursor, at.map(|at| &twin[at]));
        }
    }

    #[test]
    fn figures_add_up(all in entries()) {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        all.iter().for_each(|entry| insert(&memtable, entry));
        prop_assert_eq!(memtable.entries(), all.len() as u64);
        let bytes: usize = all.iter().map(|e| e.key.len() + e.value.len()).sum();
        prop_assert_eq!(memtable.user_bytes(), bytes as u64);
        prop_assert_eq!(memtable.last_seq(), all.last().map_or(0, |e| e.seq));
        prop_assert_eq!(memtable.first_seq(), all.first().map_or(u64::MAX, |e| e.seq));
        let mut present: Vec<KeyspaceId> = all
            .iter()
            .filter(|e| e.kind != Kind::RangeDelete || e.key < e.value)
            .map(|e| e.keyspace)
            .collect();
        present.sort();
        present.dedup();
        prop_assert_eq!(memtable.keyspaces(), present);
        for keyspace in (1..4).map(KeyspaceId) {
            let tombstones = all
                .iter()
                .filter(|e| e.keyspace == keyspace && e.kind == Kind::RangeDelete)
                .map(|e| RangeTombstone {
                    start: e.key.as_slice().into(),
                    end: e.value.as_slice().into(),
                    seq: e.seq,
                });
            let expected = Fragments::build(tombstones.collect()).tombstones();
            prop_assert_eq!(memtable.tombstones(keyspace), expected);
        }
    }
}

#[test]
fn threads_see_what_they_inserted() {
    let memtable = Memtable::new(1, MEMTABLE_BYTES);
    let count: u64 = if cfg!(miri) { 25 } else { 1500 };
    let threads = 4u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let memtable = &memtable;
            scope.spawn(move || {
                let keyspace = KeyspaceId(1 + thread as u32 % 2);
                for i in 0..count {
                    let seq = i * threads + thread + 1;
                    let key = [thread.to_be_bytes(), i.to_be_bytes()].concat();
                    let end = [key.as_slice(), &[0]].concat();
                    memtable.insert(keyspace, &key, seq, Kind::Put, &seq.to_le_bytes());
                    let mut lookup = Lookup::new(SEQ_MAX);
                    assert!(memtable.get(keyspace, &key, &mut lookup));
                    assert_eq!(lookup.found.unwrap().value, seq.to_le_bytes());
                    if i % 8 == thread {
                        memtable.insert_range_delete(keyspace, &key, &end, seq + 1000);
                        let mut lookup = Lookup::new(SEQ_MAX);
                        assert!(memtable.get(keyspace, &key, &mut lookup));
                        assert_eq!(lookup.found.unwrap().kind, Kind::RangeDelete);
                    }
                }
            });
        }
    });
    let range_deletes: usize =
        [1, 2].iter().map(|keyspace| memtable.tombstones(KeyspaceId(*keyspace)).len()).sum();
    assert_eq!(memtable.entries(), count * threads + range_deletes as u64);
    assert_eq!(range_deletes as u64, (0..threads).map(|t| (count - t).div_ceil(8)).sum::<u64>());
}
