//! Getting space back: what lives in segments of much garbage is written again, in the group in the
//! making, and the segments go once that counts. It goes to a segment of its own: what has lived so
//! long mostly lives on, so that a segment of such bytes, and one of new ones alone, come to be
//! nearly full of garbage, or of none.
//!
//! Run by the one writer, whenever it likes; which segments are worth it is a pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::planted::planted;
use crate::index::flex::space::pieces::{Joining, Part, read_parts};
use crate::index::flex::space::record::Record;
use crate::index::flex::space::segment::format::{BLOCKS_MAX, DATA_BYTES, place_of};
use crate::index::flex::space::{SegmentState, Space, Sums, missing};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::Placed;
use crate::io::Purpose;

/// Bytes and pieces that are in memory at a time while they are moved. The more, the fewer passes
/// over what is emptied: with as many, a pass finds something to take in nearly each block.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_PIECES: usize = 1 << 15;

/// Garbage that is left alone on a full disk, in percent of all data: less would cost twenty times
/// as much to move as it brings.
pub(crate) const FULL_DISK_GARBAGE_PERCENT: u64 = 5;
/// Segments that nothing leads to any more and that readers may hold before no more are emptied
/// on a full disk.
const LEAVING_MAX: usize = 4;

/// What a reclaim did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reclaimed {
    /// Segments that nothing leads to any more.
    pub(crate) segments: u64,
    /// Their bytes.
    pub(crate) freed_bytes: u64,
    /// Bytes that were written again.
    pub(crate) moved_bytes: u64,
    /// Walks of all of the tree, where owners did not tell of all that lives.
    pub(crate) walks: u64,
}

impl Reclaimed {
    /// Whether it takes less room than before, a group being written in whole blocks.
    pub(crate) fn is_gain(&self) -> bool {
        self.freed_bytes > self.moved_bytes.next_multiple_of(DATA_BYTES)
    }
}

/// Which of these segments to empty: those with the largest share of garbage first, as long as
/// there is more garbage in all than is left alone, and while what is moved stays within
/// `moved_bytes_max`; the first one in any case.
pub(crate) fn victims(
    segments: &[(FileId, u64, u64)],
    garbage_percent_max: u64,
    moved_bytes_max: u64,
) -> Vec<FileId> {
    let mut order: Vec<_> = segments.iter().filter(|(_, bytes, live)| live < bytes).collect();
    // Shares of garbage as cross products; the older one first.
    order.sort_by(|(a_id, a_bytes, a_live), (b_id, b_bytes, b_live)| {
        let (a, b) = (u128::from(a_bytes - a_live), u128::from(b_bytes - b_live));
        (b * u128::from(*a_bytes)).cmp(&(a * u128::from(*b_bytes))).then(a_id.cmp(b_id))
    });
    let mut bytes: u64 = segments.iter().map(|(_, bytes, _)| *bytes).sum();
    let mut garbage: u64 = order.iter().map(|(_, bytes, live)| bytes - live).sum();
    let (mut chosen, mut moved) = (Vec::new(), 0);
    for (id, of_it, live) in order {
        let is_enough = garbage.saturating_mul(100) <= bytes.saturating_mul(garbage_percent_max);
        if is_enough || (moved + live > moved_bytes_max && !chosen.is_empty()) {
            break;
        }
        chosen.push(*id);
        moved += live;
        garbage -= of_it - live;
        bytes -= of_it - live;
    }
    chosen
}

impl Space {
    /// What is in segments as of the last group, but for those that are written to.
    pub(crate) fn closed_sums(&self) -> Sums {
        let mut sums = self.segments.sums();
        let open = self.writers().filter_map(|writer| self.segments.get(&writer.segment().id()));
        open.for_each(|state| sums.remove(state));
        sums
    }

    /// The segments that a reclaim would empty now.
    pub(crate) fn victims(&self, moved_bytes_max: u64) -> BTreeSet<FileId> {
        let percent = self.context.limits.garbage_percent_max;
        victims(&self.closed_segments(), percent, moved_bytes_max).into_iter().collect()
    }

