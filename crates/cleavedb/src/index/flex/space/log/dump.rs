//! The annotated dump of a logical log: frames as those of the journal, a record of the tree a
//! line. Pure functions over the bytes of one file.

use crate::base::codec::Reader;
use crate::index::flex::space::record::Record;
use crate::log::dump::{Annotator, dump_frames};

/// Dumps a file of a logical log.
pub(crate) fn dump_log(bytes: &[u8], out: &mut String) {
    dump_frames(bytes, out, &|lines, _, payload| describe(lines, payload));
}

fn describe(lines: &mut Annotator<'_>, payload: &[u8]) {
    let mut records = Reader::new(payload);
    while !records.is_empty() {
        let before = records.rest().len();
        let line = match Record::decode(&mut records) {
            Ok(Record::Update { offset, removed, extents }) => {
                let list = extents.iter().take(4);
                let list = list.map(|extent| format!("{}+{}", extent.physical, extent.length));
                let list = list.collect::<Vec<_>>().join(", ");
                format!("at {offset}: {removed} bytes go, {} extents come: {list}", extents.len())
            }
            Ok(Record::Tag { offset, tag }) => {
                format!("at {offset}: tag {}", tag.map_or(0, |tag| tag.0.get()))
            }
            Ok(Record::Moved { offset, length, old, new }) => {
                format!("at {offset}: {length} bytes move from {old} to {new}")
            }
            Ok(Record::Born { segment, birth }) => {
                format!("segment {segment} of birth {birth:016x}")
            }
            Err(error) => {
                lines.note(format_args!("bad record: {error}"));
                lines.field(before, "not understood");
                return;
            }
        };
        lines.field(before - records.rest().len(), line);
    }
}

#[cfg(test)]
mod tests;
