//! `wayfinder`: the index has bare keys, and an exact map in memory says where each key's newest
//! flushed value stands. A get needs the map and one read; a value that is put again changes the
//! map and nothing else, so that garbage is known at flush, and collection writes no index
//! (Wayfinder, SiMoD'24). A key for which the map has no room keeps its handle in the index.

use crate::values::strategy::victims::{VictimOrder, VictimPolicy};
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

    /// Most garbage first, as the paper has it.
    fn victims(&self) -> VictimPolicy {
        VictimPolicy::plain(VictimOrder::Greedy)
    }
}

#[cfg(test)]
mod tests;
