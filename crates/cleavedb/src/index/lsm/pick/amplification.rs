//! Bytes written by cause, without I/O: the decisions of this module against uniform random keys.
//!
//! A writer, one flush and some jobs share a simulated time in which a job takes as long as its
//! bytes take; what comes out is close to what a device is written under the same load. Run with
//! `--nocapture` to see the figures.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::*;
use crate::base::entry::FileId;
use crate::base::widths::Widths;
use crate::index::lsm::shape::{FileShape, Hull, LAST_LEVEL, Reserved, Shape};

/// Bytes of an entry with a value; so large that a memtable holds a thousand of them.
const VALUE_BYTES: u64 = 64 << 10;
/// Bytes of an entry that holds a counter, and what it takes in memory.
const COUNTER_BYTES: u64 = VALUE_BYTES / 32;
const COUNTER_MEMORY_BYTES: u64 = VALUE_BYTES / 10;
/// Bytes a second: of the writer, of one job. Compaction falls behind at times, as in production.
const WRITER_RATE: f64 = 150e6;
const JOB_RATE: f64 = 350e6;
const JOBS: usize = 2;
/// Runs from which on writers would be slowed down.
const RUNS_MAX: usize = 32;

/// A key, and whether its newest entry is a counter's operand rather than a value.
type Entry = (u64, bool);

/// Bytes written since the last look.
#[derive(Debug, Default)]
struct Written {
    user: u64,
    flush: u64,
    intra_level0: u64,
    /// By output level.
    merges: BTreeMap<usize, u64>,
    level0_runs_max: usize,
}

impl Written {
    /// Flush and compaction; the journal comes on top.
    fn amplification(&self) -> f64 {
        let merges: u64 = self.merges.values().sum();
        (self.flush + self.intra_level0 + merges) as f64 / self.user as f64
    }
}

struct Job {
    end: f64,
    ticket: u64,
    pick: Pick,
}

struct Model {
    widths: Widths,
    levels: Vec<Vec<Arc<FileShape>>>,
    entries: HashMap<FileId, Vec<Entry>>,
    busy: HashSet<FileId>,
    reserved: Vec<Reserved>,
    jobs: Vec<Job>,
    frozen: VecDeque<Vec<Entry>>,
    flush_end: Option<f64>,
    active: BTreeMap<u64, bool>,
    active_bytes: u64,
    now: f64,
    last_id: u64,
    random: u64,
    written: Written,
}

fn bytes_of(entries: &[Entry]) -> u64 {
    entries.iter().map(|&(_, counter)| if counter { COUNTER_BYTES } else { VALUE_BYTES }).sum()
}

impl Model {
    fn new(memory_budget: u64) -> Self {
        Self {
            widths: Widths::for_budget(memory_budget),
            levels: vec![Vec::new(); LAST_LEVEL + 1],
            entries: HashMap::new(),
            busy: HashSet::new(),
            reserved: Vec::new(),
            jobs: Vec::new(),
            frozen: VecDeque::new(),
            flush_end: None,
            active: BTreeMap::new(),
            active_bytes: 0,
            now: 0.0,
            last_id: 0,
            random: 88_172_645_463_325_252,
            written: Written::default(),
        }
    }

    fn random_below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn file(&mut self, entries: Vec<Entry>) -> Arc<FileShape> {
        let id = FileId(self.next_id());
        let key = |entry: Option<&Entry>| entry.unwrap().0.to_be_bytes().as_slice().into();
        let shape = FileShape {
            id,
            bytes: bytes_of(&entries),
            hull: Hull {
                smallest: key(entries.first()),
                largest: key(entries.last()),
                exclusive: false,
            },
            entries: entries.len() as u64,
            tombstones: 0,
            range_tombstones: 0,
            merges: 0,
            hidden: 0,
            smallest_seq: 0,
            tick: 0,
        };
        self.entries.insert(id, entries);
        Arc::new(shape)
    }

