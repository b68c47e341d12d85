//! Large values: their files before a flush has named them in the manifest.
//!
//! A caller writes the file on its own thread, outside leadership, and then commits a record with
//! the file's handle. The record is what names the file until the flush of its memtable, whose edit
//! names it from then on: so a put costs no edit, and no sync that a small put would not cost. What
//! a crash leaves that neither an edit nor a replayed record names is removed at open.
//!
//! Invariants: LV-1 a file is in the table of every view from which its entry can be reached: it
//! comes into the table before its record is logged. LV-2 a file whose record is durable is durable
//! itself: whoever syncs or seals a lane syncs before that every file with a logged record; a file
//! gets its seq before its group is appended, so none is overlooked. LV-3 an edit names a file only
//! in the flush that makes its put part of the index, after a sync (rules R6, R10). LV-4 what was
//! written but not logged goes away with its put, unless the database stopped in between: then only
//! the next open can tell.

use std::collections::BTreeMap;
use std::io::Read;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::LARGE_VALUE_BYTES_MAX;
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::state::Publication;
use crate::io::DiskFile;
use crate::io::disk::OpenMode;
use crate::log::format::Sealed;
use crate::values::edit::{LargeInfo, ValuesEdit};
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::large::format::{CHUNK_BYTES_MAX, LARGE_BYTES_MIN, LargeHeader};
use crate::values::large::writer::{LargeWriter, Written};

/// Files that no edit names yet.
#[derive(Default)]
pub(crate) struct LargeFiles {
    pending: Mutex<BTreeMap<FileId, Pending>>,
}

struct Pending {
    sealed: Sealed,
    value_bytes: u64,
    /// The open file, until it is durable.
    unsynced: Option<Arc<dyn DiskFile>>,
    /// Of its put, once that is about to be logged.
    seq: Option<Seq>,
}

impl LargeFiles {
    /// A file whose put was replayed, and which is durable.
    pub(crate) fn replayed(&self, info: LargeInfo) {
        let LargeInfo { sealed, value_bytes, seq } = info;
        let pending = Pending { sealed, value_bytes, unsynced: None, seq: Some(seq) };
        self.pending.lock().insert(sealed.id, pending);
    }

    /// What an edit says that names the files of puts up to `flushed`.
    pub(crate) fn named_by_flush(&self, flushed: Seq) -> Vec<LargeInfo> {
        let pending = self.pending.lock();
        let of_flush = |pending: &Pending| pending.seq.filter(|&seq| seq <= flushed);
        pending
            .values()
            .filter_map(|pending| {
                let &Pending { sealed, value_bytes, .. } = pending;
                of_flush(pending).map(|seq| LargeInfo { sealed, value_bytes, seq })
            })
            .collect()
    }

    /// Forgets files that a durable edit names.
    pub(crate) fn forget(&self, named: &[LargeInfo]) {
        let mut pending = self.pending.lock();
        for info in named {
            pending.remove(&info.sealed.id);
        }
    }

    /// Gives a file the seq of its put, or takes it back where nothing was logged. Under
    /// leadership.
    fn set_seq(&self, id: FileId, seq: Option<Seq>) {
        if let Some(pending) = self.pending.lock().get_mut(&id) {
            pending.seq = seq;
        }
    }

    /// The open files of logged puts that are not durable.
    fn unsynced(&self) -> Vec<(FileId, Arc<dyn DiskFile>)> {
        let pending = self.pending.lock();
        let logged = pending.iter().filter(|(_, pending)| pending.seq.is_some());
        logged.filter_map(|(&id, pending)| Some((id, pending.unsynced.clone()?))).collect()
    }

    fn is_durable(&self, id: FileId) {
        if let Some(pending) = self.pending.lock().get_mut(&id) {
            pending.unsynced = None;
        }
    }
}

/// The section of an edit that names these files; `None` for none.
pub(crate) fn naming_section(named: &[LargeInfo]) -> Option<Section> {
    let edits: Vec<_> = named.iter().copied().map(ValuesEdit::AddedLarge).collect();
    (!edits.is_empty()).then(|| ValuesEdit::encode(&edits))
}

/// A value that is to be read to its end.
pub(crate) struct Incoming<'a> {
    pub(crate) source: &'a mut dyn Read,
    /// Its bytes, where the caller has said so: any other number is refused.
    pub(crate) length: Option<u64>,
}

