//! Tables and their parts on arbitrary bytes.

use crate::base::checksum::crc_at;
use crate::base::codec::Reader;
use crate::base::cursor::Cursor;
use crate::base::entry::{SEQ_MAX, compare_entries};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::base::tombstone::Fragments;
use crate::io::Purpose;
use crate::memory::cache::BlockCache;
use crate::table::block::Block;
use crate::table::block_cursor::BlockCursor;
use crate::table::block_index::decode_index;
use crate::table::cursor::{Readahead, TableCursorOptions};
use crate::table::filter::decode_filter;
use crate::table::format::{
    Extent, FOOTER_BYTES, FOOTER_CRC_AT, FOOTER_MAGIC, FOOTER_MAGIC_AT, FOOTER_VERSION_AT,
    HEADER_BYTES, HEADER_CRC_AT, HEADER_FILE_AT, HEADER_KIND_AT, HEADER_MAGIC, HEADER_UUID_AT,
    HEADER_VERSION_AT, TABLE_BYTES_MIN, VERSION, decode_footer, decode_header, decode_section,
};
use crate::table::meta::TableMeta;
use crate::table::properties::{Properties, decode_properties};
use crate::table::reader::{OpenOptions, TableReader};
use crate::table::tombstones;

use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// Steps of one walk; no block of an input of usual length has more entries.
const STEPS_MAX: usize = 1 << 16;

/// A data block as it is after decompression, walked in both directions and searched.
pub fn table_block(data: &[u8]) -> bool {
    let Ok(block) = Block::from_raw(data.into(), data.len()) else { return false };
    let mut cursor = BlockCursor::default();
    cursor.set_block(block.clone());
    let forward = walk_block(&mut cursor, data.len());
    let mut backward = cursor.seek_last().is_ok();
    let mut steps = 0;
    while backward && cursor.entry().is_some() {
        backward = cursor.prev().is_ok();
        steps += 1;
        assert!(steps <= data.len(), "walking backward does not end");
    }
    for (number, key) in [data.get(..4), data.get(4..9), Some(b"")].iter().flatten().enumerate() {
        let mut lookup = Lookup::new(SEQ_MAX >> (8 * number));
        let _ = block.get(key, &mut lookup);
        let _ = cursor.seek(key, SEQ_MAX);
    }
    forward && backward
}

fn walk_block(cursor: &mut BlockCursor, steps_max: usize) -> bool {
    let mut steps = 0;
    let mut moved = cursor.seek_first();
    while let Some(entry) = cursor.entry().filter(|_| moved.is_ok()) {
        assert!(entry.seq <= SEQ_MAX, "a seq out of range");
        moved = cursor.next();
        steps += 1;
        assert!(steps <= steps_max, "walking forward does not end");
    }
    moved.is_ok()
}

/// The section of the block index, after the end of the blocks in 4 bytes.
pub fn table_index(data: &[u8]) -> bool {
    let blocks_end = u64::from(u32::from_le_bytes(array_at(data, 0)));
    let Ok(index) = decode_index(data.get(4..).unwrap_or_default(), blocks_end) else {
        return false;
    };
    for number in 0..index.len() {
        let extent = index.extent(number).unwrap_or_default();
        assert!(extent.end() <= blocks_end, "a block outside the file");
        let found = index.locate(index.separator(number), SEQ_MAX);
        assert!(found.is_some_and(|found| found <= number), "a separator leads beyond its block");
    }
    assert!(index.extent(index.len()).is_none(), "a block more than there are");
    true
}

/// The section of the filter.
pub fn table_filter(data: &[u8]) -> bool {
    let Ok(filter) = decode_filter(data) else { return false };
    for shift in 0..64 {
        let _ = filter.may_contain(u64::MAX >> shift) | filter.may_contain(1 << shift);
    }
    assert_eq!(filter.encode(), data, "a filter has one encoding only");
    true
}

/// The section of the properties.
pub fn table_properties(data: &[u8]) -> bool {
    let Ok(properties) = decode_properties(data) else { return false };
    let again = decode_properties(&properties.encode());
    assert_eq!(again.ok(), Some(properties), "properties change when they are encoded again");
    true
}