    /// Writes one entry; waits where too many memtables wait.
    fn write(&mut self, key: u64, counter: bool) {
        let bytes = if counter { COUNTER_BYTES } else { VALUE_BYTES };
        self.written.user += bytes;
        self.active_bytes += if counter { COUNTER_MEMORY_BYTES } else { VALUE_BYTES };
        self.active.entry(key).and_modify(|is_counter| *is_counter &= counter).or_insert(counter);
        self.run_until(self.now + VALUE_BYTES as f64 / WRITER_RATE);
        while self.frozen.len() > self.widths.frozen_memtables_max {
            self.run_until(self.now + 0.001);
        }
        if self.active_bytes >= self.widths.memtable_bytes {
            self.frozen.push_back(std::mem::take(&mut self.active).into_iter().collect());
            self.active_bytes = 0;
            self.start_work();
        }
    }

    /// Runs until nothing is due.
    fn settle(&mut self) -> Written {
        self.start_work();
        while !self.jobs.is_empty() || self.flush_end.is_some() {
            self.run_until(self.now + 0.1);
        }
        std::mem::take(&mut self.written)
    }

    fn run_until(&mut self, moment: f64) {
        loop {
            let job = (0..self.jobs.len())
                .min_by(|&a, &b| self.jobs[a].end.total_cmp(&self.jobs[b].end))
                .filter(|&job| self.jobs[job].end <= moment);
            let job_end = job.map_or(f64::MAX, |job| self.jobs[job].end);
            if let Some(end) = self.flush_end.filter(|&end| end <= moment && end <= job_end) {
                self.now = end;
                self.flush_end = None;
                let entries = self.frozen.pop_front().unwrap();
                let file = self.file(entries);
                self.written.flush += file.bytes;
                self.levels[0].insert(0, file);
            } else if let Some(job) = job {
                let job = self.jobs.swap_remove(job);
                self.now = job.end;
                self.finish(job);
            } else {
                self.now = moment;
                return;
            }
            let runs = self.levels[0].len();
            self.written.level0_runs_max = self.written.level0_runs_max.max(runs);
            self.start_work();
        }
    }

    fn start_work(&mut self) {
        if self.flush_end.is_none()
            && let Some(oldest) = self.frozen.front()
        {
            self.flush_end = Some(self.now + bytes_of(oldest) as f64 / (2.0 * JOB_RATE));
        }
        while self.jobs.len() < JOBS {
            let shape = Shape {
                levels: self.levels.clone(),
                busy: &self.busy,
                reserved: &self.reserved,
                widths: &self.widths,
                compression: &[],
                parallelism: JOBS,
            };
            let Some(pick) = pick(&shape) else { return };
            let files = pick.inputs.iter().chain(&pick.overlap);
            let bytes: u64 = files.clone().map(|file| file.bytes).sum();
            self.busy.extend(files.map(|file| file.id));
            let ticket = self.next_id();
            let (input_level, output_level) = (pick.input_level, pick.output_level);
            let hull = pick.hull.clone();
            self.reserved.push(Reserved { ticket, input_level, output_level, hull });
            let parts = 1.0 + pick.splits.len() as f64 / 2.0;
            let moved = pick.kind == PickKind::Move;
            let takes = if moved { 0.001 } else { bytes as f64 / JOB_RATE / parts };
            self.jobs.push(Job { end: self.now + takes, ticket, pick });
        }
    }

