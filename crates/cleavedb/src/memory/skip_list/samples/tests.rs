//! Searches that begin at samples find what searches from the head find.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::*;
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};

type Place = (u32, Vec<u8>, Reverse<Seq>);

fn put(list: &SkipList, keyspace: u32, key: &[u8], seq: Seq) {
    list.insert(KeyspaceId(keyspace), key, seq, Kind::Put, b"");
}

fn place(node: Node<'_>) -> Place {
    (node.keyspace(), node.key().to_vec(), Reverse(node.seq()))
}

/// Numbers in an order that looks random.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % 5000
}

/// Keys of several shapes: with much in common, with nothing, short ones, and one the beginning of
/// another.
fn shape(keyspace: u32, number: u64) -> Vec<u8> {
    match keyspace {
        1 => format!("a common beginning, {number:05}").into_bytes(),
        2 => number.to_be_bytes().to_vec(),
        3 => vec![b'x'; number as usize % 40],
        _ => format!("{number}").into_bytes(),
    }
}

const COUNT: u64 = if cfg!(miri) { 300 } else { 12_000 };

#[test]
fn searches_from_samples_end_where_all_others_do() {
    let list = SkipList::new();
    let mut model = BTreeMap::new();
    let mut sampled = 0;
    for seq in 1..=COUNT {
        let keyspace = 1 + (spread(seq) % 4) as u32;
        let key = shape(keyspace, spread(seq + COUNT));
        put(&list, keyspace, &key, seq);
        model.insert((keyspace, key, Reverse(seq)), ());
        let keyspace = 1 + (spread(seq * 3) % 5) as u32;
        let key = shape(keyspace, spread(seq * 7));
        let target = Target::new(KeyspaceId(keyspace), &key, seq / 2);
        let wanted = (keyspace, key.clone(), Reverse(seq / 2));
        let after = model.range(&wanted..).next().map(|(place, ())| place.clone());
        let before = model.range(..&wanted).next_back().map(|(place, ())| place.clone());
        assert_eq!(list.seek(&target).map(place), after);
        assert_eq!(list.seek_before(&target).map(place), before);
        sampled += u64::from(list.bracket_by_sample(&target).is_some());
    }
    let first = list.seek(&Target::new(KeyspaceId(0), &[], SEQ_MAX));
    let all: Vec<_> = std::iter::successors(first, |node| list.next(*node)).map(place).collect();
    assert_eq!(all, model.into_keys().collect::<Vec<_>>());
    assert!(sampled > COUNT / 3, "{sampled} of {COUNT}");
}

#[test]
fn arrays_double_and_hold_each_node_of_their_level_once() {
    let list = SkipList::new();
    for seq in 1..=COUNT {
        put(&list, 1, &shape(1, spread(seq)), seq);
    }
    let mut at = list.head();
    let mut linked = 0_usize;
    while let Some(next) = at.next(LEVEL) {
        (at, linked) = (next, linked + 1);
    }
    let latest = list.samples.latest().unwrap();
    assert_eq!(latest.places().count(), FIRST << (linked / FIRST).ilog2());
    let made = list.samples.arrays.iter().filter_map(OnceLock::get);
    for (number, array) in made.clone().enumerate() {
        assert_eq!(array.places().count(), FIRST << number);
        let stretch = array.0.first().unwrap();
        assert!(stretch.prefixes.is_sorted());
    }
    let bytes: usize = made.map(Array::memory_bytes).sum();
    assert_eq!(list.samples.memory_bytes(), bytes);
    assert!(bytes < list.memory_bytes() / 20, "{bytes} of {}", list.memory_bytes());
}

#[test]
fn where_many_nodes_have_come_since_the_search_begins_at_the_head() {
    let list = SkipList::new();
    let places = || list.samples.latest().map_or(0, |array| array.places().count());
    let least = if cfg!(miri) { 8 } else { 128 };
    let mut low = 0;
    while places() < least {
        low += 1;
        put(&list, 2, &spread(low).to_be_bytes(), low);
    }
    // All behind the last sample, until there are enough for another array.
    let mut seq = low;
    while places() == least {
        seq += 1;
        put(&list, 2, &(1_000_000 + spread(seq)).to_be_bytes(), seq);
        let end = (2_000_000_u64).to_be_bytes();
        let target = Target::new(KeyspaceId(2), &end, 1);
        assert!(list.seek(&target).is_none());
        assert_eq!(list.seek_before(&target), list.last());
        if seq == low + 500 {
            assert!(list.bracket_by_sample(&target).is_none());
        }
    }
    assert!(seq > low + if cfg!(miri) { 10 } else { 500 });
}

#[test]
fn many_threads_insert_while_arrays_are_made() {
    let list = SkipList::new();
    let (threads, each) = if cfg!(miri) { (2, 60) } else { (4, 4000) };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let list = &list;
            scope.spawn(move || {
                for number in 0..each {
                    let seq = thread * each + number + 1;
                    let key = spread(seq).to_be_bytes();
                    put(list, 2, &key, seq);
                    let target = Target::new(KeyspaceId(2), &key, seq);
                    assert_eq!(list.seek(&target).map(Node::seq), Some(seq));
                }
            });
        }
    });
    let first = list.seek(&Target::new(KeyspaceId(0), &[], SEQ_MAX));
    let all: Vec<_> = std::iter::successors(first, |node| list.next(*node)).map(place).collect();
    assert_eq!(all.len() as u64, threads * each);
    assert!(all.is_sorted());
}
