//! Value tables, on arbitrary bytes.

use crate::base::checksum::{Rolling, crc_at};
use crate::base::codec::varint_len;
use crate::base::entry::{FileId, Seq};
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::io::Purpose;
use crate::log::separated::{BOUND_BYTES, Binding, SeparatedRecord};
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use crate::values::table::format::{
    HEADER_BYTES, TRAILER_BYTES, TableRecord, Trailer, bound_checksum, encode_header, padded,
    stated_bytes,
};
use crate::values::table::reader::{LoadedIndexes, TableFile};
use crate::values::table::scan::{ScannedRecord, TableScan};
use crate::values::table::verify::verify;
use crate::values::table::writer::{ValueTableOptions, ValueTableWriter};

use super::values::context_of;
use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// Memory for indexes.
const INDEX_BYTES_MAX: u64 = 1 << 20;

/// Where the trailer has the end of the records, and the lengths behind it.
const RECORDS_END_AT: usize = 8;
const INDEX_BYTES_AT: usize = 16;

/// A record to be moved into a table.
pub(super) struct Moved {
    /// Its file.
    pub(super) file: FileId,
    /// Its seq.
    pub(super) seq: Seq,
    /// The record, not bound to a place yet.
    pub(super) bytes: Vec<u8>,
}

/// A value table: opened and checked whole, each record found by place and by key, as it is and
/// with right checksums. What holds is written again and has the same records.
pub fn value_table(data: &[u8]) -> bool {
    let accepted = is_whole(data);
    let mut mended = data.to_vec();
    mend_value_table(&mut mended, OURS);
    is_whole(&mended) || accepted
}

fn open(bytes: &[u8]) -> Result<TableFile> {
    let (io, _, path) = world(FileKind::ValueTable, Some(bytes));
    let file = ValueFile::new(&context_of(io, &path), FileKind::ValueTable, FILE);
    file.keep();
    TableFile::open(&file, None, &LoadedIndexes::new(INDEX_BYTES_MAX), Purpose::Recovery)
}

fn is_whole(bytes: &[u8]) -> bool {
    let Ok(table) = open(bytes) else { return false };
    // Whatever is wrong elsewhere: neither a walk nor a search may fail otherwise than by an error.
    if let Ok(mut scan) = TableScan::new(&table, 512, Purpose::Recovery) {
        while let Ok(Some(scanned)) = scan.next_record() {
            let _ = look_up(&table, &scanned);
        }
    }
    let mut records = Vec::new();
    let mut seen = |scanned: &ScannedRecord<'_>| {
        let (place, found) = look_up(&table, scanned)?;
        assert_eq!(found, Some(place), "a record is not found by its key");
        let TableRecord { file, record } = scanned.record;
        let mut bytes = record.head().to_vec();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&scanned.body.to_le_bytes());
        bytes.extend_from_slice(record.stored);
        records.push(Moved { file, seq: record.seq, bytes });
        Ok(())
    };
    if verify(&table, Purpose::Recovery, &mut seen).is_err() {
        return false;
    }
    let files: Vec<_> = table.properties().sources.iter().map(|source| source.file).collect();
    if files.is_empty() {
        return true;
    }
    let again = written_table(&records, &files, 4096);
    let holds = again.is_ok_and(|again| {
        let end = bytes.len() - TRAILER_BYTES;
        let records_end = u64::from_le_bytes(array_at(bytes, end + RECORDS_END_AT)) as usize;
        let same = open(&again).is_ok_and(|again| again.properties() == table.properties());
        same && again.get(..records_end) == bytes.get(..records_end)
    });
    assert!(holds, "the same records make another table");
    true
}

/// Offset of a record that a walk met, as its place and as its key give it.
fn look_up(table: &TableFile, scanned: &ScannedRecord<'_>) -> Result<(u64, Option<u64>)> {
    let rank = scanned.record.rank();
    let (offset, bytes) = (scanned.offset, scanned.record.bytes() as u32);
    let handle = Handle { file: rank.file, epoch: 1, offset, bytes };
    let wanted = Wanted { handle, keyspace: rank.keyspace, key: rank.key, seq: rank.seq };
    // An unknown compression is the value's trouble, not the table's.
    let _ = table.get(&wanted, Purpose::Read);
    let found = table.find(&wanted, Purpose::Read)?;
    Ok((offset, found.map(|found| found.place.offset)))
}

