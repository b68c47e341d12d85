//! The cursor against a sorted list, over several buckets and keyspaces.

use super::*;
use crate::base::sync::Arc;
use crate::deltas::bucket::Bucket;
use crate::deltas::bucket::writer::{Append, GroupBytes, SortedWriter};
use crate::deltas::edit::DeltasEdit;
use crate::deltas::record::OwnedBound;
use crate::deltas::testing::{Bench, anchor, delta, record};
use crate::io::seeded::Seeded;

type Shown = (Vec<u8>, Seq, Vec<u8>);

/// Buckets of random records, and what a snapshot sees of keyspace 2.
fn buckets(bench: &Bench, random: &mut Seeded, snapshot: Seq) -> (Directory, Vec<Shown>) {
    let (mut made, mut shown, mut next_seq): (Vec<Arc<Bucket>>, _, Seq) =
        (Vec::new(), Vec::new(), 1);
    let mut number = 0_u32;
    for id in 1..=1 + random.below(6) {
        let start = match id {
            1 => OwnedBound::lowest(),
            _ => OwnedBound { keyspace: KeyspaceId(1 + number / 12), key: key(number % 12) },
        };
        let plan = Bench::plan(id, start, 1 << 20);
        let mut writer = SortedWriter::new(&bench.context, plan);
        for _ in 0..random.below(9) {
            number += 1 + random.below(3) as u32;
            let keyspace = KeyspaceId(1 + number / 12);
            let key = key(number % 12);
            let mut lines = Vec::new();
            for _ in 0..1 + random.below(4) {
                next_seq += 1;
                let seq = next_seq;
                lines.push(if random.chance(25) { anchor(seq) } else { delta(seq, &key) });
            }
            lines.reverse();
            let records: Vec<_> = lines.iter().map(record).collect();
            writer.add(Bound { keyspace, key: &key }, &records).unwrap();
            let seen = lines.iter().filter(|(seq, _)| *seq <= snapshot);
            let live = seen.take_while(|(_, operand)| operand.is_some());
            if keyspace == KeyspaceId(2) {
                shown.extend(live.map(|(seq, _)| (key.to_vec(), *seq, key.to_vec())));
            }
        }
        number += 1;
        let bucket = writer.write().unwrap().sync().unwrap();
        made.push(bucket);
    }
    let added = made.iter().map(|bucket| bucket.info().clone()).collect::<Vec<_>>();
    let start = added[0].start.clone();
    let edit = DeltasEdit::Replaced { start, removed: Vec::new(), added };
    let directory = Directory::default().apply(&bench.context, &[edit], &made).unwrap().settle();
    (directory, shown)
}

fn key(number: u32) -> Box<[u8]> {
    format!("key {number:02}").into_bytes().into()
}

fn here(cursor: &DeltaCursor) -> Option<Shown> {
    cursor.valid().then(|| (cursor.key().to_vec(), cursor.seq(), cursor.value_owned().to_vec()))
}

#[test]
fn walks_as_a_sorted_list_does() {
    let mut met = 0;
    for seed in 0..300 {
        let (bench, mut random) = (Bench::new(), Seeded::new(seed));
        let snapshot = 1 + random.below(60);
        let (directory, shown) = buckets(&bench, &mut random, snapshot);
        met += shown.len();
        let mut cursor = DeltaCursor::new(
            (&directory, &bench.context.io.meter),
            KeyspaceId(2),
            snapshot,
            Purpose::Read,
        );
        cursor.seek_first().unwrap();
        for wanted in &shown {
            assert_eq!(here(&cursor).as_ref(), Some(wanted), "seed {seed}");
            assert_eq!((cursor.kind(), cursor.value()), (Kind::Merge, &*wanted.2));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid(), "seed {seed}");
        cursor.seek_last().unwrap();
        for wanted in shown.iter().rev() {
            assert_eq!(here(&cursor).as_ref(), Some(wanted), "seed {seed}, backwards");
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        let rank = |shown: &Shown| (shown.0.clone(), SEQ_MAX - shown.1);
        for _ in 0..30 {
            let (key, seq) = (key(random.below(13) as u32), random.below(70));
            let bound = (key.to_vec(), SEQ_MAX - seq);
            let at = shown.partition_point(|shown| rank(shown) < bound);
            cursor.seek(&key, seq).unwrap();
            assert_eq!(here(&cursor).as_ref(), shown.get(at), "seed {seed}");
            if cursor.valid() && random.chance(50) {
                cursor.prev().unwrap();
                assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &shown[at]));
            }
            cursor.seek_before(&key, seq).unwrap();
            assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &shown[at]));
            if cursor.valid() && random.chance(50) {
                cursor.next().unwrap();
                assert_eq!(here(&cursor).as_ref(), shown.get(at));
            }
        }
    }
    assert!(met > 500, "{met} records");
}