/// The section of the range tombstones, and the fragments made of them.
pub fn table_tombstones(data: &[u8]) -> bool {
    let Ok(decoded) = tombstones::decode_tombstones(data) else { return false };
    let mut sorted = decoded.clone();
    tombstones::sort(&mut sorted);
    let again = tombstones::decode_tombstones(&tombstones::encode(&sorted));
    assert_eq!(again.ok(), Some(sorted), "tombstones change when they are encoded again");
    let fragments = Fragments::build(decoded.clone());
    for tombstone in decoded.iter().filter(|tombstone| tombstone.start < tombstone.end).take(64) {
        let cover = fragments.cover_seq(&tombstone.start, SEQ_MAX);
        assert!(cover >= tombstone.seq, "a tombstone does not cover its start");
    }
    true
}

/// What the manifest keeps of a table.
pub fn table_meta(data: &[u8]) -> bool {
    let Ok(meta) = TableMeta::decode(&mut Reader::new(data)) else { return false };
    let mut encoded = Vec::new();
    meta.encode(&mut encoded);
    let again = TableMeta::decode(&mut Reader::new(&encoded));
    let _ = meta.contains(data);
    assert_eq!(again.ok(), Some(meta), "a table's entry changes when it is encoded again");
    true
}

/// Header and footer, after the length of the file in 4 bytes.
pub fn table_footer(data: &[u8]) -> bool {
    let rest = data.get(4..).unwrap_or_default();
    let Some((header, footer)) = rest.split_at_checked(HEADER_BYTES) else { return false };
    let at = u64::from(u32::from_le_bytes(array_at(data, 0)));
    let mut accepted = false;
    let (mut own_header, mut own_footer) = (header.to_vec(), footer.to_vec());
    mend_header(&mut own_header, OURS);
    mend_footer(&mut own_footer, at, OURS.seed());
    for (header, footer) in [(header, footer), (own_header.as_slice(), own_footer.as_slice())] {
        let Ok(header) = decode_header(header) else { continue };
        assert_eq!(decode_header(&header.encode()).ok(), Some(header));
        if let Ok(decoded) = decode_footer(footer, header.seed(), at) {
            let again = decoded.encode(header.seed(), at);
            // Older formats differ in their number, and so in the checksum.
            let is_own = footer.get(..FOOTER_CRC_AT) == again.get(..FOOTER_CRC_AT);
            let fields = |footer: &[u8]| footer.get(..FOOTER_VERSION_AT).map(<[u8]>::to_vec);
            assert_eq!(fields(&again), fields(footer), "one encoding only");
            assert!(!is_own || again == footer, "one encoding only");
            assert!(decoded.properties.end() == at, "sections do not end at the footer");
            accepted = true;
        }
    }
    accepted
}

/// A whole table: opened, verified, walked both ways and searched.
pub fn table_file(data: &[u8]) -> bool {
    let accepted = read_table(data).is_ok();
    let mut mended = data.to_vec();
    mend_table(&mut mended, OURS);
    read_table(&mended).is_ok() || accepted
}

fn read_table(bytes: &[u8]) -> Result<()> {
    let (io, _, path) = world(FileKind::Table, Some(bytes));
    let meta = meta_of(bytes)?;
    let cache = Arc::new(BlockCache::new(1 << 16));
    let options = OpenOptions { direct: false, purpose: Purpose::Read };
    let table = TableReader::open(&io, &cache, &path, &UUID, &meta, options)?;
    let mut events = 0u64;
    table.verify(&mut |_| events += 1);
    assert!(events > 0, "verification says nothing");
    let readahead =
        if bytes.len().is_multiple_of(2) { Readahead::Growing } else { Readahead::None };
    let options = TableCursorOptions { purpose: Purpose::Read, fill_cache: true, readahead };
    let mut cursor = table.cursor(options);
    cursor.seek_first()?;
    let mut last: Option<(Vec<u8>, u64)> = None;
    for _ in 0..STEPS_MAX {
        if !cursor.valid() {
            break;
        }
        // A hostile writer can break the order; a reader must survive that, and verify tells.
        let in_order = last.as_ref().is_none_or(|(key, seq)| {
            compare_entries((key, *seq), (cursor.key(), cursor.seq())).is_lt()
        });
        if in_order {
            let mut lookup = Lookup::new(SEQ_MAX);
            let _ = table.get(cursor.key(), 0, &mut lookup, Purpose::Read);
        }
        last = Some((cursor.key().to_vec(), cursor.seq()));
        cursor.next()?;
    }
    cursor.seek_last()?;
    for _ in 0..STEPS_MAX {
        if !cursor.valid() {
            break;
        }
        cursor.prev()?;
    }
    if let Some((key, seq)) = last {
        cursor.seek(&key, seq)?;
        cursor.seek_before(&key, seq)?;
    }
    Ok(())
}

