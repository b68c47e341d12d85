//! Drives the phases of a [`Plan`] against an engine: threads, time limits, checks, figures.
//!
//! - R1: every value read must be one that was stored under its key, every scan in order; a wrong
//!   one ends the run with an error, because a fast wrong answer is not a result.
//! - R2: a phase's seconds end with its last operation; what the engine still owes is waited for
//!   afterwards and reported as settling, and counts in processor time and bytes written.
//! - R3: a time limit ends any phase but a load: what follows needs the load whole.
//! - R4: looks at sizes are between calls: their time is in no latency.

mod bare;
mod drive;
mod rest;
mod samples;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, KEY_BYTES};
use crate::device::{Probe, probe};
use crate::distribution::ZIPF_EXPONENT;
use crate::engine::{Engine, EngineStats, Settings};
use crate::engines;
use crate::measure::{
    DeviceBytes, Latencies, Timeline, peak_memory_bytes, phase_boundary, processor_time,
    resident_memory_bytes,
};
use crate::phase::Phase;
use crate::report::{PhaseReport, Report, Sample};
use crate::runner::bare::Bare;
use crate::runner::samples::Samples;
use crate::workload::{Generator, Mix, Shape};

/// How often the observer hears of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the engine, see [`engines::ALL`].
    pub engine: String,
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Items loaded by the fill phases.
    pub num: u64,
    /// Operations of each other phase; `None` for one for every item: a tenth for seeks, eight for
    /// missing keys.
    pub operations: Option<u64>,
    /// Bytes of each key: [`crate::data::KEY_BYTES`] to [`crate::data::KEY_BYTES_MAX`].
    #[serde(default = "key_bytes_usual")]
    pub key_bytes: usize,
    /// Bytes of each value, or of the largest.
    pub value_bytes: usize,
    /// Whether values have sizes from [`crate::data::MIXED_BYTES_MIN`] up to `value_bytes`.
    pub mixed_values: bool,
    /// Exponent of the phases `readzipf`, `overwritezipf` and `up2x`.
    pub zipf_exponent: f64,
    /// Shares of the phases that mix reads, puts and changes of parts.
    #[serde(default)]
    pub mix: Mix,
    /// Threads that work at the same time.
    pub threads: usize,
    /// Longest time of one phase in seconds; `None` for no limit. Loads are never cut short.
    pub seconds: Option<f64>,
    /// Writes committed together.
    pub batch: usize,
    /// Keys fetched together by `multiget`.
    pub multi_get_keys: usize,
    /// Pairs read after each seek.
    pub seek_pairs: usize,
    /// Pairs in one run of a scan.
    pub scan_pairs: usize,
    /// Items that `readonce` and `multigetonce` pass over: what phases before them have read.
    #[serde(default)]
    pub skip: u64,
    /// Seed of keys, values and choices.
    pub seed: u64,
    /// Bytes of the device probe's file.
    pub device_bytes: u64,
    /// Seconds of reading at each depth of the device probe.
    pub device_seconds: f64,
    /// Whether the store is left as a process leaves it that dies: nothing is flushed or waited
    /// for after the phase, and the engine is not closed.
    #[serde(default)]
    pub abandoned: bool,
    /// Whether the engine is left to itself after the phase: nothing is flushed, and no background
    /// work waited for.
    #[serde(default)]
    pub unaided: bool,
    /// How often sizes are looked at during a phase, at even intervals of its operations.
    #[serde(default)]
    pub samples: u64,
    /// Seconds without a change of the store's files that end a rest.
    #[serde(default)]
    pub stable_seconds: f64,
    /// Whether instructions are being counted: then nothing looks at the engine during a phase.
    #[serde(default)]
    pub counted: bool,
    /// How the engine is opened.
    pub settings: Settings,
}

fn key_bytes_usual() -> usize {
    KEY_BYTES
}

impl Plan {
    /// The keys and values of its runs.
    #[must_use]
    pub fn dataset(&self) -> Dataset {
        Dataset::new(self.num, self.value_bytes, self.seed)
            .with_key_bytes(self.key_bytes)
            .with_mixed_sizes(self.mixed_values)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            engine: "cleavedb".to_owned(),
            phases: Phase::USUAL.to_vec(),
            num: 1_000_000,
            operations: None,
            key_bytes: KEY_BYTES,
            value_bytes: 100,
            mixed_values: false,
            zipf_exponent: ZIPF_EXPONENT,
            mix: Mix::default(),
            threads: 1,
            seconds: None,
            batch: 1,
            multi_get_keys: 32,
            seek_pairs: 50,
            scan_pairs: 10_000,
            skip: 0,
            seed: 1,
            device_bytes: Probe::default().file_bytes,
            device_seconds: Probe::default().read_time.as_secs_f64(),
            abandoned: false,
            unaided: false,
            samples: 0,
            stable_seconds: 1.0,
            counted: false,
            settings: Settings::default(),
        }
    }
}

