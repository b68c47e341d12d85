//! What the demo measured and found.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
#[derive(Default, Serialize)]
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

/// All of it.
#[derive(Serialize)]
pub struct Report {
    folder: PathBuf,
    /// Files stored.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files left out.
    pub skipped: u64,
    phases: Vec<Phase>,
    /// Amplification.
    #[serde(flatten)]
    pub space: Space,
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
            phases: Vec::new(),
            space: Space::default(),
            kills: Vec::new(),
            verified_files: 0,
            differences: Vec::new(),
        }
    }

    /// Adds a phase.
    pub fn phase(&mut self, name: &'static str, meter: &Meter) {
        self.phases.push(Phase {
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
        if let Some(phase) = self.phases.iter_mut().find(|phase| phase.name == name) {
            phase.bytes = bytes;
        }
    }

    /// Notes something that is not as it should be.
    pub fn differ(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }
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
        writeln!(
            f,
            "{:<13} {:>9} {:>10} {:>8} {:>9} {:>11} {:>10} {:>10}",
            "phase", "ops", "bytes", "seconds", "MB/s", "ops/s", "p50 us", "p99 us"
        )?;
        for phase in &self.phases {
            let seconds = phase.seconds.max(1e-9);
            writeln!(
                f,
                "{:<13} {:>9} {:>10} {:>8.2} {:>9.1} {:>11.0} {:>10.1} {:>10.1}",
                phase.name,
                phase.operations,
                bytes(phase.bytes),
                phase.seconds,
                phase.bytes as f64 / 1e6 / seconds,
                phase.operations as f64 / seconds,
                phase.latency_us.p50,
                phase.latency_us.p99,
            )?;
        }
        writeln!(
            f,
            "write amplification {:.2} ({} for {}), space amplification {:.2} ({} for {})",
            self.space.write_amplification,
            bytes(self.space.bytes_written),
            bytes(self.space.user_bytes_written),
            self.space.space_amplification,
            bytes(self.space.disk_bytes),
            bytes(self.space.live_bytes),
        )?;
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
