//! What a bucket answers, what it reads for that, and what of its bytes it believes.

use super::*;
use crate::base::error::ErrorKind;
use crate::base::limits::KEY_BYTES_MAX;
use crate::deltas::bucket::writer::Refused;
use crate::deltas::record::OPERAND_BYTES_MAX;
use crate::deltas::testing::{
    Bench, Line, anchor, bound, delta, groups, lowest, range, seen, start,
};
use crate::io::disk::Disk;
use crate::io::memory_disk::CrashMode;

mod damage;

/// Two pages and a little; versions, an anchor, a key of its own length.
pub(super) fn sorted_lines() -> Vec<Line> {
    vec![
        (b"", vec![delta(3, b"of the empty key")]),
        (b"apple", vec![delta(9, b"nine"), anchor(7), delta(4, b"four")]),
        (b"apricot", vec![delta(5, &[b'x'; 70])]),
        (b"banana", vec![delta(8, b"eight"), delta(2, b"two")]),
        (b"cherry", vec![delta(10, b"ten")]),
        (b"date", vec![delta(1, b"one")]),
    ]
}

/// The bucket of the lines above with three chunks.
pub(super) fn some_bucket(bench: &Bench) -> Arc<Bucket> {
    let plan = Bench::plan(18, start(b""), 12);
    let bucket = bench.write(plan, &sorted_lines()).unwrap();
    let bucket = bench.append(
        &bucket,
        &[
            (b"apple", vec![delta(20, b"twenty")]),
            (b"banana", vec![delta(22, b"twenty-two"), anchor(21)]),
        ],
        &[],
    );
    let ranges = [range(b"c", b"d", 30)];
    let bucket = bench.append(&bucket.unwrap(), &[(b"elder", vec![delta(31, b"x")])], &ranges);
    let lines: [Line; 1] = [(b"apple", vec![delta(41, b"forty-one"), delta(40, b"forty")])];
    bench.append(&bucket.unwrap(), &lines, &[]).unwrap()
}

/// What the bucket above has of a key at a snapshot, in short: seqs, anchor.
const ANSWERS: &[(&str, Seq, &[Seq], Seq)] = &[
    ("", 50, &[3], 0),
    ("", 2, &[], 0),
    ("apple", 50, &[41, 40, 20, 9], 7),
    ("apple", 40, &[40, 20, 9], 7),
    ("apple", 8, &[], 7),
    ("apple", 6, &[4], 0),
    ("apricot", 50, &[5], 0),
    ("banana", 50, &[22], 21),
    ("banana", 21, &[], 21),
    ("banana", 20, &[8, 2], 0),
    ("cherry", 50, &[], 30),
    ("cherry", 29, &[10], 0),
    ("date", 50, &[1], 0),
    ("elder", 50, &[31], 0),
    ("absent", 50, &[], 0),
    ("zebra", 50, &[], 0),
];

/// Checks every answer that the bucket gives; an error stands in for one where `may_fail`.
pub(super) fn check_answers(bench: &Bench, bucket: &Bucket, may_fail: bool) -> Result<()> {
    for &(key, snapshot, seqs, anchor) in ANSWERS {
        match bench.get(bucket, key.as_bytes(), snapshot) {
            Ok(found) => {
                let found_seqs: Vec<_> = found.operands.iter().map(|(seq, _)| *seq).collect();
                assert_eq!((&*found_seqs, found.anchor), (seqs, anchor), "{key} at {snapshot}");
            }
            Err(error) if may_fail => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.file().is_some() && error.offset().is_some(), "{error}");
                return Err(error);
            }
            Err(error) => panic!("{key} at {snapshot}: {error}"),
        }
    }
    Ok(())
}

#[test]
fn a_get_sees_what_its_snapshot_does() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    check_answers(&bench, &bucket, false).unwrap();
    check_answers(&bench, &bench.reopened(bucket.info()), false).unwrap();
    bucket.verify(Purpose::Verify).unwrap();
    let found = seen(&bench.get(&bucket, b"apple", 50).unwrap()).0;
    assert_eq!(found[0], (41, b"forty-one".to_vec()));
    assert_eq!(found[3], (9, b"nine".to_vec()));
    let info = bucket.info();
    assert_eq!((info.applied_seq, info.records), (41, 9 + 3 + 2 + 2));
}

