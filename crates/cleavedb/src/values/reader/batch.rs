//! Many values at once: sorted by place, neighbours joined, all device reads submitted together.

use std::sync::Arc as BytesArc;

use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::io::disk::BatchRead;
use crate::io::{DiskFile, Purpose};
use crate::values::file::ValueFile;
use crate::values::reader::{ValueReader, Wanted, check_length, failed, value_of};

/// Records at most so far apart are read in one piece: what lies between costs less than another
/// read.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Pieces of joined records are no longer than this: a value that the user keeps pins its piece.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// One device read, for the records `from..to` in the order of their places.
struct Piece<'a> {
    file: &'a ValueFile,
    offset: u64,
    end: u64,
    from: usize,
    to: usize,
}

impl ValueReader<'_> {
    /// Reads many values; the outcomes stand in the order asked for. An error of one leaves the
    /// others as they are.
    pub(crate) fn read_many(&self, wanted: &[Wanted<'_>], purpose: Purpose) -> Vec<Result<Value>> {
        let mut outcomes: Vec<Option<Result<Value>>> = Vec::with_capacity(wanted.len());
        // (number of the outcome, its file, what is wanted), of those that need the device
        let mut open = Vec::with_capacity(wanted.len());
        for (number, one) in wanted.iter().enumerate() {
            outcomes.push(match self.file_of(&one.handle) {
                Err(error) => Some(Err(error)),
                Ok(file) => match self.in_tail(&one.handle) {
                    Some((owner, range)) => Some(value_of(file, one, owner.into(), range)),
                    None => {
                        open.push((number, file, one));
                        None
                    }
                },
            });
        }
        open.sort_unstable_by_key(|(_, _, one)| (one.handle.file, one.handle.offset));
        let pieces = join(open.iter().map(|&(_, file, one)| (file, one)));
        for (piece, bytes) in pieces.iter().zip(self.read_pieces(&pieces, purpose)) {
            for &(number, file, one) in open.get(piece.from..piece.to).unwrap_or_default() {
                let value = bytes.clone().and_then(|owner| {
                    let start = (one.handle.offset - piece.offset) as usize;
                    value_of(file, one, owner.into(), start..start + one.handle.bytes as usize)
                });
                if let Some(outcome) = outcomes.get_mut(number) {
                    *outcome = Some(value);
                }
            }
        }
        debug_assert!(outcomes.iter().all(Option::is_some), "each record is in one piece");
        outcomes.into_iter().flatten().collect()
    }

    /// Reads all pieces in one submission.
    fn read_pieces(
        &self,
        pieces: &[Piece<'_>],
        purpose: Purpose,
    ) -> Vec<Result<BytesArc<Vec<u8>>>> {
        let io = &self.context.io;
        let open = |piece: &Piece<'_>| -> Result<Arc<dyn DiskFile>> {
            let disk_file = piece.file.disk_file()?;
            check_length(piece.file, &*disk_file, piece.offset, piece.end)?;
            Ok(disk_file)
        };
        let opened: Vec<Result<_>> = pieces.iter().map(open).collect();
        let mut reads = Vec::with_capacity(pieces.len());
        for (piece, file) in pieces.iter().zip(&opened) {
            let Ok(file) = file.clone() else { continue };
            let buffer = vec![0; (piece.end - piece.offset) as usize];
            reads.push(BatchRead { file, offset: piece.offset, buffer, result: Ok(()) });
        }
        match reads.as_mut_slice() {
            [] => {}
            // A lone read needs no ring.
            [read] => read.result = read.file.read_exact_at(&mut read.buffer, read.offset),
            reads => {
                io.disk.read_batch(reads);
                io.meter.batch_submitted();
            }
        }
        let mut reads = reads.into_iter();
        let outcome = |(piece, opened): (&Piece<'_>, Result<_>)| {
            opened?;
            let Some(read) = reads.next() else { return Ok(BytesArc::default()) };
            read.result.map_err(|e| failed(piece.file, piece.offset, e))?;
            io.meter.read(purpose, read.buffer.len() as u64);
            Ok(BytesArc::new(read.buffer))
        };
        pieces.iter().zip(opened).map(outcome).collect()
    }
}

/// The pieces that bring all of these, which stand in the order of their places.
fn join<'a>(sorted: impl Iterator<Item = (&'a ValueFile, &'a Wanted<'a>)>) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    for (number, (file, one)) in sorted.enumerate() {
        let (offset, end) = (one.handle.offset, one.handle.end());
        match pieces.last_mut() {
            Some(last)
                if last.file.id() == file.id()
                    && offset <= last.end.saturating_add(GAP_BYTES_MAX)
                    && (end.max(last.end) - last.offset <= PIECE_BYTES_MAX || end <= last.end) =>
            {
                mark!("value_reads_joined");
                last.end = last.end.max(end);
                last.to = number + 1;
            }
            _ => pieces.push(Piece { file, offset, end, from: number, to: number + 1 }),
        }
    }
    pieces
}
