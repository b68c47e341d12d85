//! Counters and latency distributions, updated without locks.

use std::cell::Cell;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::base::striped::{Counter, STRIPES, stripe};
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::engine::gc::figures::CollectionFigures;
use crate::engine::pacing::Reason;

/// Operations whose latency is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Operation {
    /// One batch, put, delete or merge.
    Write = 0,
    /// One get of those that are timed ([`is_get_timed`]).
    Get = 1,
    /// One `multi_get` call.
    MultiGet = 2,
    /// One positioning of a cursor or iterator.
    Seek = 3,
    /// One sync of the journal.
    JournalSync = 4,
    /// One flush.
    Flush = 5,
    /// One compaction.
    Compaction = 6,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub(crate) const ALL: [Self; 7] = [
        Self::Write,
        Self::Get,
        Self::MultiGet,
        Self::Seek,
        Self::JournalSync,
        Self::Flush,
        Self::Compaction,
    ];

    /// The word in statistics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Get => "get",
            Self::MultiGet => "multi_get",
            Self::Seek => "seek",
            Self::JournalSync => "journal_sync",
            Self::Flush => "flush",
            Self::Compaction => "compaction",
        }
    }
}

/// One get of so many of a thread is timed: to look at the clock twice and to count what it says
/// costs as much as a tenth of a get that finds all in memory.
pub(crate) const GETS_PER_TIMED: u32 = 8;

