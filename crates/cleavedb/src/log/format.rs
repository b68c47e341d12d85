//! The bytes of a segment file: its header and the frames in it. Encoding and decoding only; no
//! I/O, no state, any thread.
//!
//! Invariants:
//! F-1 every checksum is seeded with database, file number and offset, so that a right frame in
//!     the wrong file or at the wrong place fails (rule F1);
//! F-2 the first and the last byte of either header, and the last byte of a frame, are never
//!     zero, so that a write torn at any byte of a zeroed region leaves its trace (rule F3);
//! F-3 no length is trusted before its header's checksum holds (rules F2 and F8).

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::Reader;
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::BATCH_BYTES_MAX;
use crate::base::names::FileKind;

/// The one format number of a store: segments, manifest and pointer file carry it. Stores of every
/// other number are refused by name: number 1, in which no value stood apart, and number 2, in
/// which none stood in a file of its own, were never released.
pub(crate) const FORMAT_VERSION: u32 = 3;

/// First bytes of a segment.
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"CLVSEGMT";
/// Last byte of a segment's header (F-2).
pub(crate) const SEGMENT_HEADER_END: u8 = 0xE5;
/// Bytes of a segment's header. This length, the magic, and the places of checksum and version
/// stay the same in every later version, so that a newer file can be told from a damaged one.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 80;

/// Offsets of the fields of a segment's header.
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) mod segment_offset {
    /// Magic, 8 bytes.
    pub(crate) const MAGIC: usize = 0;
    /// Checksum of what follows it, 4 bytes.
    pub(crate) const CRC: usize = 8;
    /// Format number, 4 bytes.
    pub(crate) const VERSION: usize = 12;
    /// Identity of the database, 16 bytes.
    pub(crate) const UUID: usize = 16;
    /// Number of this file, 8 bytes.
    pub(crate) const FILE_ID: usize = 32;
    /// Number of the file before it, 8 bytes; zero where there is none.
    pub(crate) const PREDECESSOR_ID: usize = 40;
    /// Exact length of the file before it, 8 bytes.
    pub(crate) const PREDECESSOR_BYTES: usize = 48;
    /// Checksum of the whole file before it, 4 bytes.
    pub(crate) const PREDECESSOR_CHECKSUM: usize = 56;
    /// Zero, 4 bytes.
    pub(crate) const RESERVED: usize = 60;
    /// Seq that the first frame is to carry, 8 bytes.
    pub(crate) const FIRST_SEQ: usize = 64;
    /// Zero, 6 bytes.
    pub(crate) const RESERVED_TAIL: usize = 72;
    /// Kind of file, 1 byte.
    pub(crate) const KIND: usize = 78;
    /// The end mark, 1 byte.
    pub(crate) const END: usize = 79;
}

/// First bytes of a frame.
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"CLVF";
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 40;
/// Last byte of a frame (F-2).
pub(crate) const FRAME_END: u8 = 0xB6;
/// Bytes of a frame beside its payload.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 1;
/// Largest payload of a frame: one batch, or one snapshot of the manifest.
pub(crate) const PAYLOAD_BYTES_MAX: usize = BATCH_BYTES_MAX;
/// The unit that a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Offsets of the fields of a frame's header.
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) mod frame_offset {
    /// Magic, 4 bytes.
    pub(crate) const MAGIC: usize = 0;
    /// Checksum of the header from [`PAYLOAD_BYTES`] on, 4 bytes.
    pub(crate) const CRC: usize = 4;
    /// Length of the payload, 4 bytes.
    pub(crate) const PAYLOAD_BYTES: usize = 8;
    /// Operations in the payload, 4 bytes.
    pub(crate) const COUNT: usize = 12;
    /// Seq of the first of them, 8 bytes.
    pub(crate) const BASE_SEQ: usize = 16;
    /// Everything up to this seq was on the device when the frame was written, 8 bytes.
    pub(crate) const DURABLE_SEQ: usize = 24;
    /// Checksum of the payload, 4 bytes.
    pub(crate) const PAYLOAD_CRC: usize = 32;
    /// Sectors of the payload that are zero by nature, 3 bytes.
    pub(crate) const ZERO_SECTORS: usize = 36;
    /// Kind of frame, 1 byte.
    pub(crate) const KIND: usize = 39;
}

