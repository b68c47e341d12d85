//! Which files are collected first, which of them are rewritten together, and how much of a file
//! must be garbage for that. Pure functions, so that orders can be compared with each other.
//!
//! What is hot dies soon: who waits a little moves less. So a file that died by half is better
//! collected than one that is about to, and what has survived several rewrites is cold, and goes
//! with its like: among it the hot records would only be carried along.

use crate::base::entry::{FileId, Seq};
use crate::values::strategy::space::{
    FileFigures, SpaceLimits, WORTH_PERCENT, is_worth, is_worth_it,
};

/// Files that were rewritten at least so often are of one kind.
const REWRITES_MAX: u32 = 3;

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VictimOrder {
    /// The file with the smallest number: what has lived longest without being collected (WiscKey,
    /// FAST'16).
    OldestFirst,
    /// The lowest valid rate: what frees most for what it rewrites now (NovKV, MSST'20).
    Greedy,
    /// Garbage by live bytes times the fourth root of the age of the newest record: cost and
    /// benefit of LFS (SOSP'91), where the cost is what is written, and age counts for less. With
    /// the age itself, files full of cold records are rewritten for next to nothing; the root costs
    /// uniform overwriting 2 %, and saves a skewed one a quarter.
    CostBenefit,
}

/// How a strategy chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VictimPolicy {
    /// What comes first.
    pub(crate) order: VictimOrder,
    /// Whether only files that were rewritten as often go into one.
    pub(crate) is_grouped: bool,
    /// While collection is due but not urgent, the garbage of a file must be at least this share of
    /// what is allowed beside its live bytes. Only where garbage is known as soon as there is some
    /// can it be more than for urgent collection: else much of it would be met too late.
    pub(crate) due_worth_percent: u64,
}

impl VictimPolicy {
    /// For an order, all else as simple as can be.
    pub(crate) const fn plain(order: VictimOrder) -> Self {
        Self { order, is_grouped: false, due_worth_percent: WORTH_PERCENT }
    }

    /// Where flushes say at once what died, so that nothing is missed by waiting for files that are
    /// worth more: beside a bound of 1.25, those of which half is garbage.
    pub(crate) const fn patient() -> Self {
        Self { order: VictimOrder::CostBenefit, is_grouped: true, due_worth_percent: 400 }
    }

    /// Puts files that are worth collecting into the order in which to do so.
    pub(crate) fn sort(&self, files: &mut [FileFigures]) {
        match self.order {
            VictimOrder::OldestFirst => files.sort_unstable_by_key(|file| file.id),
            VictimOrder::Greedy => files.sort_by(|left, right| {
                left.live_rate().total_cmp(&right.live_rate()).then(left.id.cmp(&right.id))
            }),
            VictimOrder::CostBenefit => {
                let now = files.iter().map(|file| file.newest_seq).max().unwrap_or(0);
                files.sort_by(|left, right| {
                    benefit(right, now).total_cmp(&benefit(left, now)).then(left.id.cmp(&right.id))
                });
            }
        }
    }

    /// Whether a file is worth collecting before that is urgent.
    pub(crate) fn is_worth_it_early(&self, file: &FileFigures, limits: &SpaceLimits) -> bool {
        is_worth_it(file, limits) && is_worth(file, limits, self.due_worth_percent)
    }

    /// The files to rewrite together, of those in this order: the first one, and of its like as
    /// many as live in `bytes_max` with it.
    pub(crate) fn together(
        &self,
        ranked: &[FileFigures],
        bytes_max: u64,
        count_max: usize,
    ) -> Vec<FileId> {
        let Some(first) = ranked.first() else { return Vec::new() };
        let kind = |file: &FileFigures| file.rewrites.min(REWRITES_MAX);
        let is_alike = |file: &&FileFigures| !self.is_grouped || kind(file) == kind(first);
        let mut chosen = Vec::new();
        let mut live_bytes = 0_u64;
        for file in ranked.iter().filter(is_alike).take(count_max) {
            live_bytes = live_bytes.saturating_add(file.live_bytes);
            if !chosen.is_empty() && live_bytes > bytes_max {
                break;
            }
            chosen.push(file.id);
        }
        chosen
    }
}

/// What collecting a file is worth, for [`VictimOrder::CostBenefit`].
fn benefit(file: &FileFigures, now: Seq) -> f64 {
    let age = now.saturating_sub(file.newest_seq).saturating_add(1) as f64;
    file.garbage_bytes() as f64 / file.live_bytes.max(1) as f64 * age.sqrt().sqrt()
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
