//! What shares the block cache's one budget: blocks of tables, values read one by one from value
//! files, records read one by one from an index, and what else other indexes keep of theirs. Plain
//! data. All of them take their numbers from one sequence, so a key of the cache is never that of
//! two kinds.

use std::any::Any;
use std::fmt::Debug;
// A `Value` is handed to users, and it is outside what the model checker watches.
use std::sync::Arc as ValueArc;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::value::Value;
use crate::memory::cache::Cached;
use crate::memory::cached_record::CachedRecord;

/// What an index keeps in the cache that this layer knows nothing of.
pub(crate) trait Resident: Any + Send + Sync + Debug {
    /// Memory held in bytes; constant over its life.
    fn memory_bytes(&self) -> u64;
}

/// A block, a record, a value, or something else.
#[derive(Clone, Debug)]
pub(crate) enum CacheEntry<B> {
    /// A block of a table.
    Block(B),
    /// The newest version of a key that an index has.
    Record(CachedRecord),
    /// A value out of a value file.
    Value(ValueArc<CachedValue>),
    /// What its owner knows.
    Resident(ValueArc<dyn Resident>),
}

/// A value whose record proved itself, with what the record said it is of.
#[derive(Debug)]
pub(crate) struct CachedValue {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: Box<[u8]>,
    /// The seq.
    pub(crate) seq: Seq,
    /// Where its record begins, as the handle has it that it was read by.
    pub(crate) offset: u64,
    /// Bytes of its record; zero where they are not known.
    pub(crate) record_bytes: u32,
    /// The value as the user gave it.
    pub(crate) value: Value,
}

impl<B> CacheEntry<B> {
    /// The block, if it is one.
    pub(crate) fn into_block(self) -> Option<B> {
        match self {
            Self::Block(block) => Some(block),
            Self::Record(_) | Self::Value(_) | Self::Resident(_) => None,
        }
    }

    /// The record, if it is one.
    pub(crate) fn into_record(self) -> Option<CachedRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::Block(_) | Self::Value(_) | Self::Resident(_) => None,
        }
    }

    /// The value, if it is one.
    pub(crate) fn into_value(self) -> Option<ValueArc<CachedValue>> {
        match self {
            Self::Block(_) | Self::Record(_) | Self::Resident(_) => None,
            Self::Value(value) => Some(value),
        }
    }

    /// What an owner of this type keeps, if it is that.
    pub(crate) fn into_resident<T: Resident>(self) -> Option<ValueArc<T>> {
        match self {
            Self::Block(_) | Self::Record(_) | Self::Value(_) => None,
            Self::Resident(resident) => {
                let any: ValueArc<dyn Any + Send + Sync> = resident;
                any.downcast().ok()
            }
        }
    }
}

impl<B: Cached> Cached for CacheEntry<B> {
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Block(block) => block.memory_bytes(),
            Self::Record(record) => record.memory_bytes(),
            Self::Value(value) => {
                let held = value.value.held_bytes() + value.key.len();
                (held + size_of::<CachedValue>() + 4 * size_of::<usize>()) as u64
            }
            Self::Resident(resident) => resident.memory_bytes(),
        }
    }
}
