//! The annotated dump of a bucket: one line a field, `offset: bytes  # meaning`. Works on damaged
//! files: says what is wrong and goes on with what still proves itself. It cannot know how many
//! bytes are committed: that is in the manifest. Pure functions over the bytes of one file.

use crate::base::checksum::{KeyedHash, crc_at, file_seed};
use crate::base::codec::{Reader, varint_len};
use crate::base::entry::{FileId, Seq};
use crate::deltas::bucket::format::{
    CHUNK_FIXED_BYTES, CRC_BYTES, Chunk, HEADER_BYTES, HEADER_CRC_AT, HEADER_PAGES_END_AT,
    HEADER_UUID_AT, HEADER_ZEROS, Header, Meta, Reading, stated_bytes,
};
use crate::deltas::ranges::RangeAnchor;
use crate::deltas::record::{Bound, DeltaKind, Groups, Records};
use crate::log::dump::Annotator;

/// Bytes of a key that are shown.
const SHOWN_KEY_BYTES: usize = 32;

/// Dumps a bucket.
pub(crate) fn dump_bucket(bytes: &[u8], out: &mut String) {
    let mut lines = Annotator::new(bytes, out);
    let mut stated = Reader::new(bytes.get(HEADER_UUID_AT..).unwrap_or_default());
    let uuid = stated.uuid().unwrap_or_default();
    let id = FileId(stated.u64().unwrap_or_default());
    let header = Header::decode(bytes.get(..HEADER_BYTES).unwrap_or(bytes), &uuid, id);
    match &header {
        Ok(_) => lines.note(format_args!("bucket {id}")),
        Err(error) => lines.note(format_args!("bad header: {error}")),
    }
    lines.field(HEADER_CRC_AT, "magic");
    lines.field(4, "checksum of the header");
    lines.field(4, "format version");
    lines.field(16, "database uuid");
    lines.field(8, format_args!("file {id}"));
    let stated = |at: usize| Reader::new(bytes.get(at..).unwrap_or_default()).u32();
    let pages_end = stated(HEADER_PAGES_END_AT).unwrap_or_default();
    let sorted_bytes = stated(HEADER_PAGES_END_AT + 4).unwrap_or_default();
    lines.field(4, format_args!("pages end at {pages_end}"));
    lines.field(4, format_args!("the sorted part ends at {sorted_bytes}"));
    lines.field(HEADER_ZEROS, "zero");
    lines.field(1, "kind of file");
    lines.field(1, "end mark");
    if let Ok(Header { pages_end, sorted_bytes }) = header {
        let (seed, hash) = (file_seed(&uuid, id.0), KeyedHash::new(&uuid));
        let sorted = (pages_end as usize, sorted_bytes as usize);
        if let Some(link) = dump_sorted(&mut lines, bytes, seed, sorted) {
            dump_chunks(&mut lines, seed, link, hash);
        }
    }
    let left = lines.rest().len();
    lines.field(left, "not understood, or not committed");
    lines.note("end of file");
}

/// Dumps pages and meta; returns the meta's checksum if it holds.
fn dump_sorted(
    lines: &mut Annotator<'_>,
    bytes: &[u8],
    seed: u32,
    (pages_end, sorted_bytes): (usize, usize),
) -> Option<u32> {
    let meta = bytes.get(pages_end..sorted_bytes);
    let meta = meta.map(|meta| Meta::decode(meta, seed, pages_end as u64));
    let meta = match meta {
        Some(Ok(meta)) => meta,
        Some(Err(error)) => {
            lines.note(format_args!("bad meta: {error}"));
            return None;
        }
        None => {
            lines.note("the file ends within the sorted part");
            return None;
        }
    };
    for page in &meta.pages {
        let (offset, length) = (lines.offset(), page.bytes as usize);
        let part = lines.rest().get(..length).unwrap_or_default();
        let holds = if crc_at(seed, offset, part) == page.checksum { "" } else { ", damaged" };
        lines.note(format_args!("page of {length} bytes{holds}"));
        dump_groups(lines, length);
    }
    dump_meta(lines, &meta, sorted_bytes - pages_end);
    Some(meta.checksum)
}

fn dump_meta(lines: &mut Annotator<'_>, meta: &Meta, bytes: usize) {
    let end = lines.offset() + bytes as u64;
    lines.note("meta");
    lines.field(CRC_BYTES, "checksum of the meta");
    lines.field(varint_len(meta.applied_seq), format_args!("applied seq {}", meta.applied_seq));
    lines.field(varint_len(meta.keys), format_args!("{} keys", meta.keys));
    lines.field(varint_len(meta.records), format_args!("{} records", meta.records));
    let index_bytes = Reader::new(lines.rest()).varint().unwrap_or_default();
    lines.field(varint_len(index_bytes), format_args!("index of {index_bytes} bytes"));
    let pages = meta.pages.len() as u64;
    lines.field(varint_len(pages), format_args!("{pages} pages"));
    for page in &meta.pages {
        let key = page.bound.key.len() as u64;
        let keyspace = varint_len(u64::from(page.bound.keyspace.0));
        let bound = keyspace + varint_len(key) + key as usize;
        let length = varint_len(u64::from(page.bytes)) + CRC_BYTES + bound;
        let (offset, bound) = (page.offset, shown(page.bound.as_ref()));
        let what = format_args!("page at {offset}: {} bytes, from {bound}", page.bytes);
        lines.field(length, what);
    }
    let filter_bytes = Reader::new(lines.rest()).varint().unwrap_or_default();
    lines.field(varint_len(filter_bytes), format_args!("filter of {filter_bytes} bytes"));
    lines.field(filter_bytes as usize, "filter");
    dump_ranges(lines, &meta.ranges);
    let left = end.saturating_sub(lines.offset());
    lines.field(left as usize, "not understood");
}

