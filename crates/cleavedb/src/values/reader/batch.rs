//! Many values at once: sorted by place, neighbours joined, all device reads under way together.

use std::ops::Range;
use std::sync::Arc as BytesArc;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::recycled::{self, Recycled};
use crate::base::sync::Arc;
use crate::base::value::{SharedBytes, Value};
use crate::io::disk::{BatchRead, ReadsUnderWay};
use crate::io::meter::Meter;
use crate::io::{DiskFile, Purpose};
use crate::values::cache::Kept;
use crate::values::container::Access;
use crate::values::file::ValueFile;
use crate::values::reader::{Home, ValueReader, Wanted, check_length, failed, value_of};
use crate::values::table::reader::TableFile;

/// Records at most so far apart are read in one piece: what lies between costs less than another
/// read.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Pieces of joined records are no longer than this: a value that the user keeps pins its piece.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// A batch is read in so many *waves*, each of so many pieces at least: the device works on the
/// first while the next is handed to it, and on the later ones while values of the first are
/// checked and kept.
const WAVES_MAX: usize = 4;
const WAVE_PIECES_MIN: usize = 8;

/// One device read, for the records `from..to` in the order of their places.
pub(super) struct Piece {
    pub(super) file: Arc<ValueFile>,
    /// What the file is open as; `None`: it is a segment.
    table: Option<Arc<TableFile>>,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// What a piece brought.
pub(super) type PieceBytes = Result<SharedBytes>;

impl ValueReader<'_> {
    /// The values that gets want, from the cache or into it; the outcomes stand in the order asked
    /// for. An error of one leaves the others as they are.
    pub(crate) fn read_many(&self, wanted: &[Wanted<'_>], purpose: Purpose) -> Vec<Result<Value>> {
        let mut outcomes: Vec<Option<Result<Value>>> = Vec::with_capacity(wanted.len());
        let cache = &self.context.cache;
        // (number of the outcome, what is wanted, where it is, the right to keep it), of those that
        // need the device; while a right is held, nothing is waited for but the device
        let mut open = Vec::with_capacity(wanted.len());
        for (number, one) in wanted.iter().enumerate() {
            let home = self.home_of(&one.handle);
            if let Ok(Home::Segment(file)) = home
                && let Some((owner, range)) = self.in_tail(&one.handle)
            {
                outcomes.push(Some(value_of(file, one, owner.into(), range)));
                continue;
            }
            let guard = match (&home, cache.begin(one, self.cache_place(&one.handle), false)) {
                (Ok(_), Kept::Hit(value)) => {
                    outcomes.push(Some(Ok(value)));
                    continue;
                }
                (_, Kept::Miss(guard)) => guard,
                (Err(_), Kept::Hit(_)) => None,
            };
            outcomes.push(match home.and_then(|home| home.way(one, purpose)) {
                Err(error) => Some(Err(error)),
                Ok(way) => {
                    open.push((number, one, way, guard));
                    None
                }
            });
        }
        open.sort_unstable_by_key(|(_, _, way, _)| way.order());
        let pieces = join(open.iter().map(|(_, _, way, _)| way), GAP_BYTES_MAX);
        // All waves are begun before the first is awaited.
        let wave_pieces = pieces.len().div_ceil(WAVES_MAX).max(WAVE_PIECES_MIN);
        let waves: Vec<_> = pieces
            .chunks(wave_pieces)
            .map(|wave| (wave, self.begin_pieces(wave, wave.len() == pieces.len(), purpose)))
            .collect();
        for (pieces, begun) in waves {
            for (piece, bytes) in pieces.iter().zip(begun.finish(pieces)) {
                let places = open.get_mut(piece.from..piece.to).unwrap_or_default();
                for (number, one, way, guard) in places {
                    let value = piece.value(&bytes, one, &way.spot);
                    if let Ok(value) = &value {
                        cache.keep(guard.take(), one, value);
                    }
                    if let Some(outcome) = outcomes.get_mut(*number) {
                        *outcome = Some(value);
                    }
                }
            }
        }
        debug_assert!(outcomes.iter().all(Option::is_some), "each record is in one piece");
        outcomes.into_iter().flatten().collect()
    }

    /// Begins to read these pieces; those of a lone wave are read at once, which saves a call.
    fn begin_pieces(&self, pieces: &[Piece], is_lone: bool, purpose: Purpose) -> BegunPieces {
        let io = &self.context.io;
        let (opened, mut reads) = prepare(pieces, &io.meter, purpose);
        let reads = match reads.as_mut_slice() {
            // A lone read needs no ring.
            [read] => {
                read.result = read.file.read_exact_at(&mut read.buffer, read.offset);
                Reads::Ended(reads)
            }
            [] => Reads::Ended(reads),
            batch if is_lone => {
                io.disk.read_batch(batch);
                io.meter.batch_submitted();
                Reads::Ended(reads)
            }
            _ => {
                io.meter.batch_submitted();
                Reads::UnderWay(io.disk.start_batch(reads))
            }
        };
        BegunPieces { opened, reads }
    }
}

/// Pieces whose reads have been begun.
struct BegunPieces {
    /// Which of them could be tried at all.
    opened: Vec<Result<()>>,
    reads: Reads,
}

enum Reads {
    UnderWay(Box<dyn ReadsUnderWay>),
    Ended(Vec<BatchRead>),
}

impl BegunPieces {
    /// Waits for the reads; what each of these pieces, those that were begun, brought.
    fn finish(self, pieces: &[Piece]) -> Vec<PieceBytes> {
        let reads = match self.reads {
            Reads::UnderWay(reads) => reads.finish(),
            Reads::Ended(reads) => reads,
        };
        conclude(pieces, self.opened, reads)
    }
}

impl Piece {
    /// A value out of what the piece brought.
    pub(super) fn value(
        &self,
        bytes: &PieceBytes,
        wanted: &Wanted<'_>,
        spot: &Spot,
    ) -> Result<Value> {
        let owner = bytes.as_ref().map_err(Error::clone)?;
        if let Some((table, access)) = self.access(spot) {
            return access.value(table, wanted, (owner, self.offset), &spot.range);
        }
        let start = (wanted.handle.offset - self.offset) as usize;
        value_of(&self.file, wanted, owner.clone(), start..start + wanted.handle.bytes as usize)
    }

