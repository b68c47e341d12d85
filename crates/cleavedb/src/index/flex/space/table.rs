//! The segments of a space, what is live in each, and how much that is in all.
//!
//! What is due is decided after each change of a space, and there are a quarter of a million
//! segments in a terabyte: so the sums are kept, not made. Owned by the space's one writer.
//! Invariant ST-1: the sums are those of the segments in the table.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::base::entry::FileId;
use crate::base::sync::Arc;
use crate::index::flex::space::segment::Segment;

/// A segment, and what is live in it.
#[derive(Clone)]
pub(crate) struct SegmentState {
    /// The segment.
    pub(crate) segment: Arc<Segment>,
    /// Bytes of data.
    pub(crate) bytes: u64,
    /// Bytes that the space maps to, as of the last group.
    pub(crate) live_bytes: u64,
    /// Whether the log or the checkpoint says its birth.
    pub(crate) is_named: bool,
}

impl SegmentState {
    /// What is not live in it.
    fn garbage_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes)
    }
}

/// How much there is in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Bytes of data.
    pub(crate) bytes: u64,
    /// Those that are not live.
    pub(crate) garbage_bytes: u64,
}

impl Sums {
    fn add(&mut self, state: &SegmentState) {
        self.bytes += state.bytes;
        self.garbage_bytes += state.garbage_bytes();
    }

    /// Takes a segment out of them.
    pub(super) fn remove(&mut self, state: &SegmentState) {
        self.bytes -= state.bytes;
        self.garbage_bytes -= state.garbage_bytes();
    }
}

/// Segments by number.
#[derive(Default)]
pub(super) struct SegmentTable {
    states: BTreeMap<FileId, SegmentState>,
    sums: Sums,
}

impl Deref for SegmentTable {
    type Target = BTreeMap<FileId, SegmentState>;
    fn deref(&self) -> &Self::Target {
        &self.states
    }
}

impl From<BTreeMap<FileId, SegmentState>> for SegmentTable {
    fn from(states: BTreeMap<FileId, SegmentState>) -> Self {
        let mut sums = Sums::default();
        states.values().for_each(|state| sums.add(state));
        Self { states, sums }
    }
}

impl SegmentTable {
    /// How much there is in all of them.
    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    /// A segment has so many bytes now; one that is not there yet comes.
    pub(super) fn written(&mut self, segment: Arc<Segment>, bytes: u64) {
        let id = segment.id();
        let new = SegmentState { segment, bytes: 0, live_bytes: 0, is_named: false };
        let state = self.states.entry(id).or_insert(new);
        self.sums.remove(state);
        state.bytes = state.bytes.max(bytes);
        self.sums.add(state);
    }

    /// So much more is live in a segment, or less.
    pub(super) fn count_live(&mut self, id: FileId, change: i64) {
        let Some(state) = self.states.get_mut(&id) else { return };
        self.sums.remove(state);
        state.live_bytes = state.live_bytes.saturating_add_signed(change);
        self.sums.add(state);
    }

    /// Whether log or checkpoint says the births of these.
    pub(super) fn set_named(&mut self, segments: &[FileId], is_named: bool) {
        for id in segments {
            if let Some(state) = self.states.get_mut(id) {
                state.is_named = is_named;
            }
        }
    }

    /// Keeps those of which this is true.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(FileId, &SegmentState) -> bool) {
        let sums = &mut self.sums;
        self.states.retain(|id, state| {
            let is_kept = is_kept(*id, state);
            if !is_kept {
                sums.remove(state);
            }
            is_kept
        });
    }
}
