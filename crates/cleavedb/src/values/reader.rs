//! Reading separated values by their handles: one device read brings a whole record, which proves
//! itself before anything of it is used.
//!
//! No state of its own beyond the snapshot it is made of; any thread. Invariants: VR-1 nothing is
//! handed out before the record's checksum, key and seq agreed. VR-2 an error names file and
//! offset. VR-3 what is stored as it is, is handed out without a copy. VR-4 no buffer is larger
//! than the file justifies (rule F8).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc as BytesArc;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::{FILE_ID_MAX, FileKind, file_name};
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::value::{SharedBytes, Value};
use crate::io::{DiskFile, Purpose};
use crate::log::separated::SeparatedRecord;
use crate::values::cache::{CachePlace, Kept, cache_place};
use crate::values::container::{Access, Container};
use crate::values::file::{ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::tail_buffer::TailBuffer;

pub(crate) mod ahead;
mod batch;
mod large;
pub(crate) mod located;
pub(crate) mod records;

/// Marks the number of a file in the place of a handle that a rewrite has outlived.
const OUTLIVED: u64 = 1 << 63;
const _: () = assert!(FILE_ID_MAX < OUTLIVED);

/// A value that an index entry names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Where its record is.
    pub(crate) handle: Handle,
    /// The keyspace of the entry.
    pub(crate) keyspace: KeyspaceId,
    /// The key of the entry.
    pub(crate) key: &'a [u8],
    /// The seq of the entry.
    pub(crate) seq: Seq,
}

/// Where values are read from: one snapshot of the files, and what was just written to them.
#[derive(Clone, Copy)]
pub(crate) struct ValueReader<'a> {
    /// Directory, disk, meter.
    pub(crate) context: &'a ValueContext,
    /// The files, pinned by the caller's view.
    pub(crate) files: &'a ValueFiles,
    /// The newest frames.
    pub(crate) tail: &'a TailBuffer,
}