    /// How a value is found here, if this is a part of a value table.
    pub(super) fn access<'a>(&'a self, spot: &'a Spot) -> Option<(&'a TableFile, &'a Access)> {
        Some((self.table.as_deref()?, spot.access.as_ref()?))
    }

    fn open(&self) -> Result<Arc<dyn DiskFile>> {
        let disk_file = self.file.disk_file()?;
        check_length(&self.file, &*disk_file, self.offset, self.end)?;
        Ok(disk_file)
    }
}

/// The device reads that bring these pieces, counted, and which of them can be tried at all.
pub(super) fn prepare(
    pieces: &[Piece],
    meter: &Meter,
    purpose: Purpose,
) -> (Vec<Result<()>>, Vec<BatchRead>) {
    let mut reads = Vec::with_capacity(pieces.len());
    let mut open = |piece: &Piece| {
        let buffer_bytes = (piece.end - piece.offset) as usize;
        let file = piece.open()?;
        let buffer = recycled::take(buffer_bytes);
        meter.read(purpose, buffer_bytes as u64);
        reads.push(BatchRead { file, offset: piece.offset, buffer, result: Ok(()) });
        Ok(())
    };
    let opened = pieces.iter().map(&mut open).collect();
    (opened, reads)
}

/// What each piece brought, after its reads ended.
pub(super) fn conclude(
    pieces: &[Piece],
    opened: Vec<Result<()>>,
    reads: Vec<BatchRead>,
) -> Vec<PieceBytes> {
    let mut reads = reads.into_iter();
    let outcome = |(piece, opened): (&Piece, Result<()>)| {
        opened?;
        let Some(read) = reads.next() else { return Ok(BytesArc::<Vec<u8>>::default().into()) };
        // Also where it failed: what was lent comes back.
        let bytes = Recycled::new(read.buffer);
        read.result.map_err(|e| failed(&piece.file, piece.offset, e))?;
        Ok(BytesArc::new(bytes).into())
    };
    pieces.iter().zip(opened).map(outcome).collect()
}

