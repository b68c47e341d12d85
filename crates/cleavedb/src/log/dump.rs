//! Annotated dumps of segment files: one line a field, `offset: bytes  # meaning`. Works on
//! damaged files: says what is wrong and goes on at the next frame that proves itself.
//!
//! Pure functions over the bytes of one file.

use std::fmt::{Display, Write};

use crate::base::checksum::file_seed;
use crate::base::codec::Reader;
use crate::base::entry::{FileId, Kind, Seq};
use crate::log::batch::{BatchReader, Record};
use crate::log::format::{
    FRAME_END, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, FrameKind, SEGMENT_HEADER_BYTES,
    SegmentHeader, is_zero, segment_offset,
};

pub(crate) mod values;

/// Bytes of a field that are shown.
const SHOWN_BYTES: usize = 16;

/// Writes the lines of a dump while walking over a file.
pub(crate) struct Annotator<'a> {
    rest: &'a [u8],
    offset: u64,
    out: &'a mut String,
}

impl<'a> Annotator<'a> {
    /// Starts at the beginning of a file.
    pub(crate) fn new(bytes: &'a [u8], out: &'a mut String) -> Self {
        Self { rest: bytes, offset: 0, out }
    }

    /// The next `length` bytes (fewer at the end) as one line.
    pub(crate) fn field(&mut self, length: usize, meaning: impl Display) {
        let length = length.min(self.rest.len());
        if length == 0 {
            return;
        }
        let (bytes, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, &[]));
        let mut hex = String::new();
        for byte in bytes.iter().take(SHOWN_BYTES) {
            hex.push_str(&format!("{byte:02x}"));
        }
        if bytes.len() > SHOWN_BYTES {
            hex.push_str(&format!("..+{}", bytes.len() - SHOWN_BYTES));
        }
        let width = 2 * SHOWN_BYTES;
        // Writing to a String does not fail.
        let _ = writeln!(self.out, "{:06}: {hex:<width$}  # {meaning}", self.offset);
        self.rest = rest;
        self.offset += length as u64;
    }

    /// A line without bytes.
    pub(crate) fn note(&mut self, text: impl Display) {
        let _ = writeln!(self.out, "{:06}: # {text}", self.offset);
    }

    /// What has not been shown yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Where that begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

/// Dumps a journal segment.
pub(crate) fn dump_segment(bytes: &[u8], out: &mut String) {
    dump_frames(bytes, out, &describe_batch);
}

