//! What a run found out, for a program (JSON) and for a person (a table).

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;

use crate::device::DeviceReport;
use crate::engine::Collection;
use crate::measure::{DeviceBytes, DeviceRequests, LatencySummary};
use crate::phase::Phase;
use crate::runner::Plan;

/// A call that took long.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wait {
    /// When it ended, in seconds since the phase began.
    pub at_seconds: f64,
    /// How long it took.
    pub milliseconds: f64,
    /// Why the engine delayed writers around that time, most time first; empty where it keeps no
    /// such account or had no reason: then the time went to the device or to other processes.
    pub reasons: Vec<String>,
}

/// Delays of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// Times.
    pub count: u64,
    /// Microseconds in all.
    pub micros: u64,
}

/// The long calls of a phase; runs of `scan` and `scanreverse` are none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Waits {
    /// Milliseconds from which on a call is long.
    pub above_ms: u64,
    /// How many there were.
    pub count: u64,
    /// The longest of them, the longest first.
    pub longest: Vec<Wait>,
    /// All delays of the phase, the short ones too, by the engine's own reason.
    pub stalls: BTreeMap<String, Stall>,
}

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
    /// Whether a time limit ended it before all of its operations were done.
    pub cut_short: bool,
    /// Seconds until background work had caught up afterwards; 0 after phases that only read.
    pub settle_seconds: f64,
    /// Operations by [`PhaseReport::seconds`].
    pub operations_per_second: f64,
    /// Millions of key and value bytes, read or written, by [`PhaseReport::seconds`].
    pub megabytes_per_second: f64,
    /// Latency of one call, in microseconds; a batch, a scan or a multi-get is one call.
    pub latency_us: LatencySummary,
    /// Of the reads alone, where reads and writes take turns.
    pub read_latency_us: Option<LatencySummary>,
    /// Of the writes alone, where reads and writes take turns.
    pub write_latency_us: Option<LatencySummary>,
    /// Processor time of the whole process by operations, in microseconds, settling included.
    pub cpu_us_per_operation: f64,
    /// Bytes this process moved to and from the device, settling included.
    pub device_bytes: DeviceBytes,
    /// Bytes this process asked the kernel to read and write, by whatever came from the page
    /// cache and by logs as well; memory maps do not count.
    pub process_bytes: DeviceBytes,
    /// What the whole device that holds the store was asked for meanwhile, by the kernel's
    /// account, whoever asked; absent where the kernel keeps none for this file system.
    pub device_requests: Option<DeviceRequests>,
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
    /// Disk bytes by the seconds since the phase began, settling included.
    pub disk_timeline: Vec<(f64, u64)>,
    /// Bytes of files with values apart, by the seconds since the phase began; empty where there
    /// are none.
    pub value_timeline: Vec<(f64, u64)>,
    /// Most disk bytes at any look.
    pub disk_bytes_max: u64,
    /// Most bytes of files with values apart at any look.
    pub value_file_bytes_max: u64,
    /// Sizes at even intervals of operations, or whenever they had changed while resting; empty
    /// where nothing was to be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Bytes the engine says it wrote in this phase, settling included; 0 where it does not tell.
    pub engine_bytes_written: u64,
    /// What the engine counted of its reads in this phase, by name, where it was asked to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub read_counters: BTreeMap<String, u64>,
    /// Calls that took long, and why.
    pub waits: Waits,
    /// Disk bytes by live bytes after the phase.
    pub space_amplification: f64,
    /// Disk bytes after the phase.
    pub disk_bytes: u64,
    /// Bytes of files with values apart after the phase.
    pub value_file_bytes: u64,
    /// Bytes of the valid records in them, as far as the engine knows.
    pub value_live_bytes: u64,
    /// Bytes of the files that hold keys after the phase, where the engine tells.
    pub index_bytes: Option<u64>,
    /// What cleaning of values stored apart did in the phase, settling included, where the engine
    /// tells.
    pub collection: Option<Collection>,
    /// Bytes of the newest versions, as the engine estimates.
    pub live_bytes: u64,
    /// Memory the engine says it uses after the phase.
    pub memory_bytes: u64,
}

/// Sizes of a store at one moment of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Steps of the phase done until then.
    pub operations: u64,
    /// Seconds since the phase began.
    pub seconds: f64,
    /// Bytes that the store's folder takes on the device, room set aside ahead included.
    pub folder_bytes: u64,
    /// Bytes of all files, by the engine's account.
    pub disk_bytes: u64,
    /// Bytes of files with values apart, by the engine's account; 0 where it has or tells none.
    pub value_file_bytes: u64,
    /// Bytes of the valid records in them, as far as the engine knows.
    pub value_live_bytes: u64,
    /// Bytes the engine wrote since it was opened, by its own account.
    pub bytes_written: u64,
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
    /// Resident memory of the process at the end, the engine still open.
    pub resident_memory_bytes: u64,
}

impl Report {
    /// One of a plan of which nothing has been run yet.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self {
            engine: plan.engine.clone(),
            engine_settings: String::new(),
            plan: plan.clone(),
            device: None,
            phases: Vec::new(),
            engine_stats: serde_json::Value::Null,
            peak_memory_bytes: 0,
            resident_memory_bytes: 0,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(
            f,
            "{}: {} pairs of {} + {} bytes, {} thread{}, batch {}, {}, {} of memory, seed {}",
            self.engine,
            plan.num,
            plan.key_bytes,
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
    if phase.cut_short {
        row.push_str("  (cut short)");
    }
    if phase.settle_seconds >= 0.1 {
        let _ = write!(row, "  (+{:.1} s to settle)", phase.settle_seconds);
    }
    row
}

/// The long calls and delays of a phase over several runs, from their JSON, in words: all of them
/// counted, the longest of all, every reason; `None` if there were none.
#[must_use]
pub fn waits_of(runs: &[&serde_json::Value]) -> Option<String> {
    use serde_json::Value;
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let float = |value: &Value, name: &str| value.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let waits = || runs.iter().filter_map(|figures| figures.get("waits"));
    let mut out = String::new();
    let count: u64 = waits().map(|waits| number(waits, "count")).sum();
    if count > 0 {
        let above = waits().map(|waits| number(waits, "above_ms")).max().unwrap_or(0);
        let _ = write!(out, "{count} calls above {above} ms");
    }
    let longest = waits().filter_map(|waits| waits.get("longest")?.get(0));
    let length = |wait: &&Value| float(wait, "milliseconds");
    if let Some(wait) = longest.max_by(|one, other| length(one).total_cmp(&length(other))) {
        let reasons = wait.get("reasons").and_then(Value::as_array).into_iter().flatten();
        let reasons: Vec<_> = reasons.filter_map(Value::as_str).collect();
        let _ = write!(
            out,
            ", the longest {:.0} ms after {:.1} s ({})",
            float(wait, "milliseconds"),
            float(wait, "at_seconds"),
            if reasons.is_empty() { "no reason told".to_owned() } else { reasons.join(", ") },
        );
    }
    let mut stalls = BTreeMap::<&str, Stall>::new();
    let all = waits().filter_map(|waits| waits.get("stalls")?.as_object()).flatten();
    for (reason, stall) in all {
        let sum = stalls.entry(reason).or_default();
        sum.count += number(stall, "count");
        sum.micros += number(stall, "micros");
    }
    for (reason, stall) in stalls {
        let between = if out.is_empty() { "" } else { "; " };
        let seconds = stall.micros as f64 / 1e6;
        let _ = write!(out, "{between}{reason}: {} delays, {seconds:.2} s", stall.count);
    }
    (!out.is_empty()).then_some(out)
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
