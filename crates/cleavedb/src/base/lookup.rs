//! The state of one point read while it walks sources from newest to oldest.

use crate::base::entry::{Kind, Seq};
use crate::base::value::Value;

/// The entry that decided a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Sequence number of the deciding entry (for a range delete: of the tombstone).
    pub(crate) seq: Seq,
    /// `Put*` or `Delete`; a covering range delete is reported as `RangeDelete`.
    pub(crate) kind: Kind,
    /// Inline value, or encoded handle for `PutSeparated`; empty otherwise.
    pub(crate) value: Value,
}

/// Collects what a read at `snapshot` needs: merge operands from newest to oldest, then the base.
///
/// Sources are offered from newest to oldest (memtables, then the index level by level). Within a
/// source: first [`Lookup::cover`] with the newest range tombstone that covers the key, then
/// [`Lookup::offer`] for each version with seq <= snapshot from newest to oldest, and after the
/// source [`Lookup::end_source`]. Stop as soon as a call returns true.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// Versions above this seq are invisible.
    pub(crate) snapshot: Seq,
    /// Merge operands, newest first.
    pub(crate) operands: Vec<(Seq, Value)>,
    /// The deciding entry, once met.
    pub(crate) found: Option<Found>,
    /// Newest seq of any visible version met: the version that conditional commits compare.
    pub(crate) newest_seq: Seq,
    /// Whether it is of what is there now, for whoever reads: what it meets may be worth tidying
    /// up.
    pub(crate) is_of_now: bool,
    /// Whether operands were met in an index that has buckets for them.
    pub(crate) has_strays: bool,
    cover: Seq,
}

impl Lookup {
    /// A lookup of what a view at `snapshot` sees.
    pub(crate) fn new(snapshot: Seq) -> Self {
        Self {
            snapshot,
            operands: Vec::new(),
            found: None,
            newest_seq: 0,
            is_of_now: false,
            has_strays: false,
            cover: 0,
        }
    }

    /// Notes a range tombstone over the key (0 for none); must be visible at the snapshot.
    pub(crate) fn cover(&mut self, seq: Seq) {
        debug_assert!(seq <= self.snapshot);
        self.cover = self.cover.max(seq);
        self.newest_seq = self.newest_seq.max(seq);
    }

    /// Offers the next older version; returns true when the lookup is decided.
    pub(crate) fn offer(&mut self, seq: Seq, kind: Kind, value: impl FnOnce() -> Value) -> bool {
        debug_assert!(seq <= self.snapshot && self.found.is_none());
        if seq < self.cover {
            return self.end_source();
        }
        self.newest_seq = self.newest_seq.max(seq);
        match kind {
            Kind::Merge => {
                self.operands.push((seq, value()));
                false
            }
            Kind::Put | Kind::PutSeparated | Kind::PutBare => {
                self.found = Some(Found { seq, kind, value: value() });
                true
            }
            Kind::Delete => {
                self.found = Some(Found { seq, kind, value: Value::copy_from(&[]) });
                true
            }
            Kind::RangeDelete | Kind::Relocation => false,
        }
    }

    /// Takes in operands that are kept apart from the source that was asked last, in front of which
    /// there were `operands_before`. At or below `anchor` nothing of either counts.
    pub(crate) fn add_apart(
        &mut self,
        operands_before: usize,
        anchor: Seq,
        operands: Vec<(Seq, Value)>,
    ) {
        debug_assert!(operands.first().is_none_or(|(seq, _)| *seq <= self.snapshot));
        let newest = operands.first().map_or(0, |(seq, _)| *seq);
        self.newest_seq = self.newest_seq.max(newest).max(anchor);
        let found = self.found.as_ref().map_or(0, |found| found.seq);
        if anchor > found {
            let value = Value::copy_from(&[]);
            self.found = Some(Found { seq: anchor, kind: Kind::Delete, value });
        }
        let base = found.max(anchor);
        let mut both = self.operands.split_off(operands_before.min(self.operands.len()));
        both.extend(operands);
        both.retain(|(seq, _)| *seq > base);
        both.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
        self.operands.append(&mut both);
    }

    /// Ends a source: a range tombstone met in it hides every older source.
    pub(crate) fn end_source(&mut self) -> bool {
        if self.found.is_none() && self.cover > 0 {
            let value = Value::copy_from(&[]);
            self.found = Some(Found { seq: self.cover, kind: Kind::RangeDelete, value });
        }
        self.found.is_some()
    }
}
