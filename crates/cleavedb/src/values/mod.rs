//! Value files: where separated values live. A separated put stands in a value segment, which is
//! the log that made it durable and its home; index entries carry a handle to it.

pub(crate) mod cache;
pub(crate) mod container;
pub(crate) mod drops;
pub(crate) mod edit;
pub(crate) mod file;
pub(crate) mod file_table;
pub(crate) mod guards;
pub(crate) mod handle;
pub(crate) mod large;
pub(crate) mod locator;
#[cfg_attr(not(test), expect(dead_code, reason = "parts of it only the model and tests use"))]
pub(crate) mod map;
#[cfg(test)]
pub(crate) mod needed;
pub(crate) mod reader;
pub(crate) mod ref_changes;
pub(crate) mod repairs;
pub(crate) mod rewrite;
pub(crate) mod sample;
pub(crate) mod scanned;
pub(crate) mod segment;
pub(crate) mod strategy;
pub(crate) mod table;
pub(crate) mod tags;
pub(crate) mod tail_buffer;
#[cfg(test)]
pub(crate) mod testing;
