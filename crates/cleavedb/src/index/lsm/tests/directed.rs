//! Single situations of the LSM-tree.

use crate::base::entry::KeyspaceId;
use crate::base::error::ErrorKind;
use crate::base::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::index::{CursorOptions, Dead, Listener, ListenerFactory, Mended};
use crate::io::fault_disk::{Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::MemoryDisk;

/// An index with its sections, fed by hand.
struct Fixture {
    world: World,
    index: Arc<LsmIndex>,
    seq: Seq,
}

impl Fixture {
    fn new() -> Self {
        Self::on(World::new())
    }

    fn on(world: World) -> Self {
        let index = LsmIndex::recover(world.context(), &[]).unwrap();
        Self { world, index, seq: 0 }
    }

    fn flush(&mut self, keys: impl IntoIterator<Item = (u16, Kind)>, ranges: &[(u16, u16)]) {
        let mut entries = Vec::new();
        for (number, kind) in keys {
            self.seq += 1;
            let value = if kind == Kind::Delete { vec![] } else { vec![b'v'; 40] };
            entries.push(Entry { key: key(number), seq: self.seq, kind, value });
        }
        let mut tombstones = Vec::new();
        for (start, end) in ranges {
            self.seq += 1;
            let (start, end) = (key(*start).into(), key(*end).into());
            tombstones.push(RangeTombstone { start, end, seq: self.seq });
        }
        let input = FlushInput {
            bytes: entries.len() as u64,
            is_waited_for: false,
            entries: cursors_of(entries),
            tombstones,
            stripes: &[],
            listeners: Box::new(|| Box::new(Recorder::default())),
        };
        let prepared = self.index.apply_flush(input).unwrap();
        self.index.install(prepared.change).unwrap();
    }

    fn puts(&mut self, numbers: impl IntoIterator<Item = u16>) {
        self.flush(numbers.into_iter().map(|number| (number, Kind::Put)), &[]);
    }

    /// Does all due work, one job after another; returns what the jobs were.
    fn settle(&self, stripes: &[Seq]) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        while let Some(mut job) = self.index.pick_job() {
            let prepared = job.run(&job_context(stripes)).unwrap();
            kinds.push(prepared.report.kind);
            self.index.install(prepared.change).unwrap();
        }
        kinds
    }

    fn compact(&self, range: KeyRange, stripes: &[Seq]) {
        let ticket = self.index.request_compaction(range, false);
        self.settle(stripes);
        assert!(self.index.compaction_done(ticket));
    }

    fn tables(&self) -> usize {
        self.world.sweep();
        self.world.names().len()
    }
}

#[test]
fn an_empty_flush_changes_nothing() {
    let mut fixture = Fixture::new();
    fixture.puts([]);
    assert_eq!((fixture.index.view().files().len(), fixture.tables()), (0, 0));
    let mut context = fixture.world.context();
    context.operator = None;
    let view = LsmIndex::recover(context, &fixture.index.snapshot_sections()).unwrap().view();
    assert_eq!(view.space().entries, 0);
    assert!(entries_of(&*view, KeyRange::default()).is_empty());
}

/// An index with five runs in level 0, which are too few to be due.
fn of_five_runs() -> Fixture {
    let world = World::new();
    let mut context = world.context();
    context.widths.level0_runs_trigger = 8;
    context.widths.level_base_bytes_min = 1 << 20;
    let index = LsmIndex::recover(context, &[]).unwrap();
    let mut fixture = Fixture { world, index, seq: 0 };
    (0..5).for_each(|run| fixture.puts((run..200).step_by(5)));
    assert!(fixture.settle(&[]).is_empty() && !fixture.index.reads_want_work());
    fixture
}

#[test]
fn runs_that_scans_have_paid_for_become_one() {
    let mut fixture = of_five_runs();
    let entries = entries_of(&*fixture.index.view(), KeyRange::default());
    let mut scans = 1;
    while !fixture.index.reads_want_work() {
        let view = fixture.index.view();
        let options =
            |purpose| CursorOptions { range: KeyRange::default(), purpose, fill_cache: false };
        view.cursor(&options(Purpose::Read)).unwrap();
        view.cursor(&options(Purpose::Collection)).unwrap();
        scans += 1;
    }
    let bytes = fixture.index.view().space().disk_bytes;
    // Three and a half microseconds for each run more, nine nanoseconds for each byte.
    assert_eq!(scans, (bytes * 9).div_ceil(4 * 3500));
    assert_eq!(fixture.settle(&[]).len(), 1);
    assert_eq!(fixture.index.view().space().levels[0].files, 1);
    assert!(!fixture.index.reads_want_work(), "it was spent");
    assert_eq!(entries_of(&*fixture.index.view(), KeyRange::default()), entries);
    verify(&*fixture.index.view());
    // A run more is paid for anew.
    fixture.puts(0..10);
    assert!(fixture.settle(&[]).is_empty());
}

