//! Work that rewrites intervals reads them together, and does with them what it would have done.

use super::*;

/// An index after flushes that rewrite, append and delete, looking so far ahead, and after it was
/// brought into order; what it holds, and how often it read for either.
fn worked(together_intervals_max: usize) -> (Vec<Entry>, Vec<Section>, u64, u64) {
    let ahead_intervals_max = together_intervals_max;
    let intervals = FlexLimits { ahead_intervals_max, together_intervals_max, ..TINY.intervals };
    let sizes = FlexSizes { intervals, ..TINY };
    let world = World::new();
    let index = FlexIndex::recover(world.context(), &sizes, &[]).unwrap();
    let list = keys(0..600).iter().zip(1..).map(|(key, seq)| put(key, seq, "value")).collect();
    flush(&index, list, vec![]);
    let reads = |purpose| world.io.meter.read_calls(purpose);
    let before = reads(Purpose::Flush);
    let long = "a value that is too long to go behind an interval unread";
    let mut list: Vec<Entry> = Vec::new();
    for (number, key) in keys(0..600).iter().enumerate() {
        let seq = 1000 + number as u64;
        match number % 21 {
            0 | 7 => list.push(put(key, seq, long)),
            14 => list.push(put(key, seq, "short")),
            20 => list.push(delete(key, seq)),
            _ => {}
        }
    }
    flush(&index, list, vec![]);
    // More for one interval than is looked at in one go.
    let list = keys(290..330).iter().zip(2000..).map(|(key, seq)| put(key, seq, long)).collect();
    flush(&index, list, vec![]);
    let flushes = reads(Purpose::Flush) - before;
    verify(&*index.view());
    let before = reads(Purpose::Compaction);
    let ticket = index.request_compaction(KeyRange::default(), false);
    work(&index, &[], 1000);
    assert!(index.compaction_done(ticket));
    let compactions = reads(Purpose::Compaction) - before;
    verify(&*index.view());
    let entries = entries_of(&*index.view(), KeyRange::default());
    (entries, index.snapshot_sections(), flushes, compactions)
}

#[test]
fn what_is_read_together_is_what_would_have_been_read() {
    let (alone, together) = (worked(1), worked(16));
    assert_eq!(together.0, alone.0);
    assert_eq!(together.1, alone.1, "the same bytes in the same places");
    assert!(4 * together.2 <= alone.2, "flushes: {} reads, {}", together.2, alone.2);
    assert!(4 * together.3 <= alone.3, "in order: {} reads, {}", together.3, alone.3);
}