#[test]
fn a_get_reads_one_page_and_once_of_the_unsorted_part() {
    let bench = Bench::new();
    let info = some_bucket(&bench).info().clone();
    let bucket = bench.reopened(&info);
    let calls = || bench.context.io.meter.read_calls(Purpose::Read);
    let counters = &bench.context.counters;
    let counts = || {
        let load =
            |counter: &crate::base::sync::figures::AtomicU64| counter.load(Ordering::Relaxed);
        (load(&counters.loads), load(&counters.page_reads), load(&counters.unsorted_reads))
    };
    let before = calls();
    // Nobody asked yet: nothing was read (B-2). A key that is nowhere takes the one read of all
    // filters, and none after that.
    bench.get(&bucket, b"absent", 50).unwrap();
    assert_eq!((calls() - before, counts()), (1, (1, 0, 0)));
    bench.get(&bucket, b"absent", 50).unwrap();
    assert_eq!(calls() - before, 1);
    // In the sorted part and in chunks apart from each other: one read each.
    bench.get(&bucket, b"apple", 50).unwrap();
    assert_eq!((calls() - before, counts()), (3, (1, 1, 1)));
    // In the sorted part only, and in a chunk only.
    bench.get(&bucket, b"date", 50).unwrap();
    bench.get(&bucket, b"elder", 50).unwrap();
    assert_eq!((calls() - before, counts()), (5, (1, 2, 2)));
    // A snapshot from before the chunks reads none of them.
    bench.get(&bucket, b"apple", 15).unwrap();
    assert_eq!((calls() - before, counts()), (6, (1, 3, 2)));
    let bytes = bench.context.io.meter.bytes_read(Purpose::Read);
    bench.get(&bucket, b"cherry", 50).unwrap();
    let page_bytes = bench.context.io.meter.bytes_read(Purpose::Read) - bytes;
    assert!(page_bytes <= bench.context.page_bytes as u64, "{page_bytes} bytes of a page");
    bucket.unload();
    assert_eq!(bucket.memory_bytes(), 0);
    bench.get(&bucket, b"date", 50).unwrap();
    assert_eq!(calls() - before, 9);
    assert!(bucket.memory_bytes() > 0);
}

#[test]
fn a_flush_asks_where_older_deltas_may_be() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    let hash = |key: &[u8]| bench.context.hash.hash(crate::deltas::testing::KEYSPACE, key);
    for key in [&b""[..], b"apple", b"banana", b"elder"] {
        assert_eq!(bucket.may_hold(bound(key), hash(key)), Some(true));
    }
    let absent = (0..200).filter(|number| {
        let key = format!("absent {number}");
        bucket.may_hold(bound(key.as_bytes()), hash(key.as_bytes())) == Some(true)
    });
    assert!(absent.count() < 20, "four filters of 0.4 % each");
    let cold = bench.reopened(bucket.info());
    assert_eq!(cold.may_hold(bound(b"apple"), hash(b"apple")), None, "nothing is in memory");
}

#[test]
fn an_append_needs_a_file_that_ends_where_it_is_committed() {
    let bench = Bench::new();
    let old = some_bucket(&bench);
    let bytes = old.info().bytes;
    let lines: [Line; 1] = [(b"fig", vec![delta(60, b"sixty")])];
    // Written and synced, but no edit names it: what a crash leaves.
    let lost = bench.append(&old, &lines, &[]).unwrap();
    assert!(lost.info().bytes > bytes);
    assert_eq!(bench.append(&old, &lines, &[]).err(), Some(Refused::Closed));
    let reopened = bench.reopened(old.info());
    assert_eq!(bench.append(&reopened, &lines, &[]).err(), Some(Refused::Closed));
    check_answers(&bench, &reopened, false).unwrap();
    assert!(bench.get(&reopened, b"fig", 70).unwrap().is_empty(), "behind the committed bytes");
    reopened.verify(Purpose::Verify).unwrap();
    // The version that knows the bytes goes on.
    let lines: [Line; 1] = [(b"fig", vec![delta(61, b"sixty-one")])];
    let next = bench.append(&lost, &lines, &[]).unwrap();
    assert_eq!(bench.get(&next, b"fig", 70).unwrap().operands.len(), 2);
    check_answers(&bench, &old, false).unwrap();
}

#[test]
fn a_bucket_that_a_checkpoint_has_takes_no_append() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    let other = std::path::Path::new("/checkpoint.dlt");
    bench.disk.hard_link(&Bench::path(18), other).unwrap();
    let lines: [Line; 1] = [(b"fig", vec![delta(60, b"sixty")])];
    assert_eq!(bench.append(&bucket, &lines, &[]).err(), Some(Refused::Closed));
    assert_eq!(bench.disk.contents(other).len(), bucket.info().bytes as usize);
    bench.disk.remove_file(other).unwrap();
    bench.append(&bucket, &lines, &[]).unwrap();
}

#[test]
fn a_bucket_never_exceeds_its_capacity() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    let bytes = u64::from(bucket.info().bytes);
    let groups = groups(&[(b"fig", vec![delta(60, b"sixty")])]);
    let append = |capacity_bytes| {
        let purpose = Purpose::Flush;
        let append = writer::Append { groups: &groups, ranges: &[], capacity_bytes, purpose };
        bucket.append(&append).unwrap().err()
    };
    assert_eq!(append(bytes + 20), Some(Refused::Full));
    assert_eq!(bench.disk.contents(Bench::path(18)).len() as u64, bytes, "nothing was written");
    assert_eq!(append(bytes + 60), None);
    let plan = writer::BucketPlan { capacity_bytes: 300, ..Bench::plan(19, start(b""), 12) };
    let error = bench.write(plan, &sorted_lines()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(bench.disk.contents(Bench::path(19)).is_empty());
}

