//! Reads a value table: by place, and by key and seq.
//!
//! Shared; any thread. Invariants: VTR-1 nothing of a record is handed out before it proved
//! container, place, file, seq, key and value. VTR-2 an error names file and offset. VTR-3 no
//! buffer is larger than the file justifies (rule F8). VTR-4 one read brings a record whose place
//! is known; a search takes one more for the index where that is not in memory, and none else.
//!
//! Whose record it is: the checksum binds it to the container, which is all that a locator knows
//! (rule R21); it states its file, and that is compared with the handle's. The epoch is not in the
//! table: which one is in force says the file table, and a handle of that epoch comes to
//! [`TableFile::get`], any other one to [`TableFile::find`] (rule R13).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc as SharedArc, Weak};

use crate::base::checksum::crc_at;
use crate::base::error::{Error, Result};
use crate::base::sync::{Arc, ArcSwap, Mutex};
use crate::base::value::{SharedBytes, Value};
use crate::io::{DiskFile, Purpose};
use crate::log::format::Sealed;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use crate::values::repairs::Repairs;
use crate::values::table::format::{
    HEADER_BYTES, PLACE_BYTES, RECORD_BYTES_MIN, Rank, TRAILER_BYTES, TableRecord, Trailer,
    check_header, padded, stated_bytes,
};
use crate::values::table::key_index::KeyIndex;
use crate::values::table::properties::Properties;
use crate::values::table::writer::TablePlace;

/// Where a table keeps its index.
type Slot = ArcSwap<Option<SharedArc<KeyIndex>>>;

/// Bounds the memory of the indexes of all value tables: whoever loads one more lets go of those
/// that were loaded longest ago.
pub(crate) struct LoadedIndexes {
    bytes_max: u64,
    loaded: Mutex<VecDeque<(Weak<Slot>, u64)>>,
}

impl LoadedIndexes {
    /// At most so many bytes, one index excepted.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, loaded: Mutex::new(VecDeque::new()) })
    }

    /// Bytes of the indexes that are in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let loaded = self.loaded.lock();
        loaded.iter().filter(|(slot, _)| slot.strong_count() > 0).map(|(_, bytes)| bytes).sum()
    }

    fn loaded(&self, slot: &SharedArc<Slot>, bytes: u64) {
        let mut dropped = Vec::new();
        {
            let mut loaded = self.loaded.lock();
            // What is gone with its table, or was loaded twice at a time, does not count.
            loaded.retain(|(other, _)| {
                other.strong_count() > 0 && other.as_ptr() != &raw const **slot
            });
            loaded.push_back((SharedArc::downgrade(slot), bytes));
            let mut sum: u64 = loaded.iter().map(|(_, bytes)| bytes).sum();
            while sum > self.bytes_max && loaded.len() > 1 {
                let Some((oldest, bytes)) = loaded.pop_front() else { break };
                sum -= bytes;
                dropped.push(oldest);
            }
        }
        for slot in dropped.into_iter().filter_map(|slot| slot.upgrade()) {
            slot.store(Arc::new(None));
        }
    }
}

/// A record that was read and proved itself.
#[derive(Clone, Debug)]
pub(crate) struct FoundRecord {
    owner: SharedBytes,
    /// Where in `owner` it begins.
    start: usize,
    /// Where in the container it is.
    pub(crate) place: TablePlace,
}

impl FoundRecord {
    /// The record.
    pub(crate) fn record(&self) -> Result<TableRecord<'_>> {
        TableRecord::decode_first(self.owner.get(self.start..).unwrap_or_default())
    }

    /// Its value: what is stored as it is, without a copy.
    pub(crate) fn value(&self) -> Result<Value> {
        shared_value(&self.record()?, &self.owner, self.start)
    }
}

/// The value of the record that begins at `start` of `owner`: what is stored as it is, without a
/// copy.
pub(crate) fn shared_value(
    record: &TableRecord<'_>,
    owner: &SharedBytes,
    start: usize,
) -> Result<Value> {
    let stored = record.stored_range();
    Ok(match record.record.value()? {
        Cow::Borrowed(_) => Value::shared(owner.clone(), start + stored.start..start + stored.end),
        Cow::Owned(value) => Value::from(value),
    })
}

