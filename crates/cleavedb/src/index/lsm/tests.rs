//! The LSM-tree against its naive twin and a model, under random flushes, concurrent compactions,
//! snapshots, manual compactions, reopens and held views.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRng, TestRunner};

use super::*;
use crate::base::entry::{Kind, SEQ_MAX};
use crate::base::names::{FileKind, file_name};
use crate::base::tombstone::RangeTombstone;
use crate::index::naive::NaiveIndex;
use crate::index::testing::world::{
    World, entries_of, get, job_context, multi_get, tiny_widths, verify,
};
use crate::index::testing::{Entry, Recorder, cursors_of, naive_read, reading_points};

mod directed;

/// One step of a random run.
#[derive(Clone, Debug)]
enum Op {
    Put(u16, u8),
    Delete(u16),
    Merge(u16, u8),
    DeleteRange(u16, u16),
    Flush,
    /// Picks, runs and keeps the result for later.
    Work,
    /// Installs the kept result of this number.
    Install(usize),
    Snapshot,
    Release(usize),
    HoldView,
    DropView(usize),
    Compact(u16, u16),
    Reopen(bool),
    Sweep,
}

/// A job that has run but is not installed.
struct Done {
    _job: Box<dyn IndexJob>,
    prepared: Prepared,
}

/// A view that somebody holds, and what it must go on to show.
struct Held {
    view: Arc<dyn IndexView>,
    entries: usize,
    tombstones: usize,
    points: Vec<Seq>,
}

struct Run {
    world: World,
    lsm: Arc<LsmIndex>,
    naive: Arc<NaiveIndex>,
    /// All that was installed in the LSM, as a manifest would have it.
    sections: Vec<Section>,
    naive_sections: Vec<Section>,
    seq: Seq,
    pending: Vec<Entry>,
    pending_tombstones: Vec<RangeTombstone>,
    /// All that was ever flushed.
    entries: Vec<Entry>,
    tombstones: Vec<RangeTombstone>,
    snapshots: Vec<Seq>,
    done: Vec<Done>,
    held: Vec<Held>,
    tickets: Vec<u64>,
}

fn key(number: u16) -> Vec<u8> {
    format!("k{number:03}").into_bytes()
}

impl Run {
    fn new() -> Self {
        let world = World::new();
        Self {
            lsm: LsmIndex::recover(world.context(), &[]).unwrap(),
            naive: NaiveIndex::recover(world.context(), &[]).unwrap(),
            world,
            sections: Vec::new(),
            naive_sections: Vec::new(),
            seq: 0,
            pending: Vec::new(),
            pending_tombstones: Vec::new(),
            entries: Vec::new(),
            tombstones: Vec::new(),
            snapshots: Vec::new(),
            done: Vec::new(),
            held: Vec::new(),
            tickets: Vec::new(),
        }
    }

    fn write(&mut self, number: u16, kind: Kind, flavour: u8) {
        self.seq += 1;
        let text = match (kind, flavour) {
            (Kind::Delete, _) => String::new(),
            (Kind::Merge, 0) => format!("!{},", self.seq),
            (Kind::Merge, 1) => format!("-{},", self.seq),
            (_, flavour) => format!("{},{}", self.seq, "x".repeat(usize::from(flavour))),
        };
        let (seq, value) = (self.seq, text.into_bytes());
        self.pending.push(Entry { key: key(number), seq, kind, value });
    }

    fn stripes(&self) -> Vec<Seq> {
        let mut stripes = self.snapshots.clone();
        stripes.sort_unstable();
        stripes.dedup();
        stripes
    }

    fn flush(&mut self) {
        let stripes = self.stripes();
        let input = || FlushInput {
            bytes: self.pending.len() as u64,
            is_waited_for: false,
            entries: cursors_of(self.pending.clone()),
            tombstones: self.pending_tombstones.clone(),
            stripes: &stripes,
            listeners: Box::new(|| Box::new(Recorder::default())),
        };
        let prepared = self.lsm.apply_flush(input()).unwrap();
        self.sections.extend(prepared.sections);
        self.lsm.install(prepared.change).unwrap();
        let prepared = self.naive.apply_flush(input()).unwrap();
        self.naive_sections.extend(prepared.sections);
        self.naive.install(prepared.change).unwrap();
        self.entries.append(&mut self.pending);
        self.tombstones.append(&mut self.pending_tombstones);
    }

    fn work(&mut self) -> bool {
        let Some(mut job) = self.lsm.pick_job() else { return false };
        let prepared = job.run(&job_context(&self.stripes())).unwrap();
        self.done.push(Done { _job: job, prepared });
        true
    }