/// The table that the engine writes of these records.
pub(super) fn written_table(
    records: &[Moved],
    sources: &[FileId],
    group_bytes: u64,
) -> Result<Vec<u8>> {
    let (io, disk, path) = world(FileKind::ValueTable, None);
    let options = ValueTableOptions {
        uuid: UUID,
        container: FILE,
        sources: sources.to_vec(),
        group_bytes,
        purpose: Purpose::Collection,
        direct: false,
        limited: false,
    };
    let mut writer = ValueTableWriter::create(&io, &path, &options)?;
    for Moved { file, seq, bytes } in records {
        // As a segment would have it: bound to some place there.
        let mut bound = bytes.clone();
        let record = SeparatedRecord::decode(&bound)?;
        let slot = crate::log::separated::Slot {
            operation: 0,
            start: 0,
            head_bytes: record.head_bytes() as u32,
            bytes: bound.len() as u32,
            key_bytes: record.key.len() as u32,
            value_bytes: record.value_bytes,
            hash: 0,
        };
        let body = record.body();
        let place = Binding { seed: 0, payload_offset: 0, base_seq: *seq };
        crate::log::separated::bind(&mut bound, &[slot], place)?;
        writer.add(*file, &SeparatedRecord::decode(&bound)?, body)?;
    }
    writer.finish()?;
    Ok(disk.contents(&path))
}

/// Makes header, checksums and trailer right where the lengths allow it.
pub(super) fn mend_value_table(bytes: &mut [u8], identity: Identity) {
    let Some(at) = bytes.len().checked_sub(TRAILER_BYTES).filter(|&at| at >= HEADER_BYTES) else {
        return;
    };
    overwrite(bytes, 0, &encode_header(&identity.uuid, identity.file));
    let field = |bytes: &[u8], from: usize| u64::from_le_bytes(array_at(bytes, at + from)) as usize;
    // Whatever the trailer says, the parts must tile the file.
    let records_end = field(bytes, RECORDS_END_AT).clamp(HEADER_BYTES, at) / 16 * 16;
    let index_bytes = field(bytes, INDEX_BYTES_AT).min(at - records_end);
    let properties_at = records_end + index_bytes;
    let mut checksums = Rolling::new(identity.seed());
    let mut offset = HEADER_BYTES;
    while let Some(checksum) = mend_record(bytes, offset, records_end, identity.seed()) {
        checksums.update(&checksum.1.to_le_bytes());
        offset = checksum.0;
    }
    let crc = |from: usize, to: usize| {
        crc_at(identity.seed(), from as u64, bytes.get(from..to).unwrap_or_default())
    };
    let trailer = Trailer {
        records_end: records_end as u64,
        index_bytes: index_bytes as u64,
        properties_bytes: (at - properties_at) as u64,
        records_checksum: checksums.value(),
        index_checksum: crc(records_end, properties_at),
        properties_checksum: crc(properties_at, at),
    };
    let (trailer, _) = trailer.encode(identity.seed(), at as u64);
    overwrite(bytes, at, &trailer);
}

/// Makes the checksum of the record at `offset` right; returns where the next one begins, and it.
fn mend_record(bytes: &mut [u8], offset: usize, end: usize, seed: u32) -> Option<(usize, u32)> {
    let rest = bytes.get(offset..end)?;
    let length = stated_bytes(rest).ok()?;
    let TableRecord { file, record } = TableRecord::decode_first(rest).ok()?;
    let checksum = bound_checksum(seed, offset as u64, record.body(), record.seq, file);
    let at = offset + varint_len(file.0) + record.head_bytes() + BOUND_BYTES - 4;
    overwrite(bytes, at, &checksum.to_le_bytes());
    Some((offset + padded(length) as usize, checksum))
}
