//! Checksummed frames in segment files: shared by journal, manifest and value log.
//!
//! A segment is a header and frames, only ever appended to. A frame is a header with a checksum
//! of its own, a payload that this layer does not interpret, and an end mark. `docs/format/
//! journal.md` specifies the bytes.

pub(crate) mod batch;
pub(crate) mod chain;
pub(crate) mod dump;
pub(crate) mod footer;
pub(crate) mod format;
pub(crate) mod group;
pub(crate) mod punched;
pub(crate) mod reader;
pub(crate) mod rewrite;
pub(crate) mod separated;
pub(crate) mod writer;

#[cfg(test)]
pub(crate) mod testing;
