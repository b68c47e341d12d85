//! The annotated dump of a checkpoint of the locator: the heads of its shards, one line a field.
//! Works on damaged files. Pure functions over the bytes of one file.

use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::log::dump::Annotator;
use crate::values::locator::checkpoint::{HEADER_BYTES, Section, Site};

/// Offset of the section's length, its uuid and the number of its file.
const LENGTH_AT: usize = 16;
const UUID_AT: usize = 24;

/// Dumps a checkpoint.
pub(crate) fn dump_locator(bytes: &[u8], out: &mut String) {
    let mut lines = Annotator::new(bytes, out);
    while !lines.rest().is_empty() {
        let rest = lines.rest();
        let offset = (bytes.len() - rest.len()) as u64;
        let mut stated = Reader::new(rest.get(UUID_AT..).unwrap_or_default());
        let uuid = stated.uuid().unwrap_or_default();
        let file = FileId(stated.u64().unwrap_or_default());
        let length = Reader::new(rest.get(LENGTH_AT..).unwrap_or_default()).u64();
        let length = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
        let length = length.clamp(HEADER_BYTES.min(rest.len()), rest.len());
        match Section::decode(rest, &Site { uuid, file, offset }) {
            Ok((section, _)) => {
                let entries = section.image.table.len();
                lines.note(format_args!("shard {} with {entries} entries", section.shard));
            }
            Err(error) => lines.note(format_args!("bad shard: {error}")),
        }
        lines.field(8, "magic");
        lines.field(4, "checksum of all that follows");
        lines.field(4, "format version");
        lines.field(8, "length of the section");
        lines.field(16, "database uuid");
        lines.field(8, format_args!("file {file}"));
        lines.field(8, "generation: edits with touches before it");
        lines.field(8, "base of the window of container numbers");
        lines.field(4, "number of the shard");
        lines.field(4, "pages split");
        lines.field(8, "entries");
        lines.field(4, "bits of the shard's number, depth, fingerprint and floor");
        lines.field(4, "pages");
        lines.field(length.saturating_sub(HEADER_BYTES), "pages");
    }
    lines.note("end of file");
}