const _: () = assert!(segment_offset::END + 1 == SEGMENT_HEADER_BYTES);
const _: () = assert!(SEGMENT_HEADER_BYTES <= SECTOR_BYTES, "a header is never torn in parts");
const _: () = assert!(frame_offset::KIND + 1 == FRAME_HEADER_BYTES);
const _: () = assert!(FRAME_HEADER_BYTES < SECTOR_BYTES, "a header meets two sectors at most");
const _: () = assert!(PAYLOAD_BYTES_MAX / SECTOR_BYTES < 1 << 24, "zero sectors fit 24 bits");

/// A file that will not grow any more: what its successor and the manifest say of it (rule F4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// Number of the file.
    pub(crate) id: FileId,
    /// Its exact length in bytes.
    pub(crate) bytes: u64,
    /// Checksum of all of its bytes, seeded with [`file_seed`].
    pub(crate) checksum: u32,
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// What the frames hold.
    pub(crate) kind: FileKind,
    /// Identity of the database.
    pub(crate) uuid: [u8; 16],
    /// Number of the file.
    pub(crate) id: FileId,
    /// The segment before this one.
    pub(crate) predecessor: Option<Sealed>,
    /// Seq that the first frame is to carry.
    pub(crate) first_seq: Seq,
}

impl SegmentHeader {
    /// Appends the header's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let before = self.predecessor.unwrap_or(Sealed { id: FileId(0), bytes: 0, checksum: 0 });
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&before.id.0.to_le_bytes());
        out.extend_from_slice(&before.bytes.to_le_bytes());
        out.extend_from_slice(&before.checksum.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        out.push(self.kind as u8);
        out.push(SEGMENT_HEADER_END);
        debug_assert_eq!(out.len() - start, SEGMENT_HEADER_BYTES);
        let crc = segment_header_crc(&self.uuid, self.id, out.get(start..).unwrap_or_default());
        patch(out, start + segment_offset::CRC, crc);
    }

    /// Decodes and checks the header of the file `id` of the database `uuid`. `bytes` starts at
    /// the start of the file. A newer format is `Unsupported`, everything else `Corruption`.
    pub(crate) fn decode(
        bytes: &[u8],
        kind: FileKind,
        uuid: &[u8; 16],
        id: FileId,
    ) -> Result<Self> {
        let bytes = bytes
            .get(..SEGMENT_HEADER_BYTES)
            .ok_or_else(|| Error::corruption("segment header is cut short"))?;
        let (header, crc, version) = parse_segment_header(bytes)?;
        if crc != segment_header_crc(uuid, id, bytes) {
            return Err(foreign_or_damaged(bytes, crc, uuid, id));
        }
        if version != FORMAT_VERSION {
            return Err(unsupported_version(version));
        }
        let header = header?;
        if header.uuid != *uuid || header.id != id || header.kind != kind {
            return Err(Error::corruption("segment header states another identity"));
        }
        if header.predecessor.is_some_and(|before| before.id >= id) {
            return Err(Error::corruption("segment names a predecessor that is not older"));
        }
        Ok(header)
    }

    /// What an intact header says of itself, whatever file it is in: for dumps.
    pub(crate) fn decode_any(bytes: &[u8]) -> Result<Self> {
        let (header, _, _) = parse_segment_header(bytes)?;
        let header = header?;
        Self::decode(bytes, header.kind, &header.uuid, header.id)
    }

    /// Seed of every checksum in the file.
    pub(crate) fn seed(&self) -> u32 {
        file_seed(&self.uuid, self.id.0)
    }
}

/// The error for a store of another format number.
pub(crate) fn unsupported_version(version: u32) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("format version {version}; this build reads version {FORMAT_VERSION} only"),
    )
}

fn segment_header_crc(uuid: &[u8; 16], id: FileId, bytes: &[u8]) -> u32 {
    let covered = bytes.get(segment_offset::VERSION..SEGMENT_HEADER_BYTES).unwrap_or_default();
    crc_at(file_seed(uuid, id.0), segment_offset::VERSION as u64, covered)
}

