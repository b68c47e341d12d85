//! The index beside its twin: operations, snapshots, range deletes, jobs, reopening, crashes.

use std::collections::BTreeMap;

use super::*;
use crate::base::entry::{FileId, Kind, SEQ_MAX};
use crate::base::names::parse_file_name;
use crate::index::flex::intervals::feed::Feed;
use crate::index::flex::intervals::run::{Record, RunBuilder};
use crate::index::flex::pages::files::FileLimits;
use crate::index::flex::space::SpaceLimits;
use crate::index::flex::tree::TreeWidths;
use crate::index::testing::world::{Findings, World, entries_of, get, job_context};
use crate::index::testing::{Entry, Recorder, cursors_of};

mod ahead;
mod defects;
mod few;
mod filters;
mod gathering;
mod kept;
mod model;
mod quiet;
mod superseded;
mod tails;
mod verify;
mod walks;
mod write_through;

/// Sizes so small that a few entries split everything.
pub(super) const TINY: FlexSizes = FlexSizes {
    intervals: FlexLimits {
        interval_bytes_max: 160,
        tail_records_max: 4,
        fragments_max: 6,
        gathered_fragments_min: 2,
        gathered_paid_min: 1,
        gathered_bytes_min: 0,
        ahead_intervals_max: 3,
        together_intervals_max: 3,
        part_bytes_min: 1,
        part_groups_min: 1,
        part_threads: 1,
        group_intervals_max: 4,
        job_bytes_max: 600,
        rewrite_garbage_percent_max: 1000,
    },
    space: SpaceLimits { segment_blocks: 5, log_bytes_max: 3000, garbage_percent_max: 40 },
    tree: TreeWidths { leaf_extents_max: 4, children_max: 4, window_bytes: 64 },
    pages: FileLimits { bytes_min: 2000, bytes_max: 6000 },
};

/// With room for a few appends to each interval.
const ROOMY: FlexSizes = FlexSizes {
    intervals: FlexLimits {
        interval_bytes_max: 600,
        tail_records_max: 6,
        fragments_max: 8,
        ..TINY.intervals
    },
    ..TINY
};

pub(super) fn recover(world: &World, sections: &[Section]) -> Arc<FlexIndex> {
    FlexIndex::recover(world.context(), &TINY, sections).unwrap()
}

pub(super) fn input(
    entries: Vec<Entry>,
    tombstones: Vec<RangeTombstone>,
    stripes: &[Seq],
) -> FlushInput<'_> {
    FlushInput {
        bytes: entries.len() as u64,
        is_waited_for: false,
        entries: cursors_of(entries),
        tombstones,
        stripes,
        listeners: Box::new(|| Box::new(Recorder::default())),
    }
}

/// Flushes and installs.
pub(super) fn flush(index: &FlexIndex, entries: Vec<Entry>, tombstones: Vec<RangeTombstone>) {
    let prepared = index.apply_flush(input(entries, tombstones, &[])).unwrap();
    index.install(prepared.change).unwrap();
}

/// Runs what is due, at most so many jobs; returns what they were.
pub(super) fn work(index: &FlexIndex, stripes: &[Seq], jobs_max: usize) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(mut job) = index.pick_job().filter(|_| done.len() < jobs_max) {
        assert!(index.pick_job().is_none(), "one job at a time");
        let prepared = job.run(&job_context(stripes)).unwrap();
        done.push(format!("{}: {}", prepared.report.kind, prepared.report.reason));
        index.install(prepared.change).unwrap();
    }
    done
}

pub(super) fn put(key: &str, seq: Seq, value: &str) -> Entry {
    Entry { key: key.into(), seq, kind: Kind::Put, value: value.into() }
}

pub(super) fn delete(key: &str, seq: Seq) -> Entry {
    Entry { key: key.into(), seq, kind: Kind::Delete, value: Vec::new() }
}

pub(super) fn range_delete(start: &str, end: &str, seq: Seq) -> RangeTombstone {
    RangeTombstone { start: start.as_bytes().into(), end: end.as_bytes().into(), seq }
}

/// Pieces that the interval of a key stands in.
fn fragments(index: &FlexIndex, key: &str) -> usize {
    let view = index.shared.current();
    let found = view.source.anchors.find(key.as_bytes()).unwrap();
    view.source.space.fragments(found.range()).unwrap()
}

fn scan(index: &FlexIndex) -> Vec<Entry> {
    entries_of(&*index.view(), KeyRange::default())
}

/// The same with nothing in the cache.
fn scan_past_cache(index: &FlexIndex) -> Vec<Entry> {
    let view = index.shared.current();
    let all = view.source.anchors.iter().map(|found| (found.interval.stamp, 0));
    index.shared.cache.carry(&all.collect::<Vec<_>>());
    scan(index)
}