    fn install(&mut self, number: usize) {
        if !self.done.is_empty() {
            let Done { _job, prepared } = self.done.remove(number % self.done.len());
            self.sections.extend(prepared.sections);
            self.lsm.install(prepared.change).unwrap();
        }
    }

    fn hold_view(&mut self) {
        self.held.push(Held {
            view: self.lsm.view(),
            entries: self.entries.len(),
            tombstones: self.tombstones.len(),
            points: reading_points(&self.stripes()),
        });
    }

    fn reopen(&mut self, rolled: bool) {
        // Views of a closed index would not know of files that the next one drops.
        let held = std::mem::take(&mut self.held);
        held.iter().for_each(|held| self.check_held(held));
        self.done.clear();
        self.tickets.clear();
        if rolled {
            self.sections = self.lsm.snapshot_sections();
            self.naive_sections = self.naive.snapshot_sections();
        }
        self.lsm = LsmIndex::recover(self.world.context(), &self.sections).unwrap();
        self.naive = NaiveIndex::recover(self.world.context(), &self.naive_sections).unwrap();
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Put(number, size) => self.write(number, Kind::Put, size),
            Op::Delete(number) => self.write(number, Kind::Delete, 0),
            Op::Merge(number, flavour) => self.write(number, Kind::Merge, flavour),
            Op::DeleteRange(start, length) => {
                self.seq += 1;
                self.pending_tombstones.push(RangeTombstone {
                    start: key(start).into(),
                    end: key(start + length).into(),
                    seq: self.seq,
                });
            }
            Op::Flush => self.flush(),
            Op::Work => {
                self.work();
            }
            Op::Install(number) => self.install(number),
            Op::Snapshot => self.snapshots.push(self.seq),
            Op::Release(number) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(number % self.snapshots.len());
                }
            }
            Op::HoldView => self.hold_view(),
            Op::DropView(number) => {
                if !self.held.is_empty() {
                    let held = self.held.remove(number % self.held.len());
                    self.check_held(&held);
                }
            }
            Op::Compact(start, length) => {
                let range = KeyRange { start: Some(key(start)), end: Some(key(start + length)) };
                self.tickets.push(self.lsm.request_compaction(range, false));
            }
            Op::Reopen(rolled) => self.reopen(rolled),
            Op::Sweep => self.world.sweep(),
        }
    }

    fn check_held(&self, held: &Held) {
        let entries = &self.entries[..held.entries];
        let tombstones = &self.tombstones[..held.tombstones];
        check_view(&*held.view, entries, tombstones, &held.points);
    }

    fn check(&self) {
        let points = reading_points(&self.stripes());
        let view = self.lsm.view();
        check_view(&*view, &self.entries, &self.tombstones, &points);
        check_view(&*self.naive.view(), &self.entries, &self.tombstones, &points);
        assert_eq!(view.space().disk_bytes, view.files().iter().map(|f| f.bytes).sum::<u64>());
    }

    /// Lets all work end, drops all holders and looks for leaks.
    fn finish(mut self) {
        while !self.done.is_empty() {
            self.install(0);
        }
        for _ in 0..500 {
            if !self.work() {
                break;
            }
            self.install(0);
        }
        assert!(self.lsm.pick_job().is_none(), "work without end");
        for ticket in &self.tickets {
            assert!(self.lsm.compaction_done(*ticket), "a request was not fulfilled");
        }
        self.check();
        verify(&*self.lsm.view());
        verify(&*self.naive.view());
        let held = std::mem::take(&mut self.held);
        held.iter().for_each(|held| self.check_held(held));
        drop(held);
        self.world.sweep();
        let view = self.lsm.view();
        let mut expected: Vec<String> = view
            .files()
            .iter()
            .chain(&self.naive.view().files())
            .map(|file| file_name(FileKind::Table, file.id))
            .collect();
        expected.sort();
        assert_eq!(self.world.names(), expected, "files leaked or lost");
        drop(view);
        self.reopen(false);
        self.check();
        self.reopen(true);
        self.check();
        self.lsm.retire();
        self.naive.retire();
        drop(self.lsm);
        drop(self.naive);
        self.world.sweep();
        assert_eq!(self.world.names(), Vec::<String>::new());
    }
}