/// The error for a header whose checksum fails: names the two cases a person can act on.
fn foreign_or_damaged(bytes: &[u8], crc: u32, uuid: &[u8; 16], id: FileId) -> Error {
    let stated = (|| {
        let mut reader = Reader::new(bytes.get(segment_offset::UUID..)?);
        Some((reader.uuid().ok()?, FileId(reader.u64().ok()?)))
    })();
    match stated {
        Some((other, number)) if crc == segment_header_crc(&other, number, bytes) => {
            if other != *uuid {
                return Error::corruption("the file belongs to another database");
            }
            Error::corruption(format!("the file is number {number}, not {id}"))
        }
        _ => Error::corruption("segment header does not match its checksum"),
    }
}

type ParsedSegmentHeader = (Result<SegmentHeader>, u32, u32);

/// Fields without judgement: (header, checksum, version). Only a wrong magic is an error here.
fn parse_segment_header(bytes: &[u8]) -> Result<ParsedSegmentHeader> {
    let mut reader = Reader::new(bytes);
    if reader.take(SEGMENT_MAGIC.len())? != SEGMENT_MAGIC {
        return Err(Error::corruption("not a segment: its magic is missing"));
    }
    let crc = reader.u32()?;
    let version = reader.u32()?;
    Ok((parse_segment_fields(reader), crc, version))
}

fn parse_segment_fields(mut reader: Reader<'_>) -> Result<SegmentHeader> {
    let uuid = reader.uuid()?;
    let id = FileId(reader.u64()?);
    let before = FileId(reader.u64()?);
    let bytes = reader.u64()?;
    let checksum = reader.u32()?;
    let reserved = reader.u32()?;
    let first_seq = reader.u64()?;
    let tail = reader.take(segment_offset::KIND - segment_offset::RESERVED_TAIL)?;
    let kind = reader.u8()?;
    let end = reader.u8()?;
    if reserved != 0 || tail.iter().any(|&b| b != 0) || end != SEGMENT_HEADER_END {
        return Err(Error::corruption("segment header holds bytes it may not hold"));
    }
    if id.0 == 0 || first_seq > SEQ_MAX {
        return Err(Error::corruption("segment header holds a number out of range"));
    }
    let kind = FileKind::from_u8(kind)
        .ok_or_else(|| Error::corruption(format!("unknown file kind {kind}")))?;
    let predecessor = match before.0 {
        0 if bytes == 0 && checksum == 0 => None,
        0 => return Err(Error::corruption("segment describes a predecessor without number")),
        _ => Some(Sealed { id: before, bytes, checksum }),
    };
    Ok(SegmentHeader { kind, uuid, id, predecessor, first_seq })
}

/// What a frame is. On disk: never renumber. Every number has at least two bits set, so that no
/// single flipped bit makes it zero (F-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// Operations.
    Data = 0xD3,
    /// No operations: only says how far everything before was made durable.
    Synced = 0x5C,
    /// No operations: what the value segment that it ends holds (`log::footer`).
    Footer = 0xA6,
}

impl FrameKind {
    fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            0xD3 => Some(Self::Data),
            0x5C => Some(Self::Synced),
            0xA6 => Some(Self::Footer),
            _ => None,
        }
    }
}

/// What the header of a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// What the frame is.
    pub(crate) kind: FrameKind,
    /// Length of the payload in bytes, at most [`PAYLOAD_BYTES_MAX`].
    pub(crate) payload_bytes: u32,
    /// Operations in the payload.
    pub(crate) count: u32,
    /// Seq of the first of them (the next one to come where there is none).
    pub(crate) base_seq: Seq,
    /// Everything up to this seq was on the device when the frame was written.
    pub(crate) durable_seq: Seq,
    /// Checksum of the payload.
    pub(crate) payload_crc: u32,
    /// Sectors that lie wholly within the payload and are zero by nature.
    pub(crate) zero_sectors: u32,
}

