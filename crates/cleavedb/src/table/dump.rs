//! The annotated dump of a table's bytes: one line a field, `offset: bytes  # meaning`. Works on
//! damaged files: says what is wrong and goes on with what still proves itself.
//!
//! Pure functions over the bytes of one file.

use std::fmt;

use crate::base::checksum;
use crate::base::codec::Reader;
use crate::base::compress;
use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::log::dump::Annotator;
use crate::table::block::Block;
use crate::table::block_index::{BlockIndex, decode_index};
use crate::table::filter::{Filter, decode_filter};
use crate::table::format::{
    self, Extent, FOOTER_BYTES, Footer, HEADER_BYTES, HEADER_FILE_AT, HEADER_UUID_AT,
    RAW_LEN_BYTES, Sealed, TRAILER_BYTES,
};
use crate::table::properties::decode_properties;
use crate::table::tombstones::decode_tombstones;

/// Writes an annotated dump of the table file `bytes`, sound or damaged.
///
/// # Errors
/// Those of `out`.
pub(crate) fn dump_table(bytes: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let mut text = String::new();
    let mut lines = Annotator::new(bytes, &mut text);
    let seed = dump_header(&mut lines);
    match find_footer(bytes, seed) {
        Ok(footer) => dump_body(&mut lines, &Parts { bytes, seed, footer }),
        Err(error) => {
            lines.note(format_args!("no footer, so no index: {error}"));
            let body = lines.rest().len().saturating_sub(FOOTER_BYTES);
            lines.field(body, format_args!("{body} bytes not understood"));
        }
    }
    dump_footer(&mut lines);
    let left = lines.rest().len();
    if left > 0 {
        lines.field(left, format_args!("{left} bytes behind the footer"));
    }
    lines.note("end of file");
    out.write_str(&text)
}

/// What the dump of the body needs.
struct Parts<'a> {
    bytes: &'a [u8],
    seed: u32,
    footer: Footer,
}

impl<'a> Parts<'a> {
    fn stored(&self, extent: Extent) -> &'a [u8] {
        let range = extent.offset as usize..extent.end() as usize;
        self.bytes.get(range).unwrap_or(&[])
    }

    fn sealed(&self, extent: Extent) -> Result<Sealed<'a>> {
        format::decode_sealed(self.stored(extent), self.seed, extent.offset)
    }

    fn section<T>(&self, extent: Extent, decode: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        decode(self.sealed(extent)?.payload)
    }
}

/// Dumps the header and returns the file's seed, as far as it can be known.
fn dump_header(lines: &mut Annotator<'_>) -> u32 {
    let bytes = lines.rest();
    let uuid = bytes.get(HEADER_UUID_AT..).and_then(|b| b.first_chunk::<16>()).copied();
    let file = bytes.get(HEADER_FILE_AT..).and_then(|b| b.first_chunk::<8>());
    let file = FileId(file.map_or(0, |file| u64::from_le_bytes(*file)));
    match format::decode_header(bytes.get(..HEADER_BYTES).unwrap_or(bytes)) {
        Ok(header) => {
            let keyspace = header.keyspace;
            lines.note(format_args!("table {file} of keyspace {keyspace}"));
        }
        Err(error) => lines.note(format_args!("bad header: {error}")),
    }
    lines.field(8, "magic \"CLVTABLE\"");
    lines.field(4, "format version");
    lines.field(4, "kind of file");
    lines.field(16, "database uuid");
    lines.field(8, format_args!("file {file}"));
    lines.field(4, "keyspace");
    lines.field(4, "checksum of the header");
    checksum::file_seed(&uuid.unwrap_or_default(), file.0)
}

fn find_footer(bytes: &[u8], seed: u32) -> Result<Footer> {
    let at = bytes.len().saturating_sub(FOOTER_BYTES);
    format::decode_footer(bytes.get(at..).unwrap_or(&[]), seed, at as u64)
}

fn dump_body(lines: &mut Annotator<'_>, parts: &Parts<'_>) {
    let footer = parts.footer;
    let data_end = footer.filter.offset;
    match parts.section(footer.index, |raw| decode_index(raw, data_end)) {
        Ok(index) => {
            for number in 0..index.len() {
                dump_block(lines, parts, &index, number);
            }
        }
        Err(error) => lines.note(format_args!("bad index, so no blocks: {error}")),
    }
    let left = data_end.saturating_sub(lines.offset()) as usize;
    if left > 0 {
        lines.field(left, format_args!("{left} bytes of data blocks"));
    }
    dump_filter(lines, parts, footer.filter);
    dump_tombstones(lines, parts, footer.tombstones);
    dump_index(lines, parts, footer.index, data_end);
    dump_properties(lines, parts, footer.properties);
}

fn dump_block(lines: &mut Annotator<'_>, parts: &Parts<'_>, index: &BlockIndex, number: usize) {
    let Some(extent) = index.extent(number) else { return };
    let sealed = match parts.sealed(extent) {
        Ok(sealed) => sealed,
        Err(error) => {
            lines.note(format_args!("block {number} is damaged: {error}"));
            lines.field(extent.len as usize, "damaged block");
            return;
        }
    };
    let compressed = sealed.compression != compress::Compression::None;
    let raw = compress::decompress(sealed.compression, sealed.payload, sealed.raw_len);
    let block = raw.and_then(|raw| Block::from_raw(raw.into(), sealed.raw_len));
    let (length, how) = (sealed.raw_len, sealed.compression);
    lines.note(format_args!("block {number}: {length} bytes, compression {how:?}"));
    if compressed {
        lines.field(RAW_LEN_BYTES, format_args!("restores to {length} bytes"));
        lines.field(sealed.payload.len(), "compressed entries, as follows");
    }
    match block.and_then(|block| dump_entries(lines, &block, compressed)) {
        Ok(()) => {}
        Err(error) => lines.note(format_args!("block {number} does not parse: {error}")),
    }
    let end = extent.end() - (TRAILER_BYTES + sealed.padding) as u64;
    let left = end.saturating_sub(lines.offset()) as usize;
    if left > 0 {
        lines.field(left, "restart points and their number");
    }
    if sealed.padding > 0 {
        lines.field(sealed.padding, "padding, so that the block ends with its page");
    }
    dump_trailer(lines);
}