    /// What is in all segments as of the last group.
    pub(crate) fn sums(&self) -> Sums {
        self.segments.sums()
    }

    fn closed_segments(&self) -> Vec<(FileId, u64, u64)> {
        let closed = self.segments().filter(|(id, _)| !self.is_open(*id));
        closed.map(|(id, state)| (id, state.bytes, state.live_bytes)).collect()
    }

    /// Empties segments of much garbage, at most about `moved_bytes_max` of live data, as part of
    /// the group in the making. `find` says where in the space an owner's bytes lie now.
    ///
    /// # Errors
    /// Those of the disk, and of data that is not what was written; the group is taken back then.
    pub(crate) fn reclaim(
        &mut self,
        moved_bytes_max: u64,
        find: &dyn Fn(u64) -> Option<Range<u64>>,
    ) -> Result<Reclaimed> {
        let percent = self.context.limits.garbage_percent_max;
        self.reclaim_down_to(percent, (moved_bytes_max, true), find)
    }

    /// The same on a full disk: of the garbage that is left alone elsewhere nearly all is worth
    /// its room, and no more is moved at once than one segment takes; where that was too much, one
    /// segment is emptied. Nothing while readers hold what was emptied before: then it takes room
    /// and gives none. What is moved goes where new bytes go: one segment is begun less.
    ///
    /// # Errors
    /// Those of [`Space::reclaim`].
    pub(crate) fn reclaim_on_full_disk(
        &mut self,
        find: &dyn Fn(u64) -> Option<Range<u64>>,
    ) -> Result<Reclaimed> {
        self.leaving.retain(|segment| segment.strong_count() > 0);
        if self.leaving.len() > LEAVING_MAX {
            return Ok(Reclaimed::default());
        }
        self.check_open()?;
        self.end_segments()?;
        let limits = &self.context.limits;
        let percent = limits.garbage_percent_max.min(FULL_DISK_GARBAGE_PERCENT);
        let moved_bytes_max = match std::mem::replace(&mut self.has_lacked_room, true) {
            true => 0,
            false => limits.segment_blocks.min(BLOCKS_MAX) * DATA_BYTES,
        };
        self.reclaim_down_to(percent, (moved_bytes_max, false), find)
    }

    fn reclaim_down_to(
        &mut self,
        garbage_percent_max: u64,
        (moved_bytes_max, is_apart): (u64, bool),
        find: &dyn Fn(u64) -> Option<Range<u64>>,
    ) -> Result<Reclaimed> {
        self.check_open()?;
        let mut reclaimed = Reclaimed::default();
        let chosen: BTreeMap<FileId, SegmentState> =
            victims(&self.closed_segments(), garbage_percent_max, moved_bytes_max)
                .into_iter()
                .filter_map(|id| Some((id, self.segments.get(&id)?.clone())))
                .collect();
        if is_apart {
            self.swap_survivors();
        }
        let emptied = self.empty(&chosen, find, &mut reclaimed);
        if is_apart {
            self.swap_survivors();
        }
        if let Err(error) = emptied {
            self.roll_back();
            return Err(error);
        }
        reclaimed.segments = chosen.len() as u64;
        reclaimed.freed_bytes = chosen.values().map(|state| state.bytes).sum();
        Ok(reclaimed)
    }

    /// Moves all that lives in these segments.
    ///
    /// All of them together: random writes leave something of nearly every owner in each segment,
    /// so to empty one after the other would be to walk nearly all of the tree for each.
    fn empty(
        &mut self,
        chosen: &BTreeMap<FileId, SegmentState>,
        find: &dyn Fn(u64) -> Option<Range<u64>>,
        reclaimed: &mut Reclaimed,
    ) -> Result<()> {
        let mut owners = BTreeSet::new();
        for state in chosen.values() {
            owners.extend(state.segment.owners(Purpose::Collection)?.unwrap_or_default());
        }
        let length = self.tree().length();
        let home = |owner| {
            let range = find(owner)?;
            Some((range.start.min(length)..range.end.min(length), owner))
        };
        let mut homes: Vec<(Range<u64>, u64)> = owners.into_iter().filter_map(home).collect();
        homes.sort_by_key(|(range, owner)| (range.start, *owner));
        self.empty_ranges(chosen, &homes, reclaimed)?;
        let is_left = |(id, state): (&FileId, &SegmentState)| {
            let change = self.making.changes.get(id).copied().unwrap_or_default();
            state.live_bytes.saturating_add_signed(change) > 0
        };
        if chosen.iter().any(is_left) {
            reclaimed.walks += 1;
            self.empty_ranges(chosen, &[(0..length, 0)], reclaimed)?;
        }
        Ok(())
    }

