//! Keys, entries, codecs, checksums, errors and limits. Nothing here does I/O.

pub(crate) mod checksum;
pub(crate) mod codec;
pub(crate) mod compress;
pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod file_ids;
pub(crate) mod limits;
pub(crate) mod lookup;
pub(crate) mod marks;
pub(crate) mod merge_operator;
pub(crate) mod merging;
pub(crate) mod names;
pub(crate) mod obsolete;
pub(crate) mod planted;
pub(crate) mod recycled;
pub(crate) mod runs;
pub(crate) mod section;
pub(crate) mod striped;
pub(crate) mod sync;
pub(crate) mod tombstone;
pub(crate) mod usual;
pub(crate) mod value;
pub(crate) mod widths;
