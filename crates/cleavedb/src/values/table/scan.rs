//! Walks over all records of a value table in its order, which is that of places and of keys: for
//! the next collection.
//!
//! Owned by one thread. Invariants: VS-1 each record proved itself, lies behind the one before, and
//! is followed by zeros up to the next. VS-2 in memory are two chunks and one record, whatever the
//! table. VS-3 while one chunk is being used the next one is being read.

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::io::disk::{BatchRead, ReadsUnderWay};
use crate::io::{DiskFile, Purpose};
use crate::values::file::ValueFile;
use crate::values::table::format::{
    HEADER_BYTES, RECORD_HEAD_BYTES_MAX, Rank, TableRecord, padded, stated_bytes,
};
use crate::values::table::reader::{TableFile, damaged, failed};

/// Bytes of a chunk: large enough for the device's full rate.
pub(crate) const CHUNK_BYTES: u64 = 512 << 10;

/// Bytes in which the length of most records is told.
const HEAD_BYTES: u64 = 256;

/// A record that a scan met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedRecord<'a> {
    /// Where it stands.
    pub(crate) offset: u64,
    /// The record.
    pub(crate) record: TableRecord<'a>,
    /// What it proved itself with: for whoever moves it.
    pub(crate) body: u32,
}

/// A walk over a table.
pub(crate) struct TableScan {
    /// Pins the file.
    file: Arc<ValueFile>,
    disk_file: Arc<dyn DiskFile>,
    purpose: Purpose,
    chunk_bytes: u64,
    records_end: u64,
    /// Where the next record begins.
    position: u64,
    /// Bytes of the file from `buffer_offset` on.
    buffer: Vec<u8>,
    buffer_offset: u64,
    /// What is being read: what follows the buffer.
    ahead: Option<Box<dyn ReadsUnderWay>>,
    last_key: Vec<u8>,
    /// The rest of the last record's rank; none before the first one.
    last: Option<(KeyspaceId, Seq, FileId)>,
    /// Where the last record begins.
    last_offset: u64,
    /// What it proved itself with.
    last_body: u32,
}

impl TableScan {
    /// A walk in chunks of so many bytes ([`CHUNK_BYTES`]).
    pub(crate) fn new(table: &TableFile, chunk_bytes: u64, purpose: Purpose) -> Result<Self> {
        Ok(Self {
            file: Arc::clone(&table.file),
            disk_file: table.file.disk_file()?,
            purpose,
            chunk_bytes: chunk_bytes.max(1),
            records_end: table.trailer.records_end,
            position: HEADER_BYTES as u64,
            buffer: Vec::new(),
            buffer_offset: HEADER_BYTES as u64,
            ahead: None,
            last_key: Vec::new(),
            last: None,
            last_offset: HEADER_BYTES as u64,
            last_body: 0,
        })
    }

    /// The next record; none behind the last one. After an error the walk is of no more use.
    pub(crate) fn next_record(&mut self) -> Result<Option<ScannedRecord<'_>>> {
        let offset = self.position;
        let left = self.records_end - offset;
        if left == 0 {
            return Ok(None);
        }
        let bad = |file: &ValueFile, what: &str| damaged(file, offset, Error::corruption(what));
        let bytes = self.stated_bytes(left)?;
        let padded_bytes = padded(bytes);
        if padded_bytes > left {
            return Err(bad(&self.file, "a value's record reaches beyond the last one"));
        }
        self.fetch(padded_bytes)?;
        let stored = self.buffer.get((offset - self.buffer_offset) as usize..).unwrap_or_default();
        let stored = stored.get(..padded_bytes as usize).unwrap_or_default();
        let (whole, padding) = stored.split_at_checked(bytes as usize).unwrap_or((stored, &[]));
        let record =
            TableRecord::decode_first(whole).map_err(|e| damaged(&self.file, offset, e))?;
        let Some(body) = record.proven_body(self.file.seed(), offset) else {
            return Err(bad(&self.file, "a value's record does not match its checksum"));
        };
        if padding.iter().any(|&byte| byte != 0) {
            return Err(bad(&self.file, "a value's record is not followed by zeros"));
        }
        let rank = record.rank();
        let is_behind = self.last.is_none_or(|(keyspace, seq, file)| {
            Rank { keyspace, key: &self.last_key, seq, file } < rank
        });
        if !is_behind {
            return Err(bad(&self.file, "the records of a value table do not ascend"));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(rank.key);
        self.last = Some((rank.keyspace, rank.seq, rank.file));
        (self.last_offset, self.last_body) = (offset, body);
        self.position = offset + padded_bytes;
        Ok(Some(ScannedRecord { offset, record, body }))
    }

