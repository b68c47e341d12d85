//! Facts in files of their own, so that neither memory nor the manifest holds all of them.
//! `docs/format/facts-file.md` has the bytes.
//!
//! What edits state of value files is in memory, and in the manifest, until it is *spilled*: all of
//! it goes into one file, sorted by value file, together with the files of facts that are about as
//! large or hold little that still counts ([`merge::plan`]). One edit names the new file and says
//! which ones it replaces; files of facts are never changed. What stands where is in the edit, too:
//! so a collection reads just the parts about its own value files, and opening reads none.
//!
//! What happened to facts while they were written is settled by the edit alone: a part of it counts
//! as far as the facts that it stands for still did ([`super::directory`], DF-5).

pub(crate) mod dump;
pub(crate) mod format;
pub(crate) mod merge;
pub(crate) mod named;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