#[test]
fn runs_that_gets_have_paid_for_become_one() {
    let fixture = of_five_runs();
    let view = fixture.index.view();
    let mut gets = 0;
    while !fixture.index.reads_want_work() {
        let number = gets % 60_000;
        assert_eq!(get(&*view, &key(number as u16), SEQ_MAX).unwrap().is_some(), number < 200);
        gets += 1;
        assert!(gets < 1_000_000);
    }
    let bytes = view.space().disk_bytes;
    let expected = bytes * 9 / (4 * 40);
    assert!((expected / 2..expected * 2).contains(&gets), "{gets} gets, {expected} expected");
    assert_eq!(fixture.settle(&[]).len(), 1);
}

#[test]
fn a_single_run_is_left_alone() {
    let mut fixture = Fixture::new();
    fixture.puts(0..2);
    for _ in 0..10_000 {
        entries_of(&*fixture.index.view(), KeyRange::default());
    }
    assert!(!fixture.index.reads_want_work() && fixture.settle(&[]).is_empty());
}

#[test]
fn a_sequential_load_is_not_rewritten() {
    let mut fixture = Fixture::new();
    for part in 0..40 {
        fixture.puts(part * 10..part * 10 + 10);
        fixture.settle(&[]);
    }
    let space = fixture.index.view().space();
    assert!(space.trivial_moves > 30, "{} moves", space.trivial_moves);
    // Each byte is written by its flush, and once more into the compressed levels.
    let written = fixture.world.io.meter.bytes_written(Purpose::Compaction);
    assert!(written <= fixture.world.io.meter.bytes_written(Purpose::Flush));
    assert_eq!(space.entries, 400);
    verify(&*fixture.index.view());
}

#[test]
fn two_sequential_loads_at_once_are_hardly_rewritten() {
    let mut fixture = Fixture::new();
    for part in 0..40 {
        let stream = |from: u16| from + part * 100..from + part * 100 + 100;
        fixture.puts(stream(0).chain(stream(10_000)));
        fixture.settle(&[]);
    }
    // Every run of level 0 spans all that the second stream has written. Where that were merged
    // anew each time, it would be written 3.6 times.
    let written = fixture.world.io.meter.bytes_written(Purpose::Compaction) as f64;
    let flushed = fixture.world.io.meter.bytes_written(Purpose::Flush) as f64;
    assert!(written <= 2.5 * flushed, "{written} bytes rewritten of {flushed}");
    let entries = entries_of(&*fixture.index.view(), KeyRange::default());
    assert_eq!(entries.len(), 8_000);
    verify(&*fixture.index.view());
}

#[test]
fn files_stay_while_a_view_or_cursor_holds_them() {
    let mut fixture = Fixture::new();
    fixture.puts(0..20);
    let view = fixture.index.view();
    let before = entries_of(&*view, KeyRange::default());
    let options =
        CursorOptions { range: KeyRange::default(), purpose: Purpose::Read, fill_cache: false };
    let mut cursor = view.cursor(&options).unwrap();
    drop(view);
    cursor.seek_first().unwrap();
    fixture.puts(0..20);
    fixture.settle(&[]);
    fixture.world.sweep();
    let mut seen = 0;
    while cursor.valid() {
        seen += 1;
        cursor.next().unwrap();
    }
    assert_eq!(seen, before.len());
    let held = fixture.tables();
    drop(cursor);
    assert!(!fixture.world.obsolete.is_empty(), "the old run is free now");
    assert!(fixture.tables() < held);
    assert_eq!(fixture.tables(), fixture.index.view().files().len());
}

#[test]
fn a_job_that_is_cancelled_or_dropped_leaves_no_file() {
    let mut fixture = Fixture::new();
    for _ in 0..3 {
        fixture.puts(0..40);
    }
    let tables = fixture.tables();
    let context = job_context(&[]);
    context.cancelled.store(true, Ordering::Release);
    let mut job = fixture.index.pick_job().unwrap();
    assert_eq!(job.run(&context).err().unwrap().kind(), ErrorKind::Closed);
    assert!(fixture.index.pick_job().is_none(), "its inputs stay reserved");
    drop(job);
    assert_eq!(fixture.tables(), tables);
    let mut job = fixture.index.pick_job().unwrap();
    let prepared = job.run(&job_context(&[])).unwrap();
    drop(job);
    assert!(fixture.index.pick_job().is_none(), "its change keeps the inputs reserved");
    drop(prepared);
    assert_eq!(fixture.tables(), tables);
    assert_eq!(fixture.settle(&[]).len(), 1);
}