/// A value table whose header, trailer and properties have been proved.
pub(crate) struct TableFile {
    /// Pins the file.
    pub(super) file: Arc<ValueFile>,
    pub(super) trailer: Trailer,
    checksum: u32,
    properties: Properties,
    index: SharedArc<Slot>,
    indexes: Arc<LoadedIndexes>,
}

impl TableFile {
    /// Opens a container, which must be the one that was `sealed`, where that is known.
    pub(crate) fn open(
        file: &Arc<ValueFile>,
        sealed: Option<&Sealed>,
        indexes: &Arc<LoadedIndexes>,
        purpose: Purpose,
    ) -> Result<Self> {
        let disk_file = file.disk_file()?;
        let length = disk_file
            .len()
            .map_err(|e| Error::io("reading a value table's length", file.path(), e))?;
        let expected = sealed.map_or(length, |sealed| sealed.bytes);
        let least = (HEADER_BYTES + TRAILER_BYTES) as u64;
        if length != expected || length < least {
            let message = format!("a value table of {length} bytes, not {}", expected.max(least));
            return Err(damaged(file, length.min(expected), Error::corruption(message)));
        }
        let header = read(file, &*disk_file, 0, HEADER_BYTES as u64, purpose)?;
        check_header(&header, file.uuid(), file.id()).map_err(|e| damaged(file, 0, e))?;
        let offset = length - TRAILER_BYTES as u64;
        let bytes = read(file, &*disk_file, offset, TRAILER_BYTES as u64, purpose)?;
        let (trailer, checksum) = Trailer::decode(&bytes, file.seed(), offset)
            .map_err(|error| damaged(file, offset, error))?;
        if sealed.is_some_and(|sealed| sealed.checksum != checksum || sealed.id != file.id()) {
            let error = Error::corruption("a value table is not the one that was sealed");
            return Err(damaged(file, offset, error));
        }
        let at = trailer.properties_offset();
        let bytes = read(file, &*disk_file, at, trailer.properties_bytes, purpose)?;
        if crc_at(file.seed(), at, &bytes) != trailer.properties_checksum {
            let error = Error::corruption("a value table's properties do not match their checksum");
            return Err(damaged(file, at, error));
        }
        let properties = Properties::decode(&bytes, trailer.records_end - HEADER_BYTES as u64)
            .map_err(|error| damaged(file, at, error))?;
        Ok(Self {
            file: Arc::clone(file),
            trailer,
            checksum,
            properties,
            index: SharedArc::new(ArcSwap::from_pointee(None)),
            indexes: Arc::clone(indexes),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Handles that were found to be of an earlier epoch.
    pub(crate) fn repairs(&self) -> &Repairs {
        self.file.repairs()
    }

    /// What it holds.
    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Number, length and checksum.
    pub(crate) fn sealed(&self) -> Sealed {
        Sealed { id: self.file.id(), bytes: self.trailer.file_bytes(), checksum: self.checksum }
    }

    /// Memory of the index, if it is loaded.
    #[cfg(test)]
    pub(crate) fn index_memory_bytes(&self) -> u64 {
        self.index.load().as_ref().as_ref().map_or(0, |index| index.memory_bytes())
    }

    /// The value that a handle of the present epoch names.
    pub(crate) fn get(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<Value> {
        let place = self.place_of(&wanted.handle)?;
        let owner = self.read(place.start, place.end - place.start, purpose)?;
        self.value_at(wanted, &owner, place.start)
    }

    /// Where a handle of the present epoch says that its record is.
    pub(crate) fn place_of(&self, handle: &Handle) -> Result<Range<u64>> {
        self.check_place(handle.offset, u64::from(handle.bytes))
    }

    /// [`TableFile::get`] out of what was read from `base` on, which holds the handle's place.
    pub(crate) fn value_at(
        &self,
        wanted: &Wanted<'_>,
        owner: &SharedBytes,
        base: u64,
    ) -> Result<Value> {
        let (record, start) = self.named_record(wanted, owner, base)?;
        shared_value(&record, owner, start)
            .map_err(|e| damaged(&self.file, wanted.handle.offset, e))
    }

    /// The record that [`TableFile::value_at`] takes its value from.
    pub(crate) fn record_at(
        &self,
        wanted: &Wanted<'_>,
        owner: &SharedBytes,
        base: u64,
    ) -> Result<FoundRecord> {
        let (_, start) = self.named_record(wanted, owner, base)?;
        let place = TablePlace { offset: wanted.handle.offset, bytes: wanted.handle.bytes };
        Ok(FoundRecord { owner: owner.clone(), start, place })
    }

    /// The record that a handle of the present epoch names, which proved itself to be of its entry,
    /// and where in what was read from `base` on it begins.
    fn named_record<'a>(
        &self,
        wanted: &Wanted<'_>,
        bytes: &'a [u8],
        base: u64,
    ) -> Result<(TableRecord<'a>, usize)> {
        let offset = wanted.handle.offset;
        let start = (offset - base) as usize;
        let record = self.prove(bytes, start, offset)?;
        if record.rank() != rank_of(wanted) || record.bytes() != wanted.handle.bytes as usize {
            let (seq, file) = (record.record.seq, record.file);
            let message = format!("the record is of another entry (seq {seq} of file {file})");
            return Err(damaged(&self.file, offset, Error::corruption(message)));
        }
        Ok((record, start))
    }

    /// The record at an offset, which is all that a locator knows of it, out of what was read from
    /// `base` on, and where in that it begins. Whose it is, and of which seq, the caller compares.
    pub(crate) fn record_in<'a>(
        &self,
        bytes: &'a [u8],
        base: u64,
        offset: u64,
    ) -> Result<(TableRecord<'a>, usize)> {
        self.check_place(offset, RECORD_BYTES_MIN as u64)?;
        let start = (offset - base) as usize;
        Ok((self.prove(bytes, start, offset)?, start))
    }

    /// Where the records end.
    pub(crate) fn records_end(&self) -> u64 {
        self.trailer.records_end
    }

    /// So many bytes from an offset on, if records can stand there.
    fn check_place(&self, offset: u64, bytes: u64) -> Result<Range<u64>> {
        let end = offset.saturating_add(bytes);
        let is_place = offset >= HEADER_BYTES as u64
            && offset.is_multiple_of(PLACE_BYTES)
            && bytes >= RECORD_BYTES_MIN as u64
            && end <= self.trailer.records_end;
        if !is_place {
            let message = format!("no record of a value table stands at {offset} to {end}");
            return Err(damaged(&self.file, offset, Error::corruption(message)));
        }
        Ok(offset..end)
    }

    /// The record that begins at `start` of what was read (VTR-1), which stands at `offset`.
    fn prove<'a>(&self, bytes: &'a [u8], start: usize, offset: u64) -> Result<TableRecord<'a>> {
        let record = TableRecord::decode_first(bytes.get(start..).unwrap_or_default())
            .map_err(|error| damaged(&self.file, offset, error))?;
        if record.proven_body(self.file.seed(), offset).is_none() {
            let error = Error::corruption("a value's record does not match its checksum");
            return Err(damaged(&self.file, offset, error));
        }
        Ok(record)
    }

