//! What a phase cost: latency distribution, processor time of the whole process, bytes moved to
//! and from the device.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Longest latency told apart, in nanoseconds (one hour); longer ones count as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// Latencies of one thread or, merged, of a phase.
#[derive(Clone, Debug)]
pub struct Latencies(Option<Histogram<u64>>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS).ok())
    }
}

impl Latencies {
    /// Counts one latency.
    pub fn record(&mut self, latency: Duration) {
        if let Some(histogram) = &mut self.0 {
            let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX);
            histogram.saturating_record(nanos.max(1));
        }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Both have the same bounds, the only thing that can make this fail.
            let _ = histogram.add(other);
        }
    }

    /// The figures to report.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let Some(histogram) = &self.0 else { return LatencySummary::default() };
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        LatencySummary {
            count: histogram.len(),
            mean: histogram.mean() / 1000.0,
            p50: micros(histogram.value_at_quantile(0.5)),
            p95: micros(histogram.value_at_quantile(0.95)),
            p99: micros(histogram.value_at_quantile(0.99)),
            p999: micros(histogram.value_at_quantile(0.999)),
            p9999: micros(histogram.value_at_quantile(0.9999)),
            max: micros(histogram.max()),
        }
    }
}

/// A latency distribution in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LatencySummary {
    /// Calls counted.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// Largest.
    pub max: f64,
}

/// Looks at a growing number. When there are [`LOOKS_MAX`] of them, every second one is
/// forgotten, so that a long phase takes no more room than a short one.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    looks: Vec<(f64, u64)>,
    /// Looks to pass over between two that are kept.
    skip: usize,
    passed: usize,
}

/// Most looks kept.
pub const LOOKS_MAX: usize = 1_000;

impl Timeline {
    /// Notes what there is after so many seconds.
    pub fn look(&mut self, seconds: f64, count: u64) {
        if self.passed < self.skip {
            self.passed += 1;
            return;
        }
        self.passed = 0;
        self.looks.push((seconds, count));
        if self.looks.len() == LOOKS_MAX {
            let mut place = 0;
            self.looks.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            // The look just now was forgotten: half of the new interval has passed.
            self.passed = self.skip + 1;
            self.skip = self.skip * 2 + 1;
        }
    }

    /// The looks in order.
    #[must_use]
    pub fn into_looks(self) -> Vec<(f64, u64)> {
        self.looks
    }
}

/// Processor time this process has used so far, all threads, user and system.
#[must_use]
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Is called just before and just after a phase, for tools that watch the process from outside:
/// callgrind can be told to write down what it has counted when a function is entered.
#[inline(never)]
pub fn phase_boundary(place: usize) {
    // Something has to be in it, or there would be nothing to enter.
    std::hint::black_box(place);
}

/// The figure on the line `name` of a file of the kernel such as `/proc/self/status`, in the unit
/// it stands in; 0 where there is none.
fn kernel_figure(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next())
        .and_then(|figure| figure.parse().ok())
        .unwrap_or(0)
}

/// Most resident memory this process has had; 0 where the kernel does not tell.
#[must_use]
pub fn peak_memory_bytes() -> u64 {
    kernel_figure("/proc/self/status", "VmHWM") * 1024
}

/// Resident memory this process has now; 0 where the kernel does not tell.
#[must_use]
pub fn resident_memory_bytes() -> u64 {
    kernel_figure("/proc/self/status", "VmRSS") * 1024
}

/// Bytes that a folder takes on the device, room set aside ahead included.
#[must_use]
pub fn folder_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, data)| if data.is_dir() { folder_bytes(&path) } else { data.blocks() * 512 })
        .sum()
}

/// Bytes this process has caused the device to read and write so far.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DeviceBytes {
    /// Bytes fetched from the device.
    pub read: u64,
    /// Bytes sent to the device, or still to be sent.
    pub written: u64,
}

impl DeviceBytes {
    /// Reads the kernel's account; zeros where it keeps none.
    #[must_use]
    pub fn now() -> Self {
        let field = |name| kernel_figure("/proc/self/io", name);
        Self { read: field("read_bytes"), written: field("write_bytes") }
    }

    /// What it has asked the kernel for so far, whether or not a device was needed.
    #[must_use]
    pub fn asked() -> Self {
        let field = |name| kernel_figure("/proc/self/io", name);
        Self { read: field("rchar"), written: field("wchar") }
    }

    /// What was moved after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }
}

/// Requests that a whole block device has done so far, by the kernel's account, for whomever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceRequests {
    /// Reads.
    pub reads: u64,
    /// Reads that were merged with a neighbour before they were sent, and are not in `reads`.
    pub reads_merged: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Unit in which the kernel counts, whatever the device's own is.
const SECTOR_BYTES: u64 = 512;

impl DeviceRequests {
    /// Reads the account of the device that holds `path`; nothing where the kernel keeps none, as
    /// for file systems that no single device holds.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let device = std::fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Self::parse(&std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?)
    }

    /// Reads, merged, sectors, milliseconds, then the same of writes.
    fn parse(line: &str) -> Option<Self> {
        let figures: Vec<u64> =
            line.split_whitespace().map_while(|figure| figure.parse().ok()).collect();
        let at = |place: usize| figures.get(place).copied();
        Some(Self {
            reads: at(0)?,
            reads_merged: at(1)?,
            read_bytes: at(2)? * SECTOR_BYTES,
            writes: at(4)?,
            written_bytes: at(6)? * SECTOR_BYTES,
        })
    }

    /// What was done after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            reads_merged: self.reads_merged.saturating_sub(earlier.reads_merged),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests;
