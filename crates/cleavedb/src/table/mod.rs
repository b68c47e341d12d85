//! Sorted tables: immutable files of entries in order, with blocks, index, filter and checksums.
//!
//! `docs/format/table.md` describes the file byte by byte. A table is written once by a
//! [`writer::TableWriter`], named by the manifest with a [`meta::TableMeta`], and read through a
//! [`reader::TableReader`] that the [`cache::TableCache`] keeps open.

pub(crate) mod batch;
pub(crate) mod block;
pub(crate) mod block_builder;
pub(crate) mod block_cursor;
pub(crate) mod block_index;
pub(crate) mod cache;
pub(crate) mod cursor;
pub(crate) mod dump;
pub(crate) mod filter;
pub(crate) mod format;
pub(crate) mod meta;
pub(crate) mod properties;
pub(crate) mod reader;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tombstones;
pub(crate) mod verify;
pub(crate) mod writer;

/// What the block cache holds.
pub(crate) type CacheEntry = crate::memory::cache_entry::CacheEntry<block::Block>;

/// The block cache: of blocks, and of values that are read one by one.
pub(crate) type BlockCache = crate::memory::cache::BlockCache<CacheEntry>;
