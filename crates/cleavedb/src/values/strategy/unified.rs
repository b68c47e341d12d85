//! `unified`: handles in the index, as `novkv` has them, and beside it a compact locator in memory,
//! from key to the place of its newest flushed value. A get goes by the locator first and proves
//! what it finds; flush learns from it what it supersedes, so that garbage is known long before
//! compaction meets it; collection writes neither index nor handles, and tells the locator where
//! records have gone.

use crate::values::strategy::victims::VictimPolicy;
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

    /// Flushes say at once what died.
    fn victims(&self) -> VictimPolicy {
        VictimPolicy::patient()
    }
}

#[cfg(test)]
mod tests;
