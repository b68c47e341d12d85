//! `wayfinder`: the index has bare keys, and an exact map in memory says where each key's newest
//! flushed value stands. A get needs the map and one read; a value that is put again changes the
//! map and nothing else, so that garbage is known at flush, and collection writes no index
//! (Wayfinder, SiMoD'24). A key for which the map has no room keeps its handle in the index.

use crate::values::strategy::victims::VictimPolicy;
use crate::values::strategy::{Collects, Strategy};

/// The strategy; it has no state: the map is the engine's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wayfinder;

impl Strategy for Wayfinder {
    fn name(&self) -> &'static str {
        "wayfinder"
    }

    fn collection(&self) -> Collects<'_> {
        Collects::Map
    }

    fn maps(&self) -> bool {
        true
    }

    /// Flushes say at once what died. Any policy will do, says the paper; it leaves keeping hot and
    /// cold apart to others.
    fn victims(&self) -> VictimPolicy {
        VictimPolicy::patient()
    }
}

#[cfg(test)]
mod tests;