impl Plan {
    fn shape(&self) -> Shape {
        Shape {
            num: self.num.max(1),
            operations: self.operations,
            seek_pairs: self.seek_pairs,
            scan_pairs: self.scan_pairs,
            skip: self.skip,
            threads: self.threads.max(1),
            zipf_exponent: self.zipf_exponent,
            mix: self.mix,
            seed: self.seed,
        }
    }
}

/// Is told how a run goes, from the thread that called [`run`].
pub trait Observer {
    /// A phase begins; `steps` in all.
    fn started(&mut self, phase: Phase, steps: u64) {
        let _ = (phase, steps);
    }
    /// So many steps are done.
    fn advanced(&mut self, steps: u64) {
        let _ = steps;
    }
    /// The phase has ended; background work is being waited for.
    fn settling(&mut self, phase: Phase) {
        let _ = phase;
    }
    /// All of the phase has ended.
    fn finished(&mut self, phase: Phase) {
        let _ = phase;
    }
}

/// An observer that is not interested.
pub struct Silent;

impl Observer for Silent {}

/// Runs a plan on a store in `dir`, which is created if need be and stays.
///
/// # Errors
/// The engine's errors, with the phase in which they came; wrong answers of the engine.
pub fn run(plan: &Plan, dir: &Path, observer: &mut dyn Observer) -> Result<Report> {
    let steps = plan.phases.iter().map(|&phase| Plan { phases: vec![phase], ..plan.clone() });
    run_steps(plan, &steps.collect::<Vec<_>>(), dir, observer)
}

/// The same with a plan of its own for each phase. Engine, items, values and settings are those of
/// `plan`; each of `steps` has one phase, and its own operations, threads, shares and so on.
///
/// # Errors
/// As for [`run`].
pub fn run_steps(
    plan: &Plan,
    steps: &[Plan],
    dir: &Path,
    observer: &mut dyn Observer,
) -> Result<Report> {
    if steps.iter().flat_map(|step| &step.phases).all(|phase| *phase == Phase::Device) {
        let device = Some(probe_device(plan, dir, observer)?);
        return Ok(Report { device, ..Report::of(plan) });
    }
    let engine = engines::open(&plan.engine, dir, &plan.settings)?;
    run_opened(engine, plan, steps, dir, observer)
}

/// The same on a store that is open.
///
/// # Errors
/// As for [`run`].
pub fn run_opened(
    engine: Box<dyn Engine>,
    plan: &Plan,
    steps: &[Plan],
    dir: &Path,
    observer: &mut dyn Observer,
) -> Result<Report> {
    let (name, engine_settings) = (engine.name(), engine.settings());
    let mut report = Report { engine: name, engine_settings, ..Report::of(plan) };
    let data = plan.dataset();
    let items = AtomicU64::new(plan.num.max(1));
    let bare = Bare::beside(dir);
    for (plan, &phase) in steps.iter().flat_map(|step| step.phases.iter().map(move |p| (step, p))) {
        if phase == Phase::Device {
            report.device = Some(probe_device(plan, dir, observer)?);
            continue;
        }
        let engine = engine.as_ref();
        let (data, items, bare) = (&data, &items, &bare);
        let stage = Stage { plan, phase, engine, dir, data, items, bare };
        let figures = stage.run(observer).with_context(|| format!("phase {phase}"))?;
        report.phases.push(figures);
        observer.finished(phase);
    }
    report.engine_stats = engine.stats().detail;
    report.peak_memory_bytes = peak_memory_bytes();
    report.resident_memory_bytes = resident_memory_bytes();
    if plan.abandoned {
        // Its threads go on until the process ends, which is to be soon.
        std::mem::forget(engine);
    }
    Ok(report)
}

fn probe_device(
    plan: &Plan,
    dir: &Path,
    observer: &mut dyn Observer,
) -> Result<crate::device::DeviceReport> {
    observer.started(Phase::Device, 0);
    // Beside the store, never in it: the directory may not exist yet and belongs to the engine.
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let settings = Probe {
        file_bytes: plan.device_bytes,
        read_time: Duration::try_from_secs_f64(plan.device_seconds).unwrap_or_default(),
        seed: plan.seed,
        ..Probe::default()
    };
    let figures = probe(parent, &settings).context("phase device")?;
    observer.finished(Phase::Device);
    Ok(figures)
}

