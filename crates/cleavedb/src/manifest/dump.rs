//! Annotated dumps of manifest and pointer files, tolerant of damage. Pure functions over the
//! bytes of one file.

use crate::base::codec::Reader;
use crate::base::section::SectionTag;
use crate::log::dump::{Annotator, dump_frames};
use crate::log::format::FrameHeader;
use crate::manifest::format::{Pointer, PointerKind, SECTION_HEADER_BYTES, pointer_offset};

/// Dumps a manifest.
pub(crate) fn dump_manifest(bytes: &[u8], out: &mut String) {
    dump_frames(bytes, out, &describe_edit);
}

/// Dumps `CURRENT` (or the creation marker).
pub(crate) fn dump_current(bytes: &[u8], out: &mut String) {
    let kind = match bytes.get(..pointer_offset::CRC) {
        Some(magic) if magic == PointerKind::Creating.magic() => PointerKind::Creating,
        _ => PointerKind::Current,
    };
    let mut lines = Annotator::new(bytes, out);
    match Pointer::decode(bytes, kind) {
        Ok(pointer) => {
            lines.note(format_args!("{kind:?}: manifest {}", pointer.manifest_id));
        }
        Err(error) => lines.note(format_args!("bad pointer file: {error}")),
    }
    let number = |from: usize| Reader::new(bytes.get(from..).unwrap_or_default());
    let version = number(pointer_offset::VERSION).u32().unwrap_or_default();
    let manifest = number(pointer_offset::MANIFEST_ID).u64().unwrap_or_default();
    lines.field(8, "magic");
    lines.field(4, "checksum of what follows");
    lines.field(4, format_args!("format version {version}"));
    lines.field(16, "database uuid");
    lines.field(8, format_args!("manifest: file {manifest}"));
    lines.field(7, "reserved");
    lines.field(1, "end mark");
    if !lines.rest().is_empty() {
        lines.field(usize::MAX, "bytes that do not belong here");
    }
    lines.note("end of file");
}

/// Shows the sections of an edit.
fn describe_edit(lines: &mut Annotator<'_>, header: &FrameHeader, payload: &[u8]) {
    let end = lines.offset() + payload.len() as u64;
    lines.note(format_args!("edit {}", header.base_seq));
    while lines.offset() < end {
        let mut reader = Reader::new(lines.rest());
        let (Ok(tag), Ok(length)) = (reader.u16(), reader.u32()) else { return };
        let tag = SectionTag(tag);
        let left = end - lines.offset();
        if SECTION_HEADER_BYTES as u64 + u64::from(length) > left {
            lines.note("section longer than its edit");
            return;
        }
        lines.field(2, format_args!("section: {}", section_name(tag)));
        lines.field(4, format_args!("section of {length} bytes"));
        lines.field(length as usize, "section's contents");
    }
}

fn section_name(tag: SectionTag) -> String {
    match tag {
        SectionTag::ENGINE => "engine".to_owned(),
        SectionTag::KEYSPACES => "keyspaces".to_owned(),
        SectionTag::LSM => "lsm".to_owned(),
        SectionTag::NAIVE => "naive index".to_owned(),
        SectionTag::FLEX => "flex index".to_owned(),
        SectionTag::JOURNAL => "journal".to_owned(),
        SectionTag::FACTS => "facts".to_owned(),
        SectionTag::VALUES => "values".to_owned(),
        SectionTag::STORE => "store".to_owned(),
        SectionTag::DELTAS => "deltas".to_owned(),
        other if other.is_optional() => format!("{} (unknown, optional)", other.0),
        other => format!("{} (unknown)", other.0),
    }
}

#[cfg(test)]
mod tests;