    /// Searches for the record of a handle of another epoch: by file, keyspace, key and seq,
    /// whatever the handle says of the place. `None` where the table has no such record.
    pub(crate) fn find(
        &self,
        wanted: &Wanted<'_>,
        purpose: Purpose,
    ) -> Result<Option<FoundRecord>> {
        let Some(group) = self.group_of(wanted, purpose)? else { return Ok(None) };
        let owner = self.read(group.start, group.end - group.start, purpose)?;
        self.find_in(wanted, &owner, group.start, group)
    }

    /// The bytes in which a search for such a record would look; `None` where the table has none.
    pub(crate) fn group_of(
        &self,
        wanted: &Wanted<'_>,
        purpose: Purpose,
    ) -> Result<Option<Range<u64>>> {
        let index = self.load_index(purpose)?;
        let rank = rank_of(wanted);
        index.find(&rank).map_err(|e| damaged(&self.file, self.index_offset(), e))
    }

    /// [`TableFile::find`] in what was read from `base` on, which holds the group.
    pub(crate) fn find_in(
        &self,
        wanted: &Wanted<'_>,
        owner: &SharedBytes,
        base: u64,
        group: Range<u64>,
    ) -> Result<Option<FoundRecord>> {
        let rank = rank_of(wanted);
        let mut offset = group.start;
        while offset < group.end {
            let start = (offset - base) as usize;
            let rest = owner.get(start..).unwrap_or_default();
            let bytes = stated_bytes(rest).map_err(|e| damaged(&self.file, offset, e))?;
            let record = TableRecord::decode_first(rest);
            if record.is_ok_and(|record| record.rank() == rank) {
                let bytes = self.prove(owner, start, offset)?.bytes() as u32;
                let place = TablePlace { offset, bytes };
                return Ok(Some(FoundRecord { owner: owner.clone(), start, place }));
            }
            offset = offset.saturating_add(padded(bytes));
        }
        // What is not there may only be damaged: then that is the answer.
        self.prove_group(owner, base, group)?;
        Ok(None)
    }

