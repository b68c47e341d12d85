//! What lives in memory: the memtable on its arena skip list, and the block cache. No I/O here.

mod arena;
pub(crate) mod cache;
pub(crate) mod cache_entry;
pub(crate) mod cached_record;
mod huge;
pub(crate) mod memtable;
pub(crate) mod prefetch;
mod skip_list;
