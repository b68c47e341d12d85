//! Drop facts: what is known of separated values that are superseded, kept until a collection of
//! their files has read it (rules R1-R7, R20). `docs/format/facts-section.md` has the bytes.
//!
//! A *fact* (file, key, N) says that a durable version N of the key exists; so every record of that
//! key with a smaller seq, strictly, is superseded, wherever it stands: the file only says whose
//! collection is to read it. A *moved* fact (file, key, seq) says that exactly this record was
//! copied elsewhere from the container that holds the file. Keys of more than 32 bytes are stated
//! by a keyed hash of 128 bits.
//!
//! There are no facts about ranges: compaction reports each entry that a range delete kills, and
//! a record of a keyspace that exists no more is dead without any.
//!
//! Flushes and compactions collect facts in a [`batch::FactBatch`], whose sections go into the edit
//! of their job (rule R6). [`directory::Facts`] adds the sections up; a collection takes from it,
//! before it reads the list of snapshots (rule R4), [`pinned::PinnedFacts`], and its edit discards
//! just those (rule R3). What is too much for memory goes to [`spilled`] files, of which `Facts`
//! knows where the facts about each value file stand. None of them has a lock: the engine publishes
//! `Facts` as it does the table of value files, and the others are each owned by one job.

pub(crate) mod batch;
pub(crate) mod directory;
pub(crate) mod edit;
#[cfg(test)]
mod model;
pub(crate) mod pinned;
mod run;
mod sorted;
pub(crate) mod spilled;
mod subject;
#[cfg(test)]
pub(crate) mod testing;