    /// Place in the order of the record that was handed out last.
    pub(crate) fn last_rank(&self) -> Option<Rank<'_>> {
        let (keyspace, seq, file) = self.last?;
        Some(Rank { keyspace, key: &self.last_key, seq, file })
    }

    /// The record that was handed out last once more, for whoever looks at others in between.
    pub(crate) fn last_record(&self) -> Result<ScannedRecord<'_>> {
        let offset = self.last_offset;
        let skip = offset.checked_sub(self.buffer_offset).unwrap_or(u64::MAX);
        let stored = usize::try_from(skip).ok().and_then(|skip| self.buffer.get(skip..));
        TableRecord::decode_first(stored.unwrap_or_default())
            .map(|record| ScannedRecord { offset, record, body: self.last_body })
            .map_err(|error| damaged(&self.file, offset, error))
    }

    /// Bytes of the next record. Looks at little of it first, since few keys are long.
    fn stated_bytes(&mut self, left: u64) -> Result<u64> {
        for head_bytes in [HEAD_BYTES, RECORD_HEAD_BYTES_MAX as u64] {
            self.fetch(head_bytes.min(left))?;
            if let Ok(bytes) = stated_bytes(self.cached()) {
                return Ok(bytes);
            }
        }
        let position = self.position;
        stated_bytes(self.cached()).map_err(|e| damaged(&self.file, position, e))
    }

    /// What is in memory from the position on.
    fn cached(&self) -> &[u8] {
        self.buffer.get((self.position - self.buffer_offset) as usize..).unwrap_or_default()
    }

    /// Memory it takes, what is being read aside.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.last_key.capacity()
    }

    /// Brings at least so many bytes from the position on into memory.
    fn fetch(&mut self, wanted: u64) -> Result<()> {
        if self.cached().len() as u64 >= wanted {
            return Ok(());
        }
        let used = (self.position - self.buffer_offset) as usize;
        self.buffer.drain(..used.min(self.buffer.len()));
        self.buffer_offset = self.position;
        if self.buffer.capacity() as u64 > 4 * self.chunk_bytes.max(wanted) {
            // One huge record must not keep its memory for the rest of the table.
            self.buffer.shrink_to((2 * self.chunk_bytes) as usize);
        }
        while (self.buffer.len() as u64) < wanted {
            let reads = match self.ahead.take() {
                Some(reads) => reads,
                None => self.begin(self.position + wanted).ok_or_else(|| {
                    let error = Error::corruption("the value table ends early");
                    damaged(&self.file, self.position, error)
                })?,
            };
            for read in reads.finish() {
                read.result.map_err(|e| failed(&self.file, read.offset, e))?;
                self.file.io().meter.read(self.purpose, read.buffer.len() as u64);
                self.buffer.extend_from_slice(&read.buffer);
            }
        }
        self.ahead = self.begin(0);
        Ok(())
    }

    /// Begins to read what follows the buffer: up to the end of a chunk, at least up to `least`.
    fn begin(&self, least: u64) -> Option<Box<dyn ReadsUnderWay>> {
        let offset = self.buffer_offset + self.buffer.len() as u64;
        let chunk_end = (offset / self.chunk_bytes + 1).saturating_mul(self.chunk_bytes);
        let end = chunk_end.max(least).min(self.records_end);
        let bytes = end.checked_sub(offset).filter(|&bytes| bytes > 0)?;
        let (file, buffer) = (Arc::clone(&self.disk_file), vec![0; bytes as usize]);
        let read = BatchRead { file, offset, buffer, result: Ok(()) };
        Some(self.file.io().disk.start_batch(vec![read]))
    }
}

#[cfg(test)]
mod tests;