/// A view must show what the model shows, by every way of reading.
fn check_view(
    view: &dyn IndexView,
    entries: &[Entry],
    tombstones: &[RangeTombstone],
    points: &[Seq],
) {
    let stored = entries_of(view, KeyRange::default());
    let kept = view.tombstones().unwrap().tombstones();
    let keys: Vec<Vec<u8>> = (0..=41).map(key).collect();
    for point in points {
        let batch = multi_get(view, &keys, *point);
        for (key, batched) in keys.iter().zip(batch) {
            let expected = naive_read(entries, tombstones, key, *point);
            let what = || format!("{} at {point}", key.escape_ascii());
            assert_eq!(get(view, key, *point).unwrap(), expected, "get {}", what());
            assert_eq!(batched, expected, "multi_get {}", what());
            assert_eq!(naive_read(&stored, &kept, key, *point), expected, "scan {}", what());
        }
    }
    let part = KeyRange { start: Some(key(10)), end: Some(key(20)) };
    let within = |entry: &&Entry| entry.key >= key(10) && entry.key < key(20);
    let ranged = entries_of(view, part);
    assert!(ranged.iter().filter(within).eq(stored.iter().filter(within)));
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let number = || 0..40u16;
    let op = prop_oneof![
        24 => (number(), 0..60u8).prop_map(|(key, size)| Op::Put(key, size)),
        6 => number().prop_map(Op::Delete),
        12 => (number(), 0..8u8).prop_map(|(key, flavour)| Op::Merge(key, flavour)),
        2 => (number(), 1..12u16).prop_map(|(start, length)| Op::DeleteRange(start, length)),
        6 => Just(Op::Flush),
        6 => Just(Op::Work),
        5 => (0..4usize).prop_map(Op::Install),
        2 => Just(Op::Snapshot),
        2 => (0..4usize).prop_map(Op::Release),
        1 => Just(Op::HoldView),
        1 => (0..4usize).prop_map(Op::DropView),
        1 => (number(), 1..40u16).prop_map(|(start, length)| Op::Compact(start, length)),
        1 => any::<bool>().prop_map(Op::Reopen),
        2 => Just(Op::Sweep),
    ];
    prop::collection::vec(op, 0..300)
}

fn run_all(ops: &[Op], every: usize) {
    let mut run = Run::new();
    for (number, op) in ops.iter().enumerate() {
        run.step(op);
        if number % every == every - 1 {
            run.check();
        }
    }
    run.finish();
}

/// Name of the variable that names a bug to plant, in the process of [`directed`]'s choosing.
const PLANT: &str = "CLEAVEDB_TEST_PLANT";

#[test]
fn agrees_with_model_and_twin() {
    let mut config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    if let Ok(bug) = std::env::var(PLANT) {
        config.max_shrink_iters = 0;
        #[cfg(feature = "planted")]
        crate::base::planted::plant(Some(&bug));
        #[cfg(not(feature = "planted"))]
        panic!("{bug} cannot be planted in this build");
    }
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    runner
        .run(&ops(), |ops| {
            run_all(&ops, 40);
            Ok(())
        })
        .unwrap();
}

#[test]
#[cfg(feature = "marks")]
fn rare_events_are_met() {
    agrees_with_model_and_twin();
    let marks = crate::base::marks::marks();
    let expected = [
        "trivial_move",
        "subcompaction",
        "intra_level0",
        "manual_compaction",
        "stripe_kept_version",
        "range_tombstone_split",
        "merge_folded_in_compaction",
        "partial_merge_in_compaction",
        "operator_failed_in_compaction",
        "bottom_tombstone_dropped",
        "bottom_range_tombstone_dropped",
    ];
    let missing: Vec<_> = expected.iter().filter(|name| !marks.contains_key(*name)).collect();
    assert!(missing.is_empty(), "never met: {missing:?} of {marks:?}");
}

/// Each planted bug must make the random run fail, in a process of its own.
#[test]
#[cfg(feature = "planted")]
fn planted_bugs_are_caught() {
    let bugs = [
        "stripe_rule_oldest_snapshot",
        "drop_tombstone_above_bottom",
        "range_tombstone_not_truncated",
        "superseding_merge_kills_base",
        "compaction_forgets_a_file",
    ];
    let program = std::env::current_exe().unwrap();
    for bug in bugs {
        let outcome = std::process::Command::new(&program)
            .args(["index::lsm::tests::agrees_with_model_and_twin", "--exact"])
            .env(PLANT, bug)
            .env("RUST_BACKTRACE", "0")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert!(said.contains("running 1 test"), "{said}");
        assert!(!outcome.status.success(), "{bug} was not caught");
    }
}