impl Incoming<'_> {
    /// Compares what was announced with what has been read so far, or was all there is.
    fn check_length(&self, read: u64, is_all: bool) -> Result<()> {
        match self.length {
            Some(length) if read > length => Err(Error::invalid(format!(
                "the source yields more than the {length} bytes announced"
            ))),
            Some(length) if is_all && read < length => Err(Error::invalid(format!(
                "the source yields {read} bytes, not the {length} announced"
            ))),
            _ => Ok(()),
        }
    }
}

/// A large value in its file, and in the table, whose put is yet to be logged (LV-4).
pub(crate) struct LargePut {
    engine: Arc<Engine>,
    file: Arc<ValueFile>,
    handle: Handle,
    /// Number of its operation in the batch.
    operation: u32,
    is_logged: AtomicBool,
}

impl LargePut {
    /// What the record carries.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Which operation of its batch it is.
    pub(crate) fn operation(&self) -> u32 {
        self.operation
    }

    /// The same as this operation of its batch.
    pub(crate) fn renumbered(mut self, operation: u32) -> Self {
        self.operation = operation;
        self
    }

    /// The batch is about to be logged from this seq on. Under leadership.
    pub(crate) fn begin(&self, base_seq: Seq) {
        let seq = base_seq + u64::from(self.operation);
        self.engine.large.set_seq(self.file.id(), Some(seq));
    }

    /// The batch was logged, or nothing of it was; bytes that recovery may have to read. Under
    /// leadership.
    pub(crate) fn end(&self, is_logged: bool) -> u64 {
        if is_logged {
            self.is_logged.store(true, Ordering::Release);
        } else {
            self.engine.large.set_seq(self.file.id(), None);
        }
        u64::from(self.handle.bytes)
    }

    /// Makes the file durable, on the caller's own thread.
    pub(crate) fn sync(&self) -> Result<()> {
        let id = self.file.id();
        let unsynced = {
            let pending = self.engine.large.pending.lock();
            pending.get(&id).and_then(|pending| pending.unsynced.clone())
        };
        match unsynced {
            Some(file) => self.engine.sync_large_files(&[(id, file)]),
            None => Ok(()),
        }
    }
}

impl Drop for LargePut {
    fn drop(&mut self) {
        if self.is_logged.load(Ordering::Acquire) || self.engine.health.is_stopped() {
            return;
        }
        mark!("large_value_given_up");
        let id = self.file.id();
        self.engine.large.pending.lock().remove(&id);
        // Edits make the next table of the one in force.
        let _edits_wait = self.engine.manifest.lock();
        let values = self.engine.view.load().values.without_large(id);
        self.engine.publish_edit(Publication::default(), Some(values));
    }
}

/// What a stream turned out to hold.
pub(crate) enum Taken {
    /// So little that it goes the way of other values.
    Small(Vec<u8>),
    /// What stands in a file of its own now.
    Large(LargePut),
}

impl Engine {
    /// Whether a value of so many bytes goes to a file of its own.
    pub(crate) fn is_large(&self, value_bytes: usize) -> bool {
        let value_bytes = value_bytes as u64;
        value_bytes > self.widths.large_value_bytes && value_bytes > LARGE_BYTES_MIN
    }

    /// Reads a value to its end: a short one into memory, a longer one into a file of its own.
    pub(crate) fn take_large(
        self: &Arc<Self>,
        keyspace: &KeyspaceState,
        key: &[u8],
        mut incoming: Incoming<'_>,
    ) -> Result<Taken> {
        let chunk_bytes = self.widths.large_chunk_bytes.clamp(1, CHUNK_BYTES_MAX);
        let small_max = self.widths.large_value_bytes.min(chunk_bytes as u64).max(LARGE_BYTES_MIN);
        let mut first = Vec::new();
        let is_all = fill(incoming.source, &mut first, small_max as usize + 1)?;
        incoming.check_length(first.len() as u64, is_all)?;
        if is_all {
            return Ok(Taken::Small(first));
        }
        self.health.check_writable()?;
        self.check_space(false)?;
        let id = self.file_ids.next();
        let path = self.dir.join(file_name(FileKind::Large, id));
        let header = LargeHeader {
            keyspace: keyspace.id,
            key: key.to_vec(),
            chunk_bytes: chunk_bytes as u32,
        };
        let outcome = self.write_large(id, header, first, &mut incoming);
        let written = match outcome {
            Ok(written) => written,
            Err(error) => {
                // Nothing names it; where this fails, the next open does it.
                let _ = self.io.disk.remove_file(&path);
                self.note_full_disk(&error);
                return Err(error);
            }
        };
        self.add_large(id, written).map(Taken::Large)
    }

