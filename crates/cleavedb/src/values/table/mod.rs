//! Value tables: the surviving records of one or several value files, rewritten in key order into
//! one container. `docs/format/value-table.md` has the bytes.
//!
//! A handle that names the present epoch of its file leads to its record with one read; any other
//! one, and whoever has no handle, searches by key and seq through a sparse index. Every record
//! says which file it came from, so that facts about that file still find it (rules R2, R7, R21).

pub(crate) mod dump;
pub(crate) mod format;
pub(crate) mod key_index;
pub(crate) mod properties;
pub(crate) mod reader;
pub(crate) mod scan;
#[cfg_attr(not(test), expect(dead_code, reason = "for who knows places by class"))]
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod verify;
pub(crate) mod writer;
