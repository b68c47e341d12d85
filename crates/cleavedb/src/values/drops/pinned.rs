//! The facts that one collection goes by: those of its files at its start. Owned by the
//! collection's thread.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{KeyspaceId, Seq};
use crate::values::drops::edit::Discard;
use crate::values::drops::run::RunLines;
use crate::values::drops::sorted::SortedFacts;
use crate::values::drops::subject::{FactKind, Subject};

/// What facts say of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: it may be alive.
    Unknown,
    /// Superseded by the version of this seq, and no snapshot needs it.
    Superseded(Seq),
    /// Superseded by the version of this seq, but a live snapshot still sees it.
    Held(Seq),
    /// Copied elsewhere before.
    Moved,
}

impl Verdict {
    /// Whether the record may be left out.
    pub(crate) fn is_dead(self) -> bool {
        matches!(self, Self::Superseded(_) | Self::Moved)
    }
}

/// Figures of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FactCounts {
    /// Facts, each once, whatever files it was stated of.
    pub(crate) facts: u64,
    /// Records found superseded.
    pub(crate) superseded: u64,
    /// Records that are superseded, but held by a snapshot.
    pub(crate) held: u64,
    /// Records that were copied elsewhere before.
    pub(crate) moved: u64,
}

/// The facts about the files of one collection.
pub(crate) struct PinnedFacts {
    hash: KeyedHash,
    discards: Vec<Discard>,
    /// True of every file, so one list (rule R1).
    superseded: SortedFacts,
    /// True of one container each (rule R7): a list for each source.
    moved: Vec<SortedFacts>,
    counts: FactCounts,
}

impl PinnedFacts {
    /// Merges the runs of all sources.
    pub(super) fn new(hash: KeyedHash, discards: Vec<Discard>, runs: &[Vec<RunLines<'_>>]) -> Self {
        let of_source =
            |source: &Vec<RunLines<'_>>| SortedFacts::merge(FactKind::Moved, source.iter());
        Self {
            hash,
            discards,
            superseded: SortedFacts::merge(FactKind::Superseded, runs.iter().flatten()),
            moved: runs.iter().map(of_source).collect(),
            counts: FactCounts::default(),
        }
    }

    /// What the collection's own edit discards: all that was pinned, and nothing later (rule R3).
    pub(crate) fn discards(&self) -> &[Discard] {
        &self.discards
    }

    /// Judges a record that stands in the given source. `snapshots` are the live ones, ascending,
    /// read after the facts were pinned (rule R4).
    pub(crate) fn judge(
        &mut self,
        source: usize,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: Seq,
        snapshots: &[Seq],
    ) -> Verdict {
        debug_assert!(snapshots.is_sorted());
        let by = self.superseding(keyspace, key, seq);
        if self.was_moved(source, keyspace, key, seq) {
            self.counts.moved += 1;
            return Verdict::Moved;
        }
        let Some(by) = by else { return Verdict::Unknown };
        let first_not_below = snapshots.partition_point(|&snapshot| snapshot < seq);
        if snapshots.get(first_not_below).is_some_and(|&snapshot| snapshot < by) {
            self.counts.held += 1;
            return Verdict::Held(by);
        }
        self.counts.superseded += 1;
        Verdict::Superseded(by)
    }

    /// The smallest seq that supersedes a version. It decides: the interval in which a snapshot
    /// would hold the record is part of that of any larger one.
    fn superseding(&mut self, keyspace: KeyspaceId, key: &[u8], seq: Seq) -> Option<Seq> {
        if self.superseded.facts() == 0 {
            return None;
        }
        let subject = Subject::new(self.hash, FactKind::Superseded, keyspace, key);
        self.superseded.smallest_above(&subject, seq)
    }

    fn was_moved(&mut self, source: usize, keyspace: KeyspaceId, key: &[u8], seq: Seq) -> bool {
        let Some(moved) = self.moved.get_mut(source) else { return false };
        if moved.facts() == 0 {
            return false;
        }
        moved.has(&Subject::new(self.hash, FactKind::Moved, keyspace, key), seq)
    }

    /// Figures of what was judged so far.
    pub(crate) fn counts(&self) -> FactCounts {
        let moved: u64 = self.moved.iter().map(SortedFacts::facts).sum();
        FactCounts { facts: self.superseded.facts() + moved, ..self.counts }
    }

    /// Facts that no record judged so far has met. Walks over all.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn facts_unmet(&self) -> u64 {
        self.superseded.unmet() + self.moved.iter().map(SortedFacts::unmet).sum::<u64>()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let moved: u64 = self.moved.iter().map(SortedFacts::memory_bytes).sum();
        self.superseded.memory_bytes() + moved
    }
}

#[cfg(test)]
mod tests;
