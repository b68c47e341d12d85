//! `novkv`: entries carry the handle, and a file that garbage collection rewrites keeps its number,
//! so that the handle goes on leading to the value: at its place where the file's epoch is still
//! the handle's, by its key where it is not. What died is known from flush and compaction
//! (collaborative compaction of NovKV, MSST'20).

use crate::values::strategy::victims::{VictimOrder, VictimPolicy};
use crate::values::strategy::{Collects, Strategy};

/// The strategy; it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Novkv;

impl Strategy for Novkv {
    fn name(&self) -> &'static str {
        "novkv"
    }

    fn collection(&self) -> Collects<'_> {
        Collects::Facts
    }

    fn victims(&self) -> VictimPolicy {
        VictimPolicy::plain(VictimOrder::Greedy)
    }
}

#[cfg(test)]
mod tests;
