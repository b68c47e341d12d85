//! Value segments and what they are made of, on arbitrary bytes.

use std::path::Path;

use crate::base::entry::FileId;
use crate::base::limits::VALUE_BYTES_MAX;
use crate::base::names::FileKind;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::io::disk::OpenMode;
use crate::io::{Io, Purpose};
use crate::log::footer::{Footer, FooterBuilder};
use crate::log::format::SEGMENT_HEADER_BYTES;
use crate::log::reader::{ReadOptions, SegmentReader};
use crate::log::separated::{Binding, SeparatedRecord};
use crate::table::BlockCache;
use crate::values::cache::ValueCache;
use crate::values::edit::ValuesEdit;
use crate::values::file::{OpenFiles, ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::segment::{read_footer, scan};
use crate::values::table::reader::LoadedIndexes;

use super::logs::{mend_segment, rebind};
use super::{FILE, OURS, UUID, world};

/// Values above this are not decompressed: they may be as long as the limit of values says.
const DECOMPRESSED_BYTES_MAX: u32 = 1 << 20;

/// Where the lone record of [`value_record`] stands.
const PLACE: Binding =
    Binding { seed: 4711, payload_offset: SEGMENT_HEADER_BYTES as u64 + 40, base_seq: 9 };

/// A separated record alone. What decodes is bound to a place, where it must hold, and its value
/// restored.
pub fn value_record(data: &[u8]) -> bool {
    if SeparatedRecord::decode(data).is_err() {
        return false;
    }
    let mut bound = data.to_vec();
    rebind(&mut bound, 1, PLACE);
    let Ok(record) = SeparatedRecord::decode(&bound) else { return false };
    assert_eq!(record.bytes(), data.len(), "a record of another length");
    if record.compression().is_err() {
        return true;
    }
    assert!(record.holds_at(PLACE.seed, PLACE.payload_offset), "a record does not hold");
    assert!(!record.holds_at(PLACE.seed, PLACE.payload_offset + 1), "it holds elsewhere");
    if record.value_bytes <= DECOMPRESSED_BYTES_MAX
        && let Ok(value) = record.value()
    {
        assert_eq!(value.len(), record.value_bytes as usize, "a value of another length");
    }
    true
}

/// The payload of a footer. What decodes is collected again and must be the same.
pub fn value_footer(data: &[u8]) -> bool {
    let Ok(footer) = Footer::decode(data) else { return false };
    let mut builder = FooterBuilder::default();
    let (mut keys, mut values) = (footer.totals.key_bytes, footer.totals.value_bytes);
    for line in &footer.lines {
        // What the records have in sum, spread over them somehow.
        let key = keys.min(u64::from(line.bytes));
        let value = values.min(VALUE_BYTES_MAX as u64);
        (keys, values) = (keys - key, values - value);
        builder.add(*line, key as u32, value as u32);
    }
    assert_eq!(builder.encode().as_deref(), Some(data), "a footer has one encoding only");
    true
}

/// A handle.
pub fn value_handle(data: &[u8]) -> bool {
    let Ok(handle) = Handle::decode(data) else { return false };
    assert_eq!(&*handle.encode(), data, "a handle has one encoding only");
    assert!(handle.end() > handle.offset, "an empty record");
    true
}

/// A value segment: scanned, as it is and with right checksums; what its footer says must be what
/// a scan finds.
pub fn value_segment(data: &[u8]) -> bool {
    let accepted = read_segment(data);
    let mut mended = data.to_vec();
    mend_segment(&mut mended, FileKind::Value, OURS);
    read_segment(&mended) || accepted
}

fn read_segment(bytes: &[u8]) -> bool {
    let (io, _, path) = world(FileKind::Value, Some(bytes));
    let options = ReadOptions {
        kind: FileKind::Value,
        id: FILE,
        uuid: UUID,
        sealed: None,
        contiguous: false,
        purpose: Purpose::Recovery,
    };
    let Ok(scanned) = scan(&io, &path, options) else { return false };
    let totals = scanned.totals();
    assert!(totals.record_bytes <= bytes.len() as u64, "more records than bytes");
    let encoded = scanned.encode().unwrap_or_default();
    let footer = Footer::decode(&encoded).ok();
    assert_eq!(footer.as_ref().map(|footer| footer.totals), Some(totals));
    let good = (|| {
        let mut reader = SegmentReader::open(&io, &path, options)?;
        while reader.next_frame()?.is_some() {}
        Ok::<_, crate::base::error::Error>((reader.good_part().sealed, reader.has_footer()))
    })();
    let Ok((sealed, has_footer)) = good else { return false };
    let Ok(file) = io.disk.open(&path, OpenMode::default()) else { return false };
    let found = read_footer(&io, &*file, &path, OURS.seed(), &sealed, Purpose::Recovery);
    if has_footer {
        assert_eq!(found.ok().flatten(), footer, "footer and scan differ");
    }
    totals.records > 0
}

/// What files in the folder of `path` are given to work with.
pub(super) fn context_of(io: Io, path: &Path) -> Arc<ValueContext> {
    Arc::new(ValueContext {
        io,
        dir: path.parent().unwrap_or(path).to_owned(),
        uuid: UUID,
        obsolete: Arc::new(ObsoleteFiles::default()),
        direct_reads: false,
        open_files: Arc::new(OpenFiles::new(2)),
        cache: ValueCache::new(&Arc::new(BlockCache::new(1 << 20))),
        hole_block_bytes: 4096,
        table_indexes: LoadedIndexes::new(1 << 20),
        repairs: crate::values::repairs::Repairs::new(1 << 16),
    })
}

/// Applies edits to an empty table: refused, or the table's snapshot makes the same one.
pub(super) fn apply(edits: &[ValuesEdit]) {
    let (io, _, path) = world(FileKind::Value, None);
    let context = context_of(io, &path);
    let mut file_of = |kind: FileKind, id: FileId| ValueFile::new(&context, kind, id);
    let Ok(table) = ValueFiles::default().apply(edits, &mut file_of) else { return };
    let again = ValueFiles::default().apply(&table.edits(), &mut file_of);
    let edits = again.ok().map(|again| again.edits());
    assert_eq!(edits, Some(table.edits()), "a snapshot makes another table");
}