/// Where a value is to be read. Borrowed, so that only pieces count as users of a file: two threads
/// that count for each value wait for each other.
pub(super) struct Way<'a> {
    file: &'a Arc<ValueFile>,
    table: Option<&'a Arc<TableFile>>,
    /// Where in the file.
    pub(super) spot: Spot,
}

/// A part of a file, and what it is searched for there.
pub(super) struct Spot {
    /// The part.
    pub(super) range: Range<u64>,
    /// How to find the value there; `None`: it is a segment's record.
    access: Option<Access>,
}

impl Way<'_> {
    /// What ways are sorted by.
    pub(super) fn order(&self) -> (FileId, u64) {
        (self.file.id(), self.spot.range.start)
    }
}

impl<'a> Home<'a> {
    /// Where to read a value of which this is the home. May read an index.
    pub(super) fn way(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<Way<'a>> {
        match *self {
            Home::Segment(file) => {
                let range = wanted.handle.offset..wanted.handle.end();
                Ok(Way { file, table: None, spot: Spot { range, access: None } })
            }
            Home::Container(home, access) => {
                let (table, range) = home.range_of(wanted, &access, purpose)?;
                let spot = Spot { range, access: Some(access) };
                Ok(Way { file: home.file(), table: Some(table), spot })
            }
        }
    }
}

/// What it costs to read records that are wanted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Device reads.
    reads: u64,
    /// Their bytes.
    bytes: u64,
    /// Those of the records themselves.
    record_bytes: u64,
}

impl Cost {
    pub(super) fn of<'a>(pieces: &[Piece], spots: impl IntoIterator<Item = &'a Spot>) -> Self {
        Self {
            reads: pieces.len() as u64,
            bytes: pieces.iter().map(|piece| piece.end - piece.offset).sum(),
            record_bytes: spots.into_iter().map(|spot| spot.range.end - spot.range.start).sum(),
        }
    }

    /// By how many reads they are dearer than if the records stood side by side, each read bringing
    /// `order_bytes` of them; to transfer so many is taken to cost as much as a read.
    pub(super) fn needless(&self, order_bytes: u64) -> u64 {
        let order_bytes = order_bytes.max(1);
        let least = self.record_bytes.div_ceil(order_bytes).saturating_mul(2);
        (self.reads + self.bytes / order_bytes).saturating_sub(least)
    }
}

/// The pieces that bring all of these, which stand in the order of their places; records at most
/// `gap_bytes_max` apart go into one.
pub(super) fn join<'a: 'b, 'b>(
    sorted: impl Iterator<Item = &'b Way<'a>>,
    gap_bytes_max: u64,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, Way { file, table, spot }) in sorted.enumerate() {
        let (offset, end) = (spot.range.start, spot.range.end);
        match pieces.last_mut() {
            Some(last)
                if last.file.id() == file.id()
                    && offset <= last.end.saturating_add(gap_bytes_max)
                    && (end.max(last.end) - last.offset <= PIECE_BYTES_MAX || end <= last.end) =>
            {
                mark!("value_reads_joined");
                last.end = last.end.max(end);
                last.to = number + 1;
            }
            _ => {
                let (file, table) = (Arc::clone(file), table.map(Arc::clone));
                pieces.push(Piece { file, table, offset, end, from: number, to: number + 1 });
            }
        }
    }
    pieces
}
