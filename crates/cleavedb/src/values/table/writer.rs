//! Writes one value table from front to back.
//!
//! Owned by one step of garbage collection. Invariants: VW-1 records arrive in order (keyspace,
//! key, seq downwards, file), else `add` fails and the table must be abandoned. VW-2 after
//! [`ValueTableWriter::finish`] the file and its name are durable. VW-3 a writer dropped
//! unfinished removes its file. VW-4 in memory are the buffer of one write, the front of one record
//! and the index so far, never a value.

use std::path::{Path, PathBuf};

use crate::base::checksum::{Rolling, file_seed};
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::io::disk::OpenMode;
use crate::io::meter::HeldMemory;
use crate::io::writer::FileWriter;
use crate::io::{Io, Purpose};
use crate::log::footer::Totals;
use crate::log::format::Sealed;
use crate::log::separated::SeparatedRecord;
use crate::values::table::format::{
    HEADER_BYTES, PLACE_BYTES, RECORD_BYTES_MAX, Rank, TRAILER_BYTES, Trailer, encode_front,
    encode_header, padded,
};
use crate::values::table::key_index::KeyIndexBuilder;
use crate::values::table::properties::{EdgeKey, Properties, Source};

/// Bytes of the records that share one entry of the index, one large record excepted: what a
/// search reads at most for records up to this.
pub(crate) const GROUP_BYTES: u64 = 4 << 10;

/// How a value table is written.
#[derive(Clone, Debug)]
pub(crate) struct ValueTableOptions {
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// The container's number: that of its file.
    pub(crate) container: FileId,
    /// The files that are merged into it, in any order; those of which nothing survives, too.
    pub(crate) sources: Vec<FileId>,
    /// Bytes of a group: [`GROUP_BYTES`].
    pub(crate) group_bytes: u64,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
    /// Bypass the page cache.
    pub(crate) direct: bool,
    /// Whether the rate limiter applies.
    pub(crate) limited: bool,
}

/// A table that is complete and durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenTable {
    /// Number, length and checksum.
    pub(crate) sealed: Sealed,
    /// What it holds.
    pub(crate) properties: Properties,
}

/// Where a record was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TablePlace {
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// Its bytes, without padding: what a handle names.
    pub(crate) bytes: u32,
}

/// The record that was added last.
#[derive(Default)]
struct Last {
    key: Vec<u8>,
    seq: Seq,
    /// Where it is from; none before the first one.
    from: Option<(KeyspaceId, FileId)>,
}

impl Last {
    fn rank(&self) -> Option<Rank<'_>> {
        let (keyspace, file) = self.from?;
        Some(Rank { keyspace, key: &self.key, seq: self.seq, file })
    }

    fn set(&mut self, rank: &Rank<'_>) {
        self.key.clear();
        self.key.extend_from_slice(rank.key);
        self.seq = rank.seq;
        self.from = Some((rank.keyspace, rank.file));
    }
}

/// A value table in the making.
pub(crate) struct ValueTableWriter {
    io: Io,
    path: PathBuf,
    container: FileId,
    seed: u32,
    group_bytes: u64,
    /// `None` once finished.
    writer: Option<FileWriter>,
    position: u64,
    checksums: Rolling,
    index: KeyIndexBuilder,
    /// Bytes of the group that is open.
    open_bytes: u64,
    /// Bytes of a full group whose bound waits for the next record.
    full_bytes: Option<u64>,
    last: Last,
    first: Option<EdgeKey>,
    totals: Totals,
    sources: Vec<Source>,
    front: Vec<u8>,
    held: HeldMemory,
    finished: bool,
}

impl ValueTableWriter {
    /// Creates the file and writes its header.
    pub(crate) fn create(io: &Io, path: &Path, options: &ValueTableOptions) -> Result<Self> {
        let ValueTableOptions { uuid, container, purpose, .. } = *options;
        let mut files = options.sources.clone();
        files.sort_unstable();
        files.dedup();
        if files.first().is_none_or(|file| file.0 == 0) || container.0 == 0 {
            return Err(Error::invalid("a value table of no files"));
        }
        let sources = files.into_iter().map(|file| Source { file, records: 0, bytes: 0 }).collect();
        let mode = OpenMode { direct: options.direct, random: false };
        let file = io.disk.create(path, mode);
        let file = file.map_err(|e| Error::io("creating a value table", path, e))?;
        let seed = file_seed(&uuid, container.0);
        let mut writer = Self {
            io: io.clone(),
            path: path.to_owned(),
            container,
            seed,
            group_bytes: options.group_bytes,
            writer: Some(FileWriter::new(io, file, purpose, options.limited)),
            position: 0,
            checksums: Rolling::new(seed),
            index: KeyIndexBuilder::default(),
            open_bytes: 0,
            full_bytes: None,
            last: Last::default(),
            first: None,
            totals: Totals::default(),
            sources,
            front: Vec::new(),
            held: HeldMemory::new(&io.meter, purpose),
            finished: false,
        };
        writer.append(&encode_header(&uuid, container))?;
        Ok(writer)
    }

