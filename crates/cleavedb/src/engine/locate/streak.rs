//! Gets whose answers the locator cannot lead to: of keys that are not there, or whose values stand
//! in the index. Each asks it for nothing, and where there are only such, they leave it out.
//!
//! Invariants: SK-1 whether a get asks the locator never changes its answer, only what it costs.
//! SK-2 one in eight keys asks it always and counts, by its hash, so that the same gets in the same
//! order do the same. SK-3 the first separated value that any get meets ends the streak.

use crate::base::sync::figures::{AtomicU32, Ordering};

/// Answers in a row, of keys that count, after which the others leave the locator out.
const STREAK_MIN: u32 = 32;
/// One in so many keys counts: a power of two.
const KEYS_PER_COUNTED: u64 = 8;

/// Answers in a row that were no separated values, in one keyspace.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    answers: AtomicU32,
}

impl Streak {
    /// Whether a get leaves the locator out. The key's hash is asked for only where it matters.
    #[inline]
    pub(crate) fn leaves_out(&self, hash: impl FnOnce() -> u64) -> bool {
        self.answers.load(Ordering::Relaxed) >= STREAK_MIN && !counts(hash())
    }

    /// The index has answered a get of the key with this hash.
    #[inline]
    pub(crate) fn note(&self, hash: u64, is_separated: bool) {
        if is_separated {
            self.end();
        } else if counts(hash) && self.answers.load(Ordering::Relaxed) < STREAK_MIN {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A get has met a separated value.
    #[inline]
    pub(crate) fn end(&self) {
        // Written as seldom as can be: all threads that read share it.
        if self.answers.load(Ordering::Relaxed) > 0 {
            self.answers.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether gets of the key with this hash count (SK-2). The low bits choose shards elsewhere.
fn counts(hash: u64) -> bool {
    (hash >> 32).is_multiple_of(KEYS_PER_COUNTED)
}

#[cfg(test)]
mod tests;
