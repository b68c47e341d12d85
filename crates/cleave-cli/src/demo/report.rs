//! What the demo measured and found.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cleavedb::StrategyKind;
use cleavedb_bench::measure::{Latencies, LatencySummary};
use cleavedb_bench::report::bytes;
use serde::Serialize;

use crate::failure::Result;

/// Differences kept; more are only counted in the process's exit code.
const DIFFERENCES_MAX: usize = 1000;

/// One phase.
#[derive(Serialize)]
pub struct Phase {
    name: &'static str,
    operations: u64,
    bytes: u64,
    seconds: f64,
    latency_us: LatencySummary,
}

/// Measures the calls of a phase, and only them.
#[derive(Default)]
pub struct Meter {
    operations: u64,
    bytes: u64,
    time: Duration,
    latencies: Latencies,
}

impl Meter {
    /// Times one call of `operations` operations.
    pub fn call<T>(&mut self, operations: u64, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let outcome = work();
        let took = start.elapsed();
        self.time += took;
        self.latencies.record(took);
        self.operations += operations;
        outcome
    }

    /// Counts bytes that went through.
    pub fn bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

/// Amplification over everything up to the first close.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Space {
    /// Key and value bytes written.
    pub user_bytes_written: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Bytes of the newest versions.
    pub live_bytes: u64,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Bytes written to files by bytes written by the user.
    pub write_amplification: f64,
    /// Disk bytes by live bytes.
    pub space_amplification: f64,
}

/// What overwriting a part came to, until the room of what it superseded was given back.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Overwrite {
    /// Key and value bytes written.
    pub user_bytes_written: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Bytes of live values that garbage collection wrote again.
    pub bytes_moved: u64,
    /// Keys that it looked up in an index.
    pub index_reads: u64,
    /// Entries that it wrote into one.
    pub index_writes: u64,
}

/// What tells the stores apart.
#[derive(Clone, Copy, Serialize)]
pub struct Way {
    /// Values of so many bytes and more are in the value log.
    pub separate_at: Option<u32>,
    /// What becomes of those that are superseded.
    pub strategy: StrategyKind,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.separate_at {
            None => f.write_str("inline"),
            Some(_) => write!(f, "separated, {}", self.strategy),
        }
    }
}

/// One killed writer.
#[derive(Serialize)]
pub struct Kill {
    /// Batches acknowledged before the kill, counted from the first ever.
    pub acknowledged: u64,
    /// Batches found afterwards.
    pub recovered: u64,
    /// Time of reopening in milliseconds.
    pub recovery_ms: f64,
}

/// What was done to one store.
#[derive(Serialize)]
struct StoreRun {
    #[serde(flatten)]
    way: Way,
    phases: Vec<Phase>,
    overwrite: Overwrite,
    /// Amplification.
    #[serde(flatten)]
    space: Space,
}

impl StoreRun {
    fn find(&self, phase: &str) -> Option<&Phase> {
        self.phases.iter().find(|known| known.name == phase)
    }
}

/// All of it.
#[derive(Serialize)]
pub struct Report {
    folder: PathBuf,
    /// Files stored.
    files: u64,
    /// Their bytes.
    bytes: u64,
    /// Files left out.
    skipped: u64,
    /// One for each store.
    stores: Vec<StoreRun>,
    /// Killed writers.
    pub kills: Vec<Kill>,
    /// Files that `verify` checked at the end.
    pub verified_files: u64,
    /// What was not as it should be; empty if all is well.
    pub differences: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(folder: PathBuf, skipped: u64) -> Self {
        Self {
            folder,
            files: 0,
            bytes: 0,
            skipped,
            stores: Vec::new(),
            kills: Vec::new(),
            verified_files: 0,
            differences: Vec::new(),
        }
    }

    /// Begins with another store.
    pub fn begin(&mut self, way: Way) {
        let (phases, overwrite, space) = (Vec::new(), Overwrite::default(), Space::default());
        self.stores.push(StoreRun { way, phases, overwrite, space });
    }

    /// What tells the present store from the others.
    pub fn way(&self) -> Way {
        let inline = Way { separate_at: None, strategy: StrategyKind::default() };
        self.stores.last().map_or(inline, |store| store.way)
    }

    /// Notes what was stored: files may change between two stores, the last one counts.
    pub fn stored(&mut self, files: u64, bytes: u64, left_out: u64) {
        self.files = files;
        self.bytes = bytes;
        if self.stores.len() == 1 {
            self.skipped += left_out;
        }
    }

