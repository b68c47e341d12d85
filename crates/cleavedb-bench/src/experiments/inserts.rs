//! Pages inserted into the middle of a file by the file system itself: what a flexible address
//! space is to be compared with. By `fallocate` with `FALLOC_FL_INSERT_RANGE`, which moves no
//! data, and by plain reads and writes of everything behind the place.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::ratio;
use crate::measure::{DeviceBytes, Latencies, processor_time};

/// Bytes inserted at a time, and the alignment of places: a block of most file systems.
pub(super) const PAGE_BYTES: u64 = 4_096;
/// Bytes of the tail read and written at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// How pages are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The file system makes room, the page is written into it.
    Range,
    /// All behind the place is read and written again a page further on.
    Tail,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Range, Self::Tail];

    /// What stands for an engine's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Range => "insert-range",
            Self::Tail => "tail rewritten",
        }
    }

    /// In words that let another repeat it.
    fn settings(self) -> &'static str {
        match self {
            Self::Range => "fallocate(FALLOC_FL_INSERT_RANGE) of 4 KiB, then one write of the page",
            Self::Tail => {
                "reads and writes of 1 MiB from the file's end to the place, then one \
                           write of the page"
            }
        }
    }
}

/// What to insert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inserts {
    /// Bytes of the file before.
    pub file_bytes: u64,
    /// Pages to insert.
    pub operations: u64,
    /// Longest time.
    pub seconds: f64,
    /// Seed of contents and places.
    pub seed: u64,
}

/// Whether an error says that the file system has no insert-range, or not for such blocks.
fn refuses(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].contains(&error)
}

/// A file that pages are inserted into.
pub(super) struct Pages {
    file: File,
    bytes: u64,
    buffer: Vec<u8>,
}

impl Pages {
    /// A new file at `path`, full of noise and on the device.
    pub(super) fn create(path: &Path, bytes: u64, seed: u64) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mut buffer = vec![0; CHUNK_BYTES as usize];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let mut at = 0;
        while at < bytes {
            let size = CHUNK_BYTES.min(bytes - at);
            let chunk = buffer.get_mut(..size as usize).context("the buffer holds a chunk")?;
            random.fill_bytes(chunk);
            file.write_all_at(chunk, at)?;
            at += size;
        }
        file.sync_all()?;
        Ok(Self { file, bytes, buffer })
    }

    /// Inserts a page; false if the file system refuses.
    pub(super) fn insert(&mut self, way: Way, place: u64, page: &[u8]) -> Result<bool> {
        match way {
            Way::Range => {
                let made = fallocate(&self.file, FallocateFlags::INSERT_RANGE, place, PAGE_BYTES);
                if made.is_err_and(refuses) {
                    return Ok(false);
                }
                made?;
            }
            Way::Tail => self.move_tail(place)?,
        }
        self.file.write_all_at(page, place)?;
        self.bytes += PAGE_BYTES;
        Ok(true)
    }

    fn move_tail(&mut self, place: u64) -> Result<()> {
        let mut end = self.bytes;
        while end > place {
            let start = end.saturating_sub(CHUNK_BYTES).max(place);
            let chunk = self.buffer.get_mut(..(end - start) as usize);
            let chunk = chunk.context("the buffer holds a chunk")?;
            self.file.read_exact_at(chunk, start)?;
            self.file.write_all_at(chunk, start + PAGE_BYTES)?;
            end = start;
        }
        Ok(())
    }
}

/// Inserts pages at random blocks of a new file in `dir`. The report has the form of an engine's;
/// where the file system refuses, it says so and has no phase.
///
/// # Errors
/// The system's.
pub(super) fn run(way: Way, inserts: &Inserts, dir: &Path) -> Result<Value> {
    fs::create_dir_all(dir)?;
    let mut pages = Pages::create(&dir.join("pages"), inserts.file_bytes, inserts.seed)?;
    let kind = fstatfs(&pages.file)?.f_type;
    let head = |phases: Vec<Value>, refused: Option<&str>| {
        json!({
            "engine": way.name(),
            "engine_settings": format!("{}; buffered I/O, file system {kind:#x}", way.settings()),
            "phases": phases,
            "refused": refused,
        })
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(inserts.seed + 1);
    let mut page = [0; PAGE_BYTES as usize];
    let mut latencies = Latencies::default();
    let (processor, moved) = (processor_time(), DeviceBytes::now());
    let longest = Duration::try_from_secs_f64(inserts.seconds).unwrap_or(Duration::MAX);
    let start = Instant::now();
    let (mut before, mut done) = (start, 0);
    while done < inserts.operations && before.duration_since(start) < longest {
        let place = random.random_range(0..pages.bytes / PAGE_BYTES) * PAGE_BYTES;
        random.fill_bytes(&mut page);
        if !pages.insert(way, place, &page)? {
            return Ok(head(Vec::new(), Some("the file system has no insert-range")));
        }
        let now = Instant::now();
        latencies.record(now.duration_since(before));
        (before, done) = (now, done + 1);
    }
    let seconds = before.duration_since(start).as_secs_f64().max(1e-9);
    pages.file.sync_data()?;
    let processor = processor_time().saturating_sub(processor);
    let moved = DeviceBytes::now().since(moved);
    let written = done * PAGE_BYTES;
    let phase = json!({
        "phase": "insert",
        "operations": done,
        "cut_short": done < inserts.operations,
        "seconds": seconds,
        "settle_seconds": before.elapsed().as_secs_f64(),
        "operations_per_second": done as f64 / seconds,
        "megabytes_per_second": written as f64 / 1e6 / seconds,
        "latency_us": latencies.summary(),
        "cpu_us_per_operation": processor.as_secs_f64() * 1e6 / done.max(1) as f64,
        "device_bytes": moved,
        "user_bytes_written": written,
        "device_write_amplification": ratio(moved.written, written),
        "disk_bytes": pages.bytes,
    });
    Ok(head(vec![phase], None))
}

#[cfg(test)]
mod tests;
