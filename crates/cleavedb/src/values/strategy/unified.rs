//! `unified`: handles in the index, as `novkv` has them, and beside it a compact locator in memory,
//! from key to the place of its newest flushed value. A get goes by the locator first and proves
//! what it finds; flush learns from it what it supersedes, so that garbage is known long before
//! compaction meets it; collection writes neither index nor handles, and tells the locator where
//! records have gone.

use crate::values::strategy::victims::{VictimOrder, VictimPolicy};
use crate::values::strategy::{Collects, Strategy};

/// The strategy; it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unified;

impl Strategy for Unified {
    fn name(&self) -> &'static str {
        "unified"
    }

    fn collection(&self) -> Collects<'_> {
        Collects::Facts
    }

    fn locates(&self) -> bool {
        true
    }

    /// Flushes say at once what died, so that nothing is missed by waiting for files that are worth
    /// more: beside a bound of 1.25, those of which half is garbage.
    fn victims(&self) -> VictimPolicy {
        VictimPolicy { order: VictimOrder::CostBenefit, is_grouped: true, due_worth_percent: 400 }
    }
}

#[cfg(test)]
mod tests;
