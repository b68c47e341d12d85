//! Writes one sorted table from front to back.
//!
//! Owned by one flush or compaction step. Invariants: W1 entries arrive in entry order, else `add`
//! fails and the table must be abandoned. W2 after [`TableWriter::finish`] the file and its name
//! are durable. W3 a writer dropped unfinished removes its file.

use std::path::{Path, PathBuf};

use crate::base::checksum::{self, Rolling};
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq, compare_entries};
use crate::base::error::{Error, Result};
use crate::base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::tombstone::RangeTombstone;
use crate::io::disk::{DIRECT_ALIGN, OpenMode};
use crate::io::meter::HeldMemory;
use crate::io::writer::FileWriter;
use crate::io::{Io, Purpose};
use crate::table::block_builder::BlockBuilder;
use crate::table::block_index::{self, IndexBuilder};
use crate::table::filter::Filter;
use crate::table::format::{self, Extent, Footer, Header, TRAILER_BYTES};
use crate::table::meta::TableMeta;
use crate::table::properties::{CREATED_BY, KindCounts, Properties};
use crate::table::tombstones;

/// Blocks may get longer, to end with a page again, where they have so many entries: of fewer it
/// rarely helps, as most ends of pages are missed by more than padding may take.
const LONGER_ENTRIES_MIN: usize = 5;

/// How a table is written.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// The file's number.
    pub(crate) file: FileId,
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// Level written for: kept as a property only.
    pub(crate) level: usize,
    /// Bytes of an uncompressed block at most, one large entry excepted, and half as many again
    /// where it can then end with a page.
    pub(crate) block_bytes: usize,
    /// Entries between restart points, at least 1.
    pub(crate) restart_interval: usize,
    /// Compression of data blocks.
    pub(crate) compression: Compression,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
    /// Bypass the page cache.
    pub(crate) direct: bool,
    /// Whether the rate limiter applies.
    pub(crate) limited: bool,
}

/// Figures gathered entry by entry.
#[derive(Debug, Default)]
struct Tally {
    kinds: KindCounts,
    smallest: Option<Box<[u8]>>,
    smallest_seq: Option<Seq>,
    largest_seq: Seq,
    raw_key_bytes: u64,
    raw_value_bytes: u64,
}

impl Tally {
    fn seq(&mut self, seq: Seq) {
        self.smallest_seq = Some(self.smallest_seq.map_or(seq, |smallest| smallest.min(seq)));
        self.largest_seq = self.largest_seq.max(seq);
    }
}

/// A table in the making.
pub(crate) struct TableWriter {
    io: Io,
    path: PathBuf,
    options: TableOptions,
    seed: u32,
    output: Output,
    block: BlockBuilder,
    /// Bytes that `block` may have, stored, to end with a page.
    bytes_to_page: Option<usize>,
    index: IndexBuilder,
    blocks: u64,
    /// A finished block that waits for its separator: its stored length.
    pending: Option<u64>,
    hashes: Vec<u64>,
    tombstones: Vec<RangeTombstone>,
    tally: Tally,
    last_key: Vec<u8>,
    last_seq: Seq,
    stored: Vec<u8>,
    scratch: Vec<u8>,
    separator: Vec<u8>,
    held: HeldMemory,
    finished: bool,
}

impl TableWriter {
    /// Creates the file and writes its header.
    pub(crate) fn create(io: &Io, path: &Path, options: TableOptions) -> Result<Self> {
        let mode = OpenMode { direct: options.direct, random: false };
        let file =
            io.disk.create(path, mode).map_err(|e| Error::io("creating a table", path, e))?;
        let seed = checksum::file_seed(&options.uuid, options.file.0);
        let output = FileWriter::new(io, file, options.purpose, options.limited);
        let held = HeldMemory::new(&io.meter, options.purpose);
        let output = Output::new(output, path, seed);
        let block = BlockBuilder::new(options.restart_interval);
        let mut writer = Self {
            io: io.clone(),
            path: path.to_owned(),
            seed,
            output,
            block,
            bytes_to_page: None,
            options,
            index: IndexBuilder::default(),
            blocks: 0,
            pending: None,
            hashes: Vec::new(),
            tombstones: Vec::new(),
            tally: Tally::default(),
            last_key: Vec::new(),
            last_seq: 0,
            stored: Vec::new(),
            scratch: Vec::new(),
            separator: Vec::new(),
            held,
            finished: false,
        };
        let header = Header {
            uuid: writer.options.uuid,
            file: writer.options.file,
            keyspace: writer.options.keyspace.0,
        };
        writer.output.append(&header.encode())?;
        writer.begin_block(0, false);
        Ok(writer)
    }

