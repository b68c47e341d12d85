//! What tells the ways of keeping separated values apart: where a value is put, how an index entry
//! leads to it, what the death of an entry means, whether a record is live, what to do when it has
//! moved, and which file is collected next. The mechanics (lanes, flush, garbage collection, reads)
//! are the engine's and the same for all.
//!
//! Decisions are pure functions; what a strategy must ask of the index is handed in as a trait
//! object.

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::values::handle::Handle;
use crate::values::ref_changes::RefChanges;

pub(crate) mod holes;
pub mod kind;
pub(crate) mod novkv;
pub(crate) mod space;
pub(crate) mod unified;
pub(crate) mod victims;
pub(crate) mod wayfinder;
pub(crate) mod wisckey;

use victims::VictimPolicy;

/// One way of keeping separated values. What all of them do alike is said here; a strategy says
/// where it differs.
pub(crate) trait Strategy: Send + Sync {
    /// Its name, as options and the manifest have it.
    fn name(&self) -> &'static str;

    /// Whether a value of this length is separated, in a keyspace that separates from
    /// `separate_at` bytes on (`None`: never).
    fn separates(&self, value_bytes: usize, separate_at: Option<usize>) -> bool {
        separate_at.is_some_and(|least| value_bytes >= least)
    }

    /// Where the record of an index entry is, from the bytes that the entry carries.
    fn resolve(&self, handle: &[u8]) -> Result<Handle> {
        Handle::decode(handle)
    }

    /// An entry with this handle comes into the index with the edit that `changes` goes into.
    fn born(&self, handle: &Handle, changes: &mut RefChanges) {
        changes.born(handle);
    }

    /// An entry with this handle leaves the index with that edit.
    fn died(&self, handle: &Handle, changes: &mut RefChanges) {
        changes.died(handle);
    }

    /// How garbage collection tells what is dead, and what it does with the rest.
    fn collection(&self) -> Collects<'_>;

    /// Whether a locator stands beside the index.
    fn locates(&self) -> bool {
        false
    }

    /// Whether an exact map in memory says where flushed values stand, and entries are bare.
    fn maps(&self) -> bool {
        false
    }

    /// Which files garbage collection takes first, and which together.
    fn victims(&self) -> VictimPolicy;
}

/// A record in a file under collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace<'a> {
    /// Its keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// Its key.
    pub(crate) key: &'a [u8],
    /// Its seq.
    pub(crate) seq: Seq,
    /// Where it is.
    pub(crate) handle: Handle,
}

/// What the engine knows of a key at this moment, memtables included.
pub(crate) trait NewestBase {
    /// The put that decides the key's value now; `None` where it is deleted, or never was, or its
    /// keyspace is gone.
    fn newest_base(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Base>>;
}

/// The put that decides a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// Its seq.
    pub(crate) seq: Seq,
    /// Its handle; `None` where the value stands in the entry.
    pub(crate) handle: Option<Handle>,
    /// Seq of the newest version of the key: larger than `seq` where merge operands follow.
    pub(crate) newest_seq: Seq,
}

/// Whether a record is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It is not its key's value any more. Views that are older may still read it.
    Dead,
    /// It is.
    Live {
        /// What the key's newest version must still be when the move is committed.
        newest_seq: Seq,
        /// Whether merge operands follow, which the move folds in.
        is_merged: bool,
    },
}

/// How garbage collection tells what is dead, and what it does with the rest.
#[derive(Clone, Copy)]
pub(crate) enum Collects<'a> {
    /// It asks the index about each record. A value that is live is put again, with a new seq, if
    /// the key's newest version is still the same (rule R22); the file goes away once no live view
    /// is older than the seq after the last check.
    Index(&'a dyn AsksIndex),
    /// Flush and compaction state facts about what died (rules R1 to R6). What they do not kill is
    /// rewritten in key order, in a container that takes the place of the old one under the same
    /// file numbers (rule R2). The index is neither asked nor written.
    Facts,
    /// What the map does not name is dead; what it names is rewritten in key order, and the map
    /// told of it (rule R23). The index is asked only about keys for which the map had no room.
    Map,
}

impl Collects<'_> {
    /// Whether records may move by themselves, with key and seq as they are: so that compaction can
    /// put them in order.
    pub(crate) fn moves_records(&self) -> bool {
        matches!(self, Self::Facts | Self::Map)
    }
}

/// How a strategy judges records by what the index says of their keys.
pub(crate) trait AsksIndex: Send + Sync {
    /// Whether a record in a file under collection is the value of its key.
    fn liveness(&self, record: &RecordPlace<'_>, index: &dyn NewestBase) -> Result<Liveness>;
}

#[cfg(test)]
mod tests;
