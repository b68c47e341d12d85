//! Every byte written or read has a reason, so that amplification is a counter, not a guess.

use crate::base::striped::Counter;
use crate::base::sync::Arc;
use crate::base::sync::figures::{AtomicU64, Ordering};

/// Why bytes were written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub(crate) enum Purpose {
    /// Write-ahead log.
    Journal = 0,
    /// Memtables written out.
    Flush = 1,
    /// Tables rewritten.
    Compaction = 2,
    /// Edits of the list of files.
    Manifest = 3,
    /// Gets, multi-gets and scans of users.
    Read = 4,
    /// Replay at open.
    Recovery = 5,
    /// `verify` and `dump`.
    Verify = 6,
    /// Checkpoints that had to copy, options and identity files.
    Other = 7,
    /// Value segments as they are logged.
    Values = 8,
    /// Garbage collection of value files.
    Collection = 9,
}

impl Purpose {
    /// All purposes, in the order of their numbers.
    pub(crate) const ALL: [Self; 10] = [
        Self::Journal,
        Self::Flush,
        Self::Compaction,
        Self::Manifest,
        Self::Read,
        Self::Recovery,
        Self::Verify,
        Self::Other,
        Self::Values,
        Self::Collection,
    ];

    /// The word used in statistics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Manifest => "manifest",
            Self::Read => "read",
            Self::Recovery => "recovery",
            Self::Verify => "verify",
            Self::Other => "other",
            Self::Values => "values",
            Self::Collection => "gc",
        }
    }
}

/// Counts bytes and calls by purpose, and memory and files that somebody holds at the moment.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    written: [AtomicU64; Purpose::ALL.len()],
    read: [Counter; Purpose::ALL.len()],
    reads: [Counter; Purpose::ALL.len()],
    punched: [AtomicU64; Purpose::ALL.len()],
    batches: AtomicU64,
    held: [AtomicU64; Purpose::ALL.len()],
    tables: AtomicU64,
    tables_bytes: AtomicU64,
}

impl Meter {
    /// Notes bytes given to the file system.
    pub(crate) fn wrote(&self, purpose: Purpose, bytes: u64) {
        add(&self.written, purpose, bytes);
    }

    /// Notes one read from the file system.
    pub(crate) fn read(&self, purpose: Purpose, bytes: u64) {
        if let (Some(read), Some(reads)) =
            (self.read.get(purpose as usize), self.reads.get(purpose as usize))
        {
            read.add(bytes);
            reads.add(1);
        }
    }

    /// Notes bytes given back to the file system out of a file that stays.
    pub(crate) fn punched(&self, purpose: Purpose, bytes: u64) {
        add(&self.punched, purpose, bytes);
    }

    /// Bytes given back so far.
    pub(crate) fn bytes_punched(&self, purpose: Purpose) -> u64 {
        load(&self.punched, purpose)
    }

    /// Notes one submission of many reads at once.
    pub(crate) fn batch_submitted(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// Submissions of many reads at once so far.
    pub(crate) fn read_batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Bytes written so far.
    pub(crate) fn bytes_written(&self, purpose: Purpose) -> u64 {
        load(&self.written, purpose)
    }

    /// Bytes read so far.
    pub(crate) fn bytes_read(&self, purpose: Purpose) -> u64 {
        self.read.get(purpose as usize).map_or(0, Counter::total)
    }

    /// Read calls so far.
    pub(crate) fn read_calls(&self, purpose: Purpose) -> u64 {
        self.reads.get(purpose as usize).map_or(0, Counter::total)
    }

    /// Bytes of buffers that are held now.
    pub(crate) fn bytes_held(&self, purpose: Purpose) -> u64 {
        load(&self.held, purpose)
    }

    /// Tables open now, whoever keeps them open.
    pub(crate) fn open_tables(&self) -> u64 {
        self.tables.load(Ordering::Relaxed)
    }

    /// Memory of indexes, filters and tombstones of the tables open now.
    pub(crate) fn open_tables_bytes(&self) -> u64 {
        self.tables_bytes.load(Ordering::Relaxed)
    }
}

/// Counts the memory of one holder's buffers; given back when dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    meter: Arc<Meter>,
    purpose: Purpose,
    bytes: u64,
}

impl HeldMemory {
    /// A holder of nothing yet.
    pub(crate) fn new(meter: &Arc<Meter>, purpose: Purpose) -> Self {
        Self { meter: Arc::clone(meter), purpose, bytes: 0 }
    }

    /// States what is held from here on.
    pub(crate) fn set(&mut self, bytes: u64) {
        if let Some(held) = self.meter.held.get(self.purpose as usize) {
            // In two's complement, so that one addition also takes off.
            held.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Counts one open table; ends when dropped.
#[derive(Debug)]
pub(crate) struct OpenTable {
    meter: Arc<Meter>,
    bytes: u64,
}

impl OpenTable {
    /// One table more.
    pub(crate) fn new(meter: &Arc<Meter>) -> Self {
        meter.tables.fetch_add(1, Ordering::Relaxed);
        Self { meter: Arc::clone(meter), bytes: 0 }
    }

    /// States the memory it holds while it is open.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.meter.tables_bytes.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for OpenTable {
    fn drop(&mut self) {
        self.set(0);
        self.meter.tables.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(counters: &[AtomicU64; Purpose::ALL.len()], purpose: Purpose, count: u64) {
    if let Some(counter) = counters.get(purpose as usize) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

fn load(counters: &[AtomicU64; Purpose::ALL.len()], purpose: Purpose) -> u64 {
    counters.get(purpose as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
}
