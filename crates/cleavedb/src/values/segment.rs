//! What a value segment holds, from its footer or, where a crash left it without one, from a scan.
//! Both say the same.

use std::path::Path;

use crate::base::checksum::KeyedHash;
use crate::base::error::{Error, Result};
use crate::io::{DiskFile, Io, Purpose};
use crate::log::batch::BatchReader;
use crate::log::footer::{FOOTER_LENGTH_BYTES, Footer, FooterBuilder, Line};
use crate::log::format::{
    FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameHeader, FrameKind,
    SEGMENT_HEADER_BYTES, Sealed,
};
use crate::log::reader::{Frame, ReadOptions, SegmentReader};
use crate::log::separated::Binding;

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
    let read = |offset: u64, length: usize| -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let done = file.read_exact_at(&mut bytes, offset);
        done.map_err(|e| Error::io("reading a footer", path, e).at_offset(offset))?;
        io.meter.read(purpose, length as u64);
        Ok(bytes)
    };
    // From the end: the end mark, the payload's length, the rest of the frame.
    let tail_bytes = (FOOTER_LENGTH_BYTES + 1) as u64;
    let Some(tail_at) = sealed.bytes.checked_sub(tail_bytes) else { return Ok(None) };
    let tail = read(tail_at, tail_bytes as usize)?;
    let Some((length, [FRAME_END])) = tail.split_first_chunk::<FOOTER_LENGTH_BYTES>() else {
        return Ok(None);
    };
    let payload_bytes = u32::from_le_bytes(*length) as usize;
    let frame_bytes = payload_bytes + FRAME_OVERHEAD_BYTES;
    let start = sealed.bytes.checked_sub(frame_bytes as u64);
    let Some(start) = start.filter(|&start| start >= SEGMENT_HEADER_BYTES as u64) else {
        return Ok(None);
    };
    let frame = read(start, frame_bytes)?;
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

/// Rebuilds the footer of a segment from its records. Reads and checks the whole file, and the
/// footer in it, if there is one, against what it is to say.
pub(crate) fn scan(io: &Io, path: &Path, options: ReadOptions) -> Result<FooterBuilder> {
    let mut reader = SegmentReader::open(io, path, options)?;
    let seed = crate::base::checksum::file_seed(&options.uuid, options.id.0);
    let hash = KeyedHash::new(&options.uuid);
    let mut footer = FooterBuilder::default();
    while let Some(frame) = reader.next_frame()? {
        let checked = match frame.header.kind {
            FrameKind::Data => collect_frame(&mut footer, &frame, seed, hash),
            FrameKind::Footer if footer.encode().as_deref() != Some(frame.payload) => {
                Err(Error::corruption("the footer says something else than the records"))
            }
            FrameKind::Footer | FrameKind::Synced => Ok(()),
        };
        checked.map_err(|e| e.in_file(path).at_offset(frame.offset))?;
    }
    Ok(footer)
}

#[cfg(test)]
mod tests;
