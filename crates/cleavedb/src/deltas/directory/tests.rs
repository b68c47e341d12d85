//! The directory against a map from starts to buckets, under random edits.

use std::collections::BTreeMap;

use super::*;
use crate::deltas::testing::{Bench, bound, lowest, start};
use crate::io::seeded::Seeded;

fn info(id: u64, start: OwnedBound) -> BucketInfo {
    BucketInfo {
        id: FileId(id),
        start,
        pages_end: 200,
        sorted_bytes: 300,
        bytes: 300,
        checksum: id as u32,
        applied_seq: 10,
        records: 3,
    }
}

fn removed(info: &BucketInfo) -> RemovedBucket {
    RemovedBucket { id: info.id, bytes: info.bytes }
}

fn key(number: u64) -> OwnedBound {
    start(format!("key {number:04}").as_bytes())
}

/// What the directory should be.
#[derive(Default)]
struct Twin {
    buckets: BTreeMap<OwnedBound, BucketInfo>,
    next: u64,
}

impl Twin {
    fn fresh(&mut self, start: OwnedBound) -> BucketInfo {
        self.next += 1;
        info(self.next, start)
    }

    /// A random edit of some neighbours, taken in already.
    fn edit(&mut self, random: &mut Seeded) -> DeltasEdit {
        let count = self.buckets.len();
        if count == 0 {
            let mut added: Vec<_> =
                (0..1 + random.below(300)).map(|n| self.fresh(key(n * 7))).collect();
            added[0].start = lowest();
            self.buckets.extend(added.iter().map(|info| (info.start.clone(), info.clone())));
            return DeltasEdit::Replaced { start: lowest(), removed: Vec::new(), added };
        }
        let at = random.index(count);
        let first = self.buckets.values().nth(at).unwrap().clone();
        if random.chance(30) {
            let bytes = first.bytes + 20 + random.below(50) as u32;
            let applied_seq = first.applied_seq + 1;
            let after =
                BucketInfo { bytes, applied_seq, records: first.records + 1, ..first.clone() };
            self.buckets.insert(first.start.clone(), after.clone());
            return DeltasEdit::appended(&first, &after);
        }
        let many = random.chance(5);
        let span = 1 + random.index(if many { 90 } else { 3 });
        let gone: Vec<_> = self.buckets.values().skip(at).take(span).cloned().collect();
        let end = self.buckets.keys().nth(at + gone.len()).cloned();
        for info in &gone {
            self.buckets.remove(&info.start);
        }
        let mut starts = vec![first.start.clone()];
        for _ in 0..random.below(4) {
            let start = key(random.below(2200));
            if start > first.start && end.as_ref().is_none_or(|end| start < *end) {
                starts.push(start);
            }
        }
        starts.sort();
        starts.dedup();
        if random.chance(15) && (at > 0 || gone.len() == count) {
            starts.clear();
        }
        let added: Vec<_> = starts.into_iter().map(|start| self.fresh(start)).collect();
        self.buckets.extend(added.iter().map(|info| (info.start.clone(), info.clone())));
        let removed = gone.iter().map(removed).collect();
        DeltasEdit::Replaced { start: first.start, removed, added }
    }

    fn check(&self, directory: &Directory, random: &mut Seeded) {
        let infos: Vec<_> = directory.iter().map(|bucket| bucket.info().clone()).collect();
        assert!(infos.iter().eq(self.buckets.values()));
        assert_eq!(directory.len(), self.buckets.len());
        let bytes = self.buckets.values().map(|info| u64::from(info.bytes)).sum::<u64>();
        assert_eq!(directory.bytes(), bytes);
        for leaf in directory.leaves.iter() {
            assert!((1..=LEAF_BUCKETS_MAX).contains(&leaf.entries.len()));
            assert_eq!(leaf.first.bucket.info(), leaf.entries[0].bucket.info());
        }
        for _ in 0..20 {
            let bound = key(random.below(2300));
            let found = directory.find(bound.as_ref()).map(|bucket| bucket.info());
            let below = self.buckets.range(..=bound.clone()).next_back();
            let wanted = below.or(self.buckets.first_key_value()).map(|(_, info)| info);
            assert_eq!(found, wanted);
            let Some(position) = directory.position(bound.as_ref()) else { continue };
            let after = self
                .buckets
                .range(bound..)
                .find(|(start, _)| Some(*start) > wanted.map(|w| &w.start));
            assert_eq!(directory.end_of(position), after.map(|(start, _)| start));
            if let Some(next) = directory.next(position) {
                assert_eq!(directory.previous(next), Some(position));
            }
        }
        let (first, last) = (directory.first(), directory.last());
        assert_eq!(first.and_then(|at| directory.previous(at)), None);
        assert_eq!(last.and_then(|at| directory.next(at)), None);
        let edge = |at: Option<Position>| at.and_then(|at| directory.at(at)).map(|b| b.info());
        assert_eq!(edge(first), self.buckets.values().next());
        assert_eq!(edge(last), self.buckets.values().next_back());
    }
}