/// One line an entry; without bytes where they stand compressed in the file.
fn dump_entries(lines: &mut Annotator<'_>, block: &Block, compressed: bool) -> Result<()> {
    let mut key = Vec::new();
    let mut at = 0;
    while at < block.entries_end() {
        let entry = block.entry(at)?;
        key.truncate(entry.shared as usize);
        key.extend_from_slice(block.slice(entry.key, entry.value));
        let (seq, kind, value) = (entry.seq, entry.kind, entry.end - entry.value);
        let name = key.escape_ascii();
        let shared = entry.shared;
        let text = format!("{kind:?} \"{name}\" seq {seq}: {value} bytes, shares {shared}");
        if compressed {
            lines.note(text);
        } else {
            lines.field((entry.end - at) as usize, text);
        }
        at = entry.end;
    }
    Ok(())
}

fn dump_trailer(lines: &mut Annotator<'_>) {
    lines.field(1, "compression");
    lines.field(4, "checksum");
}

/// The payload of a section as one line, its meaning or what is wrong with it in front.
fn dump_section(
    lines: &mut Annotator<'_>,
    extent: Extent,
    name: &str,
    meaning: Result<Vec<String>>,
) {
    match meaning {
        Ok(facts) => {
            lines.note(name);
            for fact in facts {
                lines.note(fact);
            }
        }
        Err(error) => lines.note(format_args!("{name} is damaged: {error}")),
    }
    lines.field((extent.len as usize).saturating_sub(TRAILER_BYTES), name);
    dump_trailer(lines);
}

fn dump_filter(lines: &mut Annotator<'_>, parts: &Parts<'_>, extent: Extent) {
    let meaning = parts.section(extent, decode_filter).map(|filter| {
        vec![match filter {
            Filter::Empty => "  holds nothing".to_owned(),
            Filter::All => "  may hold anything".to_owned(),
            Filter::Fuse(fuse, count) => {
                let d = fuse.descriptor;
                let (seed, segment, all) = (d.seed, d.segment_length, d.segment_count_length);
                format!(
                    "  binary fuse, {count} hashes, seed {seed:#018x}, segments {segment} of {all}"
                )
            }
        }]
    });
    dump_section(lines, extent, "filter", meaning);
}

fn dump_tombstones(lines: &mut Annotator<'_>, parts: &Parts<'_>, extent: Extent) {
    let meaning = parts.section(extent, decode_tombstones).map(|tombstones| {
        let line = |t: &crate::base::tombstone::RangeTombstone| {
            let (start, end) = (t.start.escape_ascii(), t.end.escape_ascii());
            format!("  \"{start}\" .. \"{end}\" seq {}", t.seq)
        };
        tombstones.iter().map(line).collect()
    });
    dump_section(lines, extent, "range tombstones", meaning);
}

fn dump_index(lines: &mut Annotator<'_>, parts: &Parts<'_>, extent: Extent, data_end: u64) {
    let meaning = parts.section(extent, |raw| decode_index(raw, data_end)).map(|index| {
        let line = |number: usize| {
            let at = index.extent(number).unwrap_or_default();
            let key = index.separator(number).escape_ascii();
            let split = match index.split(number) {
                Some(seq) => format!(", goes on after seq {seq}"),
                None => String::new(),
            };
            format!("  block {number} at {} of {} bytes: \"{key}\"{split}", at.offset, at.len)
        };
        (0..index.len()).map(line).collect()
    });
    dump_section(lines, extent, "index", meaning);
}

fn dump_properties(lines: &mut Annotator<'_>, parts: &Parts<'_>, extent: Extent) {
    let meaning = parts.section(extent, |raw| {
        let properties = decode_properties(raw)?;
        let mut facts: Vec<String> = properties
            .numbers()
            .into_iter()
            .map(|(property, number)| format!("  {property:?} = {number}"))
            .collect();
        let upper = if properties.largest_exclusive { "exclusive" } else { "inclusive" };
        facts.push(format!("  SmallestKey = \"{}\"", properties.smallest.escape_ascii()));
        facts.push(format!("  LargestKey = \"{}\", {upper}", properties.largest.escape_ascii()));
        facts.push(format!("  CreatedBy = \"{}\"", properties.created_by.escape_debug()));
        let mut reader = Reader::new(raw);
        while !reader.is_empty() {
            let (property, value) = (reader.varint()?, reader.bytes()?);
            if property > 18 {
                facts.push(format!("  property {property}, unknown: {} bytes", value.len()));
            }
        }
        Ok(facts)
    });
    dump_section(lines, extent, "properties", meaning);
}

fn dump_footer(lines: &mut Annotator<'_>) {
    if lines.rest().len() < FOOTER_BYTES {
        return;
    }
    let mut reader = Reader::new(lines.rest());
    lines.note("footer");
    for name in ["filter", "range tombstones", "index", "properties"] {
        let offset = reader.u64().unwrap_or_default();
        let length = reader.u64().unwrap_or_default();
        lines.field(8, format_args!("{name} at {offset}"));
        lines.field(8, format_args!("{name} of {length} bytes"));
    }
    lines.field(4, "format version");
    lines.field(4, "checksum of the footer");
    lines.field(8, "magic \"CLVTBEND\"");
}

#[cfg(test)]
mod tests;
