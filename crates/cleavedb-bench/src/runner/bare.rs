//! What no engine can go beyond, in phases of its own between those of an engine: the load's
//! pairs appended by a bare loop of `write`, and random pages read past the page cache.
//!
//! - B1: files are beside the store, on the same file system, and gone when the phase, or for
//!   pages to be read the run, has ended.
//! - B2: a bare write has the rules of the load: the same bytes, the same threads, nothing synced
//!   before the last byte is written; syncing is settling. Each thread has a file of its own, so
//!   that threads wait for the device alone and not for each other.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rustix::fs::{Advice, OFlags, fadvise, fdatasync};

use crate::data::Dataset;
use crate::measure::DeviceRequests;
use crate::phase::Phase;
use crate::runner::{Outcome, Progress};
use crate::workload::Shape;

/// Bytes of a page, and what direct I/O is aligned to.
const PAGE_BYTES: usize = 4096;
/// Bytes after which a file is synced where that is asked for: what a segment of the log holds.
const SYNCED_BYTES: u64 = 64 << 20;
/// Bytes of one write past the page cache.
const CHUNK_BYTES: usize = 1 << 20;
/// Most bytes of the file whose pages are read: more would be written for longer than read.
const PAGES_BYTES_MAX: u64 = 1 << 30;
/// Different pairs that are written in turn: generating them is not measured.
const PAIRS: u64 = 1_000;
/// Operations between two looks at the shared state.
const BETWEEN_LOOKS: u64 = 64;

/// The folder beside a store and what is in it at present.
#[derive(Debug)]
pub(super) struct Bare {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files of bare writes that are to be synced and removed.
    written: Vec<Scratch>,
    /// Pairs to write.
    pairs: Vec<Vec<u8>>,
    /// The file whose pages are read, and its pages.
    pages: Option<(Scratch, u64)>,
}

/// A file that is removed when dropped.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Bare {
    /// Files beside the store in `dir`.
    pub(super) fn beside(dir: &Path) -> Self {
        let folder = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Self { folder: folder.to_owned(), state: Mutex::default() }
    }

    /// The kernel's account of the device.
    pub(super) fn requests(&self) -> Option<DeviceRequests> {
        DeviceRequests::of(&self.folder)
    }

    fn state(&self) -> Result<std::sync::MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| anyhow!("a thread panicked"))
    }

    fn file(&self, name: &str) -> Scratch {
        Scratch(self.folder.join(format!(".{name}-{}", std::process::id())))
    }

    /// Makes what a bare phase needs before its time begins; other phases need nothing.
    pub(super) fn prepare(&self, phase: Phase, data: &Dataset) -> Result<()> {
        if !phase.is_bare() {
            return Ok(());
        }
        let mut state = self.state()?;
        if phase != Phase::BareReads {
            let mut value = Vec::new();
            let pair = |item| {
                data.value(item, 1, &mut value);
                [&*data.key(item), value.as_slice()].concat()
            };
            state.pairs = (0..data.num().clamp(1, PAIRS)).map(pair).collect();
        } else if state.pages.is_none() {
            let bytes = data.num().saturating_mul(data.value_bytes() as u64);
            let bytes = bytes.clamp(CHUNK_BYTES as u64, PAGES_BYTES_MAX);
            let scratch = self.file("bare-pages");
            write_pages(&scratch.0, bytes)?;
            state.pages = Some((scratch, bytes / PAGE_BYTES as u64));
        }
        Ok(())
    }

    /// One thread of a bare phase.
    pub(super) fn thread(
        &self,
        phase: Phase,
        shape: &Shape,
        thread: usize,
        progress: &Progress<'_>,
    ) -> Result<Outcome> {
        let share = shape.share(phase, thread);
        let mut work = Work { outcome: Outcome::default(), progress, since_look: 0, before: None };
        work.before = Some(Instant::now().max(progress.start));
        let count = share.end - share.start;
        match phase {
            Phase::BareReads => self.read(&mut work, count, shape.seed ^ mixed(thread))?,
            _ => self.write(&mut work, phase, thread, count)?,
        }
        progress.steps.fetch_add(work.since_look, Ordering::Relaxed);
        work.outcome.ended = Some(Instant::now());
        Ok(work.outcome)
    }

    fn write(&self, work: &mut Work<'_>, phase: Phase, thread: usize, count: u64) -> Result<()> {
        let scratch = self.file(&format!("bare-writes-{thread}"));
        let direct = phase == Phase::BareWritesDirect;
        let mut options = OpenOptions::new();
        options.create_new(true).append(true);
        if direct {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        let file = options.open(&scratch.0).context("a file of bare writes")?;
        let pairs = {
            let mut state = self.state()?;
            state.written.push(scratch);
            state.pairs.clone()
        };
        let mut sink = if direct { Sink::chunks(&file) } else { Sink::Plain(&file) };
        let mut unsynced = Unsynced::of(phase);
        for pair in pairs.iter().cycle().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            sink.append(pair)?;
            work.outcome.written += pair.len() as u64;
            unsynced.wrote(pair.len() as u64, || Ok(fdatasync(&file)?))?;
            if work.done(pair.len() as u64) {
                break;
            }
        }
        sink.finish()
    }

    fn read(&self, work: &mut Work<'_>, count: u64, seed: u64) -> Result<()> {
        let (path, pages) = {
            let state = self.state()?;
            let (scratch, pages) = state.pages.as_ref().context("pages were prepared")?;
            (scratch.0.clone(), *pages)
        };
        let flags = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let mut buffer = Aligned::new(PAGE_BYTES);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..count {
            let place = random.random_range(0..pages) * PAGE_BYTES as u64;
            rustix::io::pread(&file, buffer.bytes(), place)?;
            work.outcome.found += 1;
            if work.done(PAGE_BYTES as u64) {
                break;
            }
        }
        Ok(())
    }

    /// Syncs and removes what was written; gives the seconds of syncing.
    pub(super) fn finish(&self, phase: Phase) -> Result<f64> {
        if phase == Phase::BareReads {
            return Ok(0.0);
        }
        let written = std::mem::take(&mut self.state()?.written);
        let begun = Instant::now();
        for scratch in &written {
            fdatasync(File::open(&scratch.0)?)?;
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// What a thread has written since its last sync.
pub(super) struct Unsynced {
    bytes: u64,
    /// As many as are synced together.
    most: u64,
}

impl Unsynced {
    /// Nothing; in most phases, syncing is left to the end.
    pub(super) fn of(phase: Phase) -> Self {
        let most = if phase == Phase::BareWritesSynced { SYNCED_BYTES } else { u64::MAX };
        Self { bytes: 0, most }
    }

    /// Counts bytes, and syncs once they are enough.
    pub(super) fn wrote(&mut self, bytes: u64, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        self.bytes += bytes;
        if self.bytes < self.most {
            return Ok(());
        }
        self.bytes = 0;
        sync()
    }
}

/// Seeds of threads are far apart.
fn mixed(thread: usize) -> u64 {
    (thread as u64 + 1) << 32
}

/// What one thread has done so far.
struct Work<'a> {
    outcome: Outcome,
    progress: &'a Progress<'a>,
    since_look: u64,
    before: Option<Instant>,
}

impl Work<'_> {
    /// Counts an operation; true if the phase is to end.
    fn done(&mut self, bytes: u64) -> bool {
        let now = Instant::now();
        if let Some(before) = self.before.replace(now) {
            let latency = now.duration_since(before);
            self.outcome.latencies.record(latency);
            let at = now.duration_since(self.progress.start).as_secs_f64();
            self.outcome.long.record(at, latency);
        }
        self.outcome.operations += 1;
        self.outcome.bytes += bytes;
        self.since_look += 1;
        if self.since_look < BETWEEN_LOOKS {
            return false;
        }
        self.progress.steps.fetch_add(self.since_look, Ordering::Relaxed);
        self.since_look = 0;
        let late = self.progress.deadline.is_some_and(|end| now >= end);
        self.outcome.cut_short |= late;
        late || self.progress.stop.load(Ordering::Relaxed)
    }
}

