//! Collection of buckets: what of their records lives on, and into how many buckets it goes. Pure
//! functions over a snapshot of the state; [`write`] alone makes files.
//!
//! A bucket is collected when a flush meets it full or closed; the flush's own records for it take
//! part. Invariants: DCL-1 a record dies only if no live snapshot lies in [its seq, superseding
//! seq), where an anchor, or a range anchor over the key, supersedes. DCL-2 deltas are combined
//! only within one stripe, and never across an anchor. DCL-3 an anchor stays as long as an older
//! delta of its key does, and goes after that; a range anchor likewise. DCL-4 an operator that
//! cannot combine, fails or panics leaves its operands as they are.

pub(crate) mod survivors;
pub(crate) mod write;

#[cfg(test)]
mod tests;

use std::ops::Range;

/// Sizes of buckets and how many there may be: from the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most bytes of a bucket: 256 KiB, less where the budget is small.
    pub(crate) capacity_bytes: u64,
    /// Most buckets: one for each 16 KiB of the memory budget.
    pub(crate) buckets_max: usize,
    /// Live bytes from which a bucket is split, in percent of its capacity: 80, so that what is
    /// appended pays for the next collection.
    pub(crate) split_percent: u64,
    /// Whether buckets are split and merged.
    pub(crate) splits: bool,
}

impl Limits {
    /// The usual ones for buckets of this size.
    #[cfg(test)]
    pub(crate) const fn of(capacity_bytes: u64, buckets_max: usize) -> Self {
        Self { capacity_bytes, buckets_max, split_percent: 80, splits: true }
    }

    /// Bytes of live groups up to which they are one bucket.
    pub(crate) fn split_bytes(&self) -> u64 {
        (self.capacity_bytes * self.split_percent / 100).max(1)
    }

    /// Bytes up to which two neighbours are merged: far from being split again, which by default is
    /// half the capacity.
    pub(crate) fn merge_bytes(&self) -> u64 {
        self.split_bytes() * 5 / 8
    }

    /// Bytes of the first buckets: 5 % of the capacity, the rest is for appends.
    pub(crate) fn initial_bytes(&self) -> u64 {
        (self.capacity_bytes / 20).max(1)
    }

    /// Bytes of one key's records from which it is folded into its base: a bucket of its own would
    /// be near its limit, and a get would read most of it.
    pub(crate) fn key_bytes_max(&self) -> u64 {
        self.capacity_bytes / 2
    }
}

/// What becomes of the keys of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The keys of each new bucket, by number, in order.
    pub(crate) parts: Vec<Range<usize>>,
    /// Keys that are to be folded into their bases before anything is written.
    pub(crate) fold: Vec<usize>,
}

/// What to do with keys whose live records take so many bytes, where `others` buckets stay beside:
/// one bucket, or several, or folding. Rewrite, split and fold of the paper. Pass what is left
/// after folding once more, with `may_fold` false: then parts may be more than there should be,
/// but none is larger than a bucket.
pub(crate) fn outcome(
    key_bytes: &[u64],
    others: usize,
    limits: &Limits,
    may_fold: bool,
) -> Outcome {
    let total: u64 = key_bytes.iter().sum();
    let target = match (others, total > limits.split_bytes()) {
        (0, _) => limits.initial_bytes(),
        (_, false) => limits.split_bytes(),
        // What does not fit stays apart until it has been folded.
        (_, true) if !limits.splits => limits.capacity_bytes,
        // Equal parts, each half a bucket or a little more.
        (_, true) => total / (total / (limits.capacity_bytes / 2).max(1)).max(2) + 1,
    };
    let mut parts = parts_of(key_bytes, target);
    if others == 0 && parts.len() > limits.buckets_max {
        parts = parts_of(key_bytes, limits.split_bytes());
    }
    if !may_fold {
        return Outcome { parts, fold: Vec::new() };
    }
    let is_room = others + parts.len() <= limits.buckets_max && (limits.splits || others == 0);
    if !is_room && parts.len() > 1 {
        return Outcome { parts: Vec::new(), fold: (0..key_bytes.len()).collect() };
    }
    let is_long = |&number: &usize| {
        key_bytes.get(number).is_some_and(|bytes| *bytes > limits.key_bytes_max())
    };
    Outcome { parts, fold: (0..key_bytes.len()).filter(is_long).collect() }
}

/// Cuts keys into runs of up to so many bytes, a longer key excepted.
fn parts_of(key_bytes: &[u64], target: u64) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut sum) = (Vec::new(), 0, 0);
    for (number, bytes) in key_bytes.iter().enumerate() {
        if sum > 0 && sum + bytes > target {
            parts.push(start..number);
            (start, sum) = (number, 0);
        }
        sum += bytes;
    }
    if start < key_bytes.len() {
        parts.push(start..key_bytes.len());
    }
    parts
}

/// Which neighbours to merge, as the number of the left one: none while there is room for two
/// buckets more; then the pair that has the fewest bytes, if one bucket has room for both.
/// `is_fresh` tells of a bucket whether it has just come of a split.
pub(crate) fn pick_merge(
    bucket_bytes: &[u64],
    is_fresh: impl Fn(usize) -> bool,
    limits: &Limits,
) -> Option<usize> {
    if bucket_bytes.len() + 2 <= limits.buckets_max || !limits.splits {
        return None;
    }
    let pairs = bucket_bytes.windows(2).enumerate();
    pairs
        .filter(|(left, _)| !(is_fresh(*left) && is_fresh(left + 1)))
        .map(|(left, pair)| (pair.iter().sum::<u64>(), left))
        .min()
        .filter(|(bytes, _)| *bytes <= limits.merge_bytes())
        .map(|(_, left)| left)
}
