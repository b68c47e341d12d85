//! `wayfinder`: the index has bare keys, and an exact map in memory says where each key's newest
//! flushed value stands. A get needs the map and one read; a value that is put again changes the
//! map and nothing else, so that garbage is known at flush, and collection writes no index
//! (Wayfinder, SiMoD'24). A key for which the map has no room keeps its handle in the index.

use crate::base::error::Result;
use crate::values::handle::Handle;
use crate::values::ref_changes::RefChanges;
use crate::values::strategy::novkv::Novkv;
use crate::values::strategy::victims::{VictimOrder, VictimPolicy};
use crate::values::strategy::{Collects, Strategy};

/// The strategy; it has no state: the map is the engine's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wayfinder;

impl Strategy for Wayfinder {
    fn name(&self) -> &'static str {
        "wayfinder"
    }

    fn separates(&self, value_bytes: usize, separate_at: Option<usize>) -> bool {
        Novkv.separates(value_bytes, separate_at)
    }

    fn resolve(&self, handle: &[u8]) -> Result<Handle> {
        Novkv.resolve(handle)
    }

    fn born(&self, handle: &Handle, changes: &mut RefChanges) {
        Novkv.born(handle, changes);
    }

    fn died(&self, handle: &Handle, changes: &mut RefChanges) {
        Novkv.died(handle, changes);
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