#[test]
fn what_was_applied_is_not_applied_again() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    for lines in [[(&b"apple"[..], vec![delta(41, b"x")])], [(b"apple", vec![delta(7, b"x")])]] {
        let groups = groups(&lines);
        let (capacity_bytes, purpose) = (1 << 20, Purpose::Flush);
        let append = writer::Append { groups: &groups, ranges: &[], capacity_bytes, purpose };
        assert_eq!(bucket.append(&append).err().unwrap().kind(), ErrorKind::InvalidArgument);
    }
    let plan = Bench::plan(19, start(b""), 8);
    assert!(bench.write(plan, &sorted_lines()).is_err(), "nine is above the applied seq");
}

#[test]
fn records_out_of_order_are_refused() {
    let bench = Bench::new();
    let wrong: [&[Line]; 4] = [
        &[(b"b", vec![delta(1, b"x")]), (b"a", vec![delta(2, b"x")])],
        &[(b"b", vec![delta(1, b"x")]), (b"b", vec![delta(2, b"x")])],
        &[(b"b", vec![delta(1, b"x"), delta(2, b"x")])],
        &[(b"b", vec![])],
    ];
    for lines in wrong {
        assert!(bench.write(Bench::plan(19, lowest(), 9), lines).is_err(), "{lines:?}");
    }
}

#[test]
fn keys_and_operands_of_any_length() {
    let bench = Bench::new();
    static LONG: [u8; KEY_BYTES_MAX] = [b'k'; KEY_BYTES_MAX];
    let long: &'static [u8] = &LONG;
    let operand = vec![b'o'; OPERAND_BYTES_MAX];
    let lines: [Line; 3] = [
        (b"a", vec![delta(1, b"")]),
        (long, vec![delta(6, &operand), delta(5, b"")]),
        (b"l", vec![delta(2, b"x")]),
    ];
    let bucket = bench.write(Bench::plan(18, lowest(), 9), &lines).unwrap();
    let bucket = bench.append(&bucket, &[(long, vec![delta(12, b"y")])], &[]).unwrap();
    let bucket = bench.reopened(bucket.info());
    bucket.verify(Purpose::Verify).unwrap();
    let found = seen(&bench.get(&bucket, long, 20).unwrap()).0;
    assert_eq!(found, [(12, b"y".to_vec()), (6, operand), (5, Vec::new())]);
    assert_eq!(seen(&bench.get(&bucket, b"l", 20).unwrap()).0, [(2, b"x".to_vec())]);
    assert_eq!(seen(&bench.get(&bucket, b"a", 20).unwrap()).0, [(1, Vec::new())]);
}

#[test]
fn a_bucket_without_records_has_none() {
    let bench = Bench::new();
    let bucket = bench.write(Bench::plan(18, lowest(), 77), &[]).unwrap();
    let cold = bench.reopened(bucket.info());
    cold.verify(Purpose::Verify).unwrap();
    assert!(bench.get(&cold, b"a", 99).unwrap().is_empty());
    let cold = bench.append(&cold, &[(b"a", vec![delta(78, b"x")])], &[]).unwrap();
    assert_eq!(seen(&bench.get(&cold, b"a", 99).unwrap()).0, [(78, b"x".to_vec())]);
}

#[test]
fn every_crash_leaves_what_was_committed() {
    let bench = Bench::new();
    let committed = some_bucket(&bench);
    writer::sync_names(&bench.context).unwrap();
    let lines: [Line; 1] = [(b"fig", vec![delta(60, &[b'z'; 300])])];
    let groups = groups(&lines);
    let (capacity_bytes, purpose) = (1 << 20, Purpose::Flush);
    let append = writer::Append { groups: &groups, ranges: &[], capacity_bytes, purpose };
    let unsynced = committed.append(&append).unwrap().ok().unwrap();
    let (mut closed, mut seed) = (0, 0);
    let mut visit = |next: Option<&BucketInfo>| {
        for mode in CrashMode::ALL {
            for _ in 0..20 {
                seed += 1;
                let bench = Bench::over(bench.disk.crash_image(mode, seed));
                let bucket = bench.reopened(committed.info());
                check_answers(&bench, &bucket, false).unwrap();
                bucket.verify(Purpose::Verify).unwrap();
                let appended = bench.append(&bucket, &lines, &[]);
                closed += u64::from(appended.err() == Some(Refused::Closed));
                if let Some(next) = next {
                    let next = bench.reopened(next);
                    next.verify(Purpose::Verify).unwrap();
                    assert_eq!(bench.get(&next, b"fig", 70).unwrap().operands.len(), 1);
                }
            }
        }
    };
    visit(None);
    let next = unsynced.sync().unwrap();
    visit(Some(next.info()));
    assert!(closed > 20, "crashes left bytes behind {closed} times");
}
