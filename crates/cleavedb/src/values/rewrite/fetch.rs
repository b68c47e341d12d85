//! Brings the values of the next survivors into the window: read by place, so that the device goes
//! forward, and joined where records are close to each other.

use crate::base::error::Result;
use crate::io::disk::BatchRead;
use crate::io::meter::HeldMemory;
use crate::io::{Io, Purpose};
use crate::values::rewrite::walk::Segment;
use crate::values::rewrite::window::{Wanted, Window};

/// Records at most so far apart are read in one piece: the pages in between cost no more than
/// another read, and the pages that it would share with this one.
const GAP_BYTES_MAX: u64 = 8 << 10;

/// Pieces of joined records are no longer than this; nor is what is read at once.
const WAVE_BYTES_MAX: u64 = 1 << 20;

/// One read, and the values that it brings.
struct Piece<'a> {
    offset: u64,
    end: u64,
    wanted: &'a [Wanted],
}

/// Reads the next batch; returns the bytes that took. `segments` are found by their numbers.
pub(super) fn fetch_batch(io: &Io, segments: &[Segment], window: &mut Window) -> Result<u64> {
    let wanted = window.begin_batch();
    let mut held = HeldMemory::new(&io.meter, Purpose::Collection);
    let list_bytes = (wanted.capacity() * size_of::<Wanted>()) as u64;
    held.set(list_bytes);
    if let [alone] = wanted.as_slice() {
        return fetch_alone(io, segments, window, alone);
    }
    let wave_bytes = window.wave_bytes().clamp(1, WAVE_BYTES_MAX);
    let mut bytes_read = 0;
    let mut rest = wanted.as_slice();
    while !rest.is_empty() {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while bytes < wave_bytes && !rest.is_empty() {
            let piece = next_piece(&mut rest, wave_bytes - bytes);
            bytes += piece.end - piece.offset;
            pieces.push(piece);
        }
        held.set(list_bytes + bytes);
        bytes_read += bytes;
        fetch_wave(io, segments, window, &pieces)?;
    }
    Ok(bytes_read)
}

/// The piece with the first of these, and as many more as are close to it.
fn next_piece<'a>(rest: &mut &'a [Wanted], bytes_max: u64) -> Piece<'a> {
    let (mut count, mut offset, mut end) = (0, 0, 0);
    let mut source = None;
    for wanted in *rest {
        if source.is_none() {
            (source, offset, end) = (Some(wanted.source), wanted.offset, wanted.offset);
        }
        let joins = source == Some(wanted.source)
            && wanted.offset <= end.saturating_add(GAP_BYTES_MAX)
            && wanted.end().max(end) - offset <= bytes_max;
        if count > 0 && !joins {
            break;
        }
        end = end.max(wanted.end());
        count += 1;
    }
    let (wanted, behind) = rest.split_at_checked(count).unwrap_or((*rest, &[]));
    *rest = behind;
    Piece { offset, end, wanted }
}

fn fetch_wave(
    io: &Io,
    segments: &[Segment],
    window: &mut Window,
    pieces: &[Piece<'_>],
) -> Result<()> {
    let mut reads = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let Some(segment) = segment_of(segments, piece.wanted) else { continue };
        let buffer = vec![0; (piece.end - piece.offset) as usize];
        let file = segment.file.disk_file()?;
        reads.push(BatchRead { file, offset: piece.offset, buffer, result: Ok(()) });
    }
    io.disk.read_batch(&mut reads);
    io.meter.batch_submitted();
    for (piece, read) in pieces.iter().zip(reads) {
        let Some(segment) = segment_of(segments, piece.wanted) else { continue };
        read.result.map_err(|e| segment.failed(piece.offset, e))?;
        io.meter.read(Purpose::Collection, read.buffer.len() as u64);
        for wanted in piece.wanted {
            let start = (wanted.offset - piece.offset) as usize;
            let stored = read.buffer.get(start..start + wanted.bytes as usize);
            let stored = stored.unwrap_or_default();
            window.take(wanted, |memory| {
                memory.iter_mut().zip(stored).for_each(|(to, from)| *to = *from);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Reads one value where it is to be: it may be a huge one, and needs no second place.
fn fetch_alone(io: &Io, segments: &[Segment], window: &mut Window, wanted: &Wanted) -> Result<u64> {
    let Some(segment) = segment_of(segments, std::slice::from_ref(wanted)) else { return Ok(0) };
    let disk_file = segment.file.disk_file()?;
    window.take(wanted, |memory| {
        let read = disk_file.read_exact_at(memory, wanted.offset);
        read.map_err(|e| segment.failed(wanted.offset, e))
    })?;
    io.meter.read(Purpose::Collection, u64::from(wanted.bytes));
    Ok(u64::from(wanted.bytes))
}

fn segment_of<'a>(segments: &'a [Segment], wanted: &[Wanted]) -> Option<&'a Segment> {
    let source = wanted.first()?.source;
    let at = segments.binary_search_by_key(&source, |segment| segment.source).ok()?;
    segments.get(at)
}

#[cfg(test)]
mod tests;