#[test]
fn a_job_that_fails_leaves_no_file_and_can_be_repeated() {
    let disk = FaultDisk::over(&MemoryDisk::new());
    let mut fixture = Fixture::on(World::on(Arc::new(disk.clone())));
    fixture.flush((0..30).map(|number| (number, Kind::Put)), &[(3, 20)]);
    fixture.flush((10..40).map(|number| (number, Kind::Put)), &[(8, 25)]);
    let expected = entries_of(&*fixture.index.view(), KeyRange::default());
    let tables = fixture.tables();
    let mut failed = 0;
    for at in 1..1000 {
        // Tables that are open already would hide the faults of opening them.
        fixture.index.view().files().iter().for_each(|f| fixture.world.tables.evict(f.id));
        let before = disk.triggered();
        let plan = FaultPlan { kind: None, at, fault: Fault::Eio, persistent: false };
        disk.set_plan(Some(plan));
        let mut job = fixture.index.pick_job().unwrap();
        let outcome = job.run(&job_context(&[]));
        disk.set_plan(None);
        drop(job);
        match outcome.err() {
            Some(error) => assert_eq!(error.kind(), ErrorKind::Io, "call {at}: {error}"),
            None => assert_eq!(disk.triggered(), before, "call {at} failed unnoticed"),
        }
        assert_eq!(fixture.tables(), tables, "call {at} left files behind");
        if disk.triggered() == before {
            break;
        }
        failed += 1;
    }
    assert!((10..999).contains(&failed), "{failed} faults");
    assert_eq!(entries_of(&*fixture.index.view(), KeyRange::default()), expected);
    fixture.settle(&[]);
    verify(&*fixture.index.view());
    assert_eq!(entries_of(&*fixture.index.view(), KeyRange::default()).len(), 18);
}

#[test]
fn a_merge_cancelled_half_way_leaves_no_file() {
    struct CancelAfter(u64, Arc<AtomicBool>);
    impl ListenerFactory for CancelAfter {
        fn listener(&self, _keyspace: KeyspaceId) -> Box<dyn Listener> {
            Box::new(CancelAfter(self.0, self.1.clone()))
        }
    }
    impl Listener for CancelAfter {
        fn dead(&mut self, dead: Dead<'_>) {
            self.1.fetch_or(dead.seq > self.0, Ordering::AcqRel);
        }
        fn survivor(&mut self, _: &[u8], _: Seq, _: &[u8]) -> Option<Mended> {
            None
        }
        fn keeps_tombstone(&mut self, _: &[u8], _: Seq) -> bool {
            false
        }
        fn finish(&mut self) -> Result<Vec<Section>> {
            Ok(Vec::new())
        }
    }
    let mut fixture = Fixture::new();
    fixture.puts(0..900);
    fixture.puts(0..900);
    let tables = fixture.tables();
    let mut context = job_context(&[]);
    context.listeners = Arc::new(CancelAfter(100, context.cancelled.clone()));
    let mut job = fixture.index.pick_job().unwrap();
    assert_eq!(job.run(&context).err().unwrap().kind(), ErrorKind::Closed);
    drop(job);
    assert_eq!(fixture.tables(), tables);
}

#[test]
fn the_bottom_is_rid_of_what_nobody_needs() {
    let mut fixture = Fixture::new();
    fixture.puts(0..40);
    let snapshot = fixture.seq;
    fixture.flush((0..20).map(|number| (number, Kind::Delete)), &[(25, 38)]);
    let all = KeyRange::default;
    fixture.compact(all(), &[snapshot]);
    let view = fixture.index.view();
    assert_eq!(entries_of(&*view, all()).len(), 60, "a snapshot needs them");
    assert!(get(&*view, &key(30), snapshot).unwrap().is_some());
    assert!(get(&*view, &key(30), SEQ_MAX).unwrap().is_none());
    drop(view);
    // Without the snapshot only a part is asked for first.
    fixture.compact(KeyRange { start: None, end: Some(key(5)) }, &[]);
    assert!(entries_of(&*fixture.index.view(), all()).len() < 60);
    fixture.compact(all(), &[]);
    let view = fixture.index.view();
    let left = entries_of(&*view, all());
    assert_eq!(left.len(), 7);
    assert!(left.iter().all(|entry| entry.kind == Kind::Put));
    assert!(view.tombstones().unwrap().is_empty());
    let written = fixture.world.io.meter.bytes_written(Purpose::Compaction);
    fixture.compact(all(), &[]);
    let again = fixture.world.io.meter.bytes_written(Purpose::Compaction);
    assert_eq!(written, again, "what is clean is not rewritten");
}