    /// Moves what lives in these segments of ranges of the space, each with its owner, in order of
    /// where they begin.
    fn empty_ranges(
        &mut self,
        chosen: &BTreeMap<FileId, SegmentState>,
        homes: &[(Range<u64>, u64)],
        reclaimed: &mut Reclaimed,
    ) -> Result<()> {
        let mut batch = Batch::default();
        // What was looked at: homes of owners that were one may overlap.
        let mut from = 0;
        for (range, owner) in homes {
            from = range.start.max(from);
            while from < range.end {
                from = batch.fill(self.making.tree(), from..range.end, *owner, chosen)?;
                if batch.is_full() {
                    self.move_pieces(&batch, chosen, reclaimed)?;
                    batch = Batch::default();
                }
            }
        }
        self.move_pieces(&batch, chosen, reclaimed)
    }

    /// Writes pieces again, in the order of the space.
    fn move_pieces(
        &mut self,
        batch: &Batch,
        chosen: &BTreeMap<FileId, SegmentState>,
        reclaimed: &mut Reclaimed,
    ) -> Result<()> {
        let mut parts = Vec::with_capacity(batch.pieces.len());
        let mut at = 0;
        for (piece, _) in &batch.pieces {
            let (id, position) = place_of(piece.extent.physical);
            let segment = &chosen.get(&id).ok_or_else(|| missing(id))?.segment;
            let bytes = u64::from(piece.extent.length);
            parts.push(Part { segment, position, bytes, place: (0, at) });
            at += bytes as usize;
        }
        let read = read_parts(parts, 1, Joining::FOR_SWEEPS, Purpose::Collection)?
            .pop()
            .unwrap_or_default();
        let mut rest = read.as_slice();
        for (piece, owner) in &batch.pieces {
            let Some((bytes, behind)) = rest.split_at_checked(piece.extent.length as usize) else {
                return Err(Error::corruption("a piece that was not read"));
            };
            rest = behind;
            let (mut offset, mut old) = (piece.offset, piece.extent.physical);
            for extent in self.making.append(bytes, *owner, Purpose::Collection)? {
                let (length, new) = (u64::from(extent.length), extent.physical);
                self.making.tree.relocate(offset..offset + length, old, new)?;
                *self.making.changes.entry(place_of(old).0).or_default() -= length.cast_signed();
                if !planted!("flex_moved_bytes_not_counted") {
                    let count = self.making.changes.entry(place_of(new).0).or_default();
                    *count += length.cast_signed();
                }
                self.making.note(&Record::Moved { offset, length, old, new })?;
                (offset, old) = (offset + length, old + length);
                reclaimed.moved_bytes += length;
            }
        }
        Ok(())
    }
}

/// Pieces that are moved together, in the order of the space, each with its owner.
#[derive(Default)]
struct Batch {
    pieces: Vec<(Placed, u64)>,
    bytes: u64,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_PIECES
    }

    /// Takes in what of a range lives in these segments, until it is full; returns how far it came.
    fn fill(
        &mut self,
        tree: &Tree,
        range: Range<u64>,
        owner: u64,
        chosen: &BTreeMap<FileId, SegmentState>,
    ) -> Result<u64> {
        for piece in tree.walk(range.clone())? {
            if chosen.contains_key(&place_of(piece.extent.physical).0) {
                self.bytes += u64::from(piece.extent.length);
                self.pieces.push((piece, owner));
                if self.is_full() {
                    return Ok(piece.end());
                }
            }
        }
        Ok(range.end)
    }
}
