//! What a run found out, for a program (JSON) and for a person (a table).

use std::fmt::{self, Write};

use serde::Serialize;

use crate::device::DeviceReport;
use crate::measure::{DeviceBytes, LatencySummary};
use crate::phase::Phase;
use crate::runner::Plan;

/// One phase's figures.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// What one operation is.
    pub unit: &'static str,
    /// Operations done.
    pub operations: u64,
    /// Reads among them that found something.
    pub found: u64,
    /// Seconds from the first to the last operation.
    pub seconds: f64,
    /// Seconds until background work had caught up afterwards; 0 after phases that only read.
    pub settle_seconds: f64,
    /// Operations by [`PhaseReport::seconds`].
    pub operations_per_second: f64,
    /// Millions of key and value bytes, read or written, by [`PhaseReport::seconds`].
    pub megabytes_per_second: f64,
    /// Latency of one call, in microseconds; a batch, a scan or a multi-get is one call.
    pub latency_us: LatencySummary,
    /// Processor time of the whole process by operations, in microseconds, settling included.
    pub cpu_us_per_operation: f64,
    /// Bytes this process moved to and from the device, settling included.
    pub device_bytes: DeviceBytes,
    /// Key and value bytes the workload wrote.
    pub user_bytes_written: u64,
    /// Bytes this process sent to the device by [`PhaseReport::user_bytes_written`]: the write
    /// amplification that is measured alike for every engine.
    pub device_write_amplification: f64,
    /// Bytes the engine says it wrote by key and value bytes it was given; 0 for phases that only
    /// read.
    pub write_amplification: f64,
    /// Steps done by the seconds since the phase began, looked at at even intervals: where it
    /// is flat, the engine stood still.
    pub timeline: Vec<(f64, u64)>,
    /// Disk bytes by live bytes after the phase.
    pub space_amplification: f64,
    /// Disk bytes after the phase.
    pub disk_bytes: u64,
    /// Memory the engine says it uses after the phase.
    pub memory_bytes: u64,
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The engine's own name and version.
    pub engine: String,
    /// How it was opened.
    pub engine_settings: String,
    /// What was asked for.
    pub plan: Plan,
    /// What the device can do by itself, where the run measured it.
    pub device: Option<DeviceReport>,
    /// Phases in the order they ran.
    pub phases: Vec<PhaseReport>,
    /// The engine's own statistics at the end.
    pub engine_stats: serde_json::Value,
    /// Most memory the process had at any time of its life.
    pub peak_memory_bytes: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(
            f,
            "{}: {} pairs of {} + {} bytes, {} thread{}, batch {}, {}, {} of memory, seed {}",
            self.engine,
            plan.num,
            crate::data::KEY_BYTES,
            plan.value_bytes,
            plan.threads,
            if plan.threads == 1 { "" } else { "s" },
            plan.batch,
            if plan.settings.sync { "synced" } else { "buffered" },
            bytes(plan.settings.memory_budget),
            plan.seed,
        )?;
        if !self.engine_settings.is_empty() {
            writeln!(f, "settings: {}", self.engine_settings)?;
        }
        if let Some(device) = &self.device {
            write!(f, "{device}")?;
        }
        if self.phases.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "{:<12} {:>10} {:>8} {:>11} {:>8} {:>9} {:>9} {:>9} {:>10} {:>7} {:>6} {:>6}",
            "phase",
            "ops",
            "seconds",
            "ops/s",
            "MB/s",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "cpu us",
            "WA",
            "SA"
        )?;
        self.phases.iter().try_for_each(|phase| writeln!(f, "{}", row(phase)))
    }
}

fn row(phase: &PhaseReport) -> String {
    let latency = &phase.latency_us;
    let mut row = String::new();
    let _ = write!(
        row,
        "{:<12} {:>10} {:>8.2} {:>11.0} {:>8.1} {:>9.1} {:>9.1} {:>9.1} {:>10.0} {:>7.2}",
        phase.phase,
        phase.operations,
        phase.seconds,
        phase.operations_per_second,
        phase.megabytes_per_second,
        latency.p50,
        latency.p99,
        latency.p999,
        latency.max,
        phase.cpu_us_per_operation,
    );
    let amplification = |figure: f64| {
        if figure > 0.0 { format!("{figure:.2}") } else { "-".to_owned() }
    };
    let _ = write!(
        row,
        " {:>6} {:>6}",
        amplification(if phase.write_amplification > 0.0 {
            phase.write_amplification
        } else {
            phase.device_write_amplification
        }),
        amplification(phase.space_amplification)
    );
    if phase.settle_seconds >= 0.1 {
        let _ = write!(row, "  (+{:.1} s to settle)", phase.settle_seconds);
    }
    row
}

/// A number of bytes as people write it.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut figure = count as f64;
    let mut name = "B";
    for unit in UNITS {
        if figure < 1024.0 {
            break;
        }
        figure /= 1024.0;
        name = unit;
    }
    if name == "B" { format!("{count} B") } else { format!("{figure:.1} {name}") }
}

#[cfg(test)]
mod tests;