#[test]
fn jobs_of_disjoint_parts_run_at_the_same_time() {
    let mut fixture = Fixture::new();
    for round in 0..6 {
        fixture.puts((0..200).filter(|number| number % 6 == round));
        if round == 3 {
            fixture.settle(&[]);
        }
    }
    let mut jobs = Vec::new();
    while let Some(mut job) = fixture.index.pick_job().filter(|_| jobs.len() < 4) {
        let prepared = job.run(&job_context(&[])).unwrap();
        jobs.push((job, prepared));
        [7, 8, 9, 10].into_iter().for_each(|number| fixture.puts([number]));
    }
    assert!(jobs.len() > 1, "only {} jobs at once", jobs.len());
    while let Some((job, prepared)) = jobs.pop() {
        fixture.index.install(prepared.change).unwrap();
        drop(job);
    }
    fixture.settle(&[]);
    verify(&*fixture.index.view());
    let view = fixture.index.view();
    (0..200).for_each(|n| assert!(get(&*view, &key(n), SEQ_MAX).unwrap().is_some(), "{n}"));
    assert!(fixture.index.backlog().level0_runs < 2);
}

#[test]
fn threads_flush_compact_and_read_together() {
    let mut fixture = Fixture::new();
    fixture.puts(0..100);
    let index = fixture.index.clone();
    let manifest = Mutex::new(());
    let finished = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !finished.load(Ordering::Acquire) {
                    let Some(mut job) = index.pick_job() else { continue };
                    let prepared = job.run(&job_context(&[])).unwrap();
                    let _edit = manifest.lock();
                    index.install(prepared.change).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let mut number = 0;
            while !finished.load(Ordering::Acquire) {
                number = (number + 37) % 100;
                let view = index.view();
                assert!(get(&*view, &key(number), SEQ_MAX).unwrap().is_some());
                let keys: Vec<Vec<u8>> = (number..100).step_by(9).map(key).collect();
                let found = multi_get(&*view, &keys, SEQ_MAX);
                assert!(found.iter().all(Option::is_some));
            }
        });
        for round in 0..60 {
            fixture.puts((0..100).filter(|number| number % 4 == round % 4));
        }
        let all = index.request_compaction(KeyRange::default(), false);
        while !index.compaction_done(all) {
            std::thread::yield_now();
        }
        finished.store(true, Ordering::Release);
    });
    drop(index);
    fixture.settle(&[]);
    verify(&*fixture.index.view());
    assert_eq!(entries_of(&*fixture.index.view(), KeyRange::default()).len(), 100);
    assert_eq!(fixture.tables(), fixture.index.view().files().len());
}

#[test]
fn sections_that_do_not_fit_are_refused() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        fixture.puts(0..40);
    }
    fixture.settle(&[]);
    let state = fixture.index.snapshot_sections();
    let decoded = DecodedEdit::decode(&state[0]).unwrap();
    let recover = |edit: DecodedEdit| {
        let sections = [state.clone(), vec![edit.encode()]].concat();
        LsmIndex::recover(fixture.world.context(), &sections).err().map(|error| error.kind())
    };
    let change = |removed, added| DecodedEdit {
        keyspace: decoded.keyspace,
        kind: EditKind::Change,
        removed,
        added,
    };
    assert_eq!(recover(change(vec![], vec![])), None);
    // Remove what is not there; add what is there already; overlap.
    assert_eq!(recover(change(vec![(6, FileId(999))], vec![])), Some(ErrorKind::Corruption));
    assert_eq!(recover(change(vec![], decoded.added.clone())), Some(ErrorKind::Corruption));
    let mut copy = decoded.added.clone();
    copy.iter_mut().for_each(|table| table.meta.file.0 += 500);
    assert_eq!(recover(change(vec![], copy)), Some(ErrorKind::Corruption));
    let mut foreign = change(vec![], vec![]);
    foreign.keyspace.0 += 1;
    assert_eq!(recover(foreign), Some(ErrorKind::Corruption));
    // Numbers go on behind the largest that is named.
    let context = fixture.world.context();
    let largest = decoded.added.iter().map(|table| table.meta.file).max().unwrap();
    assert!(context.file_ids.peek() > largest);
}

#[test]
fn widths_of_these_tests_make_everything_split() {
    let widths = tiny_widths();
    assert!(widths.table_bytes < widths.level_base_bytes_min);
    assert!(widths.block_bytes < widths.table_bytes as usize);
}