#[test]
fn a_cursor_sees_both_parts_as_one_and_reads_a_bucket_once() {
    let bench = Bench::new();
    let bound = |key| Bound { keyspace: KeyspaceId(2), key };
    let mut writer =
        SortedWriter::new(&bench.context, Bench::plan(1, crate::deltas::testing::lowest(), 9));
    let line = [delta(9, b"9"), delta(5, b"5")];
    writer.add(bound(b"b"), &line.each_ref().map(record)).unwrap();
    let line = [delta(7, b"7")];
    writer.add(bound(b"c"), &line.each_ref().map(record)).unwrap();
    let sorted = writer.write().unwrap().sync().unwrap();
    let mut groups = GroupBytes::default();
    let line = [delta(12, b"12")];
    groups.add(bound(b"a"), &line.each_ref().map(record)).unwrap();
    let line = [delta(14, b"14")];
    groups.add(bound(b"b"), &line.each_ref().map(record)).unwrap();
    let (capacity_bytes, purpose) = (1 << 20, Purpose::Flush);
    let over_c = crate::deltas::ranges::RangeAnchor {
        keyspace: KeyspaceId(2),
        ..crate::deltas::testing::range(b"c", b"d", 15)
    };
    let append = Append { groups: &groups, ranges: &[over_c], capacity_bytes, purpose };
    let grown = sorted.append(&append).unwrap().ok().unwrap().sync().unwrap();
    let start = crate::deltas::testing::lowest();
    let added = vec![grown.info().clone()];
    let edit = DeltasEdit::Replaced { start, removed: Vec::new(), added };
    let directory = Directory::default().apply(&bench.context, &[edit], &[]).unwrap().settle();
    let seqs = |snapshot| {
        let mut cursor = DeltaCursor::new(
            (&directory, &bench.context.io.meter),
            KeyspaceId(2),
            snapshot,
            Purpose::Read,
        );
        cursor.seek_first().unwrap();
        let mut seqs = Vec::new();
        while cursor.valid() {
            seqs.push(cursor.seq());
            cursor.next().unwrap();
        }
        seqs
    };
    let calls = bench.context.io.meter.read_calls(Purpose::Read);
    assert_eq!(seqs(20), [12, 14, 9, 5]);
    assert_eq!(bench.context.io.meter.read_calls(Purpose::Read), calls + 1);
    assert_eq!(seqs(13), [12, 9, 5, 7]);
    assert_eq!(seqs(6), [5]);
}

#[test]
fn a_walk_finds_the_bucket_after_the_next_on_its_way() {
    let bench = Bench::new();
    let made: Vec<Arc<Bucket>> = (1..=4)
        .map(|id| {
            let start = match id {
                1 => OwnedBound::lowest(),
                _ => OwnedBound { keyspace: KeyspaceId(2), key: key(id as u32) },
            };
            let plan = Bench::plan(id, start, 1 << 20);
            let mut writer = SortedWriter::new(&bench.context, plan);
            let (key, line) = (key(id as u32), [delta(9, b"9"), delta(5, b"5")]);
            let bound = Bound { keyspace: KeyspaceId(2), key: &key };
            writer.add(bound, &line.each_ref().map(record)).unwrap();
            writer.write().unwrap().sync().unwrap()
        })
        .collect();
    let added = made.iter().map(|bucket| bucket.info().clone()).collect::<Vec<_>>();
    let edit = DeltasEdit::Replaced { start: added[0].start.clone(), removed: Vec::new(), added };
    let directory = Directory::default().apply(&bench.context, &[edit], &made).unwrap().settle();
    let meter = &bench.context.io.meter;
    for forward in [true, false] {
        let mut cursor = DeltaCursor::new((&directory, meter), KeyspaceId(2), 20, Purpose::Read);
        let calls = meter.read_calls(Purpose::Read);
        if forward { cursor.seek_first() } else { cursor.seek_last() }.unwrap();
        assert!(cursor.ahead.is_none(), "a seek may be all there is");
        let mut step = || {
            if forward { cursor.next() } else { cursor.prev() }.unwrap();
            let ahead = cursor.ahead.as_ref().map(|(_, under_way)| under_way.memory_bytes());
            let held = cursor.open.as_ref().unwrap().memory_bytes() + ahead.unwrap_or(0);
            assert_eq!(meter.bytes_held(Purpose::Read), held);
            ahead.is_some()
        };
        assert_eq!([(); 7].map(|()| step()), [false, true, true, true, true, false, false]);
        // Each bucket once, whether it was waited for or on its way.
        assert_eq!(meter.read_calls(Purpose::Read) - calls, 4);
        step();
        assert!(!cursor.valid());
    }
    // To go elsewhere lets go of what is on its way.
    let mut cursor = DeltaCursor::new((&directory, meter), KeyspaceId(2), 20, Purpose::Read);
    cursor.seek_first().unwrap();
    (0..2).for_each(|_| cursor.next().unwrap());
    assert!(cursor.ahead.is_some());
    cursor.seek(&key(1), SEQ_MAX).unwrap();
    assert!(cursor.ahead.is_none() && cursor.valid());
}
