//! Value files: where separated values live. A separated put stands in a value segment, which is
//! the log that made it durable and its home; index entries carry a handle to it.

pub(crate) mod handle;
