//! Keys that are not there: what a get of them reads once filters are known, and that no key is
//! denied that is there.

use super::*;
use crate::base::checksum::key_hash;
use crate::base::lookup::Lookup;
use crate::base::sync::Arc;
use crate::index::KeyLookup;

/// With room for a few appends to each interval, of which none is gathered.
const LEFT: FlexSizes =
    FlexSizes { intervals: FlexLimits { gathered_fragments_min: 9, ..ROOMY.intervals }, ..ROOMY };

/// An index of sixty records and a cache that is full of others.
fn of_sixty_and_full() -> (World, Arc<FlexIndex>) {
    let (world, index) = of_sixty(&LEFT);
    fill(&index);
    // The first read of a file reads more of it.
    get(&*index.view(), b"key00059", SEQ_MAX).unwrap();
    (world, index)
}

fn opened_again(world: &World, index: Arc<FlexIndex>) -> Arc<FlexIndex> {
    let sections = index.snapshot_sections();
    drop(index);
    let index = FlexIndex::recover(world.context(), &LEFT, &sections).unwrap();
    fill(&index);
    get(&*index.view(), b"key00059", SEQ_MAX).unwrap();
    index
}

/// Keys beside those that are there, and a multiple of the intervals.
fn missing() -> Vec<String> {
    keys(0..59).into_iter().map(|key| key + "x").collect()
}

/// Gets of keys that had to read, which must all be in vain.
fn reads_in_vain(world: &World, index: &FlexIndex, keys: &[String]) -> u64 {
    let view = index.view();
    let reads = || world.io.meter.read_calls(Purpose::Read);
    let before = reads();
    for key in keys {
        assert_eq!(get(&*view, key.as_bytes(), SEQ_MAX).unwrap(), None, "{key}");
    }
    reads() - before
}

/// What those read that a filter lets through: one in fifty.
const LET_THROUGH: u64 = 4;

#[test]
fn a_get_of_a_key_that_is_not_there_reads_nothing() {
    let (world, index) = of_sixty_and_full();
    assert!(reads_in_vain(&world, &index, &missing()) <= LET_THROUGH);
    // Nor where something was appended.
    for (key, seq) in [("key00010", 100), ("key00011y", 101), ("key00030", 102)] {
        flush(&index, vec![put(key, seq, "new")], vec![]);
    }
    fill(&index);
    assert!(reads_in_vain(&world, &index, &missing()) <= LET_THROUGH);
    assert_eq!(get(&*index.view(), b"key00011y", SEQ_MAX).unwrap().unwrap(), b"new");
    verify(&*index.view());
}

#[test]
fn nor_does_a_lot_of_them() {
    let (world, index) = of_sixty_and_full();
    let (reads, view) = (|| world.io.meter.read_calls(Purpose::Read), index.view());
    let before = reads();
    let missing = missing();
    let mut lot: Vec<KeyLookup<'_>> = missing
        .iter()
        .map(|key| KeyLookup {
            key: key.as_bytes(),
            hash: key_hash(key.as_bytes()),
            lookup: Lookup::new(SEQ_MAX),
        })
        .collect();
    view.multi_get(&mut lot).unwrap();
    assert!(lot.iter().all(|key| key.lookup.found.is_none()));
    assert!(reads() - before <= LET_THROUGH);
}

#[test]
fn after_an_opening_the_first_get_makes_the_filter_of_its_interval() {
    let (world, index) = of_sixty_and_full();
    let index = opened_again(&world, index);
    let intervals = index.shared.current().source.anchors.len() as u64;
    let missing = missing();
    let first = reads_in_vain(&world, &index, &missing);
    assert!((2..=intervals + LET_THROUGH).contains(&first), "{first} of {intervals}");
    assert!(reads_in_vain(&world, &index, &missing) <= LET_THROUGH);
    verify(&*index.view());
    // What was learned stays with what is appended, and is told to no view of what is new.
    let view = index.view();
    flush(&index, vec![put("key00020x", 100, "new")], vec![]);
    fill(&index);
    assert!(reads_in_vain(&world, &index, &missing[..20]) <= LET_THROUGH);
    assert_eq!(get(&*index.view(), b"key00020x", SEQ_MAX).unwrap().unwrap(), b"new");
    assert_eq!(get(&*view, b"key00020x", SEQ_MAX).unwrap(), None);
    verify(&*index.view());
}

#[test]
fn a_tail_that_is_not_known_is_denied_nothing() {
    let (world, index) = of_sixty_and_full();
    flush(&index, vec![put("key00010x", 100, "new")], vec![]);
    let index = opened_again(&world, index);
    let view = index.shared.current();
    let found = view.source.anchors.find(b"key00010x").unwrap();
    assert!(found.interval.known_tail().is_none());
    assert!((0..100u64).all(|number| !found.interval.lacks(key_hash(&number.to_le_bytes()))));
    assert_eq!(get(&*view, b"key00010x", SEQ_MAX).unwrap().unwrap(), b"new");
}

#[test]
fn intervals_that_are_joined_are_not_known_until_they_are_read() {
    let (_world, index) = of_sixty_and_full();
    let before = index.shared.current().source.anchors.len();
    let deletes = keys(0..60).into_iter().zip(100..).filter(|(_, seq)| seq % 8 > 0);
    flush(&index, deletes.map(|(key, seq)| delete(&key, seq)).collect(), vec![]);
    index.request_compaction(KeyRange::default(), false);
    work(&index, &[], 100);
    fill(&index);
    assert!(index.shared.current().source.anchors.len() < before);
    let found = |key: &String| get(&*index.view(), key.as_bytes(), SEQ_MAX).unwrap().is_some();
    for _ in 0..2 {
        assert!(missing().iter().all(|key| !found(key)));
        let left: Vec<String> = keys(0..60).into_iter().filter(found).collect();
        assert_eq!(left, keys(4..60).into_iter().step_by(8).collect::<Vec<_>>());
    }
    verify(&*index.view());
}

/// Intervals of several blocks, of which a get reads what its key may be in.
#[test]
fn a_get_of_a_key_that_is_there_reads_a_part_of_its_interval() {
    const WIDE: FlexSizes = FlexSizes {
        intervals: FlexLimits { interval_bytes_max: 60_000, ..LEFT.intervals },
        space: SpaceLimits { segment_blocks: 64, ..LEFT.space },
        ..LEFT
    };
    let world = World::new();
    let index = FlexIndex::recover(world.context(), &WIDE, &[]).unwrap();
    let value = "v".repeat(600);
    let entries = keys(0..60).iter().zip(1..).map(|(key, seq)| put(key, seq, &value)).collect();
    flush(&index, entries, vec![]);
    fill(&index);
    assert_eq!(index.shared.current().source.anchors.len(), 1);
    let read = |index: &FlexIndex, key: &str| {
        let before = world.io.meter.bytes_read(Purpose::Read);
        assert!(get(&*index.view(), key.as_bytes(), SEQ_MAX).unwrap().is_some());
        world.io.meter.bytes_read(Purpose::Read) - before
    };
    // The first read of a file reads more of it; keys that were read are kept.
    read(&index, "key00000");
    let others = || (0..256u32).map(|number| format!("other{number}"));
    let mut parts = 0;
    for key in keys(1..60).iter().step_by(7) {
        others().for_each(|other| _ = index.shared.cache.is_wanted(other.as_bytes()));
        parts += read(&index, key);
    }
    assert!(parts <= 9 * 3 * 4096, "{parts} bytes for nine gets of ten blocks");
}