/// What the manifest would say of the table, going by its own properties.
fn meta_of(bytes: &[u8]) -> Result<TableMeta> {
    let header = decode_header(bytes.get(..HEADER_BYTES).unwrap_or_default())?;
    let at = bytes.len().saturating_sub(FOOTER_BYTES);
    let footer = decode_footer(bytes.get(at..).unwrap_or_default(), header.seed(), at as u64)?;
    let properties = decode_section(
        stored(bytes, footer.properties).unwrap_or_default(),
        header.seed(),
        footer.properties.offset,
    )?;
    let Properties {
        kinds,
        range_tombstones,
        smallest_seq,
        largest_seq,
        raw_key_bytes,
        raw_value_bytes,
        smallest,
        largest,
        largest_exclusive,
        ..
    } = decode_properties(&properties)?;
    Ok(TableMeta {
        file: FILE,
        bytes: bytes.len() as u64,
        checksum: 0,
        entries: kinds.total(),
        tombstones: kinds.deletes(),
        range_tombstones,
        merges: kinds.merges(),
        smallest,
        largest,
        largest_exclusive,
        smallest_seq,
        largest_seq,
        raw_key_bytes,
        raw_value_bytes,
    })
}

fn stored(bytes: &[u8], extent: Extent) -> Option<&[u8]> {
    bytes.get(usize::try_from(extent.offset).ok()?..usize::try_from(extent.end()).ok()?)
}

fn mend_header(header: &mut [u8], identity: Identity) {
    overwrite(header, 0, &HEADER_MAGIC);
    overwrite(header, HEADER_VERSION_AT, &VERSION.to_le_bytes());
    overwrite(header, HEADER_KIND_AT, &u32::from(FileKind::Table as u8).to_le_bytes());
    overwrite(header, HEADER_UUID_AT, &identity.uuid);
    overwrite(header, HEADER_FILE_AT, &identity.file.0.to_le_bytes());
    let crc = crc_at(identity.seed(), 0, header.get(..HEADER_CRC_AT).unwrap_or_default());
    overwrite(header, HEADER_CRC_AT, &crc.to_le_bytes());
}

fn mend_footer(footer: &mut [u8], at: u64, seed: u32) {
    overwrite(footer, FOOTER_VERSION_AT, &VERSION.to_le_bytes());
    overwrite(footer, FOOTER_MAGIC_AT, &FOOTER_MAGIC);
    let crc = crc_at(seed, at, footer.get(..FOOTER_CRC_AT).unwrap_or_default());
    overwrite(footer, FOOTER_CRC_AT, &crc.to_le_bytes());
}

/// Makes the checksum at the end of a block or section right.
fn mend_sealed(bytes: &mut [u8], extent: Extent, seed: u32) {
    let covered = Extent { offset: extent.offset, len: extent.len.saturating_sub(4) };
    if let Some(crc) = stored(bytes, covered).map(|covered| crc_at(seed, extent.offset, covered)) {
        overwrite(bytes, covered.end() as usize, &crc.to_le_bytes());
    }
}

/// Makes identity and checksums of a table right, as far as footer and index can be followed.
pub(super) fn mend_table(bytes: &mut [u8], identity: Identity) {
    if (bytes.len() as u64) < TABLE_BYTES_MIN {
        return;
    }
    let (at, seed) = (bytes.len() - FOOTER_BYTES, identity.seed());
    if let Some((header, _)) = bytes.split_at_mut_checked(HEADER_BYTES) {
        mend_header(header, identity);
    }
    if let Some(footer) = bytes.get_mut(at..) {
        mend_footer(footer, at as u64, seed);
    }
    let footer = decode_footer(bytes.get(at..).unwrap_or_default(), seed, at as u64);
    let Ok(footer) = footer else { return };
    for section in [footer.filter, footer.tombstones, footer.index, footer.properties] {
        mend_sealed(bytes, section, seed);
    }
    let index = stored(bytes, footer.index).unwrap_or_default();
    let index = decode_section(index, seed, footer.index.offset);
    let Ok(index) = index.and_then(|raw| decode_index(&raw, footer.filter.offset)) else { return };
    for number in 0..index.len().min(STEPS_MAX) {
        mend_sealed(bytes, index.extent(number).unwrap_or_default(), seed);
    }
}