/// What one thread did.
#[derive(Default)]
struct Outcome {
    latencies: Latencies,
    /// Of single reads and of single writes, where they take turns.
    reads: Latencies,
    writes: Latencies,
    operations: u64,
    found: u64,
    bytes: u64,
    written: u64,
    /// Calls that took long.
    long: watch::Long,
    /// Of all threads together; empty for one of them.
    timeline: Timeline,
    samples: Vec<Sample>,
    /// When the last call came back: a thread takes time to end, and its end is noticed late.
    ended: Option<Instant>,
    /// Whether the time was up before the steps were.
    cut_short: bool,
}

/// One phase about to run.
struct Stage<'a> {
    plan: &'a Plan,
    phase: Phase,
    engine: &'a dyn Engine,
    /// The store's folder.
    dir: &'a Path,
    data: &'a Dataset,
    items: &'a AtomicU64,
    bare: &'a Bare,
}

/// What the threads of a phase share.
struct Progress<'a> {
    start: Instant,
    deadline: Option<Instant>,
    steps: AtomicU64,
    stop: AtomicBool,
    /// Looks at sizes, where there are to be any.
    samples: Option<Samples<'a>>,
}

impl Progress<'_> {
    /// Counts steps of a thread; says whether it looked at sizes, which are due now and then.
    fn advance(&self, steps: u64) -> bool {
        let before = self.steps.fetch_add(steps, Ordering::Relaxed);
        self.samples.as_ref().is_some_and(|samples| samples.look(before, before + steps))
    }
}

