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
use crate::values::container::Container;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::reader::batch::{Piece, PieceBytes, conclude, join, prepare};
use crate::values::reader::large::read_whole;
use crate::values::reader::{Home, ValueReader, Wanted, damaged, value_of};

/// Records at most so far apart are read in one piece. With the device's queue full, what lies
/// between must take less time to transfer than one of many reads takes: less than where a read
/// is waited for alone.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// Where a value will come from.
enum Place {
    /// From memory: what was just written to this file.
    Tail(Arc<ValueFile>, BytesArc<Vec<u8>>, Range<usize>),
    /// From memory: a get has read it.
    Kept(Arc<ValueFile>, BytesArc<CachedValue>),
    /// From a file of its own, when it is asked for: there is nothing to be joined.
    Large(Arc<ValueFile>),
    /// From a container, when it is asked for.
    Container(Arc<Container>, bool),
    /// From the piece of this number.
    Piece(usize),
    /// From nowhere.
    Lost(Error),
}

/// Values whose reads have been begun.
pub(crate) struct ValuesAhead {
    under_way: Option<Box<dyn ReadsUnderWay>>,
    places: Vec<Place>,
    pieces: Vec<Piece>,
    /// Which pieces could be tried at all; empty once the reads have ended.
    opened: Vec<Result<()>>,
    /// What the pieces brought.
    brought: Vec<PieceBytes>,
}

impl ValueReader<'_> {
    /// Begins to read many values and waits for none.
    pub(crate) fn begin(&self, handles: &[Handle], purpose: Purpose) -> ValuesAhead {
        let io = &self.context.io;
        // (number, file, handle), of those that need the device
        let mut open = Vec::with_capacity(handles.len());
        let place = |(number, handle): (usize, &Handle)| match self.home_of(handle) {
            _ if handle.is_large() => match self.large_file_of(handle) {
                Ok(file) => Place::Large(Arc::clone(file)),
                Err(error) => Place::Lost(error),
            },
            Err(error) => Place::Lost(error),
            Ok(Home::Container(home, is_current)) => match self.context.cache.peek(handle) {
                Some(kept) => Place::Kept(Arc::clone(home.file()), kept),
                None => Place::Container(Arc::clone(home), is_current),
            },
            Ok(Home::Segment(file)) => match self.in_tail(handle) {
                Some((owner, range)) => Place::Tail(Arc::clone(file), owner, range),
                None => match self.context.cache.peek(handle) {
                    Some(kept) => Place::Kept(Arc::clone(file), kept),
                    None => {
                        open.push((number, file, *handle));
                        Place::Piece(0)
                    }
                },
            },
        };
        let mut places: Vec<Place> = handles.iter().enumerate().map(place).collect();
        open.sort_unstable_by_key(|(_, _, handle)| (handle.file, handle.offset));
        let pieces = join(open.iter().map(|&(_, file, handle)| (file, handle)), GAP_BYTES_MAX);
        for (number, piece) in pieces.iter().enumerate() {
            for &(place, _, _) in open.get(piece.from..piece.to).unwrap_or_default() {
                if let Some(place) = places.get_mut(place) {
                    *place = Place::Piece(number);
                }
            }
        }
        let (opened, reads) = prepare(&pieces, &io.meter, purpose);
        let under_way = (!reads.is_empty()).then(|| {
            io.meter.batch_submitted();
            io.disk.start_batch(reads)
        });
        ValuesAhead { under_way, places, pieces, opened, brought: Vec::new() }
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
            Some(Place::Container(home, is_current)) => {
                home.read(wanted, *is_current, Purpose::Read)
            }
            Some(Place::Kept(file, kept)) => kept.of(wanted).ok_or_else(|| {
                let error = Error::corruption("two entries name one value");
                damaged(file, wanted.handle.offset, error)
            }),
            Some(&Place::Piece(at)) => match self.pieces.get(at).zip(self.brought.get(at)) {
                Some((piece, bytes)) => piece.value(bytes, wanted),
                None => Err(Error::invalid("a piece that was not begun")),
            },
            None => Err(Error::invalid("a value that was not begun")),
        }
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
