//! Values that a scan will ask for: sorted by place, neighbours joined, their device reads begun
//! together and awaited when the first of them is asked for.
//!
//! Owned by one scan. Invariants: VA-1 nothing is handed out before its record proved itself, and
//! an error shows only with the value it concerns. VA-2 the files are pinned as long as reads are
//! under way.

use std::ops::Range;
use std::sync::Arc as BytesArc;

use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::io::Purpose;
use crate::io::disk::ReadsUnderWay;
use crate::memory::cache_entry::CachedValue;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::reader::batch::{Cost, Piece, PieceBytes, Spot, Way, conclude, join, prepare};
use crate::values::reader::large::read_whole;
use crate::values::reader::{Home, ValueReader, Wanted, damaged, value_of};

/// Records at most so far apart are read in one piece. With the device's queue full, what lies
/// between must take less time to transfer than one of many reads takes: less than where a read
/// is waited for alone.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// Of values side by side that the cache has nothing of, so many in a row are not asked for. Where
/// reads go through the page cache, none of them is: to copy a value out of a read takes less
/// time than to ask for it.
const SPARED_MAX: usize = 3;

/// Records are side by side with at most so much between them.
const BESIDE_BYTES_MAX: u64 = 64;

/// The record before, which the cache has nothing of: the one beside it comes with the same read
/// in any case, and what scans and gets have left in the cache of a run is mostly all or nothing.
struct Missed {
    last: Option<Handle>,
    spared: usize,
    spared_max: usize,
}

impl Missed {
    /// Nothing yet; whether reads go past the page cache.
    fn before_all(is_direct: bool) -> Self {
        Self { last: None, spared: 0, spared_max: if is_direct { SPARED_MAX } else { usize::MAX } }
    }

    /// Whether the cache need not be asked for this one.
    fn spares(&mut self, handle: &Handle) -> bool {
        let is_beside = self.last.is_some_and(|last| {
            let gap = handle.offset.max(last.offset).checked_sub(handle.end().min(last.end()));
            (last.file, last.epoch) == (handle.file, handle.epoch)
                && gap.is_some_and(|gap| gap <= BESIDE_BYTES_MAX)
        });
        self.spared = if is_beside && self.spared < self.spared_max { self.spared + 1 } else { 0 };
        self.spared > 0
    }
}

/// Where a value will come from.
enum Place {
    /// From memory: what was just written to this file.
    Tail(Arc<ValueFile>, BytesArc<Vec<u8>>, Range<usize>),
    /// From memory: a get has read it.
    Kept(Arc<ValueFile>, BytesArc<CachedValue>),
    /// From a file of its own, when it is asked for: there is nothing to be joined.
    Large(Arc<ValueFile>),
    /// From the piece of this number, at the spot of that number.
    Piece(usize, usize),
    /// From nowhere.
    Lost(Error),
}

/// Values whose reads have been begun.
pub(crate) struct ValuesAhead {
    under_way: Option<Box<dyn ReadsUnderWay>>,
    places: Vec<Place>,
    pieces: Vec<Piece>,
    /// Where in them each value is, in the order of the places.
    spots: Vec<Spot>,
    /// Which pieces could be tried at all; empty once the reads have ended.
    opened: Vec<Result<()>>,
    /// What the pieces brought.
    brought: Vec<PieceBytes>,
    /// Which pieces a scan has read lately.
    known: Vec<bool>,
    /// Whether the reads waited for no device; none where nothing was read.
    at_once: Option<bool>,
}