impl FrameHeader {
    /// The header of a frame that starts at `offset` of the file with this seed.
    fn encode(&self, seed: u32, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| {
            let place = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..field.len()));
            debug_assert!(place.is_some());
            if let Some(place) = place {
                place.copy_from_slice(field);
            }
        };
        let [zeros_0, zeros_1, zeros_2, _] = self.zero_sectors.to_le_bytes();
        put(frame_offset::MAGIC, &FRAME_MAGIC);
        put(frame_offset::PAYLOAD_BYTES, &self.payload_bytes.to_le_bytes());
        put(frame_offset::COUNT, &self.count.to_le_bytes());
        put(frame_offset::BASE_SEQ, &self.base_seq.to_le_bytes());
        put(frame_offset::DURABLE_SEQ, &self.durable_seq.to_le_bytes());
        put(frame_offset::PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        put(frame_offset::ZERO_SECTORS, &[zeros_0, zeros_1, zeros_2, self.kind as u8]);
        let crc = frame_header_crc(seed, offset, &bytes);
        patch(&mut bytes, frame_offset::CRC, crc);
        bytes
    }

    /// Decodes the header of a frame at `offset`; the reason where it is not valid.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Result<Self, &'static str> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES).ok_or("frame header is cut short")?;
        if bytes.get(..FRAME_MAGIC.len()) != Some(&FRAME_MAGIC) {
            return Err("frame magic is missing");
        }
        Self::parse(bytes, frame_header_crc(seed, offset, bytes))
            .unwrap_or(Err("frame header is cut short"))
    }

    fn parse(bytes: &[u8], crc_computed: u32) -> Result<Result<Self, &'static str>> {
        let mut reader = Reader::new(bytes);
        reader.take(FRAME_MAGIC.len())?;
        if reader.u32()? != crc_computed {
            return Ok(Err("frame header does not match its checksum"));
        }
        let payload_bytes = reader.u32()?;
        let count = reader.u32()?;
        let base_seq = reader.u64()?;
        let durable_seq = reader.u64()?;
        let payload_crc = reader.u32()?;
        let zeros_low = u32::from(reader.u16()?);
        let zero_sectors = zeros_low | u32::from(reader.u8()?) << 16;
        let Some(kind) = FrameKind::from_u8(reader.u8()?) else {
            return Ok(Err("unknown kind of frame"));
        };
        if payload_bytes as usize > PAYLOAD_BYTES_MAX {
            return Ok(Err("frame is longer than any frame may be"));
        }
        if base_seq.saturating_add(u64::from(count)) > SEQ_MAX + 1 || durable_seq > SEQ_MAX {
            return Ok(Err("frame states a seq out of range"));
        }
        if kind == FrameKind::Synced && (payload_bytes != 0 || count != 0) {
            return Ok(Err("a frame without operations has a payload"));
        }
        if kind == FrameKind::Footer && count != 0 {
            return Ok(Err("a footer states operations"));
        }
        Ok(Ok(Self {
            kind,
            payload_bytes,
            count,
            base_seq,
            durable_seq,
            payload_crc,
            zero_sectors,
        }))
    }

    /// Bytes of the whole frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        u64::from(self.payload_bytes) + FRAME_OVERHEAD_BYTES as u64
    }

    /// Seq that the next frame carries where seqs are contiguous.
    pub(crate) fn next_seq(&self) -> Seq {
        self.base_seq + u64::from(self.count)
    }

    /// Checks a payload of the right length that starts at `payload_offset`.
    pub(crate) fn payload_matches(&self, seed: u32, payload_offset: u64, payload: &[u8]) -> bool {
        debug_assert_eq!(payload.len(), self.payload_bytes as usize);
        crc_at(seed, payload_offset, payload) == self.payload_crc
    }
}

/// One frame to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRef<'a> {
    /// Seq of the first operation.
    pub(crate) base_seq: Seq,
    /// Operations in the payload.
    pub(crate) count: u32,
    /// What the frame carries; this layer does not interpret it.
    pub(crate) payload: &'a [u8],
}

/// Appends a whole frame that is to stand at `offset` of the file with this seed.
pub(crate) fn encode_frame(
    kind: FrameKind,
    frame: FrameRef<'_>,
    durable_seq: Seq,
    seed: u32,
    offset: u64,
    out: &mut Vec<u8>,
) -> Result<()> {
    encode_frame_with(kind, frame, durable_seq, seed, offset, out, |_, _| Ok(()))
}