#[test]
fn agrees_with_a_map_under_random_edits() {
    for seed in 0..20 {
        let (bench, mut random) = (Bench::new(), Seeded::new(seed));
        let (mut twin, mut directory) = (Twin::default(), Directory::default());
        let mut edits = Vec::new();
        for _ in 0..120 {
            let edit = twin.edit(&mut random);
            let before = directory.clone();
            let before_infos: Vec<_> = before.iter().map(|b| b.info().clone()).collect();
            let section = DeltasEdit::encode(std::slice::from_ref(&edit));
            let edit = DeltasEdit::decode(&section.payload).unwrap().remove(0);
            let changed =
                directory.apply(&bench.context, std::slice::from_ref(&edit), &[]).unwrap();
            twin.check(changed.directory(), &mut random);
            directory = changed.settle();
            // A view from before still sees what it saw.
            assert!(before.iter().map(|bucket| bucket.info()).eq(before_infos.iter()));
            edits.push(edit);
        }
        directory.check().unwrap();
        let replayed = Directory::default().apply(&bench.context, &edits, &[]).unwrap().settle();
        twin.check(&replayed, &mut random);
        let snapshot = directory.snapshot();
        let again = Directory::default().apply(&bench.context, &snapshot, &[]).unwrap().settle();
        twin.check(&again, &mut random);
        assert_eq!(again.snapshot(), snapshot);
    }
}

#[test]
fn edits_that_contradict_the_directory_are_refused() {
    let bench = Bench::new();
    let replaced = |start: OwnedBound, removed: Vec<RemovedBucket>, added: Vec<BucketInfo>| {
        DeltasEdit::Replaced { start, removed, added }
    };
    let (a, b, c) = (info(1, lowest()), info(2, start(b"b")), info(3, start(b"c")));
    let all = vec![a.clone(), b.clone(), c.clone()];
    let init = replaced(lowest(), Vec::new(), all);
    let directory = Directory::default().apply(&bench.context, &[init], &[]).unwrap().settle();
    let grown = BucketInfo { bytes: 400, applied_seq: 11, records: 5, ..b.clone() };
    let refused = [
        replaced(lowest(), Vec::new(), vec![info(9, lowest())]),
        replaced(lowest(), vec![removed(&a)], Vec::new()),
        replaced(start(b"bb"), vec![removed(&b)], vec![info(9, start(b"bb"))]),
        replaced(start(b"b"), vec![removed(&c)], vec![info(9, start(b"b"))]),
        replaced(start(b"b"), vec![removed(&grown)], vec![info(9, start(b"b"))]),
        replaced(start(b"b"), vec![removed(&b), removed(&a)], vec![info(9, start(b"b"))]),
        replaced(start(b"c"), vec![removed(&c), removed(&c)], vec![info(9, start(b"c"))]),
        replaced(start(b"b"), vec![removed(&b)], vec![info(9, start(b"a"))]),
        replaced(start(b"b"), vec![removed(&b)], vec![info(8, start(b"b")), info(9, start(b"c"))]),
        DeltasEdit::appended(
            &info(2, start(b"x")),
            &BucketInfo { start: start(b"x"), ..grown.clone() },
        ),
        DeltasEdit::appended(&info(9, start(b"b")), &grown),
        DeltasEdit::appended(&BucketInfo { bytes: 301, ..b.clone() }, &grown),
        DeltasEdit::appended(&b, &BucketInfo { applied_seq: 10, ..grown.clone() }),
    ];
    for (number, edit) in refused.into_iter().enumerate() {
        let error = directory
            .apply(&bench.context, &[edit], &[])
            .err()
            .unwrap_or_else(|| panic!("edit {number} is taken"));
        assert!(error.message().starts_with("bucket 0"), "{number}: {error}");
    }
    let append = DeltasEdit::appended(&b, &grown);
    let changed = directory.apply(&bench.context, std::slice::from_ref(&append), &[]).unwrap();
    assert!(changed.directory().apply(&bench.context, &[append], &[]).is_err(), "twice");
    let twice = vec![info(1, lowest()), info(1, start(b"b"))];
    let twice = replaced(lowest(), Vec::new(), twice);
    let twice = Directory::default().apply(&bench.context, &[twice], &[]).unwrap();
    assert!(twice.directory().check().is_err());
}

#[test]
fn files_stay_or_go_with_the_edits_that_name_them() {
    let bench = Bench::new();
    let obsolete =
        || bench.context.obsolete.take().into_iter().map(|(_, id)| id.0).collect::<Vec<_>>();
    let replaced = |removed: &[&BucketInfo], added: &[&BucketInfo]| DeltasEdit::Replaced {
        start: lowest(),
        removed: removed.iter().map(|info| self::removed(info)).collect(),
        added: added.iter().copied().cloned().collect(),
    };
    let (a, b) = (info(1, lowest()), info(2, lowest()));
    let empty = Directory::default();
    // Not durable: the file goes.
    drop(empty.apply(&bench.context, &[replaced(&[], &[&a])], &[]).unwrap());
    assert_eq!(obsolete(), [1]);
    let first = empty.apply(&bench.context, &[replaced(&[], &[&a])], &[]).unwrap().settle();
    let view = first.clone();
    let second = first.apply(&bench.context, &[replaced(&[&a], &[&b])], &[]).unwrap().settle();
    drop(first);
    assert!(obsolete().is_empty(), "a view holds it");
    drop(view);
    assert_eq!(obsolete(), [1]);
    drop(second);
    assert!(obsolete().is_empty(), "what is named stays");
    assert!(second_bucket_is_taken_from_memory(&bench));
}

/// Who made a bucket hands its index and filters over.
fn second_bucket_is_taken_from_memory(bench: &Bench) -> bool {
    let bucket = bench.write(Bench::plan(7, lowest(), 5), &[]).unwrap();
    let added = vec![bucket.info().clone()];
    let edit = DeltasEdit::Replaced { start: lowest(), removed: Vec::new(), added };
    let made = [Arc::clone(&bucket)];
    let directory = Directory::default().apply(&bench.context, &[edit], &made).unwrap().settle();
    directory.find(bound(b"x")).is_some_and(|found| Arc::ptr_eq(found, &bucket))
}