impl ValueReader<'_> {
    /// Begins to read many values and waits for none, but for indexes of value tables. Whether the
    /// cache is to learn of it: of what is wanted there, and what is read again.
    pub(crate) fn begin(
        &self,
        wanted: &[Wanted<'_>],
        purpose: Purpose,
        is_noted: bool,
    ) -> ValuesAhead {
        let io = &self.context.io;
        // (number, its way), of those that need the device
        let mut open: Vec<(usize, Way<'_>)> = Vec::with_capacity(wanted.len());
        let mut places: Vec<Place> = Vec::with_capacity(wanted.len());
        let mut missed = Missed::before_all(self.context.direct_reads);
        for (number, one) in wanted.iter().enumerate() {
            let is_spared = missed.spares(&one.handle);
            let place = self.place_of(one, purpose, is_noted, is_spared);
            missed.last = matches!(place, Ok(Ok(_))).then_some(one.handle);
            places.push(match place {
                Ok(Ok(way)) => {
                    open.push((number, way));
                    Place::Piece(0, 0)
                }
                Ok(Err(place)) => place,
                Err(error) => Place::Lost(error),
            });
        }
        open.sort_unstable_by_key(|(_, way)| way.order());
        let pieces = join(open.iter().map(|(_, way)| way), GAP_BYTES_MAX);
        for (number, piece) in pieces.iter().enumerate() {
            for way in piece.from..piece.to {
                let place = open.get(way).and_then(|&(place, _)| places.get_mut(place));
                if let Some(place) = place {
                    *place = Place::Piece(number, way);
                }
            }
        }
        let spots: Vec<Spot> = open.into_iter().map(|(_, way)| way.spot).collect();
        let (opened, reads) = prepare(&pieces, &io.meter, purpose);
        let under_way = (!reads.is_empty()).then(|| {
            io.meter.batch_submitted();
            io.disk.start_batch(reads)
        });
        let at_once = under_way.as_ref().map(|reads| reads.came_at_once());
        let known = if is_noted { self.known(&pieces, &spots) } else { Vec::new() };
        let brought = Vec::new();
        ValuesAhead { under_way, places, pieces, spots, opened, brought, known, at_once }
    }

    /// Which pieces a scan has read lately, of those that are wanted almost whole: what lies
    /// between scattered values is read again by the same scan. What the page cache keeps with
    /// one look-up for many values is not kept again with one for each.
    fn known(&self, pieces: &[Piece], spots: &[Spot]) -> Vec<bool> {
        let scanned = &self.context.cache.scanned;
        let is_known = |piece: &Piece| {
            let spots = spots.get(piece.from..piece.to).unwrap_or_default();
            if spots.len() > 1 && !self.context.direct_reads {
                return false;
            }
            let bytes: u64 = spots.iter().map(|spot| spot.range.end - spot.range.start).sum();
            let is_dense = bytes * 4 > (piece.end - piece.offset) * 3;
            is_dense && scanned.meet(piece.file.id(), piece.offset..piece.end)
        };
        pieces.iter().map(is_known).collect()
    }

    /// Where a value will come from: by way of the device, or from elsewhere.
    fn place_of(
        &self,
        wanted: &Wanted<'_>,
        purpose: Purpose,
        is_noted: bool,
        is_spared: bool,
    ) -> Result<std::result::Result<Way<'_>, Place>> {
        let handle = &wanted.handle;
        if handle.is_large() {
            let file = self.large_file_of(handle)?;
            return Ok(Err(Place::Large(Arc::clone(file))));
        }
        let home = self.home_of(handle)?;
        let file = match home {
            Home::Segment(file) => file,
            Home::Container(home, _) => home.file(),
        };
        if let Home::Segment(_) = home
            && let Some((owner, range)) = self.in_tail(handle)
        {
            return Ok(Err(Place::Tail(Arc::clone(file), owner, range)));
        }
        let cache = &self.context.cache;
        let kept = match is_noted {
            _ if is_spared => None,
            true => cache.touch(self.cache_place(handle)),
            false => cache.peek(self.cache_place(handle)),
        };
        match kept {
            // What is kept of a file of before its rewrite may be of another record.
            Some(kept) if kept.of(wanted).is_some() || matches!(home, Home::Segment(_)) => {
                Ok(Err(Place::Kept(Arc::clone(file), kept)))
            }
            _ => home.way(wanted, purpose).map(Ok),
        }
    }
}

impl ValueReader<'_> {
    /// Keeps a value out of these, if scans come back to where it stands.
    pub(crate) fn keep_known(
        &self,
        ahead: &ValuesAhead,
        number: usize,
        wanted: &Wanted<'_>,
        value: &Value,
    ) {
        if let Some(&Place::Piece(at, _)) = ahead.places.get(number)
            && ahead.known.get(at).is_some_and(|is_known| *is_known)
        {
            self.context.cache.keep_scanned(wanted, self.cache_place(&wanted.handle), value);
        }
    }
}

impl ValuesAhead {
    /// The value of this number, in the order in which they were begun.
    pub(crate) fn value(&mut self, number: usize, wanted: &Wanted<'_>) -> Result<Value> {
        self.finish();
        match self.places.get(number) {
            Some(Place::Lost(error)) => Err(error.clone()),
            Some(Place::Tail(file, owner, range)) => {
                value_of(file, wanted, BytesArc::clone(owner).into(), range.clone())
            }
            Some(Place::Large(file)) => read_whole(file, wanted, Purpose::Read),
            Some(Place::Kept(file, kept)) => kept.of(wanted).ok_or_else(|| {
                let error = Error::corruption("two entries name one value");
                damaged(file, wanted.handle.offset, error)
            }),
            Some(&Place::Piece(at, spot)) => match self.piece(at, spot) {
                Some((piece, bytes, spot)) => piece.value(bytes, wanted, spot),
                None => Err(Error::invalid("a piece that was not begun")),
            },
            None => Err(Error::invalid("a value that was not begun")),
        }
    }

    fn piece(&self, at: usize, spot: usize) -> Option<(&Piece, &PieceBytes, &Spot)> {
        Some((self.pieces.get(at)?, self.brought.get(at)?, self.spots.get(spot)?))
    }

    /// What these values cost more than if they stood side by side ([`Cost::needless`]).
    pub(crate) fn needless_reads(&self, order_bytes: u64) -> u64 {
        Cost::of(&self.pieces, &self.spots).needless(order_bytes)
    }

    /// Whether the reads waited for no device; none where nothing was read.
    pub(crate) fn came_at_once(&self) -> Option<bool> {
        self.at_once
    }

    /// Memory that the reads take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.offset).sum()
    }

    /// Waits for the reads.
    fn finish(&mut self) {
        if self.brought.len() == self.pieces.len() {
            return;
        }
        mark!("values_ahead_awaited");
        let reads = self.under_way.take().map(|reads| reads.finish()).unwrap_or_default();
        let opened = std::mem::take(&mut self.opened);
        self.brought = conclude(&self.pieces, opened, reads);
    }
}

#[cfg(test)]
mod tests;