    /// Adds a phase.
    pub fn phase(&mut self, name: &'static str, meter: &Meter) {
        let Some(store) = self.stores.last_mut() else { return };
        store.phases.push(Phase {
            name,
            operations: meter.operations,
            bytes: meter.bytes,
            seconds: meter.time.as_secs_f64(),
            latency_us: meter.latencies.summary(),
        });
    }

    /// Runs a phase that is a single call.
    pub fn timed<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut meter = Meter::default();
        let outcome = meter.call(1, work)?;
        self.phase(name, &meter);
        Ok(outcome)
    }

    /// Notes the bytes of a phase after the fact.
    pub fn set_bytes(&mut self, name: &str, bytes: u64) {
        let phases = self.stores.last_mut().into_iter().flat_map(|store| &mut store.phases);
        if let Some(phase) = phases.into_iter().find(|phase| phase.name == name) {
            phase.bytes = bytes;
        }
    }

    /// Notes what the present store's bytes have come to.
    pub fn set_space(&mut self, space: Space) {
        if let Some(store) = self.stores.last_mut() {
            store.space = space;
        }
    }

    /// Notes what overwriting a part of the present store came to.
    pub fn set_overwrite(&mut self, overwrite: Overwrite) {
        if let Some(store) = self.stores.last_mut() {
            store.overwrite = overwrite;
        }
    }

    /// Notes something that is not as it should be.
    pub fn differ(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }

    /// One line for each phase, the stores side by side.
    fn write_phases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<13} {:>6} {:>10}", "", "", "")?;
        for store in &self.stores {
            let title = match store.way.separate_at {
                None => "values inline".to_owned(),
                Some(bytes) => format!("separated from {bytes} B, {}", store.way.strategy),
            };
            write!(f, " | {title:<33}")?;
        }
        write!(f, "\n{:<13} {:>6} {:>10}", "phase", "ops", "bytes")?;
        for _ in &self.stores {
            write!(f, " | {:>7} {:>7} {:>8} {:>8}", "seconds", "MB/s", "p50 us", "p99 us")?;
        }
        writeln!(f)?;
        let Some(last) = self.stores.last() else { return Ok(()) };
        for phase in &last.phases {
            write!(f, "{:<13} {:>6} {:>10}", phase.name, phase.operations, bytes(phase.bytes))?;
            for store in &self.stores {
                write_figures(f, store.find(phase.name))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn write_space(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for store in &self.stores {
            writeln!(
                f,
                "{}: write amplification {:.2} ({} for {}), space amplification {:.2} ({} for {})",
                store.way,
                store.space.write_amplification,
                bytes(store.space.bytes_written),
                bytes(store.space.user_bytes_written),
                store.space.space_amplification,
                bytes(store.space.disk_bytes),
                bytes(store.space.live_bytes),
            )?;
        }
        for store in &self.stores {
            let done = &store.overwrite;
            write!(
                f,
                "{}: overwriting took {} to files for {}",
                store.way,
                bytes(done.bytes_written),
                bytes(done.user_bytes_written)
            )?;
            if store.way.separate_at.is_some() {
                write!(
                    f,
                    ", {} of them moved values; collection looked up {} keys in the index and \
                     wrote {} entries into it",
                    bytes(done.bytes_moved),
                    done.index_reads,
                    done.index_writes
                )?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn write_figures(f: &mut fmt::Formatter<'_>, phase: Option<&Phase>) -> fmt::Result {
    let Some(phase) = phase else { return write!(f, " | {:>33}", "") };
    write!(
        f,
        " | {:>7.2} {:>7.1} {:>8.1} {:>8.1}",
        phase.seconds,
        phase.bytes as f64 / 1e6 / phase.seconds.max(1e-9),
        phase.latency_us.p50,
        phase.latency_us.p99,
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = match self.skipped {
            0 => String::new(),
            count => format!(" ({count} left out)"),
        };
        writeln!(
            f,
            "{}: {} files, {}{skipped}",
            self.folder.display(),
            self.files,
            bytes(self.bytes)
        )?;
        self.write_phases(f)?;
        self.write_space(f)?;
        for kill in &self.kills {
            writeln!(
                f,
                "killed while writing: {} batches acknowledged, {} found; reopened in {:.1} ms",
                kill.acknowledged, kill.recovered, kill.recovery_ms
            )?;
        }
        for difference in &self.differences {
            writeln!(f, "DIFFERENCE: {difference}")?;
        }
        if self.differences.is_empty() {
            writeln!(f, "all as it should be: every byte read back, {} files verified", {
                self.verified_files
            })?;
        }
        Ok(())
    }
}
