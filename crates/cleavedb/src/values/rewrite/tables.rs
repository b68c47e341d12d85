//! A value table that is rewritten: a walk that stands at a record which survives.

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::rewrite::{Counts, Judge, JudgedRecord};
use crate::values::table::format::Rank;
use crate::values::table::reader::TableFile;
use crate::values::table::scan::{ScannedRecord, TableScan};
use crate::values::table::writer::TablePlace;

/// A table, and how far it was walked over.
pub(super) struct TableWalk {
    table: Arc<TableFile>,
    /// Its number among the sources.
    source: usize,
    chunk_bytes: u64,
    /// None before the first record was asked for.
    scan: Option<TableScan>,
    held: HeldMemory,
}

/// What a walk came to.
pub(super) enum Reached {
    /// A record that survives.
    Survivor,
    /// One that does not, of so many bytes.
    Dead(u64),
    /// The end.
    End,
}

impl TableWalk {
    /// A walk in chunks of so many bytes.
    pub(super) fn new(
        table: Arc<TableFile>,
        source: usize,
        chunk_bytes: u64,
        held: HeldMemory,
    ) -> Self {
        Self { table, source, chunk_bytes, scan: None, held }
    }

    /// Goes to the next record and asks about it.
    pub(super) fn advance(
        &mut self,
        judge: &mut dyn Judge,
        counts: &mut Counts,
    ) -> Result<Reached> {
        let scan = match &mut self.scan {
            Some(scan) => scan,
            None => {
                let scan = TableScan::new(&self.table, self.chunk_bytes, Purpose::Collection)?;
                self.scan.insert(scan)
            }
        };
        let Some(ScannedRecord { record, offset, .. }) = scan.next_record()? else {
            self.scan = None;
            self.held.set(0);
            return Ok(Reached::End);
        };
        let Rank { keyspace, key, seq, file } = record.rank();
        let (source, bytes) = (self.source, record.bytes() as u64);
        let place = TablePlace { offset, bytes: bytes as u32 };
        let is_kept =
            counts.ask(judge, &JudgedRecord { keyspace, key, seq, file, source, place })?;
        // What is being read aside comes on top of what is held.
        self.held.set(scan.memory_bytes() as u64 + self.chunk_bytes);
        Ok(if is_kept { Reached::Survivor } else { Reached::Dead(bytes) })
    }

    /// Number of the table.
    pub(super) fn id(&self) -> FileId {
        self.table.sealed().id
    }

    /// Rank of the record that it stands at.
    pub(super) fn rank(&self) -> Option<Rank<'_>> {
        self.scan.as_ref().and_then(TableScan::last_rank)
    }

    /// The record that it stands at.
    pub(super) fn front(&self) -> Result<Option<ScannedRecord<'_>>> {
        self.scan.as_ref().map(TableScan::last_record).transpose()
    }
}