thread_local! {
    /// Gets of this thread until one is timed again.
    static UNTIMED: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread's next get is timed: the first one, and one of [`GETS_PER_TIMED`].
#[inline]
pub(crate) fn is_get_timed() -> bool {
    UNTIMED.with(|untimed| {
        let left = untimed.get();
        untimed.set(left.checked_sub(1).unwrap_or(GETS_PER_TIMED - 1));
        left == 0
    })
}

/// Buckets of a distribution: 8 a power of two over 2^40 ns, so within 12.5 % up to 18 minutes.
const BUCKETS: usize = 8 * 41;

/// A latency distribution with fixed buckets, in as many copies as there are stripes.
#[derive(Debug)]
pub(crate) struct Distribution {
    stripes: Box<[CachePadded<Stripe>]>,
}

/// What the threads of one stripe counted.
#[derive(Debug)]
struct Stripe {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Distribution {
    fn default() -> Self {
        let stripe = |_| {
            CachePadded::new(Stripe {
                buckets: [const { AtomicU64::new(0) }; BUCKETS],
                sum_ns: AtomicU64::new(0),
                max_ns: AtomicU64::new(0),
            })
        };
        Self { stripes: (0..STRIPES).map(stripe).collect() }
    }
}

/// Figures of a distribution at one moment, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Distribution {
    /// Counts one duration.
    pub(crate) fn record(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let Some(own) = self.stripes.get(stripe()) else { return };
        if let Some(bucket) = own.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        own.sum_ns.fetch_add(ns, Ordering::Relaxed);
        // Seldom true, and a look leaves the line where it is.
        if ns > own.max_ns.load(Ordering::Relaxed) {
            own.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// A figure of all stripes.
    fn all<'a>(&'a self, of: impl Fn(&'a Stripe) -> &'a AtomicU64) -> impl Iterator<Item = u64> {
        self.stripes.iter().map(move |stripe| of(stripe).load(Ordering::Relaxed))
    }

    /// The figures now.
    pub(crate) fn percentiles(&self) -> Percentiles {
        let mut counts = [0_u64; BUCKETS];
        for stripe in &self.stripes {
            for (sum, bucket) in counts.iter_mut().zip(&stripe.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
        }
        let count: u64 = counts.iter().sum();
        if count == 0 {
            return Percentiles::default();
        }
        let max_ns = self.all(|stripe| &stripe.max_ns).max().unwrap_or(0);
        let at = |share: f64| {
            let wanted = (count as f64 * share).ceil() as u64;
            let mut seen = 0;
            for (bucket, &in_bucket) in counts.iter().enumerate() {
                seen += in_bucket;
                if seen >= wanted {
                    return upper_bound_of(bucket).min(max_ns) as f64 / 1000.0;
                }
            }
            max_ns as f64 / 1000.0
        };
        let sum_ns: u64 = self.all(|stripe| &stripe.sum_ns).sum();
        Percentiles {
            count,
            mean_us: sum_ns as f64 / count as f64 / 1000.0,
            p50_us: at(0.50),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: max_ns as f64 / 1000.0,
        }
    }
}

/// Bucket of a duration: the power of two and the three bits below it.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(8);
    let power = 63 - ns.leading_zeros() as usize;
    let within = ((ns >> (power - 3)) & 7) as usize;
    ((power - 3) * 8 + within).min(BUCKETS - 1)
}

/// Largest duration that falls into a bucket.
fn upper_bound_of(bucket: usize) -> u64 {
    let power = bucket / 8 + 3;
    let within = (bucket % 8) as u64;
    ((8 + within + 1) << (power - 3)) - 1
}

/// Buckets of [`OperandCounts`]: the last one has all from 2^31 on.
const OPERAND_BUCKETS: usize = 32;

/// How many operands reads applied to a value: a bucket a power of two, of those up to it and above
/// the one before.
#[derive(Debug, Default)]
pub(crate) struct OperandCounts {
    reads: [AtomicU64; OPERAND_BUCKETS],
}

impl OperandCounts {
    /// Counts a read that applied some.
    pub(crate) fn record(&self, operands: usize) {
        let bucket = operands.next_power_of_two().trailing_zeros() as usize;
        if let Some(reads) = self.reads.get(bucket.min(OPERAND_BUCKETS - 1)) {
            reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The bounds of the buckets that are not empty, ascending, with the reads in them.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.reads.iter().enumerate();
        let counts = counts.map(|(bucket, reads)| (1 << bucket, reads.load(Ordering::Relaxed)));
        counts.filter(|(_, reads)| *reads > 0)
    }
}

/// All counters of one database.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    latencies: [Distribution; Operation::ALL.len()],
    stall_counts: [AtomicU64; Reason::ALL.len()],
    stall_micros: [AtomicU64; Reason::ALL.len()],
    /// Key and value bytes accepted.
    pub(crate) user_bytes: AtomicU64,
    /// Batches committed.
    pub(crate) commits: AtomicU64,
    /// Groups written.
    pub(crate) commit_groups: AtomicU64,
    /// Syncs of the journal.
    pub(crate) journal_syncs: AtomicU64,
    /// Flushes.
    pub(crate) flushes: AtomicU64,
    /// Compactions.
    pub(crate) compactions: AtomicU64,
    /// Entries that flush and compaction left out, and the bytes of their keys and values.
    pub(crate) entries_dropped: AtomicU64,
    /// See `entries_dropped`.
    pub(crate) bytes_dropped: AtomicU64,
    /// Separated values that scans began to read ahead, and those of them that nobody took.
    pub(crate) values_prefetched: AtomicU64,
    /// See `values_prefetched`.
    pub(crate) values_unused: AtomicU64,
    /// Gets, for read amplification.
    pub(crate) gets: Counter,
    /// Operands that gets applied to values.
    pub(crate) operands: OperandCounts,
    /// Compactions running now.
    pub(crate) compactions_running: AtomicU64,
    /// Most compactions that ever ran at once.
    pub(crate) compactions_running_max: AtomicU64,
    /// Garbage collection of value files.
    pub(crate) collection: CollectionFigures,
    /// Bytes pinned by live iterators.
    pub(crate) iterator_bytes: AtomicU64,
}

impl Metrics {
    /// Counts one operation.
    pub(crate) fn record(&self, operation: Operation, duration: Duration) {
        if let Some(distribution) = self.latencies.get(operation as usize) {
            distribution.record(duration);
        }
    }

    /// Figures of one operation.
    pub(crate) fn percentiles(&self, operation: Operation) -> Percentiles {
        self.latencies.get(operation as usize).map(Distribution::percentiles).unwrap_or_default()
    }

    /// Counts one wait of a writer.
    pub(crate) fn stalled(&self, reason: Reason, duration: Duration) {
        if let (Some(count), Some(micros)) =
            (self.stall_counts.get(reason as usize), self.stall_micros.get(reason as usize))
        {
            count.fetch_add(1, Ordering::Relaxed);
            micros.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
        }
    }

    /// Number and microseconds of waits for a reason.
    pub(crate) fn stalls(&self, reason: Reason) -> (u64, u64) {
        let load = |counters: &[AtomicU64; Reason::ALL.len()]| {
            counters.get(reason as usize).map_or(0, |c| c.load(Ordering::Relaxed))
        };
        (load(&self.stall_counts), load(&self.stall_micros))
    }
}

#[cfg(test)]
mod tests;
