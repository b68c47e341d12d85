//! What the tests of all indexes share: runs of entries, an operator, a recording listener.

use std::collections::BTreeMap;

use crate::base::cursor::{BoxCursor, Cursor};
use crate::base::entry::{Kind, SEQ_MAX, Seq, compare_entries};
use crate::base::error::Result;
use crate::base::merge_operator::MergeOperator;
use crate::base::section::Section;
use crate::base::tombstone::RangeTombstone;
use crate::index::{Dead, Listener, Mended};

pub(crate) mod world;

/// An entry in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) seq: Seq,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
}

/// Sorts entries into entry order.
pub(crate) fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| compare_entries((&a.key, a.seq), (&b.key, b.seq)));
}

/// A cursor over entries in memory.
pub(crate) struct VecCursor {
    entries: Vec<Entry>,
    at: Option<usize>,
}

/// Makes cursors over the entries of a flush.
pub(crate) fn cursors_of(mut entries: Vec<Entry>) -> Box<dyn Fn() -> BoxCursor + Sync> {
    sort(&mut entries);
    Box::new(move || Box::new(VecCursor::new(entries.clone())))
}

impl VecCursor {
    pub(crate) fn new(mut entries: Vec<Entry>) -> Self {
        sort(&mut entries);
        Self { entries, at: None }
    }

    fn current(&self) -> &Entry {
        &self.entries[self.at.unwrap()]
    }

    fn first_at_or_after(&self, key: &[u8], seq: Seq) -> usize {
        self.entries.partition_point(|entry| {
            compare_entries((&entry.key, entry.seq), (key, seq)) == std::cmp::Ordering::Less
        })
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.at = (!self.entries.is_empty()).then_some(0);
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.at = self.entries.len().checked_sub(1);
        Ok(())
    }
    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.at = Some(self.first_at_or_after(key, seq)).filter(|at| *at < self.entries.len());
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.at = self.first_at_or_after(key, seq).checked_sub(1);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at = self.at.map(|at| at + 1).filter(|at| *at < self.entries.len());
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.at = self.at.and_then(|at| at.checked_sub(1));
        Ok(())
    }
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.current().key
    }
    fn seq(&self) -> Seq {
        self.current().seq
    }
    fn kind(&self) -> Kind {
        self.current().kind
    }
    fn value(&self) -> &[u8] {
        &self.current().value
    }
}

/// Appends operands, and fails where one of them contains '!' or panics where one contains '?'.
/// Operands that begin with '-' are never combined with one another.
pub(crate) struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "test.append"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let mut value = existing.unwrap_or_default().to_vec();
        for operand in operands {
            assert!(!operand.contains(&b'?'), "an operator that panics");
            if operand.contains(&b'!') {
                return Err("refused".to_owned());
            }
            value.extend_from_slice(operand);
        }
        Ok(value)
    }
    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let combined = [older, newer].concat();
        (!combined.iter().any(|byte| b"-!?".contains(byte))).then_some(combined)
    }
}

/// Notes what it is told.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// (key, seq) and superseding seq of the dead.
    pub(crate) dead: Vec<(Vec<u8>, Seq, Kind, Seq)>,
    /// New handles by seq.
    pub(crate) mended: BTreeMap<Seq, Vec<u8>>,
    /// Whether all tombstones must stay.
    pub(crate) keeps: bool,
}

impl Listener for Recorder {
    fn dead(&mut self, dead: Dead<'_>) {
        self.dead.push((dead.key.to_vec(), dead.seq, dead.kind, dead.superseded_by));
    }
    fn survivor(&mut self, _key: &[u8], seq: Seq, _handle: &[u8]) -> Option<Mended> {
        self.mended.get(&seq).cloned().map(Mended::Handle)
    }
    fn keeps_tombstone(&mut self, _key: &[u8], _seq: Seq) -> bool {
        self.keeps
    }
    fn finish(&mut self) -> Result<Vec<Section>> {
        Ok(Vec::new())
    }
}

/// What a read at `snapshot` finds, worked out naively from a whole history; an operand that the
/// operator refuses yields the list of what would have been merged.
pub(crate) fn naive_read(
    entries: &[Entry],
    tombstones: &[RangeTombstone],
    key: &[u8],
    snapshot: Seq,
) -> Option<Vec<u8>> {
    let hidden = tombstones
        .iter()
        .filter(|t| t.seq <= snapshot && &*t.start <= key && key < &*t.end)
        .map(|t| t.seq)
        .max()
        .unwrap_or(0);
    let mut versions: Vec<&Entry> = entries
        .iter()
        .filter(|entry| entry.key == key && entry.seq <= snapshot && entry.seq > hidden)
        .collect();
    versions.sort_by_key(|entry| entry.seq);
    let mut value = None;
    for version in versions {
        match version.kind {
            Kind::Delete => value = None,
            Kind::Merge => value.get_or_insert_with(Vec::new).extend_from_slice(&version.value),
            _ => value = Some(version.value.clone()),
        }
    }
    value
}

/// All seqs at which a test reads: the snapshots and the top.
pub(crate) fn reading_points(snapshots: &[Seq]) -> Vec<Seq> {
    snapshots.iter().copied().chain([SEQ_MAX]).collect()
}