    fn write_large(
        &self,
        id: FileId,
        header: LargeHeader,
        first: Vec<u8>,
        incoming: &mut Incoming<'_>,
    ) -> Result<Written> {
        let path = self.dir.join(file_name(FileKind::Large, id));
        let failed = |cause| Error::io("writing a large value", &path, cause);
        let chunk_bytes = header.chunk_bytes as usize;
        let file = self.io.disk.create(&path, OpenMode::default()).map_err(failed)?;
        let mut writer =
            LargeWriter::new(&self.io, file, &self.uuid, id, header).map_err(failed)?;
        let mut chunk = first;
        loop {
            let is_all = fill(incoming.source, &mut chunk, chunk_bytes)?;
            // What was read to see that the value is not a small one may be more than a chunk.
            let bytes = chunk.get(..chunk_bytes).unwrap_or(&chunk);
            let length = bytes.len();
            if !bytes.is_empty() {
                if writer.value_bytes() + bytes.len() as u64 > LARGE_VALUE_BYTES_MAX {
                    let message = format!("a value of more than {LARGE_VALUE_BYTES_MAX} bytes");
                    return Err(Error::invalid(message));
                }
                writer.chunk(bytes).map_err(failed)?;
            }
            chunk.drain(..length);
            let is_end = is_all && chunk.is_empty();
            incoming.check_length(writer.value_bytes(), is_end)?;
            if is_end {
                return writer.finish().map_err(failed);
            }
        }
    }

    /// Puts a complete file into the table (LV-1).
    fn add_large(self: &Arc<Self>, id: FileId, written: Written) -> Result<LargePut> {
        let Written { file: disk_file, value_bytes, file_bytes, checksum } = written;
        let file = ValueFile::new(&self.value_context, FileKind::Large, id);
        file.raise_readable(file_bytes);
        let sealed = Sealed { id, bytes: file_bytes, checksum };
        let unsynced = Some(disk_file);
        let pending = Pending { sealed, value_bytes, unsynced, seq: None };
        self.large.pending.lock().insert(id, pending);
        self.publish_large(&file)?;
        mark!("large_value_written");
        let handle = Handle::of_large(id, value_bytes as u32);
        let is_logged = AtomicBool::new(false);
        Ok(LargePut { engine: Arc::clone(self), file, handle, operation: 0, is_logged })
    }

    /// Publishes a table with one more file, which no edit names.
    pub(crate) fn publish_large(&self, file: &Arc<ValueFile>) -> Result<()> {
        // Edits make the next table of the one in force.
        let _edits_wait = self.manifest.lock();
        let values = self.view.load().values.with_large(file)?;
        self.publish_edit(Publication::default(), Some(values));
        Ok(())
    }

    /// Makes the files of all logged puts durable, names included (LV-2). Where it fails, the
    /// database has stopped.
    pub(crate) fn sync_large(&self) -> Result<()> {
        let unsynced = self.large.unsynced();
        if unsynced.is_empty() || planted!("large_values_unsynced") {
            return Ok(());
        }
        mark!("large_values_synced_with_log");
        self.sync_large_files(&unsynced)
    }

    fn sync_large_files(&self, files: &[(FileId, Arc<dyn DiskFile>)]) -> Result<()> {
        let sync = || {
            for (_, file) in files {
                file.sync_data()?;
            }
            self.io.disk.sync_dir(&self.dir)
        };
        sync().map_err(|cause| self.stopped_by_sync(cause))?;
        for &(id, _) in files {
            self.large.is_durable(id);
        }
        Ok(())
    }
}

/// Reads until `buffer` holds `wanted` bytes; whether the source ended before or there.
fn fill(source: &mut dyn Read, buffer: &mut Vec<u8>, wanted: usize) -> Result<bool> {
    let missing = wanted.saturating_sub(buffer.len());
    if missing == 0 {
        return Ok(false);
    }
    let read = source.take(missing as u64).read_to_end(buffer);
    let read = read.map_err(|cause| {
        let message = format!("reading the value to be stored failed: {cause}");
        Error::new(ErrorKind::Io, message)
    })?;
    Ok(read < missing)
}
