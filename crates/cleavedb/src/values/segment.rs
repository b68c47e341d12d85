//! What a value segment holds, from its footer or, where a crash left it without one, from a scan.
//! Both say the same.

use std::path::Path;

use crate::base::checksum::KeyedHash;
use crate::base::codec::Reader;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::io::{DiskFile, Io, Purpose};
use crate::log::batch::BatchReader;
use crate::log::footer::{FOOTER_LENGTH_BYTES, Footer, FooterBuilder, Line, Totals};
use crate::log::format::{
    FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameHeader, FrameKind,
    SEGMENT_HEADER_BYTES, Sealed,
};
use crate::log::punched::Punched;
use crate::log::reader::{Frame, ReadOptions, SegmentReader};
use crate::log::separated::Binding;

/// Bytes of a footer's frame that hold its header, the format's number, and six varints of sums.
const FOOTER_HEAD_BYTES: usize = FRAME_HEADER_BYTES + 1 + 6 * 10;

/// Reads the footer of a sealed segment of this length; `None` where its last frame is not one
/// that holds. A scan then tells a missing footer from damage.
pub(crate) fn read_footer(
    io: &Io,
    file: &dyn DiskFile,
    path: &Path,
    seed: u32,
    sealed: &Sealed,
    purpose: Purpose,
) -> Result<Option<Footer>> {
    let Some((start, frame_bytes)) = find_footer(io, file, path, sealed, purpose)? else {
        return Ok(None);
    };
    let frame = read(io, file, path, (start, frame_bytes), purpose)?;
    let Ok(header) = FrameHeader::decode(&frame, seed, start) else { return Ok(None) };
    let payload = frame.get(FRAME_HEADER_BYTES..frame_bytes - 1).unwrap_or_default();
    let holds = header.kind == FrameKind::Footer
        && header.payload_bytes as usize == payload.len()
        && header.payload_matches(seed, start + FRAME_HEADER_BYTES as u64, payload);
    if !holds {
        return Ok(None);
    }
    Footer::decode(payload).map(Some).map_err(|e| e.in_file(path).at_offset(start))
}

/// What a sealed segment's footer says that its records come to; `None` where it has none. The
/// footer's own header proves itself, the sums do not: for comparing with what is known.
pub(crate) fn read_totals(
    io: &Io,
    file: &dyn DiskFile,
    path: &Path,
    seed: u32,
    sealed: &Sealed,
    purpose: Purpose,
) -> Result<Option<Totals>> {
    let Some((start, frame_bytes)) = find_footer(io, file, path, sealed, purpose)? else {
        return Ok(None);
    };
    let head = read(io, file, path, (start, frame_bytes.min(FOOTER_HEAD_BYTES)), purpose)?;
    let header = FrameHeader::decode(&head, seed, start);
    if !header.is_ok_and(|header| header.kind == FrameKind::Footer) {
        return Ok(None);
    }
    let payload = head.get(FRAME_HEADER_BYTES + 1..).unwrap_or_default();
    Ok(Totals::decode(&mut Reader::new(payload)).ok())
}

/// Where the footer's frame begins, if there is one, and its bytes: from the end, the end mark, the
/// payload's length, the rest.
fn find_footer(
    io: &Io,
    file: &dyn DiskFile,
    path: &Path,
    sealed: &Sealed,
    purpose: Purpose,
) -> Result<Option<(u64, usize)>> {
    let tail_bytes = (FOOTER_LENGTH_BYTES + 1) as u64;
    let Some(tail_at) = sealed.bytes.checked_sub(tail_bytes) else { return Ok(None) };
    let tail = read(io, file, path, (tail_at, tail_bytes as usize), purpose)?;
    let Some((length, [FRAME_END])) = tail.split_first_chunk::<FOOTER_LENGTH_BYTES>() else {
        return Ok(None);
    };
    let frame_bytes = u32::from_le_bytes(*length) as usize + FRAME_OVERHEAD_BYTES;
    let start = sealed.bytes.checked_sub(frame_bytes as u64);
    let start = start.filter(|&start| start >= SEGMENT_HEADER_BYTES as u64);
    Ok(start.map(|start| (start, frame_bytes)))
}