    /// Adds the next entry; it must stand behind the one before in entry order.
    pub(crate) fn add(&mut self, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) -> Result<()> {
        debug_assert!(kind != Kind::RangeDelete, "range deletes go to add_tombstone");
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Error::invalid("key or value too long for a table"));
        }
        let first = self.tally.smallest.is_none();
        if first {
            self.tally.smallest = Some(key.into());
        } else if compare_entries((&self.last_key, self.last_seq), (key, seq)).is_ge() {
            return Err(Error::corruption("entries out of order").in_file(&self.path));
        }
        if !self.block.is_empty() && !self.has_room(key, seq, value) {
            self.write_block()?;
        }
        self.name_pending(key);
        self.block.add(&self.last_key, key, seq, kind, value);
        if first || self.last_key != key {
            self.hashes.push(checksum::key_hash(key));
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_seq = seq;
        self.tally.kinds.add(kind);
        self.tally.seq(seq);
        self.tally.raw_key_bytes += key.len() as u64;
        self.tally.raw_value_bytes += value.len() as u64;
        Ok(())
    }

    /// Adds a range tombstone, in any order.
    pub(crate) fn add_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        if tombstone.start >= tombstone.end {
            return Err(Error::invalid("range tombstone over no keys"));
        }
        self.tally.seq(tombstone.seq);
        self.tombstones.push(tombstone.clone());
        Ok(())
    }

    /// Length of the file if it were finished now, roughly.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let sections = self.index.len() + self.hashes.len() * 9 / 8 + self.tombstones.len() * 32;
        self.output.position + (self.block.len() + sections) as u64
    }

    /// Gives the finished block before this key its separator, now that the next key is known.
    fn name_pending(&mut self, next: &[u8]) {
        let Some(stored_len) = self.pending.take() else { return };
        if self.last_key == next {
            self.index.add(next, Some(self.last_seq), stored_len);
        } else {
            block_index::separator(&self.last_key, next, &mut self.separator);
            self.index.add(&self.separator, None, stored_len);
        }
    }

    /// Whether one more entry keeps the block within its length, and does not carry it over the
    /// end of a page with which it can end as it is.
    fn has_room(&self, key: &[u8], seq: Seq, value: &[u8]) -> bool {
        let len = self.block.len();
        let block_bytes_max = self.options.block_bytes.max(self.bytes_to_page.unwrap_or(0));
        let room = block_bytes_max.saturating_sub(len);
        // Bytes that are left to the end of the page.
        let page_room = self.bytes_to_page.and_then(|bytes| bytes.checked_sub(len + TRAILER_BYTES));
        let most = room.min(page_room.unwrap_or(usize::MAX));
        if BlockBuilder::entry_len_max(key, value) <= most {
            return true;
        }
        let added = self.block.entry_len(&self.last_key, key, seq, value);
        let ends_with_page = page_room.is_some_and(|page_room| {
            added > page_room && page_room <= format::padding_bytes_max(self.page_bytes())
        });
        added <= room && !ends_with_page
    }

    /// Looks for the end of a page for the block that begins where the file ends now, behind one of
    /// so many entries. Where blocks get shorter by compression nobody can say where they will end.
    fn begin_block(&mut self, entries_before: usize, compressed: bool) {
        let (at, block_bytes) = (self.output.position, self.options.block_bytes);
        let longer = entries_before >= LONGER_ENTRIES_MIN;
        let bytes = format::bytes_to_page(at, block_bytes, self.page_bytes(), longer);
        self.bytes_to_page = bytes.filter(|_| !compressed);
    }

    /// Pages that blocks should end with: what a device reads as one. Small blocks, as tests have
    /// them, get small pages.
    fn page_bytes(&self) -> usize {
        DIRECT_ALIGN.min(self.options.block_bytes)
    }

    fn write_block(&mut self) -> Result<()> {
        let offset = self.output.position;
        let page_bytes = self.page_bytes();
        self.stored.clear();
        let raw = self.block.finish();
        let raw_bytes = raw.len();
        let place = (self.seed, offset);
        let compression = self.options.compression;
        format::seal(&mut self.stored, raw, compression, page_bytes, place, &mut self.scratch);
        let compressed = self.stored.len() < raw_bytes;
        let end = offset + self.stored.len() as u64;
        if end.checked_rem(page_bytes as u64) == Some(0) {
            mark!("table_block_ends_with_its_page");
        }
        let entries = self.block.entries();
        self.block.clear();
        self.blocks += 1;
        self.pending = Some(self.stored.len() as u64);
        let stored = std::mem::take(&mut self.stored);
        let outcome = self.output.append(&stored);
        self.stored = stored;
        if self.stored.capacity() > 4 * self.options.block_bytes.max(64 << 10) {
            // One huge value must not pin its memory for the rest of the table.
            self.stored = Vec::new();
            self.scratch = Vec::new();
            self.block = BlockBuilder::new(self.options.restart_interval);
        }
        self.begin_block(entries, compressed);
        self.held.set(self.memory_bytes());
        outcome
    }

    /// Memory that the table takes before it is finished: eight bytes a key, its index, buffers.
    fn memory_bytes(&self) -> u64 {
        let buffers = self.stored.capacity() + self.scratch.capacity() + self.block.len();
        let keys = self.hashes.capacity() * size_of::<u64>();
        (buffers + keys + self.index.len()) as u64 + self.output.memory_bytes()
    }

    fn write_section(&mut self, raw: &[u8]) -> Result<Extent> {
        let offset = self.output.position;
        self.stored.clear();
        let none = Compression::None;
        format::seal(&mut self.stored, raw, none, 0, (self.seed, offset), &mut self.scratch);
        let stored = std::mem::take(&mut self.stored);
        self.output.append(&stored)?;
        Ok(Extent { offset, len: stored.len() as u64 })
    }

    /// Ends the table, makes file and name durable and returns what the manifest must know.
    pub(crate) fn finish(mut self) -> Result<TableMeta> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        if let Some(stored_len) = self.pending.take() {
            self.index.add(&self.last_key, None, stored_len);
        }
        let mut tombstones = std::mem::take(&mut self.tombstones);
        tombstones::sort(&mut tombstones);
        tombstones.dedup();
        let properties = self.properties(&tombstones);
        let build_bytes = self.hashes.len() as u64 * Filter::BUILD_BYTES_A_KEY;
        self.held.set(self.memory_bytes() + build_bytes);
        let filter = Filter::build(&mut self.hashes).encode();
        self.hashes = Vec::new();
        self.held.set(self.memory_bytes() + filter.capacity() as u64);
        let footer = Footer {
            filter: self.write_section(&filter)?,
            tombstones: self.write_section(&tombstones::encode(&tombstones))?,
            index: self.write_section(&self.index.finish())?,
            properties: self.write_section(&properties.encode())?,
        };
        let footer = footer.encode(self.seed, self.output.position);
        self.output.append(&footer)?;
        self.output.finish()?;
        self.sync_name()?;
        self.finished = true;
        Ok(self.meta(properties))
    }

    fn sync_name(&self) -> Result<()> {
        if planted!("table_skip_directory_sync") {
            return Ok(());
        }
        let Some(directory) = self.path.parent() else { return Ok(()) };
        self.io
            .disk
            .sync_dir(directory)
            .map_err(|e| Error::io("syncing the directory of a table", directory, e))
    }

    fn properties(&self, tombstones: &[RangeTombstone]) -> Properties {
        let tally = &self.tally;
        let mut smallest = tally.smallest.clone();
        let mut largest = smallest.is_some().then(|| Box::<[u8]>::from(self.last_key.as_slice()));
        let mut largest_exclusive = false;
        for tombstone in tombstones {
            if smallest.as_ref().is_none_or(|key| tombstone.start < *key) {
                smallest = Some(tombstone.start.clone());
            }
            if largest.as_ref().is_none_or(|key| tombstone.end > *key) {
                largest = Some(tombstone.end.clone());
                largest_exclusive = true;
            }
        }
        Properties {
            blocks: self.blocks,
            kinds: tally.kinds,
            range_tombstones: tombstones.len() as u64,
            smallest_seq: tally.smallest_seq.unwrap_or(0),
            largest_seq: tally.largest_seq,
            raw_key_bytes: tally.raw_key_bytes,
            raw_value_bytes: tally.raw_value_bytes,
            level: self.options.level as u64,
            compression: self.options.compression,
            smallest: smallest.unwrap_or_default(),
            largest: largest.unwrap_or_default(),
            largest_exclusive,
            created_by: CREATED_BY.to_owned(),
        }
    }

    fn meta(&self, properties: Properties) -> TableMeta {
        TableMeta {
            file: self.options.file,
            bytes: self.output.position,
            checksum: self.output.checksum.value(),
            entries: properties.kinds.total(),
            tombstones: properties.kinds.deletes(),
            range_tombstones: properties.range_tombstones,
            merges: properties.kinds.merges(),
            smallest: properties.smallest,
            largest: properties.largest,
            largest_exclusive: properties.largest_exclusive,
            smallest_seq: properties.smallest_seq,
            largest_seq: properties.largest_seq,
            raw_key_bytes: properties.raw_key_bytes,
            raw_value_bytes: properties.raw_value_bytes,
        }
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing names the file yet; what cannot be removed now is removed at the next open.
            let _ = self.io.disk.remove_file(&self.path);
        }
    }
}

/// The file being written with its running checksum.
struct Output {
    /// `None` once finished.
    writer: Option<FileWriter>,
    path: PathBuf,
    position: u64,
    checksum: Rolling,
}

impl Output {
    fn new(writer: FileWriter, path: &Path, seed: u32) -> Self {
        let (path, checksum) = (path.to_owned(), Rolling::new(seed));
        Self { writer: Some(writer), path, position: 0, checksum }
    }

    fn memory_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, FileWriter::memory_bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(Error::invalid("this table is finished"));
        };
        self.checksum.update(bytes);
        writer
            .append(bytes)
            .map_err(|e| Error::io("writing a table", &self.path, e).at_offset(self.position))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        match self.writer.take() {
            Some(writer) => {
                writer.finish().map_err(|e| Error::io("syncing a table", &self.path, e))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
