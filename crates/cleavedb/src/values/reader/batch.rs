//! Many values at once: sorted by place, neighbours joined, all device reads submitted together.

use std::sync::Arc as BytesArc;

use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::io::disk::BatchRead;
use crate::io::meter::Meter;
use crate::io::{DiskFile, Purpose};
use crate::values::cache::Kept;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::reader::{ValueReader, Wanted, check_length, failed, value_of};

/// Records at most so far apart are read in one piece: what lies between costs less than another
/// read.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Pieces of joined records are no longer than this: a value that the user keeps pins its piece.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// One device read, for the records `from..to` in the order of their places.
pub(super) struct Piece {
    pub(super) file: Arc<ValueFile>,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// What a piece brought.
pub(super) type PieceBytes = Result<BytesArc<Vec<u8>>>;

impl ValueReader<'_> {
    /// The values that gets want, from the cache or into it; the outcomes stand in the order asked
    /// for. An error of one leaves the others as they are.
    pub(crate) fn read_many(&self, wanted: &[Wanted<'_>], purpose: Purpose) -> Vec<Result<Value>> {
        let mut outcomes: Vec<Option<Result<Value>>> = Vec::with_capacity(wanted.len());
        let cache = &self.context.cache;
        // (number of the outcome, its file, what is wanted, the right to keep it), of those that
        // need the device; while a right is held, nothing is waited for but the device
        let mut open = Vec::with_capacity(wanted.len());
        for (number, one) in wanted.iter().enumerate() {
            outcomes.push(match self.file_of(&one.handle) {
                Err(error) => Some(Err(error)),
                Ok(file) => match self.in_tail(&one.handle) {
                    Some((owner, range)) => Some(value_of(file, one, owner.into(), range)),
                    None => match cache.begin(one, false) {
                        Kept::Hit(value) => Some(Ok(value)),
                        Kept::Miss(guard) => {
                            open.push((number, file, one, guard));
                            None
                        }
                    },
                },
            });
        }
        open.sort_unstable_by_key(|(_, _, one, _)| (one.handle.file, one.handle.offset));
        let handles = open.iter().map(|(_, file, one, _)| (*file, one.handle));
        let pieces = join(handles, GAP_BYTES_MAX);
        for (piece, bytes) in pieces.iter().zip(self.read_pieces(&pieces, purpose)) {
            for (number, _, one, guard) in open.get_mut(piece.from..piece.to).unwrap_or_default() {
                let value = piece.value(&bytes, one);
                if let Ok(value) = &value {
                    cache.keep(guard.take(), one, value);
                }
                if let Some(outcome) = outcomes.get_mut(*number) {
                    *outcome = Some(value);
                }
            }
        }
        debug_assert!(outcomes.iter().all(Option::is_some), "each record is in one piece");
        outcomes.into_iter().flatten().collect()
    }

    /// Reads all pieces in one submission.
    fn read_pieces(&self, pieces: &[Piece], purpose: Purpose) -> Vec<PieceBytes> {
        let io = &self.context.io;
        let (opened, mut reads) = prepare(pieces, &io.meter, purpose);
        match reads.as_mut_slice() {
            [] => {}
            // A lone read needs no ring.
            [read] => read.result = read.file.read_exact_at(&mut read.buffer, read.offset),
            reads => {
                io.disk.read_batch(reads);
                io.meter.batch_submitted();
            }
        }
        conclude(pieces, opened, reads)
    }
}

impl Piece {
    /// A value out of what the piece brought.
    pub(super) fn value(&self, bytes: &PieceBytes, wanted: &Wanted<'_>) -> Result<Value> {
        let owner = bytes.clone()?;
        let start = (wanted.handle.offset - self.offset) as usize;
        value_of(&self.file, wanted, owner.into(), start..start + wanted.handle.bytes as usize)
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
        let buffer = vec![0; buffer_bytes];
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
        let Some(read) = reads.next() else { return Ok(BytesArc::default()) };
        read.result.map_err(|e| failed(&piece.file, piece.offset, e))?;
        Ok(BytesArc::new(read.buffer))
    };
    pieces.iter().zip(opened).map(outcome).collect()
}

/// The pieces that bring all of these, which stand in the order of their places; records at most
/// `gap_bytes_max` apart go into one.
pub(super) fn join<'a>(
    sorted: impl Iterator<Item = (&'a Arc<ValueFile>, Handle)>,
    gap_bytes_max: u64,
) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, (file, handle)) in sorted.enumerate() {
        let (offset, end) = (handle.offset, handle.end());
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
                let file = Arc::clone(file);
                pieces.push(Piece { file, offset, end, from: number, to: number + 1 });
            }
        }
    }
    pieces
}