fn dump_ranges(lines: &mut Annotator<'_>, ranges: &[RangeAnchor]) {
    let count = ranges.len() as u64;
    lines.field(varint_len(count), format_args!("{count} range anchors"));
    for RangeAnchor { keyspace, range } in ranges {
        let start = Bound { keyspace: *keyspace, key: &range.start };
        let lengths = [range.start.len() as u64, range.end.len() as u64];
        let numbers = [u64::from(keyspace.0), lengths[0], lengths[1], range.seq];
        let bytes = numbers.map(varint_len).iter().sum::<usize>() as u64;
        let end = shown_key(&range.end);
        let what = format_args!("from {} to {end}: seq {}", shown(start), range.seq);
        lines.field((bytes + lengths[0] + lengths[1]) as usize, what);
    }
}

fn dump_chunks(lines: &mut Annotator<'_>, seed: u32, mut link: u32, hash: KeyedHash) {
    while !lines.rest().is_empty() {
        let place = (seed, lines.offset(), link);
        let reading = Reading { hash, piece_bytes: usize::MAX };
        let chunk = match Chunk::decode(lines.rest(), place, reading) {
            Ok(chunk) => chunk,
            Err(error) => {
                lines.note(format_args!("no chunk: {error}"));
                let Ok(length) = stated_bytes(lines.rest()) else { return };
                lines.field(length as usize, "not understood");
                return;
            }
        };
        let totals = chunk.totals;
        lines.note(format_args!("chunk of {} bytes", chunk.bytes));
        lines.field(CRC_BYTES, "checksum of the chunk");
        lines.field(4, format_args!("{} bytes", chunk.bytes));
        lines.field(CHUNK_FIXED_BYTES - CRC_BYTES - 4, "checksum of what is before");
        let span = totals.last_seq - totals.first_seq;
        lines
            .field(varint_len(totals.first_seq), format_args!("smallest seq {}", totals.first_seq));
        lines.field(varint_len(span), format_args!("largest seq {}", totals.last_seq));
        lines.field(varint_len(totals.groups), format_args!("{} keys", totals.groups));
        lines.field(varint_len(totals.records), format_args!("{} records", totals.records));
        dump_ranges(lines, &chunk.ranges);
        let left = chunk.end().saturating_sub(lines.offset());
        dump_groups(lines, left as usize);
        link = chunk.checksum;
    }
}

/// Dumps groups of so many bytes, as far as they can be told from each other.
fn dump_groups(lines: &mut Annotator<'_>, bytes: usize) {
    let end = lines.offset() + bytes as u64;
    let mut groups = Groups::new(lines.rest().get(..bytes).unwrap_or_default());
    let mut left = groups.rest_bytes();
    while let Ok(Some(group)) = groups.next_group() {
        let mut records = group.records();
        let now = groups.rest_bytes() + records.rest_bytes();
        lines.field(left - now, format_args!("key {}", shown(group.bound)));
        dump_records(lines, &mut records);
        left = groups.rest_bytes();
    }
    let left = end.saturating_sub(lines.offset());
    lines.field(left as usize, "not understood");
}

fn dump_records(lines: &mut Annotator<'_>, records: &mut Records<'_>) {
    let mut left = records.rest_bytes();
    loop {
        match records.next_record() {
            Ok(None) => return,
            Ok(Some(record)) => {
                let now = records.rest_bytes();
                let seq: Seq = record.seq;
                match record.kind {
                    DeltaKind::Anchor => lines.field(left - now, format_args!("anchor, seq {seq}")),
                    DeltaKind::Elsewhere => {
                        lines.field(left - now, format_args!("operand in the index, seq {seq}"));
                    }
                    DeltaKind::Delta => {
                        let length = record.operand.len();
                        let head = left - now - length;
                        lines.field(head, format_args!("delta of {length} bytes, seq {seq}"));
                        lines.field(length, "its operand");
                    }
                }
                left = now;
            }
            Err(_) => return lines.field(left, "not understood"),
        }
    }
}

fn shown(bound: Bound<'_>) -> String {
    format!("keyspace {} {}", bound.keyspace.0, shown_key(bound.key))
}

/// A key, or how it begins.
fn shown_key(key: &[u8]) -> String {
    match key.get(..SHOWN_KEY_BYTES) {
        Some(begin) if key.len() > SHOWN_KEY_BYTES => {
            format!("\"{}\"..+{}", begin.escape_ascii(), key.len() - SHOWN_KEY_BYTES)
        }
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

#[cfg(test)]
mod tests;
