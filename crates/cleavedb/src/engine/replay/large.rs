//! Large values that replayed records name: a record counts only if its file is whole.
//!
//! Up to what is known to be durable when the record is met, the file is durable, too, and was
//! proved by whoever reads it; header and trailer are looked at. Beyond that, all of it is read: a
//! file that is not there, or not whole, makes its record the end of the log, like a torn frame.
//! What is found whole is written again where it stands and synced, as the newest segments are: an
//! earlier sync may have failed and lost what reads still show. No edit names such a file yet, and
//! no checkpoint, which would have made it durable.

use crate::base::entry::{Kind, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name, parse_file_name};
use crate::engine::Engine;
use crate::engine::lane::LaneId;
use crate::engine::replay::lane::{LaneReplay, Pending};
use crate::io::Purpose;
use crate::log::batch::BatchReader;
use crate::log::format::Sealed;
use crate::values::edit::LargeInfo;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::large::format::HEADER_BYTES;
use crate::values::large::reader::LargeFile;

impl Engine {
    /// Takes in the large values of the frame that is next; or says why one of them is not whole,
    /// so that the log ends in front of the frame.
    pub(super) fn adopt_large(&self, lane: &LaneReplay, durable: Seq) -> Result<Option<Error>> {
        let Some(pending) = lane.pending() else { return Ok(None) };
        let mut found = Vec::new();
        for (seq, handle) in
            named_files(lane.id(), pending).map_err(|error| lane.at(error, pending.offset))?
        {
            let file = ValueFile::new(&self.value_context, FileKind::Large, handle.file);
            // Whatever becomes of it, its end is not decided here.
            file.keep();
            let bytes = u64::from(handle.bytes);
            let large = match LargeFile::open(&file, bytes, Purpose::Recovery) {
                Ok(large) => large,
                Err(error) if seq > durable && error.kind() == ErrorKind::Corruption => {
                    return Ok(Some(torn(error)));
                }
                Err(error) => return Err(error),
            };
            if seq > durable {
                match self.check_and_rewrite(&file, &large) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        return Ok(Some(torn(error)));
                    }
                    Err(error) => return Err(error),
                }
            }
            let checksum = large.trailer().checksum;
            let sealed = Sealed { id: handle.file, bytes: large.layout().file_bytes(), checksum };
            found.push((file, LargeInfo { sealed, value_bytes: bytes, seq }));
        }
        for (file, info) in found {
            file.raise_readable(info.sealed.bytes);
            self.publish_large(&file).map_err(|error| lane.at(error, pending.offset))?;
            self.large.replayed(info);
            mark!("large_value_replayed");
        }
        Ok(None)
    }

    /// Reads all of a file, and makes durable what was read.
    fn check_and_rewrite(&self, file: &ValueFile, large: &LargeFile) -> Result<()> {
        if self.settings.read_only {
            return large.check(&mut |_, _, _| Ok(()));
        }
        // Proved whole before anything of it is touched.
        large.check(&mut |_, _, _| Ok(()))?;
        let failed = |cause| Error::io("writing a large value again", file.path(), cause);
        let writable = self.io.disk.open_write(file.path()).map_err(failed)?;
        let header = large.header().encode(&self.uuid, file.id());
        debug_assert!(header.len() >= HEADER_BYTES);
        writable.write_all_at(&header, 0).map_err(failed)?;
        large.check(&mut |offset, chunk, crc| {
            writable.write_all_at(chunk, offset).map_err(failed)?;
            let behind = offset + chunk.len() as u64;
            self.io.meter.wrote(Purpose::Recovery, chunk.len() as u64);
            writable.write_all_at(&crc.to_le_bytes(), behind).map_err(failed)
        })?;
        let offset = large.layout().trailer_offset();
        let trailer = large.trailer().encode(file.seed(), offset);
        writable.write_all_at(&trailer, offset).map_err(failed)?;
        writable.sync_data().map_err(failed)?;
        self.io
            .disk
            .sync_dir(&self.dir)
            .map_err(|cause| Error::io("sync of the directory", &self.dir, cause))
    }

    /// Removes files of large values that neither an edit nor a replayed record names, before
    /// anything is written.
    pub(crate) fn remove_large_orphans(&self) -> Result<()> {
        let view = self.view.load_full();
        let entries = self.io.disk.read_dir(&self.dir);
        let entries = entries.map_err(|cause| Error::io("listing", &self.dir, cause))?;
        for entry in entries {
            let Some((FileKind::Large, id)) = parse_file_name(&entry.name) else { continue };
            if view.values.get_large(id).is_none() {
                let path = self.dir.join(file_name(FileKind::Large, id));
                mark!("large_orphan_removed");
                tracing::info!(file = %path.display(), "removed a large value that nothing names");
                self.io
                    .disk
                    .remove_file(&path)
                    .map_err(|cause| Error::io("removing an orphan", &path, cause))?;
            }
        }
        Ok(())
    }
}

/// Notes the end of the log.
fn torn(error: Error) -> Error {
    mark!("log_ends_before_torn_large_value");
    tracing::warn!(%error, "the log ends before a large value that is not whole");
    error
}

/// The large values that a frame puts, with their seqs.
fn named_files(lane: LaneId, pending: &Pending) -> Result<Vec<(Seq, Handle)>> {
    let Pending { header, payload, .. } = pending;
    let records = match lane {
        LaneId::Journal => BatchReader::new(payload, header.count),
        LaneId::Values => BatchReader::of_values(payload, header.count, None),
    };
    let mut named = Vec::new();
    for (seq, record) in (header.base_seq..).zip(records) {
        let record = record?;
        if record.kind != Kind::PutSeparated || record.separated.is_some() {
            continue;
        }
        let handle = Handle::decode(record.value)?;
        if !handle.is_large() {
            return Err(Error::corruption("the put of a large value names no file of one"));
        }
        named.push((seq, handle));
    }
    Ok(named)
}
