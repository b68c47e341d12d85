//! What the device itself can do, measured beside the store in the same run, so that an engine's
//! figures can be stated as shares of the limit.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::measure::{Latencies, LatencySummary};

/// Unit of the random reads.
const PAGE_BYTES: usize = 4096;

/// Unit of the sequential write.
const CHUNK_BYTES: usize = 1 << 20;

/// What to probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Size of the file written and read.
    pub file_bytes: u64,
    /// Time for each kind of read.
    pub read_time: Duration,
    /// Numbers of threads to read with, one after the other.
    pub depths: Vec<usize>,
    /// Appends of 4 KiB with fdatasync.
    pub syncs: u32,
    /// Seed of contents and places.
    pub seed: u64,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            file_bytes: 512 << 20,
            read_time: Duration::from_secs(1),
            depths: vec![1, 2, 8, 32],
            syncs: 200,
            seed: 1,
        }
    }
}

/// Random reads at one depth.
#[derive(Clone, Debug, Serialize)]
pub struct ReadFigures {
    /// Threads that read, each one page at a time.
    pub threads: usize,
    /// Reads in a second over all threads.
    pub reads_per_second: f64,
    /// Latency of one read, in microseconds.
    pub latency_us: LatencySummary,
}

/// What the probe found.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// Millions of bytes a second of sequential writing, the final fdatasync included.
    pub sequential_write_megabytes_per_second: f64,
    /// Latency of a 4 KiB append with fdatasync, in microseconds.
    pub sync_latency_us: LatencySummary,
    /// Random 4 KiB reads past the page cache; empty where the file system refuses O_DIRECT.
    pub random_reads: Vec<ReadFigures>,
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "device: sequential write {:.0} MB/s; 4 KiB append + fdatasync p50 {:.0} us, \
             p99 {:.0} us",
            self.sequential_write_megabytes_per_second,
            self.sync_latency_us.p50,
            self.sync_latency_us.p99,
        )?;
        if self.random_reads.is_empty() {
            return writeln!(f, "device: direct reads refused by this file system");
        }
        write!(f, "device: random 4 KiB direct reads")?;
        for figures in &self.random_reads {
            let (threads, speed) = (figures.threads, figures.reads_per_second);
            write!(f, "; {threads} at a time {speed:.0}/s (p50 {:.0} us)", figures.latency_us.p50)?;
        }
        writeln!(f)
    }
}

/// A page that O_DIRECT accepts as a buffer.
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// The probe's file, removed when done.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Measures the device that holds `dir`, which must exist.
///
/// # Errors
/// Errors of the operating system.
pub fn probe(dir: &Path, probe: &Probe) -> Result<DeviceReport> {
    let path = dir.join(format!(".device-probe-{}", std::process::id()));
    let scratch = Scratch(path);
    let speed = write_all(&scratch.0, probe)
        .with_context(|| format!("writing the probe file {}", scratch.0.display()))?;
    let mut random_reads = Vec::new();
    for &threads in &probe.depths {
        match open_direct(&scratch.0) {
            Ok(file) => random_reads.push(read_randomly(&file, probe, threads.max(1))?),
            Err(_) => break,
        }
    }
    let sync_latency_us = sync_repeatedly(&scratch.0, probe.syncs)?;
    Ok(DeviceReport { sequential_write_megabytes_per_second: speed, sync_latency_us, random_reads })
}

fn write_all(path: &Path, probe: &Probe) -> Result<f64> {
    let mut chunk = vec![0u8; CHUNK_BYTES];
    Xoshiro256PlusPlus::seed_from_u64(probe.seed).fill_bytes(&mut chunk);
    let mut file = File::create_new(path)?;
    let start = Instant::now();
    let mut written = 0u64;
    while written < probe.file_bytes {
        file.write_all(&chunk)?;
        written += CHUNK_BYTES as u64;
    }
    rustix::fs::fdatasync(&file)?;
    Ok(written as f64 / 1e6 / start.elapsed().as_secs_f64().max(1e-9))
}

fn open_direct(path: &Path) -> Result<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty())?;
    let mut page = Page([0; PAGE_BYTES]);
    rustix::io::pread(&file, &mut page.0, 0)?;
    Ok(file)
}

fn read_randomly(file: &OwnedFd, probe: &Probe, threads: usize) -> Result<ReadFigures> {
    let pages = (probe.file_bytes / PAGE_BYTES as u64).max(1);
    let start = Instant::now();
    let one = |thread: usize| -> Result<Latencies> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(probe.seed ^ (thread as u64 + 1) << 32);
        let mut page = Box::new(Page([0; PAGE_BYTES]));
        let mut latencies = Latencies::default();
        let mut before = start;
        while before.duration_since(start) < probe.read_time {
            let offset = random.random_range(0..pages) * PAGE_BYTES as u64;
            rustix::io::pread(file, &mut page.0, offset)?;
            let now = Instant::now();
            latencies.record(now.duration_since(before));
            before = now;
        }
        Ok(latencies)
    };
    let outcomes: Vec<Result<Latencies>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n))).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Latencies>>| {
            worker.join().unwrap_or_else(|_| Err(anyhow!("a probe thread panicked")))
        };
        workers.into_iter().map(join).collect()
    });
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    let mut latencies = Latencies::default();
    for outcome in outcomes {
        latencies.merge(&outcome?);
    }
    let latency_us = latencies.summary();
    Ok(ReadFigures { threads, reads_per_second: latency_us.count as f64 / seconds, latency_us })
}

fn sync_repeatedly(path: &Path, syncs: u32) -> Result<LatencySummary> {
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    let page = [7u8; PAGE_BYTES];
    let mut latencies = Latencies::default();
    for _ in 0..syncs {
        let start = Instant::now();
        file.write_all(&page)?;
        rustix::fs::fdatasync(&file)?;
        latencies.record(start.elapsed());
    }
    Ok(latencies.summary())
}

#[cfg(test)]
mod tests;
