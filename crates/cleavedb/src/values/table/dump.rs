//! The annotated dump of a value table: one line a field, `offset: bytes  # meaning`. Works on
//! damaged files: says what is wrong and goes on with what still proves itself. Pure functions over
//! the bytes of one file.

use std::fmt::Write;

use crate::base::checksum::{Rolling, crc_at, file_seed};
use crate::base::codec::{Reader, varint_len};
use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::log::dump::Annotator;
use crate::values::table::format::{
    HEADER_BYTES, HEADER_CRC_AT, HEADER_UUID_AT, TRAILER_BYTES, TRAILER_CRC_AT, TableRecord,
    Trailer, check_header, padded, stated_bytes,
};
use crate::values::table::key_index::KeyIndex;
use crate::values::table::properties::{EdgeKey, Properties};

/// Bytes of a key that are shown: one may be long, and an index repeats them.
const SHOWN_KEY_BYTES: usize = 32;

/// Dumps a value table.
pub(crate) fn dump_value_table(bytes: &[u8], out: &mut String) {
    let mut lines = Annotator::new(bytes, out);
    let seed = dump_header(&mut lines);
    let offset = bytes.len().saturating_sub(TRAILER_BYTES).max(HEADER_BYTES);
    let tail = bytes.get(offset..).unwrap_or_default();
    match Trailer::decode(tail, seed, offset as u64) {
        Ok((trailer, _)) => {
            let checksum = dump_records(&mut lines, seed, trailer.records_end);
            dump_index(&mut lines, seed, &trailer);
            dump_properties(&mut lines, seed, &trailer);
            dump_trailer(&mut lines, &trailer, checksum);
        }
        Err(error) => {
            lines.note(format_args!("no trailer: {error}"));
            dump_records(&mut lines, seed, bytes.len() as u64);
            let left = lines.rest().len();
            lines.field(left, "not understood");
        }
    }
    lines.note("end of file");
}

/// Dumps the header and returns the file's seed, as far as it can be known.
fn dump_header(lines: &mut Annotator<'_>) -> u32 {
    let bytes = lines.rest();
    let mut stated = Reader::new(bytes.get(HEADER_UUID_AT..).unwrap_or_default());
    let uuid = stated.uuid().unwrap_or_default();
    let id = FileId(stated.u64().unwrap_or_default());
    match check_header(bytes.get(..HEADER_BYTES).unwrap_or(bytes), &uuid, id) {
        Ok(()) => lines.note(format_args!("value table {id}")),
        Err(error) => lines.note(format_args!("bad header: {error}")),
    }
    lines.field(HEADER_CRC_AT, "magic");
    lines.field(4, "checksum of the header");
    lines.field(4, "format version");
    lines.field(16, "database uuid");
    lines.field(8, format_args!("container {id}"));
    lines.field(HEADER_BYTES - 40 - 2, "zero");
    lines.field(1, "kind of file");
    lines.field(1, "end mark");
    file_seed(&uuid, id.0)
}

/// Dumps records up to `end`, or to the first one that cannot be told from the next; returns the
/// checksum of their checksums.
fn dump_records(lines: &mut Annotator<'_>, seed: u32, end: u64) -> u32 {
    let mut checksums = Rolling::new(seed);
    while lines.offset() < end {
        let offset = lines.offset();
        let left = (end - offset).min(lines.rest().len() as u64);
        let rest = lines.rest().get(..left as usize).unwrap_or_default();
        let decoded = stated_bytes(rest).and_then(|_| TableRecord::decode_first(rest));
        let Ok(record) = decoded else {
            lines.note("no record");
            lines.field(left as usize, "not understood");
            break;
        };
        let holds = record.proven_body(seed, offset).is_some();
        checksums.update(&record.record.checksum().to_le_bytes());
        dump_record(lines, &record, holds);
        let zeros = padded(lines.offset()) - lines.offset();
        lines.field(zeros as usize, "zero");
    }
    checksums.value()
}

fn dump_record(lines: &mut Annotator<'_>, record: &TableRecord<'_>, holds: bool) {
    let inner = record.record;
    let how = match inner.compression() {
        Ok(how) => format!("{how:?}"),
        Err(error) => error.to_string(),
    };
    let (space, key, stored) = (inner.keyspace.0, shown(inner.key), inner.stored.len());
    lines.field(varint_len(record.file.0), format_args!("record of file {}", record.file));
    lines.field(
        inner.head_bytes(),
        format_args!(
            "keyspace {space} {key}, value of {} bytes in {stored} ({how})",
            inner.value_bytes
        ),
    );
    lines.field(8, format_args!("its seq {}", inner.seq));
    lines.field(4, if holds { "its checksum" } else { "its checksum, which does not hold" });
    lines.field(stored, "stored bytes");
}

/// A section's bytes, if its checksum holds.
fn section<'a>(lines: &Annotator<'a>, bytes: u64, seed: u32, checksum: u32) -> Option<&'a [u8]> {
    let section = lines.rest().get(..usize::try_from(bytes).ok()?)?;
    (crc_at(seed, lines.offset(), section) == checksum).then_some(section)
}