impl Stage<'_> {
    fn run(&self, observer: &mut dyn Observer) -> Result<PhaseReport> {
        observer.started(self.phase, self.plan.shape().steps(self.phase));
        self.bare.prepare(self.phase, self.data).context("preparing files beside the store")?;
        let stats_before = self.engine.stats();
        let mut watch = watch::Watch::begin(self.engine, !self.plan.counted);
        phase_boundary(0);
        let (processor_before, device_before) = (processor_time(), DeviceBytes::now());
        let (asked_before, requests_before) = (DeviceBytes::asked(), self.bare.requests());
        let start = Instant::now();
        let outcome = self.work(start, &mut watch, observer)?;
        let ended = outcome.ended.unwrap_or_else(Instant::now);
        let seconds = ended.duration_since(start).as_secs_f64().max(1e-9);
        let settle_seconds = self.settle(observer)?;
        let processor = processor_time().saturating_sub(processor_before);
        let device_bytes = DeviceBytes::now().since(device_before);
        let process_bytes = DeviceBytes::asked().since(asked_before);
        let requests = self.bare.requests().zip(requests_before);
        let device_requests = requests.map(|(after, before)| after.since(before));
        phase_boundary(1);
        let stats = self.engine.stats();
        let operations = outcome.operations.max(1) as f64;
        let seen = watch.finish(outcome.long.count, outcome.long.longest);
        Ok(PhaseReport {
            phase: self.phase,
            unit: self.phase.unit(),
            operations: outcome.operations,
            found: outcome.found,
            seconds,
            cut_short: outcome.cut_short,
            settle_seconds,
            operations_per_second: outcome.operations as f64 / seconds,
            megabytes_per_second: outcome.bytes as f64 / 1e6 / seconds,
            latency_us: outcome.latencies.summary(),
            read_latency_us: self.phase.mixes().then(|| outcome.reads.summary()),
            write_latency_us: self.phase.mixes().then(|| outcome.writes.summary()),
            cpu_us_per_operation: processor.as_secs_f64() * 1e6 / operations,
            device_bytes,
            process_bytes,
            device_requests,
            user_bytes_written: outcome.written,
            device_write_amplification: crate::engine::ratio(device_bytes.written, outcome.written),
            write_amplification: if self.phase.writes() {
                write_amplification(&stats_before, &stats)
            } else {
                0.0
            },
            space_amplification: stats.space_amplification(),
            timeline: outcome.timeline.into_looks(),
            disk_timeline: seen.disk,
            value_timeline: seen.values,
            disk_bytes_max: seen.disk_max,
            value_file_bytes_max: seen.values_max,
            waits: seen.waits,
            read_counters: read_counters(stats_before.read_counters, &stats),
            samples: outcome.samples,
            engine_bytes_written: stats.bytes_written.saturating_sub(stats_before.bytes_written),
            disk_bytes: stats.disk_bytes,
            value_file_bytes: stats.value_file_bytes,
            value_live_bytes: stats.value_live_bytes,
            index_bytes: stats.index_bytes,
            collection: stats
                .collection
                .map(|after| after.since(stats_before.collection.unwrap_or_default())),
            live_bytes: stats.live_bytes,
            memory_bytes: stats.memory_bytes,
        })
    }

    /// Waits for what is still owed after the last operation; gives the seconds.
    fn settle(&self, observer: &mut dyn Observer) -> Result<f64> {
        if self.phase.is_bare() {
            return self.bare.finish(self.phase);
        }
        if !self.phase.writes() || self.plan.abandoned || self.plan.unaided {
            return Ok(0.0);
        }
        observer.settling(self.phase);
        let settling = Instant::now();
        self.engine.flush()?;
        self.engine.settle()?;
        Ok(settling.elapsed().as_secs_f64())
    }

    /// Runs the threads, tells the observer, and adds their outcomes up.
    fn work(
        &self,
        start: Instant,
        watch: &mut watch::Watch<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let limit = self.plan.seconds.filter(|_| !self.phase.loads());
        let limit = limit.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let sampled = self.plan.samples > 0 || self.phase == Phase::Rest;
        let every = self.plan.shape().steps(self.phase) / self.plan.samples.max(1);
        let samples = sampled.then(|| Samples::new(self.engine, self.dir, start, every));
        let progress = Progress {
            start,
            deadline: limit.and_then(|limit| start.checked_add(limit)),
            steps: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            samples,
        };
        if let Some(samples) = &progress.samples {
            samples.take(0);
        }
        let mut timeline = Timeline::default();
        let caller = std::thread::current();
        let outcomes: Vec<Result<Outcome>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.plan.threads.max(1))
                .map(|thread| {
                    let (progress, caller) = (&progress, caller.clone());
                    scope.spawn(move || {
                        let outcome = self.thread(thread, progress);
                        if outcome.is_err() {
                            progress.stop.store(true, Ordering::Relaxed);
                        }
                        caller.unpark();
                        outcome
                    })
                })
                .collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                let steps = progress.steps.load(Ordering::Relaxed);
                timeline.look(start.elapsed().as_secs_f64(), steps);
                watch.maybe_look();
                observer.advanced(steps);
                std::thread::park_timeout(PROGRESS_INTERVAL);
            }
            let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Outcome>>| {
                worker.join().unwrap_or_else(|_| Err(anyhow!("a benchmark thread panicked")))
            };
            workers.into_iter().map(join).collect()
        });
        let steps = progress.steps.load(Ordering::Relaxed);
        timeline.look(start.elapsed().as_secs_f64(), steps);
        let samples = progress.samples.map(|samples| samples.finish(steps)).unwrap_or_default();
        let mut sum = Outcome { timeline, samples, ..Outcome::default() };
        for outcome in outcomes {
            let outcome = outcome?;
            sum.latencies.merge(&outcome.latencies);
            sum.reads.merge(&outcome.reads);
            sum.writes.merge(&outcome.writes);
            sum.operations += outcome.operations;
            sum.found += outcome.found;
            sum.long.merge(outcome.long);
            sum.bytes += outcome.bytes;
            sum.written += outcome.written;
            sum.ended = sum.ended.max(outcome.ended);
            sum.cut_short |= outcome.cut_short;
        }
        Ok(sum)
    }

    fn thread(&self, thread: usize, progress: &Progress<'_>) -> Result<Outcome> {
        if self.phase == Phase::Rest {
            return rest::rest(self.plan, thread, progress);
        }
        if self.phase.is_bare() {
            return self.bare.thread(self.phase, &self.plan.shape(), thread, progress);
        }
        let generator = Generator::new(self.phase, self.plan.shape(), thread, self.items);
        drive::Driver::new(self.engine, self.data, self.plan, self.phase).run(generator, progress)
    }
}

/// What was counted of reads since `before`.
fn read_counters(before: BTreeMap<String, u64>, after: &EngineStats) -> BTreeMap<String, u64> {
    let mut counters = after.read_counters.clone();
    for (name, count) in before {
        counters.entry(name).and_modify(|now| *now = now.saturating_sub(count));
    }
    counters
}

fn write_amplification(before: &EngineStats, after: &EngineStats) -> f64 {
    crate::engine::ratio(
        after.bytes_written.saturating_sub(before.bytes_written),
        after.user_bytes_written.saturating_sub(before.user_bytes_written),
    )
}

/// Key and value bytes of one pair.
fn pair_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64
}

#[cfg(test)]
mod tests;
