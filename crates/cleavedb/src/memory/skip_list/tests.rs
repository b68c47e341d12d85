//! The list against an ordered map, and under many threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

const KEYSPACE: KeyspaceId = KeyspaceId(1);

type Place = (u32, Vec<u8>, Reverse<Seq>);

fn place(node: Node<'_>) -> Place {
    (node.keyspace(), node.key().to_vec(), Reverse(node.seq()))
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, b'a', 0xff]), 0..3),
        prop::collection::vec(prop::sample::select(vec![0u8, b'a']), 7..11),
    ]
}

fn forwards(list: &SkipList) -> Vec<Place> {
    let first = list.seek(&Target::new(KeyspaceId(0), &[], SEQ_MAX));
    std::iter::successors(first, |node| list.next(*node)).map(place).collect()
}

fn backwards(list: &SkipList) -> Vec<Place> {
    std::iter::successors(list.last(), |node| list.prev(*node)).map(place).collect()
}

fn is_new(inserted: Inserted<'_>) -> bool {
    matches!(inserted, Inserted::Before(_))
}

#[test]
fn heights_fall_by_four() {
    let mut counts = [0usize; LEVELS_MAX + 1];
    let count = if cfg!(miri) { 4000 } else { 100_000 };
    for seq in 0..count {
        counts[height_of(seq)] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!((count * 72 / 100..count * 78 / 100).contains(&(counts[1] as u64)), "{counts:?}");
    assert!((count * 17 / 100..count * 21 / 100).contains(&(counts[2] as u64)), "{counts:?}");
}

#[test]
fn an_entry_twice_is_refused_and_stays_as_it_was() {
    let list = SkipList::new();
    assert!(is_new(list.insert(KEYSPACE, b"k", 7, Kind::Put, b"first")));
    assert!(!is_new(list.insert(KEYSPACE, b"k", 7, Kind::Delete, b"second")));
    let node = list.seek(&Target::new(KEYSPACE, b"k", 7)).unwrap();
    assert_eq!((node.kind(), node.value()), (Kind::Put, b"first".as_slice()));
    assert!(list.next(node).is_none());
}

#[test]
fn sequential_keys_use_the_hint_at_every_level() {
    let list = SkipList::new();
    let mut used = [0usize; 3];
    let count: u64 = if cfg!(miri) { 200 } else { 5000 };
    for seq in 1..=count {
        let key = seq.to_be_bytes();
        let target = Target::new(KEYSPACE, &key, seq);
        let mut brackets = [Bracket { before: list.head(), after: None }; LEVELS_MAX];
        let hint = &list.hints[KEYSPACE.0 as usize];
        used[list.find_by_hint(&target, hint, height_of(seq), &mut brackets) as usize] += 1;
        list.insert(KEYSPACE, &key, seq, Kind::Put, b"");
    }
    let [missed, partial, hit] = used;
    assert!(missed == 1 && partial <= 2 && hit as u64 >= count - 3, "{used:?}");
    assert_eq!(forwards(&list).len() as u64, count);
}

#[test]
fn a_stale_before_pointer_is_walked_from_and_mended() {
    let list = SkipList::new();
    for seq in 1..=100u64 {
        list.insert(KEYSPACE, &seq.to_be_bytes(), seq, Kind::Put, b"");
    }
    for stale in [1u64, 50, 96, 98] {
        let last = list.last().unwrap();
        let early = list.seek(&Target::new(KEYSPACE, &stale.to_be_bytes(), SEQ_MAX)).unwrap();
        last.set_before(Some(early));
        assert_eq!(list.prev(last).unwrap().seq(), 99);
        assert_eq!(last.before().unwrap().seq(), if stale == 98 { 98 } else { 99 });
    }
}

/// Most entries, and searches: Miri is a thousand times as slow.
const SIZES_MAX: (usize, usize) = if cfg!(miri) { (30, 8) } else { (80, 20) };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    #[test]
    fn holds_what_an_ordered_map_holds(
        entries in prop::collection::vec(
            (0u32..6, key(), 1u64..30, prop::collection::vec(any::<u8>(), 0..40)), 0..SIZES_MAX.0),
        probes in prop::collection::vec((0u32..7, key(), 0u64..32), 1..SIZES_MAX.1),
    ) {
        let list = SkipList::new();
        let mut twin: BTreeMap<Place, Vec<u8>> = BTreeMap::new();
        for (keyspace, key, seq, value) in &entries {
            let added = is_new(list.insert(KeyspaceId(*keyspace), key, *seq, Kind::Put, value));
            let spot = (*keyspace, key.clone(), Reverse(*seq));
            prop_assert_eq!(added, !twin.contains_key(&spot));
            twin.entry(spot).or_insert_with(|| value.clone());
        }
        let mut expected: Vec<Place> = twin.keys().cloned().collect();
        prop_assert_eq!(forwards(&list), expected.clone());
        for (keyspace, key, seq) in &probes {
            let target = Target::new(KeyspaceId(*keyspace), key, *seq);
            let spot = (*keyspace, key.clone(), Reverse(*seq));
            let at = list.seek(&target);
            let twin_at = twin.range(spot.clone()..).next();
            prop_assert_eq!(at.map(place), twin_at.map(|(spot, _)| spot.clone()));
            prop_assert_eq!(at.map(|node| node.value().to_vec()), twin_at.map(|(_, v)| v.clone()));
            let before = list.seek_before(&target).map(place);
            prop_assert_eq!(before, twin.range(..spot).next_back().map(|(spot, _)| spot.clone()));
        }
        expected.reverse();
        prop_assert_eq!(backwards(&list), expected);
        // Often, so that more are searched for than go at once.
        let all = || probes.iter().cycle().take(3 * probes.len());
        let target = |(keyspace, key, seq)| Target::new(KeyspaceId(keyspace), key, seq);
        let targets = || all().map(|(keyspace, key, seq)| target((*keyspace, key, *seq)));
        let mut together = Vec::new();
        list.seek_many(targets(), &mut |node| together.push(node.map(place)));
        let alone: Vec<_> = targets().map(|target| list.seek(&target).map(place)).collect();
        prop_assert_eq!(together, alone);
    }
}

#[test]
fn many_threads_insert_and_read_at_once() {
    let list = SkipList::new();
    let count: u64 = if cfg!(miri) { 60 } else { 8000 };
    let threads = 4u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let list = &list;
            scope.spawn(move || {
                for i in 0..count {
                    // Odd threads run through the keys in order, even ones jump about.
                    let seq = i * threads + thread + 1;
                    let spot = if thread % 2 == 1 { i } else { (i * 7919) % count };
                    let key = [spot.to_be_bytes(), thread.to_be_bytes()].concat();
                    assert!(is_new(list.insert(
                        KEYSPACE,
                        &key,
                        seq,
                        Kind::Put,
                        &seq.to_le_bytes()
                    )));
                    let node = list.seek(&Target::new(KEYSPACE, &key, SEQ_MAX)).unwrap();
                    assert_eq!((node.key(), node.seq()), (key.as_slice(), seq));
                    if i % 64 == 0 {
                        let before = list.prev(node);
                        assert!(before.is_none_or(|before| before.key() < node.key()));
                    }
                }
            });
        }
        let list = &list;
        scope.spawn(move || {
            for _ in 0..4 {
                let all = forwards(list);
                assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
                let back = backwards(list);
                assert!(back.windows(2).all(|pair| pair[0] > pair[1]));
            }
        });
    });
    let all = forwards(&list);
    assert_eq!(all.len() as u64, count * threads);
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    let mut back = backwards(&list);
    back.reverse();
    assert_eq!(all, back);
}