/// Where the pairs of one thread go.
enum Sink<'a> {
    /// A write for each.
    Plain(&'a File),
    /// Gathered, and written when there is a whole chunk of them.
    Chunks { file: &'a File, chunk: Aligned, filled: usize },
}

impl<'a> Sink<'a> {
    fn chunks(file: &'a File) -> Self {
        Self::Chunks { file, chunk: Aligned::new(CHUNK_BYTES), filled: 0 }
    }

    fn append(&mut self, mut pair: &[u8]) -> Result<()> {
        match self {
            Self::Plain(file) => file.write_all(pair)?,
            Self::Chunks { file, chunk, filled } => {
                while !pair.is_empty() {
                    let room = chunk.bytes().get_mut(*filled..).unwrap_or_default();
                    let count = room.len().min(pair.len());
                    let (now, later) = pair.split_at(count);
                    room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
                    *filled += count;
                    pair = later;
                    if *filled == CHUNK_BYTES {
                        file.write_all(chunk.bytes())?;
                        *filled = 0;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes what is left, in whole pages.
    fn finish(mut self) -> Result<()> {
        if let Self::Chunks { file, chunk, filled } = &mut self {
            let end = filled.next_multiple_of(PAGE_BYTES);
            file.write_all(chunk.bytes().get(..end).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// A buffer that direct I/O takes.
struct Aligned {
    room: Vec<u8>,
    bytes: usize,
}

impl Aligned {
    fn new(bytes: usize) -> Self {
        Self { room: vec![0; bytes + PAGE_BYTES], bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.room.as_ptr().align_offset(PAGE_BYTES);
        self.room.get_mut(start..start + self.bytes).unwrap_or_default()
    }
}

/// A file of random bytes that the page cache does not hold.
fn write_pages(path: &Path, bytes: u64) -> Result<()> {
    let mut chunk = vec![0u8; CHUNK_BYTES];
    Xoshiro256PlusPlus::seed_from_u64(bytes).fill_bytes(&mut chunk);
    let mut file = File::create_new(path).context("the file of pages")?;
    let mut written = 0;
    while written < bytes {
        file.write_all(&chunk)?;
        written += CHUNK_BYTES as u64;
    }
    fdatasync(&file)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}
