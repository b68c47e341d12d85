//! The annotated dump of a segment: which of its blocks hold, and whose data it says it has. Pure
//! functions over the bytes of one file.

use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId};
use crate::index::flex::pages::format::Owner;
use crate::index::flex::space::segment::format::{
    BLOCK_BYTES, HEADER_BYTES, TRAILER_BYTES, check_block, check_header, decode_summary,
    summary_bytes,
};
use crate::log::dump::Annotator;

/// Offset of the identity of the database in the header.
const UUID_AT: usize = 16;

/// Dumps a segment.
pub(crate) fn dump_space_segment(bytes: &[u8], out: &mut String) {
    let mut lines = Annotator::new(bytes, out);
    let mut stated = Reader::new(bytes.get(UUID_AT..).unwrap_or_default());
    let uuid = stated.uuid().unwrap_or_default();
    let id = FileId(stated.u64().unwrap_or_default());
    let owner = Owner { uuid, keyspace: KeyspaceId(stated.u32().unwrap_or_default()) };
    let checked = check_header(bytes.get(..HEADER_BYTES).unwrap_or(bytes), &owner, id);
    match &checked {
        Ok(_) => lines.note(format_args!("segment {id} of keyspace {}", owner.keyspace.0)),
        Err(error) => lines.note(format_args!("bad header: {error}")),
    }
    lines.field(8, "magic");
    lines.field(4, "checksum of the header");
    lines.field(4, "format version");
    lines.field(16, "database uuid");
    lines.field(8, format_args!("file {id}"));
    lines.field(4, format_args!("keyspace {}", owner.keyspace.0));
    lines.field(8, format_args!("birth {:016x}", checked.unwrap_or_default()));
    lines.field(10, "zero");
    lines.field(1, "kind of file");
    lines.field(1, "end mark");
    lines.field(BLOCK_BYTES as usize - HEADER_BYTES, "zero");
    let trailer = bytes.len().checked_sub(TRAILER_BYTES as usize).and_then(|at| bytes.get(at..));
    let summary = trailer.and_then(|trailer| summary_bytes(trailer).ok()).unwrap_or_default();
    let blocks_end = (bytes.len() as u64).saturating_sub(summary);
    while let Some(block) = lines.rest().get(..BLOCK_BYTES as usize)
        && lines.offset() + BLOCK_BYTES <= blocks_end
    {
        let holds = check_block(block, &owner, id, lines.offset()).is_ok();
        lines.field(block.len() - 4, "data");
        lines.field(4, if holds { "checksum, holds" } else { "checksum, DAMAGED" });
    }
    let rest = lines.rest();
    let trailer_at = rest.len().saturating_sub(TRAILER_BYTES as usize);
    if summary == rest.len() as u64 && summary > 0 {
        let owners = decode_summary(rest, &owner, id, lines.offset());
        lines.field(trailer_at, "numbers of owners");
        match owners {
            Ok(owners) => lines.field(rest.len(), format_args!("trailer: {} owners", owners.len())),
            Err(error) => lines.field(rest.len(), format_args!("trailer, DAMAGED: {error}")),
        }
    }
    let left = lines.rest().len();
    lines.field(left, "not understood");
    lines.note("end of file");
}