/// Shows the payload of a frame; must walk over all of it.
pub(crate) type Describe<'f> = &'f dyn Fn(&mut Annotator<'_>, &FrameHeader, &[u8]);

/// Dumps any segment, with `describe` for what its frames carry.
pub(crate) fn dump_frames(bytes: &[u8], out: &mut String, describe: Describe<'_>) {
    let mut lines = Annotator::new(bytes, out);
    let seed = dump_header(&mut lines);
    while !lines.rest().is_empty() {
        match FrameHeader::decode(lines.rest(), seed, lines.offset()) {
            Ok(header) => dump_frame(&mut lines, &header, seed, describe),
            Err(reason) => dump_bad(&mut lines, seed, reason),
        }
    }
    lines.note("end of file");
}

/// Dumps the header and returns the file's seed, as far as it can be known.
fn dump_header(lines: &mut Annotator<'_>) -> u32 {
    let bytes = lines.rest();
    match SegmentHeader::decode_any(bytes) {
        Ok(header) => lines.note(format!("segment {} of kind {:?}", header.id, header.kind)),
        Err(error) => lines.note(format!("bad segment header: {error}")),
    }
    let mut stated = Reader::new(bytes.get(segment_offset::UUID..).unwrap_or_default());
    let uuid = stated.uuid().unwrap_or_default();
    let id = FileId(stated.u64().unwrap_or_default());
    let mut fields = Reader::new(bytes.get(segment_offset::PREDECESSOR_ID..).unwrap_or_default());
    let before = fields.u64().unwrap_or_default();
    let before_bytes = fields.u64().unwrap_or_default();
    let mut first = Reader::new(bytes.get(segment_offset::FIRST_SEQ..).unwrap_or_default());
    let first_seq = first.u64().unwrap_or_default();
    let version = bytes
        .get(segment_offset::VERSION..)
        .and_then(|rest| Reader::new(rest).u32().ok())
        .unwrap_or_default();
    lines.field(8, "magic");
    lines.field(4, "checksum of the header");
    lines.field(4, format_args!("format version {version}"));
    lines.field(16, "database uuid");
    lines.field(8, format_args!("file {id}"));
    lines.field(8, format_args!("predecessor: file {before}"));
    lines.field(8, format_args!("predecessor: {before_bytes} bytes"));
    lines.field(4, "predecessor: checksum");
    lines.field(4, "reserved");
    lines.field(8, format_args!("first seq {first_seq}"));
    lines.field(6, "reserved");
    lines.field(1, "kind of file");
    lines.field(1, "end mark");
    debug_assert!(lines.rest().is_empty() || lines.offset() == SEGMENT_HEADER_BYTES as u64);
    file_seed(&uuid, id.0)
}

fn dump_frame(lines: &mut Annotator<'_>, header: &FrameHeader, seed: u32, describe: Describe<'_>) {
    let FrameHeader { kind, payload_bytes, count, base_seq, durable_seq, zero_sectors, .. } =
        *header;
    match kind {
        FrameKind::Data => lines.note(format_args!("frame: {count} from seq {base_seq}")),
        FrameKind::Synced => lines.note("frame: watermark"),
        FrameKind::Footer => lines.note("frame: footer"),
    }
    lines.field(4, "magic");
    lines.field(4, "checksum of the frame's header");
    lines.field(4, format_args!("payload of {payload_bytes} bytes"));
    lines.field(4, format_args!("count {count}"));
    lines.field(8, format_args!("base seq {base_seq}"));
    lines.field(8, format_args!("durable seq {durable_seq}"));
    lines.field(4, "checksum of the payload");
    lines.field(3, format_args!("{zero_sectors} sectors zero by nature"));
    lines.field(1, format_args!("kind of frame: {kind:?}"));
    let Some(payload) = lines.rest().get(..payload_bytes as usize) else {
        lines.note("the file ends within the frame");
        lines.field(usize::MAX, "cut payload");
        return;
    };
    let end = lines.offset() + u64::from(payload_bytes);
    if header.payload_matches(seed, lines.offset(), payload) {
        describe(lines, header, payload);
    } else {
        lines.note("payload does not match its checksum");
    }
    if lines.offset() < end {
        lines.field((end - lines.offset()) as usize, "payload");
    }
    let mark = if lines.rest().first() == Some(&FRAME_END) { "end mark" } else { "bad end mark" };
    lines.field(1, mark);
}

/// Shows what lies before the next frame that proves itself, or the end.
fn dump_bad(lines: &mut Annotator<'_>, seed: u32, reason: &str) {
    let (rest, offset) = (lines.rest(), lines.offset());
    if is_zero(rest) {
        lines.field(rest.len(), format_args!("{} zero bytes", rest.len()));
        return;
    }
    lines.note(format_args!("no frame here: {reason}"));
    let next = rest.windows(FRAME_HEADER_BYTES).enumerate().skip(1).find(|(at, window)| {
        window.starts_with(&FRAME_MAGIC)
            && FrameHeader::decode(window, seed, offset + *at as u64).is_ok()
    });
    let length = next.map_or(rest.len(), |(at, _)| at);
    lines.field(length, format_args!("{length} bytes not understood"));
}

/// Shows the records of a batch, one a line.
fn describe_batch(lines: &mut Annotator<'_>, header: &FrameHeader, payload: &[u8]) {
    let mut records = BatchReader::new(payload, header.count);
    let mut seq = header.base_seq;
    loop {
        let before = records.rest_bytes();
        match records.next() {
            Some(Ok(record)) => {
                lines.field(before - records.rest_bytes(), describe_record(&record, seq));
                seq += 1;
            }
            Some(Err(error)) => {
                lines.note(format_args!("bad record: {error}"));
                return;
            }
            None => return,
        }
    }
}

/// A record that carries all it says.
fn describe_record(record: &Record<'_>, seq: Seq) -> String {
    let Record { kind, keyspace, key, value, .. } = record;
    let start = format!("seq {seq}: {kind:?} keyspace {} \"{}\"", keyspace.0, key.escape_ascii());
    match kind {
        Kind::Delete => start,
        Kind::RangeDelete => format!("{start} .. \"{}\"", value.escape_ascii()),
        _ => format!("{start}, value of {} bytes", value.len()),
    }
}

#[cfg(test)]
mod tests;
