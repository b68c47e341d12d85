//! The annotated dump of a file of facts: its parts, and whether they hold. Works on damaged files.
//! Pure functions over the bytes of one file.

use crate::base::checksum::file_seed;
use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::log::dump::Annotator;
use crate::values::drops::spilled::format::{
    HEADER_BYTES, PART_HEADER_BYTES, Part, PartHeader, TRAILER_BYTES, Trailer, check_header,
};

/// Offset of the identity of the database.
const UUID_AT: usize = 16;

/// Dumps a file of facts.
pub(crate) fn dump_facts(bytes: &[u8], out: &mut String) {
    let mut stated = Reader::new(bytes.get(UUID_AT..).unwrap_or_default());
    let uuid = stated.uuid().unwrap_or_default();
    let id = FileId(stated.u64().unwrap_or_default());
    let seed = file_seed(&uuid, id.0);
    let mut lines = Annotator::new(bytes, out);
    match check_header(bytes, &uuid, id) {
        Ok(()) => lines.note(format_args!("facts, file {id}")),
        Err(error) => lines.note(format_args!("bad header: {error}")),
    }
    lines.field(8, "magic");
    lines.field(4, "checksum of the rest of the header");
    lines.field(4, "format version");
    lines.field(16, "database uuid");
    lines.field(8, format_args!("file {id}"));
    lines.field(22, "zeros");
    lines.field(2, "kind, end of the header");
    let end = bytes.len().saturating_sub(TRAILER_BYTES).max(HEADER_BYTES);
    // A file may end within its header.
    while !lines.rest().is_empty() && bytes.len() - lines.rest().len() < end {
        let rest = lines.rest();
        let offset = bytes.len() - rest.len();
        let room = end - offset;
        let header = PartHeader::stated(rest);
        let length = header.as_ref().map_or(room, PartHeader::part_bytes).clamp(1, room);
        let part = Part::decode(rest.get(..length).unwrap_or(rest), seed, offset as u64);
        match part {
            Ok(part) => lines.note(format_args!(
                "part: {} facts about file {}, in {} runs up to generation {}",
                part.facts(),
                part.file,
                part.runs.len(),
                part.newest().0
            )),
            Err(error) => lines.note(format_args!("bad part: {error}")),
        }
        lines.field(4.min(length), "checksum of the rest of the part");
        lines.field(4.min(length.saturating_sub(4)), "bytes of its runs");
        lines.field(8.min(length.saturating_sub(8)), "value file");
        lines.field(8.min(length.saturating_sub(16)), "newest generation");
        lines.field(8.min(length.saturating_sub(24)), "facts");
        lines.field(length.saturating_sub(PART_HEADER_BYTES), "runs: generation, length, facts");
    }
    let offset = (bytes.len() - lines.rest().len()) as u64;
    match Trailer::decode(lines.rest(), seed, offset) {
        Ok(trailer) => {
            let Trailer { parts, facts, .. } = trailer;
            lines.note(format_args!("trailer: {facts} facts in {parts} parts"));
        }
        Err(error) => lines.note(format_args!("bad trailer: {error}")),
    }
    lines.field(8, "magic");
    lines.field(8, "parts");
    lines.field(8, "facts");
    lines.field(4, "checksum of the parts' checksums");
    lines.field(4, "checksum of the trailer");
    lines.field(4, "end of the file");
    lines.note("end of file");
}
