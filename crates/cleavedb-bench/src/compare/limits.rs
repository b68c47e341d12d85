//! What no engine can go beyond on this machine, measured once beside a comparison: a bare loop
//! of `write` with the bytes of the load, and random reads as many at a time as the workload's.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::device::{DeviceReport, Probe, probe};
use crate::measure::processor_time;
use crate::phase::Phase;
use crate::runner::Plan;

/// Most bytes of the loop, and of the file that is read; most writes that are synced one by one.
const BYTES_MAX: u64 = 512 << 20;
const SYNCED_MAX: u64 = 2_000;

/// Different pairs that the loop writes in turn: generating them is not measured.
const PAIRS: u64 = 1_000;

/// Most reads at a time.
const DEPTH_MAX: usize = 64;

/// A bare loop of writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BareWrites {
    /// Whether each was synced.
    pub synced: bool,
    /// Bytes of all.
    pub bytes: u64,
    /// Pairs appended in a second, one `write` each, by one thread.
    pub pairs_per_second: f64,
    /// Processor microseconds for one.
    pub cpu_us_per_pair: f64,
}

/// The limits of one comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Limits {
    /// Which comparison.
    pub comparison: String,
    /// What appending the load's pairs costs.
    pub writes: BareWrites,
    /// Reads in a second with as many at a time as the workload has threads.
    pub reads_per_second: Option<f64>,
    /// The same with all keys of each thread's multi-get at a time, [`DEPTH_MAX`] at most.
    pub batched_reads_per_second: Option<f64>,
    /// All that was asked of the device.
    pub device: DeviceReport,
}

/// The loop's file, removed when done.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Measures in `dir`, for `reads` at each depth.
///
/// # Errors
/// The system's.
pub fn measure(dir: &Path, comparison: &str, plan: &Plan, reads: Duration) -> Result<Limits> {
    let writes = bare_writes(dir, plan).context("the bare loop of writes")?;
    let depth = plan.threads.clamp(1, DEPTH_MAX);
    let batched = depth.saturating_mul(plan.multi_get_keys.max(1)).min(DEPTH_MAX);
    let settings = Probe {
        file_bytes: data_bytes(plan).clamp(1 << 20, BYTES_MAX),
        read_time: reads,
        depths: vec![depth, batched],
        seed: plan.seed,
        ..Probe::default()
    };
    let device = probe(dir, &settings)?;
    let at = |threads| {
        let found = device.random_reads.iter().find(|figures| figures.threads == threads);
        found.map(|figures| figures.reads_per_second)
    };
    Ok(Limits {
        comparison: comparison.to_owned(),
        writes,
        reads_per_second: at(depth),
        batched_reads_per_second: at(batched),
        device,
    })
}

fn data_bytes(plan: &Plan) -> u64 {
    plan.num.saturating_mul(plan.value_bytes as u64)
}

fn bare_writes(dir: &Path, plan: &Plan) -> Result<BareWrites> {
    let data = plan.dataset();
    let mut value = Vec::new();
    let mut pairs = Vec::new();
    for item in 0..plan.num.clamp(1, PAIRS) {
        data.value(item, 1, &mut value);
        pairs.push([&*data.key(item), value.as_slice()].concat());
    }
    let scratch = Scratch(dir.join(format!(".bare-writes-{}", std::process::id())));
    let file = OpenOptions::new().create_new(true).append(true).open(&scratch.0)?;
    let synced = plan.settings.sync;
    let count = if synced { plan.num.clamp(1, SYNCED_MAX) } else { plan.num.max(1) };
    let (begun, processor) = (Instant::now(), processor_time());
    let (mut written, mut bytes) = (0u64, 0u64);
    for pair in pairs.iter().cycle() {
        if written == count || bytes >= BYTES_MAX {
            break;
        }
        append(&file, pair, synced)?;
        written += 1;
        bytes += pair.len() as u64;
    }
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    let processor = processor_time().saturating_sub(processor).as_secs_f64();
    Ok(BareWrites {
        synced,
        bytes,
        pairs_per_second: written as f64 / seconds,
        cpu_us_per_pair: processor * 1e6 / written.max(1) as f64,
    })
}

fn append(mut file: &File, pair: &[u8], synced: bool) -> Result<()> {
    file.write_all(pair)?;
    if synced {
        rustix::fs::fdatasync(file)?;
    }
    Ok(())
}

/// The limit of a phase in operations a second, from the line that [`Limits`] makes: appends for
/// loads and updates, reads past every cache for uniform point reads. Others have none that is as
/// simple.
pub(crate) fn of_phase(limits: &Value, phase: Phase) -> Option<f64> {
    let pointer = match phase {
        phase if phase.fills() || phase == Phase::Overwrite => "/limits/writes/pairs_per_second",
        Phase::ReadRandom => "/limits/reads_per_second",
        Phase::MultiGet => "/limits/batched_reads_per_second",
        _ => return None,
    };
    limits.pointer(pointer)?.as_f64()
}

/// The limits as sentences, from the line.
pub(crate) fn sentences(limits: &Value) -> String {
    let figure = |pointer| limits.pointer(pointer).and_then(Value::as_f64);
    let shown = |figure: Option<f64>| {
        figure.map_or_else(|| "not measured".to_owned(), |figure| format!("{figure:.0}/s"))
    };
    let synced = limits.pointer("/limits/writes/synced").and_then(Value::as_bool) == Some(true);
    format!(
        "a bare loop of `write`{} with the load's bytes {}, {:.2} us of processor each; random \
         4 KiB reads past the page cache {} with as many at a time as threads, {} with those of \
         multi-gets; sequential writing {:.0} MB/s; a 4 KiB append with fdatasync {:.0} us (p50).",
        if synced { " and `fdatasync`" } else { "" },
        shown(figure("/limits/writes/pairs_per_second")),
        figure("/limits/writes/cpu_us_per_pair").unwrap_or(f64::NAN),
        shown(figure("/limits/reads_per_second")),
        shown(figure("/limits/batched_reads_per_second")),
        figure("/limits/device/sequential_write_megabytes_per_second").unwrap_or(f64::NAN),
        figure("/limits/device/sync_latency_us/p50").unwrap_or(f64::NAN),
    )
}

#[cfg(test)]
mod tests;