/// [`encode_frame`] where the payload changes once its place is known: `finish` gets the copy of
/// the payload and its offset in the file before anything is computed over it.
pub(crate) fn encode_frame_with(
    kind: FrameKind,
    frame: FrameRef<'_>,
    durable_seq: Seq,
    seed: u32,
    offset: u64,
    out: &mut Vec<u8>,
    finish: impl FnOnce(&mut [u8], u64) -> Result<()>,
) -> Result<()> {
    let payload_bytes = u32::try_from(frame.payload.len())
        .ok()
        .filter(|&bytes| bytes as usize <= PAYLOAD_BYTES_MAX)
        .ok_or_else(|| Error::invalid(format!("frame of {} bytes", frame.payload.len())))?;
    let payload_offset = offset + FRAME_HEADER_BYTES as u64;
    let start = out.len();
    out.reserve(frame.payload.len() + FRAME_OVERHEAD_BYTES);
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    out.extend_from_slice(frame.payload);
    let payload = out.get_mut(start + FRAME_HEADER_BYTES..).unwrap_or_default();
    finish(payload, payload_offset)?;
    let header = FrameHeader {
        kind,
        payload_bytes,
        count: frame.count,
        base_seq: frame.base_seq,
        durable_seq,
        payload_crc: crc_at(seed, payload_offset, payload),
        zero_sectors: count_zero_sectors(payload_offset, payload),
    };
    if let Some(place) = out.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
        *place = header.encode(seed, offset);
    }
    out.push(FRAME_END);
    Ok(())
}

/// Sectors of the file that lie wholly within `bytes`, which start at `offset`, and hold only
/// zeros. One byte of most sectors is looked at.
pub(crate) fn count_zero_sectors(offset: u64, bytes: &[u8]) -> u32 {
    let within = (offset % SECTOR_BYTES as u64) as usize;
    let skip = if within == 0 { 0 } else { SECTOR_BYTES - within };
    let sectors = bytes.get(skip..).unwrap_or_default().chunks_exact(SECTOR_BYTES);
    sectors.filter(|sector| is_zero(sector)).count() as u32
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Whether a header that does not hold can be what a crash left of an append to a zeroed region
/// (rule F3). `bytes` starts at the frame's `offset` and reaches to the end of the sector in
/// which its header ends, or to the end of the file.
pub(crate) fn header_may_be_torn(offset: u64, bytes: &[u8]) -> bool {
    let Some((header, after)) = bytes.split_at_checked(FRAME_HEADER_BYTES) else {
        return true; // the file ends within the header
    };
    // Torn at some byte: nothing follows in the sector where the header ends.
    if header.last() == Some(&0) && is_zero(after) {
        return true;
    }
    // The header meets two sectors and the first one never arrived.
    let room = SECTOR_BYTES - (offset % SECTOR_BYTES as u64) as usize;
    room < FRAME_HEADER_BYTES && header.get(..room).is_some_and(is_zero)
}

/// Bytes that [`header_may_be_torn`] wants to see of a frame at `offset`.
pub(crate) fn header_sector_bytes(offset: u64) -> usize {
    let within = (offset % SECTOR_BYTES as u64) as usize;
    (within + FRAME_HEADER_BYTES).next_multiple_of(SECTOR_BYTES) - within
}

/// Whether a frame whose header holds, but whose body does not, can be what a crash left of an
/// append to a zeroed region (rule F3). `body` is payload and end mark, of their full length.
pub(crate) fn body_may_be_torn(header: &FrameHeader, payload_offset: u64, body: &[u8]) -> bool {
    body.last() == Some(&0) || count_zero_sectors(payload_offset, body) > header.zero_sectors
}

fn frame_header_crc(seed: u32, offset: u64, bytes: &[u8]) -> u32 {
    let covered = bytes.get(frame_offset::PAYLOAD_BYTES..FRAME_HEADER_BYTES).unwrap_or_default();
    crc_at(seed, offset + frame_offset::PAYLOAD_BYTES as u64, covered)
}

fn patch(out: &mut [u8], at: usize, crc: u32) {
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = crc.to_le_bytes();
    }
}

#[cfg(test)]
mod tests;
