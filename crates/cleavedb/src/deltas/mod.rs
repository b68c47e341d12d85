//! The delta store: merge operands outside the index, in buckets of disjoint key ranges, so that
//! all flushed deltas of a key stand in one file and a get finds them with two reads.

pub(crate) mod bucket;
pub(crate) mod cache;
pub(crate) mod collect;
pub(crate) mod cursor;
pub(crate) mod directory;
pub(crate) mod edit;
#[cfg(test)]
mod model;
pub(crate) mod ranges;
pub(crate) mod record;
pub(crate) mod route;
#[cfg(test)]
pub(crate) mod testing;
