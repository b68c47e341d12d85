//! The faults of the public prototype of the paper, each as a test of what must not happen here.

use super::*;

fn value(seq: Seq) -> String {
    format!("a value of seq {seq:06}")
}

fn many(keys: &[String], first: Seq) -> Vec<Entry> {
    keys.iter().zip(first..).map(|(key, seq)| put(key, seq, &value(seq))).collect()
}

fn reopened(world: &World, index: Arc<FlexIndex>) -> Arc<FlexIndex> {
    let sections = index.snapshot_sections();
    drop(index);
    world.sweep();
    recover(world, &sections)
}

/// A checkpoint wrote changed leaves and not their clean parents, so that an open lost updates.
#[test]
fn a_checkpoint_loses_no_update() {
    let world = World::new();
    let mut index = recover(&world, &[]);
    let keys = keys(0..400);
    flush(&index, many(&keys[..300], 1), vec![]);
    let mut checkpoints = 0;
    for round in 0..8 {
        let jobs = work(&index, &[], 100);
        checkpoints += jobs.iter().filter(|job| job.starts_with("checkpoint")).count();
        index = reopened(&world, index);
        let at = 300 + round * 5;
        flush(&index, many(&keys[at..at + 5], 1000 + at as Seq), vec![]);
        index = reopened(&world, index);
        verify(&*index.view());
        assert_eq!(entries_of(&*index.view(), KeyRange::default()).len(), at + 5, "{jobs:?}");
    }
    assert!(checkpoints > 0);
}

/// A delete of an interval's first key took its tag along; after an open neighbours were one.
#[test]
fn an_interval_stays_when_its_first_key_goes() {
    let world = World::new();
    let mut index = recover(&world, &[]);
    let keys = keys(0..200);
    flush(&index, many(&keys, 1), vec![]);
    let gone = keys.iter().enumerate().filter(|(number, _)| number % 8 > 0);
    flush(&index, gone.zip(1000..).map(|((_, key), seq)| delete(key, seq)).collect(), vec![]);
    let left: Vec<&String> = keys.iter().step_by(8).collect();
    for _ in 0..2 {
        for key in &keys {
            let found = get(&*index.view(), key.as_bytes(), SEQ_MAX).unwrap();
            assert_eq!(found.is_some(), left.contains(&key), "{key}");
        }
        verify(&*index.view());
        index = reopened(&world, index);
    }
    // One by one, to the last one.
    for (number, key) in keys.iter().enumerate() {
        flush(&index, vec![delete(key, 2000 + number as Seq)], vec![]);
        if number % 20 == 0 {
            index = reopened(&world, index);
        }
    }
    let ticket = index.request_compaction(KeyRange::default(), false);
    work(&index, &[], 100);
    assert!(index.compaction_done(ticket));
    verify(&*index.view());
    assert!(entries_of(&*index.view(), KeyRange::default()).is_empty());
    assert_eq!(index.shared.current().source.space.tree().length(), 0);
    // Deletes of what is not there, of which nothing is kept, leave it empty.
    flush(&index, vec![delete("none", 9000)], vec![]);
    assert!(index.shared.current().source.anchors.groups().is_empty());
    verify(&*index.view());
}

/// A length of zero for a value was a delete, and large pairs were refused.
#[test]
fn values_may_be_empty_or_larger_than_an_interval() {
    let world = World::new();
    let mut index = recover(&world, &[]);
    let large = "x".repeat(60_000);
    flush(&index, vec![put("a", 1, ""), put("b", 2, &large), put("c", 3, "")], vec![]);
    flush(&index, vec![put("b", 4, ""), put("c", 5, &large)], vec![]);
    for _ in 0..2 {
        let view = index.view();
        assert_eq!(get(&*view, b"a", SEQ_MAX).unwrap(), Some(vec![]));
        assert_eq!(get(&*view, b"b", SEQ_MAX).unwrap(), Some(vec![]));
        assert_eq!(get(&*view, b"c", SEQ_MAX).unwrap().unwrap(), large.as_bytes());
        drop(view);
        index = reopened(&world, index);
    }
}

/// Segments were used again before what freed them was durable, and data was read that had been
/// overwritten: here what a view or the durable state leads to is there until neither needs it.
#[test]
fn nothing_that_is_needed_is_freed() {
    let world = World::new();
    let index = recover(&world, &[]);
    let keys = keys(0..100);
    flush(&index, many(&keys, 1), vec![]);
    let view = index.view();
    let before = entries_of(&*view, KeyRange::default());
    for round in 1..30 {
        flush(&index, many(&keys, 1000 * round), vec![]);
        // Prepared, not durable: the sections of before must still open.
        let named = index.snapshot_sections();
        if let Some(mut job) = index.pick_job() {
            let prepared = job.run(&job_context(&[])).unwrap();
            world.sweep();
            let twin = recover(&world, &named);
            verify(&*twin.view());
            drop(twin);
            index.install(prepared.change).unwrap();
        }
        world.sweep();
    }
    assert_eq!(entries_of(&*view, KeyRange::default()), before);
    drop(view);
    work(&index, &[], 100);
    world.sweep();
    let space = index.view().space();
    assert!(space.disk_bytes < 30 * space.live_bytes, "{space:?}");
}

/// Operations of one change counted one by one: a tail without its count, a tag without its move.
#[test]
fn a_change_counts_as_a_whole() {
    let world = World::new();
    let index = recover(&world, &[]);
    let keys = keys(0..50);
    flush(&index, many(&keys, 1), vec![]);
    let mut states = vec![(index.snapshot_sections(), 50)];
    for number in 0..20 {
        // In front of everything, behind everything, and into the middle.
        let more = vec![
            put(&format!("a{:03}", 999 - number), 1000 + 3 * number, "front"),
            put(&format!("key00020{number:03}"), 1001 + 3 * number, "middle"),
            put(&format!("z{number:03}"), 1002 + 3 * number, "behind"),
        ];
        flush(&index, more, vec![]);
        states.push((index.snapshot_sections(), 53 + 3 * number as usize));
    }
    for (sections, count) in states {
        let then = recover(&world, &sections);
        verify(&*then.view());
        assert_eq!(entries_of(&*then.view(), KeyRange::default()).len(), count);
    }
}

/// What comes behind an interval unread knows nothing of what stands there: a range delete from
/// before that ended the operands that came, as if they had no base.
#[test]
fn an_old_range_delete_does_not_part_new_operands_from_their_base() {
    let world = World::new();
    let index = recover(&world, &[]);
    let keys = keys(0..40);
    flush(&index, many(&keys, 1), vec![]);
    // The snapshot keeps it.
    let operand = |seq: Seq, value: &str| Entry {
        key: keys[7].clone().into_bytes(),
        seq,
        kind: Kind::Merge,
        value: value.into(),
    };
    let flush_beside = |entries, tombstones| {
        let prepared = index.apply_flush(input(entries, tombstones, &[50])).unwrap();
        index.install(prepared.change).unwrap();
    };
    flush_beside(vec![operand(101, "a")], vec![range_delete("", "z", 100)]);
    flush_beside(vec![operand(102, "b")], vec![]);
    let found = get(&*index.view(), keys[7].as_bytes(), SEQ_MAX).unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&found), "ab");
}
