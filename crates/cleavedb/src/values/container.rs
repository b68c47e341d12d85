//! A container: a value table that holds the records of one or more value files, whose numbers and
//! handles outlive what they stand in.
//!
//! Shared by snapshots of the file table and by readers; any thread. Invariants: CO-1 the file is
//! opened, and proved to be the one that was sealed, when it is first read from. CO-2 it goes away
//! as any value file does ([`ValueFile`]).

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::value::{SharedBytes, Value};
use crate::io::Purpose;
use crate::log::format::Sealed;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use crate::values::table::reader::{FoundRecord, TableFile};
use crate::values::table::writer::TablePlace;

/// A container in force.
pub(crate) struct Container {
    file: Arc<ValueFile>,
    sealed: Sealed,
    /// Once somebody has read from it. A value that a scan reads needs no count of its own on it.
    table: OnceLock<Arc<TableFile>>,
}

/// How the record of a handle is found in the container of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The epoch of the file there.
    pub(crate) epoch: u32,
    /// The handle of that epoch; `None`: by key and seq (rule R13).
    pub(crate) current: Option<Handle>,
}

impl Access {
    /// The value, out of what was read of the table from `base` on; `range` is that of
    /// [`Container::range_of`].
    pub(crate) fn value(
        &self,
        table: &TableFile,
        wanted: &Wanted<'_>,
        (owner, base): (&SharedBytes, u64),
        range: &Range<u64>,
    ) -> Result<Value> {
        if let Some(handle) = self.current {
            mark!("value_read_at_epoch");
            return table.value_at(&Wanted { handle, ..*wanted }, owner, base);
        }
        let found = table.find_in(wanted, owner, base, range.clone())?;
        let found = found.ok_or_else(|| has_not(table.path()))?;
        found_value(table, wanted, &found, self.epoch)
    }

    /// The record that [`Access::value`] takes its value from.
    pub(crate) fn record(
        &self,
        table: &TableFile,
        wanted: &Wanted<'_>,
        (owner, base): (&SharedBytes, u64),
        range: &Range<u64>,
    ) -> Result<FoundRecord> {
        if let Some(handle) = self.current {
            return table.record_at(&Wanted { handle, ..*wanted }, owner, base);
        }
        let found = table.find_in(wanted, owner, base, range.clone())?;
        found.ok_or_else(|| has_not(table.path()))
    }
}

impl Container {
    /// The container that was sealed so, in this file of its number; opens nothing.
    pub(crate) fn new(file: Arc<ValueFile>, sealed: Sealed) -> Arc<Self> {
        debug_assert_eq!(file.id(), sealed.id);
        file.raise_readable(sealed.bytes);
        Arc::new(Self { file, sealed, table: OnceLock::new() })
    }

    /// Its own number, which is that of its file.
    pub(crate) fn id(&self) -> FileId {
        self.sealed.id
    }

    /// Number, length and checksum.
    pub(crate) fn sealed(&self) -> Sealed {
        self.sealed
    }

    /// The file, pinned.
    pub(crate) fn file(&self) -> &Arc<ValueFile> {
        &self.file
    }

    /// The open table (CO-1).
    pub(crate) fn table(&self, purpose: Purpose) -> Result<&Arc<TableFile>> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        // Two threads may both open it; they find the same.
        let indexes = self.file.table_indexes();
        let table = TableFile::open(&self.file, Some(&self.sealed), indexes, purpose)?;
        Ok(self.table.get_or_init(|| Arc::new(table)))
    }

    /// The value that a handle names whose file is in here: at its place if the handle is of the
    /// present epoch, by key and seq if it is older (rule R13).
    pub(crate) fn read(
        &self,
        wanted: &Wanted<'_>,
        access: Access,
        purpose: Purpose,
    ) -> Result<Value> {
        let table = self.table(purpose)?;
        if let Some(handle) = access.current {
            mark!("value_read_at_epoch");
            return table.get(&Wanted { handle, ..*wanted }, purpose);
        }
        let found = table.find(wanted, purpose)?.ok_or_else(|| self.has_not())?;
        found_value(table, wanted, &found, access.epoch)
    }

    /// Where in its table [`Container::read`] would read: the record, or those among which it is.
    pub(crate) fn range_of(
        &self,
        wanted: &Wanted<'_>,
        access: &Access,
        purpose: Purpose,
    ) -> Result<(&Arc<TableFile>, Range<u64>)> {
        let table = self.table(purpose)?;
        let range = match &access.current {
            Some(handle) => table.place_of(handle)?,
            None => table.group_of(wanted, purpose)?.ok_or_else(|| self.has_not())?,
        };
        Ok((table, range))
    }

    fn has_not(&self) -> Error {
        has_not(self.file.path())
    }

    /// Whether the record of a handle is still there.
    pub(crate) fn has(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<bool> {
        Ok(self.table(purpose)?.find(wanted, purpose)?.is_some())
    }
}

fn has_not(path: &Path) -> Error {
    Error::corruption("an entry names a record that its value table has not").in_file(path)
}

/// The value of a record that a search found, whose handle is known from here on.
fn found_value(
    table: &TableFile,
    wanted: &Wanted<'_>,
    found: &FoundRecord,
    epoch: u32,
) -> Result<Value> {
    mark!("value_searched_for");
    let value = found.value()?;
    let TablePlace { offset, bytes } = found.place;
    let now = Handle { file: wanted.handle.file, epoch, offset, bytes };
    table.repairs().note(&wanted.handle, now);
    Ok(value)
}