fn dump_index(lines: &mut Annotator<'_>, seed: u32, trailer: &Trailer) {
    let bytes = trailer.index_bytes;
    lines.note(format_args!("index of {bytes} bytes"));
    let Some(stored) = section(lines, bytes, seed, trailer.index_checksum) else {
        lines.field(bytes as usize, "index that does not match its checksum");
        return;
    };
    if let Err(error) = dump_groups(lines, stored, trailer.records_end) {
        lines.note(format_args!("bad index: {error}"));
    }
    let left = trailer.properties_offset().saturating_sub(lines.offset());
    lines.field(left as usize, "not understood");
}

fn dump_groups(lines: &mut Annotator<'_>, stored: &[u8], records_end: u64) -> Result<()> {
    let index = KeyIndex::decode(stored.to_vec(), records_end)?;
    let count = Reader::new(stored).varint()?;
    lines.field(varint_len(count), format_args!("{count} groups"));
    let mut groups = index.groups();
    let mut left = groups.rest_bytes();
    while let Some((place, bound)) = groups.next_group()? {
        let mut text = format!("{:06} to {:06}: up to ", place.start, place.end);
        // Writing to a string does not fail.
        let _ = write!(text, "keyspace {} {}", bound.keyspace.0, shown(bound.key));
        if let Some((seq, file)) = bound.split {
            let _ = write!(text, " seq {seq} of file {file}");
        }
        let now = groups.rest_bytes();
        lines.field(left - now, text);
        left = now;
    }
    Ok(())
}

fn dump_properties(lines: &mut Annotator<'_>, seed: u32, trailer: &Trailer) {
    let bytes = trailer.properties_bytes;
    lines.note(format_args!("properties of {bytes} bytes"));
    let stored = section(lines, bytes, seed, trailer.properties_checksum);
    let region_bytes = trailer.records_end - HEADER_BYTES as u64;
    match stored.map(|stored| Properties::decode(stored, region_bytes)) {
        Some(Ok(properties)) => describe(lines, &properties),
        Some(Err(error)) => lines.note(format_args!("bad properties: {error}")),
        None => lines.note("properties that do not match their checksum"),
    }
    let left = trailer.offset().saturating_sub(lines.offset());
    lines.field(left as usize, "not understood");
}

fn describe(lines: &mut Annotator<'_>, properties: &Properties) {
    let totals = properties.totals;
    let seqs = totals.largest_seq - totals.smallest_seq;
    lines.field(varint_len(totals.records), format_args!("{} records", totals.records));
    for (number, what) in [
        (totals.record_bytes, "bytes of records"),
        (totals.key_bytes, "bytes of keys"),
        (totals.value_bytes, "bytes of values"),
    ] {
        lines.field(varint_len(number), format_args!("{number} {what}"));
    }
    lines.field(
        varint_len(totals.smallest_seq),
        format_args!("smallest seq {}", totals.smallest_seq),
    );
    lines.field(varint_len(seqs), format_args!("largest seq {}", totals.largest_seq));
    let edges =
        properties.edges.iter().flat_map(|(first, last)| [("first", first), ("last", last)]);
    for (which, EdgeKey { keyspace, key }) in edges {
        let bytes = varint_len(u64::from(keyspace.0)) + varint_len(key.len() as u64) + key.len();
        lines.field(bytes, format_args!("{which} key: keyspace {} {}", keyspace.0, shown(key)));
    }
    let count = properties.sources.len() as u64;
    lines.field(varint_len(count), format_args!("{count} files"));
    let mut before = 0;
    for source in &properties.sources {
        let numbers = [source.file.0 - before, source.records, source.bytes];
        let (file, records, bytes) = (source.file, source.records, source.bytes);
        lines.field(
            numbers.map(varint_len).iter().sum(),
            format_args!("file {file}: {records} records of {bytes} bytes"),
        );
        before = file.0;
    }
}

fn dump_trailer(lines: &mut Annotator<'_>, trailer: &Trailer, checksum: u32) {
    lines.note("trailer");
    lines.field(8, "magic");
    lines.field(8, format_args!("records end at {}", trailer.records_end));
    lines.field(8, format_args!("index of {} bytes", trailer.index_bytes));
    lines.field(8, format_args!("properties of {} bytes", trailer.properties_bytes));
    let holds = if checksum == trailer.records_checksum { "" } else { ", which does not hold" };
    lines.field(4, format_args!("checksum of the records' checksums{holds}"));
    lines.field(4, "checksum of the index");
    lines.field(4, "checksum of the properties");
    lines.field(4, "format version");
    debug_assert_eq!(TRAILER_CRC_AT, 48);
    lines.field(4, "checksum of the trailer");
    lines.field(TRAILER_BYTES - TRAILER_CRC_AT - 6, "zero");
    lines.field(1, "kind of file");
    lines.field(1, "end mark");
}

/// A key, or how it begins.
fn shown(key: &[u8]) -> String {
    match key.get(..SHOWN_KEY_BYTES) {
        Some(begin) if key.len() > SHOWN_KEY_BYTES => {
            format!("\"{}\"..+{}", begin.escape_ascii(), key.len() - SHOWN_KEY_BYTES)
        }
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

#[cfg(test)]
mod tests;