    /// Adds the next record, of one of the files that are merged. `body` is what the record proved
    /// itself with where it was read ([`SeparatedRecord::proven_body`]): its value is copied as it
    /// is stored, and not summed again.
    ///
    /// # Errors
    /// `Corruption` for a record that is not behind the one before, or of another file; those of
    /// the write.
    pub(crate) fn add(
        &mut self,
        file: FileId,
        record: &SeparatedRecord<'_>,
        body: u32,
    ) -> Result<TablePlace> {
        let SeparatedRecord { keyspace, key, seq, .. } = *record;
        let rank = Rank { keyspace, key, seq, file };
        if self.last.rank().is_some_and(|last| last >= rank) {
            return Err(self.refused("records out of order"));
        }
        let Ok(source) = self.sources.binary_search_by_key(&file, |source| source.file) else {
            return Err(self.refused("a record of a file that is not merged here"));
        };
        let offset = self.position;
        self.front.clear();
        let place = (self.seed, offset);
        let checksum = encode_front(&mut self.front, file, record, body, place);
        let bytes = (self.front.len() + record.stored.len()) as u64;
        if bytes > RECORD_BYTES_MAX as u64 || seq == 0 {
            return Err(self.refused("a record that no value table holds"));
        }
        self.count(source, record, bytes);
        let padded_bytes = padded(bytes);
        if self.open_bytes > 0 && self.open_bytes + padded_bytes > self.group_bytes {
            self.full_bytes = Some(std::mem::take(&mut self.open_bytes));
        }
        self.bound_full_group(Some(&rank));
        self.open_bytes += padded_bytes;
        self.last.set(&rank);
        self.checksums.update(&checksum.to_le_bytes());
        let front = std::mem::take(&mut self.front);
        let written = self.append(&front);
        self.front = front;
        written?;
        self.append(record.stored)?;
        let padding = [0; PLACE_BYTES as usize];
        self.append(padding.get(..(padded_bytes - bytes) as usize).unwrap_or_default())?;
        self.held.set(self.memory_bytes());
        Ok(TablePlace { offset, bytes: bytes as u32 })
    }

    /// Number of the container.
    pub(crate) fn container(&self) -> FileId {
        self.container
    }

    /// Length of the file if it were finished now, roughly.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        self.position + (self.index.len() + self.sources.len() * 8 + TRAILER_BYTES) as u64
    }

    /// Memory it takes: its buffer, the front of a record, the index.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let buffers = self.front.capacity() + self.last.key.capacity();
        let files = self.sources.capacity() * size_of::<Source>();
        let writer = self.writer.as_ref().map_or(0, FileWriter::memory_bytes);
        (buffers + files) as u64 + writer + self.index.memory_bytes()
    }

    fn count(&mut self, source: usize, record: &SeparatedRecord<'_>, bytes: u64) {
        let SeparatedRecord { keyspace, key, seq, value_bytes, .. } = *record;
        if self.first.is_none() {
            self.first = Some(EdgeKey { keyspace, key: key.into() });
            self.totals.smallest_seq = seq;
        }
        self.totals.records += 1;
        self.totals.record_bytes += bytes;
        self.totals.key_bytes += key.len() as u64;
        self.totals.value_bytes += u64::from(value_bytes);
        self.totals.smallest_seq = self.totals.smallest_seq.min(seq);
        self.totals.largest_seq = self.totals.largest_seq.max(seq);
        if let Some(source) = self.sources.get_mut(source) {
            source.records += 1;
            source.bytes += bytes;
        }
    }

    /// Gives a full group its bound, now that the record behind it is known.
    fn bound_full_group(&mut self, next: Option<&Rank<'_>>) {
        if let (Some(bytes), Some(last)) = (self.full_bytes.take(), self.last.rank()) {
            self.index.add(&last, next, bytes);
        }
    }

    fn refused(&self, what: &str) -> Error {
        Error::corruption(what).in_file(&self.path).at_offset(self.position)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(Error::invalid("this value table is finished"));
        };
        writer.append(bytes).map_err(|e| {
            Error::io("writing a value table", &self.path, e).at_offset(self.position)
        })?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Appends a section; returns its checksum.
    fn append_section(&mut self, bytes: &[u8]) -> Result<u32> {
        let checksum = crate::base::checksum::crc_at(self.seed, self.position, bytes);
        self.append(bytes)?;
        Ok(checksum)
    }

    /// Ends the table, makes file and name durable, and returns what the manifest must know.
    pub(crate) fn finish(mut self) -> Result<WrittenTable> {
        debug_assert!(self.position >= HEADER_BYTES as u64);
        if self.open_bytes > 0 {
            self.full_bytes = Some(self.open_bytes);
            self.bound_full_group(None);
        }
        let properties = self.properties();
        let (index, stated) = (self.index.finish(), properties.encode());
        self.held.set(self.memory_bytes() + (index.capacity() + stated.capacity()) as u64);
        let records_end = self.position;
        let trailer = Trailer {
            records_end,
            index_bytes: index.len() as u64,
            properties_bytes: stated.len() as u64,
            records_checksum: self.checksums.value(),
            index_checksum: self.append_section(&index)?,
            properties_checksum: self.append_section(&stated)?,
        };
        let (bytes, checksum) = trailer.encode(self.seed, self.position);
        self.append(&bytes)?;
        if let Some(writer) = self.writer.take() {
            writer.finish().map_err(|e| Error::io("syncing a value table", &self.path, e))?;
        }
        self.sync_name()?;
        self.finished = true;
        let sealed = Sealed { id: self.container, bytes: self.position, checksum };
        Ok(WrittenTable { sealed, properties })
    }

    fn sync_name(&self) -> Result<()> {
        let Some(directory) = self.path.parent() else { return Ok(()) };
        self.io
            .disk
            .sync_dir(directory)
            .map_err(|e| Error::io("syncing the directory of a value table", directory, e))
    }

    fn properties(&mut self) -> Properties {
        let last = self.last.rank();
        let last = last.map(|rank| EdgeKey { keyspace: rank.keyspace, key: rank.key.into() });
        let sources = std::mem::take(&mut self.sources);
        Properties { totals: self.totals, edges: self.first.take().zip(last), sources }
    }
}

impl Drop for ValueTableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing names the file yet; what cannot be removed now is removed at the next open.
            let _ = self.io.disk.remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
