//! Anchors only where older deltas may be; ranges to every bucket they touch.

use super::*;
use crate::deltas::edit::DeltasEdit;
use crate::deltas::testing::{Bench, Line, anchor, bound, delta, lowest, range, record, start};

fn directory(bench: &Bench) -> Directory {
    let lines: [Line; 1] = [(b"apple", vec![delta(5, b"x")])];
    let first = bench.write(Bench::plan(1, lowest(), 9), &lines).unwrap();
    let lines: [Line; 1] = [(b"melon", vec![delta(6, b"x")])];
    let second = bench.write(Bench::plan(2, start(b"m"), 9), &lines).unwrap();
    let added = vec![first.info().clone(), second.info().clone()];
    let edit = DeltasEdit::Replaced { start: lowest(), removed: Vec::new(), added };
    let made = [first, second];
    Directory::default().apply(&bench.context, &[edit], &made).unwrap().settle()
}

fn shown(batch: &BucketBatch) -> Vec<(&[u8], Vec<Seq>)> {
    let seqs = |key: &KeyRecords| key.records.iter().map(|record| record.seq).collect();
    batch.keys.iter().map(|key| (&*key.bound.key, seqs(key))).collect()
}

#[test]
fn a_put_writes_an_anchor_only_where_older_deltas_may_be() {
    let bench = Bench::new();
    let directory = directory(&bench);
    let rule = Rule { snapshots: &[12], fate_of: &|_| Fate::Lives(None) };
    let mut router = Router::new(&directory, bench.context.hash, &rule, Vec::new());
    let mut add = |key: &[u8], line: &[(Seq, Option<Vec<u8>>)]| {
        router.add(bound(key), line.iter().map(record).map(OwnedRecord::from).collect());
    };
    add(b"apple", &[anchor(10)]);
    // The key is nowhere: whichever filter says so.
    let absent = (0..).map(|number| format!("b{number}")).find(|key| {
        let hash = bench.context.hash.hash(crate::deltas::testing::KEYSPACE, key.as_bytes());
        directory.iter().all(|bucket| bucket.may_hold(bound(key.as_bytes()), hash) == Some(false))
    });
    let absent = absent.unwrap();
    add(absent.as_bytes(), &[delta(15, b"y"), anchor(14), anchor(11)]);
    add(b"zebra", &[anchor(16), delta(11, b"y")]);
    add(b"melon", &[anchor(18), delta(17, b"y")]);
    let batches = router.finish();
    assert_eq!(batches.len(), 2);
    assert_eq!(shown(&batches[0].1), [(&b"apple"[..], vec![10]), (absent.as_bytes(), vec![15])]);
    let wanted = [(&b"melon"[..], vec![18]), (b"zebra", vec![16, 11])];
    assert_eq!(shown(&batches[1].1), wanted, "a snapshot needs eleven, so the anchor stays");
    assert_eq!((batches[0].1.last_seq(), batches[1].1.last_seq()), (15, 18));
}

#[test]
fn a_bucket_that_is_not_in_memory_gets_its_anchor() {
    let bench = Bench::new();
    let directory = directory(&bench);
    directory.iter().for_each(|bucket| bucket.unload());
    let rule = Rule { snapshots: &[], fate_of: &|_| Fate::Lives(None) };
    let mut router = Router::new(&directory, bench.context.hash, &rule, Vec::new());
    router.add(bound(b"absent"), vec![record(&anchor(10)).into()]);
    assert_eq!(shown(&router.finish()[0].1), [(&b"absent"[..], vec![10])]);
}

#[test]
fn range_anchors_go_to_every_bucket_they_touch() {
    let bench = Bench::new();
    let directory = directory(&bench);
    const OPEN: [u8; 4096] = [0xff; 4096];
    let rule = Rule { snapshots: &[], fate_of: &|_| Fate::Lives(None) };
    let touched_at = |snapshots: &[Seq], ranges: Vec<RangeAnchor>| {
        let rule = Rule { snapshots, fate_of: &|_| Fate::Lives(None) };
        let router = Router::new(&directory, bench.context.hash, &rule, ranges);
        let batches = router.finish();
        let of = |key: &[u8]| {
            let position = directory.position(bound(key));
            let batch = batches.iter().find(|(at, _)| *at == position);
            batch.map_or(0, |(_, batch)| batch.ranges.len())
        };
        (of(b"a"), of(b"z"))
    };
    let touched = |ranges| touched_at(&[], ranges);
    assert_eq!(touched(vec![range(b"a", b"m", 20)]), (1, 0));
    let two = || vec![range(b"a", b"n", 20), range(b"m", b"p", 21)];
    assert_eq!(touched(two()), (1, 1), "the newer one decides");
    assert_eq!(touched_at(&[20], two()), (1, 2), "a snapshot sees the older one");
    assert_eq!(touched(vec![range(b"m", b"p", 21)]), (0, 1));
    // Of an open end every bucket but the last gets what lies over it.
    let router = Router::new(&directory, bench.context.hash, &rule, vec![range(b"", &OPEN, 20)]);
    let ends: Vec<usize> =
        router.finish().iter().map(|(_, batch)| batch.ranges[0].range.end.len()).collect();
    assert_eq!(ends, [1, OPEN.len()]);
    // A dropped keyspace has nothing to say.
    let rule = Rule { snapshots: &[], fate_of: &|_| Fate::Gone };
    let mut router = Router::new(&directory, bench.context.hash, &rule, Vec::new());
    router.add(bound(b"apple"), vec![record(&delta(10, b"x")).into()]);
    assert!(router.finish().iter().all(|(_, batch)| batch.is_empty()));
    let _ = Arc::new(());
}