    fn prove_group(&self, bytes: &[u8], base: u64, group: Range<u64>) -> Result<()> {
        let mut offset = group.start;
        while offset < group.end {
            let record = self.prove(bytes, (offset - base) as usize, offset)?;
            offset += padded(record.bytes() as u64);
        }
        if offset != group.end {
            let error = Error::corruption("a group does not end with a record");
            return Err(damaged(&self.file, group.start, error));
        }
        Ok(())
    }

    fn index_offset(&self) -> u64 {
        self.trailer.records_end
    }

    /// The index, from memory or, the first time, from the file.
    pub(super) fn load_index(&self, purpose: Purpose) -> Result<SharedArc<KeyIndex>> {
        if let Some(index) = self.index.load().as_ref() {
            return Ok(SharedArc::clone(index));
        }
        let (offset, bytes) = (self.index_offset(), self.trailer.index_bytes);
        let disk_file = self.file.disk_file()?;
        let stored = read(&self.file, &*disk_file, offset, bytes, purpose)?;
        if crc_at(self.file.seed(), offset, &stored) != self.trailer.index_checksum {
            let error = Error::corruption("a value table's index does not match its checksum");
            return Err(damaged(&self.file, offset, error));
        }
        let index = KeyIndex::decode(stored, self.trailer.records_end)
            .map_err(|error| error.in_file(self.file.path()).at_offset(offset))?;
        let index = SharedArc::new(index);
        self.index.store(Arc::new(Some(SharedArc::clone(&index))));
        self.indexes.loaded(&self.index, index.memory_bytes());
        Ok(index)
    }

    fn read(&self, offset: u64, bytes: u64, purpose: Purpose) -> Result<SharedBytes> {
        let mut owner: SharedArc<[u8]> = std::iter::repeat_n(0, bytes as usize).collect();
        if let Some(buffer) = SharedArc::get_mut(&mut owner) {
            let disk_file = self.file.disk_file()?;
            disk_file.read_exact_at(buffer, offset).map_err(|e| failed(&self.file, offset, e))?;
        }
        self.file.io().meter.read(purpose, bytes);
        Ok(owner.into())
    }
}

/// What a handle's entry asks for, but for the place.
fn rank_of<'a>(wanted: &Wanted<'a>) -> Rank<'a> {
    let Wanted { handle, keyspace, key, seq } = *wanted;
    Rank { keyspace, key, seq, file: handle.file }
}

/// Reads a part of the file whose length is known to be within it.
fn read(
    file: &ValueFile,
    disk_file: &dyn DiskFile,
    offset: u64,
    bytes: u64,
    purpose: Purpose,
) -> Result<Vec<u8>> {
    let mut buffer = vec![0; bytes as usize];
    disk_file.read_exact_at(&mut buffer, offset).map_err(|e| failed(file, offset, e))?;
    file.io().meter.read(purpose, bytes);
    Ok(buffer)
}

pub(super) fn damaged(file: &ValueFile, offset: u64, error: Error) -> Error {
    error.in_file(file.path()).at_offset(offset)
}

/// A failed read; a file that ends early is damaged, everything else is the system's trouble.
pub(super) fn failed(file: &ValueFile, offset: u64, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return damaged(file, offset, Error::corruption("the value table ends early"));
    }
    Error::io("reading a value table", file.path(), error).at_offset(offset)
}

#[cfg(test)]
mod tests;