    fn finish(&mut self, Job { ticket, pick, .. }: Job) {
        self.reserved.retain(|reserved| reserved.ticket != ticket);
        let files: Vec<_> = pick.inputs.iter().chain(&pick.overlap).cloned().collect();
        let ids: HashSet<FileId> = files.iter().map(|file| file.id).collect();
        self.busy.retain(|id| !ids.contains(id));
        let at = self.levels[0].iter().position(|file| ids.contains(&file.id));
        for level in &mut self.levels {
            level.retain(|file| !ids.contains(&file.id));
        }
        let output = pick.output_level;
        if pick.kind == PickKind::Move {
            self.levels[output].extend(pick.inputs);
        } else {
            let mut merged: BTreeMap<u64, bool> = BTreeMap::new();
            for (key, counter) in
                files.iter().flat_map(|file| self.entries.remove(&file.id)).flatten()
            {
                merged
                    .entry(key)
                    .and_modify(|is_counter| *is_counter &= counter)
                    .or_insert(counter);
            }
            let merged: Vec<Entry> = merged.into_iter().collect();
            let bytes = bytes_of(&merged);
            if pick.kind == PickKind::IntraLevel0 {
                self.written.intra_level0 += bytes;
                let run = self.file(merged);
                self.levels[0].insert(at.unwrap(), run);
                return;
            }
            *self.written.merges.entry(output).or_default() += bytes;
            let per_table = (self.widths.table_bytes / VALUE_BYTES) as usize;
            for part in merged.chunks(per_table) {
                let table = self.file(part.to_vec());
                self.levels[output].push(table);
            }
        }
        self.levels[output].sort_by(|a, b| a.hull.smallest.cmp(&b.hull.smallest));
    }
}

/// Values for all keys in random order, all of them overwritten at random, then counters added.
fn load(memory_budget: u64, data_bytes: u64) -> [Written; 3] {
    let mut model = Model::new(memory_budget);
    let keys = data_bytes / VALUE_BYTES;
    let mut order: Vec<u64> = (0..keys).collect();
    for at in (1..order.len()).rev() {
        let other = model.random_below(at as u64 + 1) as usize;
        order.swap(at, other);
    }
    order.into_iter().for_each(|key| model.write(key, false));
    let filled = model.settle();
    for _ in 0..keys {
        let key = model.random_below(keys);
        model.write(key, false);
    }
    let overwritten = model.settle();
    for _ in 0..keys {
        let key = model.random_below(keys);
        model.write(key, true);
    }
    let added = model.settle();
    for written in [&filled, &overwritten, &added] {
        println!(
            "budget_mib={} data_mib={} amplification={:.2} {written:?}",
            memory_budget >> 20,
            data_bytes >> 20,
            written.amplification()
        );
    }
    [filled, overwritten, added]
}

#[test]
fn random_writes_are_not_written_again_too_often() {
    for (memory_budget, data_bytes, fill_max, overwrite_max) in [
        (512 << 20, 1 << 30, 2.7, 3.2),
        (2 << 30, 1 << 30, 2.7, 3.2),
        (512 << 20, 5 << 30, 4.8, 6.9),
    ] {
        let [filled, overwritten, added] = load(memory_budget, data_bytes);
        assert!(filled.amplification() < fill_max, "{filled:?}");
        assert!(overwritten.amplification() < overwrite_max, "{overwritten:?}");
        // What the overwrites left in level 0 may go down now, once.
        assert!(added.merges.values().sum::<u64>() < data_bytes, "{added:?}");
        for written in [filled, overwritten, added] {
            assert!(written.level0_runs_max <= RUNS_MAX, "{written:?}");
        }
    }
}

/// Counters alone, in ever more small runs, beside a base of many times their size.
#[test]
fn small_runs_do_not_rewrite_a_large_base() {
    let mut model = Model::new(512 << 20);
    let keys = (1 << 30) / VALUE_BYTES;
    (0..keys).for_each(|key| model.write(key, false));
    model.settle();
    for _ in 0..16 * keys {
        let key = model.random_below(keys);
        model.write(key, true);
    }
    let added = model.settle();
    println!("counters amplification={:.2} {added:?}", added.amplification());
    assert!(added.amplification() < 2.0, "{added:?}");
    assert!(added.level0_runs_max <= RUNS_MAX, "{added:?}");
}