fn read(
    io: &Io,
    file: &dyn DiskFile,
    path: &Path,
    (offset, length): (u64, usize),
    purpose: Purpose,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let done = file.read_exact_at(&mut bytes, offset);
    done.map_err(|e| Error::io("reading a footer", path, e).at_offset(offset))?;
    io.meter.read(purpose, length as u64);
    Ok(bytes)
}

/// Notes the separated records of one frame of a value segment, each of which must hold. For a
/// scan, and for replay, which reads the frames anyway.
pub(crate) fn collect_frame(
    footer: &mut FooterBuilder,
    frame: &Frame<'_>,
    seed: u32,
    hash: KeyedHash,
) -> Result<()> {
    let place = Binding {
        seed,
        payload_offset: frame.offset + FRAME_HEADER_BYTES as u64,
        base_seq: frame.header.base_seq,
    };
    for record in BatchReader::of_values(frame.payload, frame.header.count, Some(place)) {
        if let Some(separated) = record?.separated {
            let record = separated.record;
            if record.seq <= footer.totals().largest_seq {
                return Err(Error::corruption(format!(
                    "a segment goes back to seq {}",
                    record.seq
                )));
            }
            let line = Line {
                hash: hash.hash(record.keyspace, record.key),
                seq: record.seq,
                offset: place.payload_offset + separated.start as u64,
                bytes: record.bytes() as u32,
            };
            footer.add(line, record.key.len() as u32, record.value_bytes);
        }
    }
    Ok(())
}

#[cfg(any(test, feature = "sim"))]
/// [`scan_punched`] of a segment that is whole.
pub(crate) fn scan(io: &Io, path: &Path, options: ReadOptions) -> Result<FooterBuilder> {
    scan_punched(io, path, options, None)
}

/// Rebuilds the footer of a segment from its records, of which some may have been given back. Reads
/// and checks all that is left of the file, and the footer in it, if there is one, against what it
/// is to say.
pub(crate) fn scan_punched(
    io: &Io,
    path: &Path,
    options: ReadOptions,
    punched: Option<&Arc<Punched>>,
) -> Result<FooterBuilder> {
    let mut reader = SegmentReader::open_punched(io, path, options, punched.map(Arc::clone))?;
    let seed = crate::base::checksum::file_seed(&options.uuid, options.id.0);
    let hash = KeyedHash::new(&options.uuid);
    let mut footer = FooterBuilder::default();
    while let Some(frame) = reader.next_frame()? {
        let checked = match frame.header.kind {
            FrameKind::Data => collect_frame(&mut footer, &frame, seed, hash),
            FrameKind::Footer => {
                check_footer(&footer, frame.payload, punched.map(|punched| &**punched))
            }
            FrameKind::Synced => Ok(()),
        };
        checked.map_err(|e| e.in_file(path).at_offset(frame.offset))?;
    }
    Ok(footer)
}

/// A segment's footer must say what its records say; of those that are gone, it says as much as
/// the manifest does.
fn check_footer(found: &FooterBuilder, payload: &[u8], punched: Option<&Punched>) -> Result<()> {
    let agrees = match punched {
        None => found.encode().as_deref() == Some(payload),
        Some(punched) => {
            let stated = Footer::decode(payload)?;
            let (gone, left) = stated.lines.iter().partition::<Vec<_>, _>(|line| punched.has(line));
            let gone_bytes: u64 = gone.iter().map(|line: &&Line| u64::from(line.bytes)).sum();
            let of_left = found.encode().map(|payload| Footer::decode(&payload)).transpose()?;
            gone.len() as u64 == punched.records
                && gone_bytes == punched.record_bytes
                && of_left.is_some_and(|of_left| left.into_iter().eq(of_left.lines.iter()))
        }
    };
    let message = "the footer says something else than the records";
    if agrees { Ok(()) } else { Err(Error::corruption(message)) }
}

#[cfg(test)]
mod tests;