/// Everything of a view must be sound.
pub(super) fn verify(view: &dyn IndexView) {
    let mut findings = Findings::default();
    view.verify(&mut findings);
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
}

/// Removes files that no state leads to, as an open of a database does.
pub(super) fn remove_strays(world: &World, index: &FlexIndex) {
    let wanted: Vec<FileId> = index.view().files().iter().map(|file| file.id).collect();
    for name in world.names() {
        let (_, id) = parse_file_name(&name).unwrap();
        if !wanted.contains(&id) {
            world.io.disk.remove_file(&world.context().dir.join(name)).unwrap();
        }
    }
}

fn keys(numbers: impl Iterator<Item = u32>) -> Vec<String> {
    numbers.map(|number| format!("key{number:05}")).collect()
}

/// An index of sixty records, nothing of which is in the cache.
fn of_sixty(sizes: &FlexSizes) -> (World, Arc<FlexIndex>) {
    of_records(60, sizes)
}

/// One of so many.
fn of_records(count: u32, sizes: &FlexSizes) -> (World, Arc<FlexIndex>) {
    let world = World::new();
    let index = FlexIndex::recover(world.context(), sizes, &[]).unwrap();
    let entries = keys(0..count).iter().zip(1..).map(|(key, seq)| put(key, seq, "old")).collect();
    flush(&index, entries, vec![]);
    (world, index)
}

/// Fills the cache with what nobody asks for.
fn fill(index: &FlexIndex) {
    let mut builder = RunBuilder::default();
    let value = [7; 4000];
    builder.add(&Record { key: b"none", seq: 1, kind: Kind::Put, value: &value });
    for stamp in 0..40 {
        let bytes = builder.encoded().to_vec();
        index.shared.cache.write_through(u64::MAX - stamp, bytes).unwrap();
    }
}

/// Keys that exist or may, by what they hold.
type Model = BTreeMap<String, Option<String>>;

/// That of the index of sixty records.
fn model_of_sixty() -> Model {
    keys(0..60).into_iter().map(|key| (key, Some("old".to_owned()))).collect()
}

/// Puts, or deletes at zero, of these numbers, in the model as well.
fn changes(step: Vec<(u32, u32)>, seq: &mut Seq, model: &mut Model) -> Vec<Entry> {
    let step: BTreeMap<u32, u32> = step.into_iter().collect();
    let mut entries = Vec::new();
    for (number, what) in step {
        *seq += 1;
        let key = keys(number..number + 1).remove(0);
        let value = (what > 0).then(|| format!("value {seq}"));
        entries.push(match &value {
            Some(value) => put(&key, *seq, value),
            None => delete(&key, *seq),
        });
        model.insert(key, value);
    }
    entries
}

#[test]
fn what_is_flushed_is_found_before_and_after_an_open() {
    let world = World::new();
    let index = recover(&world, &[]);
    assert!(entries_of(&*index.view(), KeyRange::default()).is_empty());
    assert_eq!(get(&*index.view(), b"a", SEQ_MAX).unwrap(), None);
    let keys = keys(0..300);
    let entries = |step: usize, first: Seq| {
        let chosen = keys.iter().step_by(step).zip(first..);
        chosen.map(|(key, seq)| put(key, seq, &format!("value {seq}"))).collect::<Vec<_>>()
    };
    flush(&index, entries(3, 1), vec![]);
    flush(&index, entries(7, 1000), vec![]);
    flush(&index, vec![put("", 5000, ""), put("zz", 5001, "last")], vec![]);
    let view = index.view();
    verify(&*view);
    let check = |view: &dyn IndexView| {
        for (number, key) in keys.iter().enumerate() {
            let wanted = match (number % 7, number % 3) {
                (0, _) => Some(format!("value {}", 1000 + number / 7)),
                (_, 0) => Some(format!("value {}", 1 + number / 3)),
                _ => None,
            };
            assert_eq!(get(view, key.as_bytes(), SEQ_MAX).unwrap(), wanted.map(String::into_bytes));
        }
        assert_eq!(get(view, b"", SEQ_MAX).unwrap(), Some(vec![]));
        assert_eq!(get(view, b"zz", SEQ_MAX).unwrap().unwrap(), b"last");
    };
    check(&*view);
    let again = recover(&world, &index.snapshot_sections());
    check(&*again.view());
    verify(&*again.view());
    assert_eq!(
        entries_of(&*again.view(), KeyRange::default()),
        entries_of(&*view, KeyRange::default())
    );
    assert_eq!(again.view().largest_seq(), 5001);
    drop((view, index, again));
}