/// What a handle names a record in.
#[derive(Clone, Copy)]
enum Home<'a> {
    /// The segment that it was written to.
    Segment(&'a Arc<ValueFile>),
    /// What that was rewritten into, and how to find the record there.
    Container(&'a Arc<Container>, Access),
}

impl ValueReader<'_> {
    /// The value that a get wants: from the cache, or into it.
    pub(crate) fn get(&self, wanted: &Wanted<'_>) -> Result<Value> {
        if wanted.handle.is_large() {
            return self.read_large(wanted, Purpose::Read);
        }
        let cache = &self.context.cache;
        let guard = match cache.begin(wanted, self.cache_place(&wanted.handle), true) {
            Kept::Hit(value) => return Ok(value),
            Kept::Miss(guard) => guard,
        };
        let value = match self.home_of(&wanted.handle)? {
            Home::Segment(file) => match self.in_tail(&wanted.handle) {
                Some((owner, range)) => {
                    let value = value_of(file, wanted, owner.into(), range)?;
                    cache.keep_read(guard, wanted, &value);
                    return Ok(value);
                }
                None => self.read_from(file, wanted, Purpose::Read)?,
            },
            Home::Container(home, access) => home.read(wanted, access, Purpose::Read)?,
        };
        cache.keep(guard, wanted, &value);
        Ok(value)
    }

    /// Reads one value, and leaves no trace in the cache.
    pub(crate) fn read(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<Value> {
        if wanted.handle.is_large() {
            return self.read_large(wanted, purpose);
        }
        let home = self.home_of(&wanted.handle)?;
        if let Home::Segment(file) = home
            && let Some((owner, range)) = self.in_tail(&wanted.handle)
        {
            return value_of(file, wanted, owner.into(), range);
        }
        if purpose == Purpose::Read
            && let Some(kept) = self.context.cache.peek(self.cache_place(&wanted.handle))
            && let Some(value) = kept.of(wanted)
        {
            return Ok(value);
        }
        match home {
            Home::Segment(file) => self.read_from(file, wanted, purpose),
            Home::Container(home, access) => home.read(wanted, access, purpose),
        }
    }

    /// Where the cache has what a handle names: at its place, wherever that leads to. A handle that
    /// a rewrite has outlived has a place of its own.
    fn cache_place(&self, handle: &Handle) -> CachePlace {
        let file = match handle.epoch {
            0 => handle.file,
            epoch => match self.files.get_moved(handle.file) {
                Some(moved) if moved.epoch == epoch => moved.container,
                _ => FileId(handle.file.0 | OUTLIVED),
            },
        };
        cache_place(file, handle.offset)
    }

    /// What a handle names a record in.
    fn home_of(&self, handle: &Handle) -> Result<Home<'_>> {
        let Some(moved) = self.files.get_moved(handle.file) else {
            return self.file_of(handle).map(Home::Segment);
        };
        let entry = self.files.container(moved.container);
        match entry.filter(|_| handle.epoch <= moved.epoch) {
            Some(entry) => {
                let epoch = moved.epoch;
                let access = Access { epoch, current: self.current(handle, epoch) };
                Ok(Home::Container(&entry.container, access))
            }
            None => {
                let (epoch, now) = (handle.epoch, moved.epoch);
                let message = format!("an entry names epoch {epoch} of a file that is in {now}");
                let path = self.context.dir.join(file_name(FileKind::ValueTable, moved.container));
                Err(Error::corruption(message).in_file(&path))
            }
        }
    }

    /// The handle of this epoch that leads to the record of another one, if one is known.
    fn current(&self, handle: &Handle, epoch: u32) -> Option<Handle> {
        if handle.epoch == epoch || planted!("value_epoch_unchecked") {
            return Some(*handle);
        }
        // The reader's table of files may be older, or newer, than that of the repair.
        let repaired = self.context.repairs.get(handle).filter(|now| now.epoch == epoch);
        if repaired.is_some() {
            mark!("repaired_handle_used");
        }
        repaired
    }

    /// Whether the record of an entry is there: what no live view sees may be gone (rule R19).
    pub(crate) fn has(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<bool> {
        if !self.files.has(&wanted.handle) {
            return Ok(false);
        }
        match self.files.get_moved(wanted.handle.file) {
            None => Ok(true),
            Some(_) => match self.home_of(&wanted.handle)? {
                Home::Segment(_) => Ok(true),
                Home::Container(home, _) => home.has(wanted, purpose),
            },
        }
    }

    /// Reads one value from its file.
    fn read_from(&self, file: &ValueFile, wanted: &Wanted<'_>, purpose: Purpose) -> Result<Value> {
        let Handle { offset, bytes, .. } = wanted.handle;
        let disk_file = file.disk_file()?;
        check_length(file, &*disk_file, offset, wanted.handle.end())?;
        let mut owner: BytesArc<[u8]> = std::iter::repeat_n(0, bytes as usize).collect();
        if let Some(buffer) = BytesArc::get_mut(&mut owner) {
            disk_file.read_exact_at(buffer, offset).map_err(|e| failed(file, offset, e))?;
        }
        self.context.io.meter.read(purpose, u64::from(bytes));
        value_of(file, wanted, owner.into(), 0..bytes as usize)
    }

    /// The segment that a handle names, if the handle lies within it.
    fn file_of(&self, handle: &Handle) -> Result<&Arc<ValueFile>> {
        let entry = self.files.get(handle.file).filter(|_| handle.epoch == 0);
        let Some(entry) = entry else {
            let path = self.context.dir.join(file_name(FileKind::Value, handle.file));
            let message = "an entry names a value file that is not there";
            return Err(Error::corruption(message).in_file(&path).at_offset(handle.offset));
        };
        let file = &entry.file;
        let readable = file.readable();
        if handle.end() > readable {
            let message = format!("an entry names {} of {readable} bytes", handle.end());
            return Err(damaged(file, handle.offset, Error::corruption(message)));
        }
        if entry.has_dropped(handle) {
            let error = Error::corruption("an entry names a record in a hole of the file");
            return Err(damaged(file, handle.offset, error));
        }
        Ok(file)
    }

    fn in_tail(&self, handle: &Handle) -> Option<(BytesArc<Vec<u8>>, Range<usize>)> {
        let found = self.tail.get(handle.file, handle.offset, handle.bytes as usize);
        if found.is_some() {
            mark!("value_read_from_tail_buffer");
        }
        found
    }
}

/// The value in a record that was read: the part `range` of `owner` (VR-1).
fn value_of(
    file: &ValueFile,
    wanted: &Wanted<'_>,
    owner: SharedBytes,
    range: Range<usize>,
) -> Result<Value> {
    let offset = wanted.handle.offset;
    let (start, bytes) = (range.start, owner.get(range).unwrap_or_default());
    let record = SeparatedRecord::decode(bytes).map_err(|e| damaged(file, offset, e))?;
    if !record.holds_at(file.seed(), offset) {
        let error = Error::corruption("a value's record does not match its checksum");
        return Err(damaged(file, offset, error));
    }
    let is_right = record.key == wanted.key
        && (record.seq == wanted.seq || planted!("value_record_seq_unchecked"))
        && record.keyspace == wanted.keyspace;
    if !is_right {
        let message = format!("the record is of another entry (seq {})", record.seq);
        return Err(damaged(file, offset, Error::corruption(message)));
    }
    let stored = record.stored_range();
    match record.value().map_err(|e| damaged(file, offset, e))? {
        Cow::Borrowed(_) => Ok(Value::shared(owner, start + stored.start..start + stored.end)),
        Cow::Owned(value) => Ok(Value::from(value)),
    }
}

/// Reads of this many bytes and more look at the file's length first: what the manifest says of it
/// justifies no large buffer (VR-4).
const LARGE_BYTES: u64 = 1 << 20;

/// Refuses a large read beyond the end of the file.
fn check_length(file: &ValueFile, disk_file: &dyn DiskFile, offset: u64, end: u64) -> Result<()> {
    if end - offset < LARGE_BYTES {
        return Ok(());
    }
    let length = disk_file.len().map_err(|e| failed(file, offset, e))?;
    if length < end {
        return Err(damaged(file, offset, Error::corruption("the value file ends early")));
    }
    Ok(())
}

fn damaged(file: &ValueFile, offset: u64, error: Error) -> Error {
    mark!("value_record_damaged");
    error.in_file(file.path()).at_offset(offset)
}

/// A failed read; a file that ends early is damaged, everything else is the system's trouble.
fn failed(file: &ValueFile, offset: u64, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return damaged(file, offset, Error::corruption("the value file ends early"));
    }
    Error::io("reading a value", file.path(), error).at_offset(offset)
}

#[cfg(test)]
mod tests;