/// One after the other, each directory of a large index was waited for by itself.
#[test]
fn an_open_reads_many_directories_at_once() {
    let world = World::new();
    let index = recover(&world, &[]);
    let list = keys(0..600).iter().zip(1..).map(|(key, seq)| put(key, seq, "value")).collect();
    flush(&index, list, vec![range_delete("key00300", "key00310", 700)]);
    // Work that has taken out what is covered would take the tombstone along.
    let (sections, groups) = (index.snapshot_sections(), index.shared.current());
    let groups = groups.source.anchors.groups().len();
    let reads = || world.io.meter.read_calls(Purpose::Recovery);
    let before = reads();
    let again = recover(&world, &sections);
    // They stand near each other, as one flush has written them.
    let reads = reads() - before;
    assert!(groups > 20 && (1..groups as u64 / 4).contains(&reads), "{groups} groups, {reads}");
    assert_eq!(
        entries_of(&*again.view(), KeyRange::default()),
        entries_of(&*index.view(), KeyRange::default())
    );
    verify(&*again.view());
}

#[test]
fn a_change_that_is_dropped_leaves_nothing_but_files_that_go() {
    let world = World::new();
    let index = recover(&world, &[]);
    let list = |seq: Seq| keys(0..60).iter().map(|key| put(key, seq, "some value")).collect();
    for round in 1..6 {
        let before = entries_of(&*index.view(), KeyRange::default());
        let (sections, names) = (index.snapshot_sections(), world.names());
        let tombstones = vec![range_delete("key00010", "key00020", 100 * round)];
        drop(index.apply_flush(input(list(100 * round + 1), tombstones, &[])).unwrap());
        assert_eq!(entries_of(&*index.view(), KeyRange::default()), before);
        assert_eq!(index.snapshot_sections(), sections);
        world.sweep();
        // One segment may go on, which nothing leads to yet.
        assert!(world.names().len() <= names.len() + 1, "{names:?} {:?}", world.names());
        flush(&index, list(100 * round + 2), vec![]);
        verify(&*index.view());
        let again = recover(&world, &index.snapshot_sections());
        let both = [&*again.view(), &*index.view()].map(|v| entries_of(v, KeyRange::default()));
        assert_eq!(both[0], both[1]);
        assert_eq!(both[0].len(), 60);
        drop(again);
        world.sweep();
    }
}

#[test]
fn retired_files_go_with_the_last_view() {
    let world = World::new();
    let index = recover(&world, &[]);
    flush(&index, vec![put("a", 1, "x")], vec![]);
    let view = index.view();
    index.retire();
    drop(index);
    world.sweep();
    assert_eq!(get(&*view, b"a", SEQ_MAX).unwrap().unwrap(), b"x");
    drop(view);
    world.sweep();
    assert_eq!(world.names(), Vec::<String>::new());
}

/// A change that failed had put an interval into the cache under a stamp that the next change then
/// gave to another one: a get was answered from what never was.
#[test]
fn what_failed_is_never_read_from_the_cache() {
    let world = World::new();
    let index = recover(&world, &[]);
    let old = keys(0..60).iter().zip(1..).map(|(key, seq)| put(key, seq, "old")).collect();
    flush(&index, old, vec![]);
    let found = |key: &str| get(&*index.view(), key.as_bytes(), SEQ_MAX).unwrap();
    // In the cache from here on, so that a change of it is put there, too.
    assert_eq!(found("key00010").as_deref(), Some(&b"old"[..]));
    let (shared, nothing) = (&index.shared, Fragments::default());
    let (view, held) = (shared.current(), || world.tables.blocks().bytes());
    let work = Work {
        incoming: None,
        tombstones: &nothing,
        fresh: &nothing,
        kept: Vec::new(),
        stripes: &[],
        cancelled: None,
        purpose: Purpose::Flush,
        largest_seq: 0,
    };
    let (mut writer, before) = (shared.wait_for_writer(), held());
    let come = cursors_of(vec![put("key00010", 100, "failed")])();
    let stop = |applier: &mut Applier<'_>| {
        let feed = Feed::new(come, &KeyRange::default())?;
        applier.apply(&Arc::new(Mutex::new(feed)))?;
        Err(Error::invalid("stopped"))
    };
    let failed = shared.prepare(&mut writer, &view, work, &mut Recorder::default(), stop);
    assert!(failed.is_err() && held() > before, "something was put in");
    drop(writer);
    assert_eq!(found("key00010").as_deref(), Some(&b"old"[..]));
    // An interval that is not in the cache gets the next stamp there is.
    flush(&index, vec![put("key00040", 102, "new")], vec![]);
    assert_eq!(found("key00040").as_deref(), Some(&b"new"[..]));
    assert_eq!(found("key00010").as_deref(), Some(&b"old"[..]));
    verify(&*index.view());
}
