//! Reads all of a value table and compares every statement in it with what is there. No state.

use std::ops::Range;

use crate::base::checksum::Rolling;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::io::Purpose;
use crate::log::footer::Totals;
use crate::values::table::format::padded;
use crate::values::table::key_index::{Bound, Groups};
use crate::values::table::properties::{EdgeKey, Properties, Source};
use crate::values::table::reader::{TableFile, damaged};
use crate::values::table::scan::{CHUNK_BYTES, ScannedRecord, TableScan};

/// Gets every record.
pub(crate) type Seen<'a> = dyn FnMut(&ScannedRecord<'_>) -> Result<()> + 'a;

/// Checks all of an open table: records, padding and order, what trailer and properties say of
/// them, and that the index leads to each.
pub(crate) fn verify(table: &TableFile, purpose: Purpose, seen: &mut Seen<'_>) -> Result<()> {
    let bad = |at: u64, what: &str| damaged(&table.file, at, Error::corruption(what));
    let index = table.load_index(purpose)?;
    let mut groups = GroupCheck::new(index.groups())?;
    let mut checksums = Rolling::new(table.file.seed());
    let mut counted = Counted::new(table.properties());
    let mut scan = TableScan::new(table, CHUNK_BYTES, purpose)?;
    while let Some(scanned) = scan.next_record()? {
        if !groups.leads_to(&scanned)? {
            return Err(bad(scanned.offset, "the index does not lead to a record"));
        }
        if !counted.add(&scanned) {
            return Err(bad(scanned.offset, "a record of a file that the table does not name"));
        }
        checksums.update(&scanned.record.record.checksum().to_le_bytes());
        seen(&scanned)?;
    }
    if groups.place.is_some() {
        return Err(bad(table.trailer.records_end, "the index goes on behind the records"));
    }
    if checksums.value() != table.trailer.records_checksum {
        return Err(bad(table.trailer.offset(), "a value table's trailer is that of another"));
    }
    if counted.done() != *table.properties() {
        let at = table.trailer.properties_offset();
        return Err(bad(at, "a value table's properties are those of another"));
    }
    Ok(())
}

/// Walks over the index beside the records.
struct GroupCheck<'a> {
    groups: Groups<'a>,
    /// The group that the walk is in, or about to enter; none behind the last one.
    place: Option<Range<u64>>,
    /// Bound of that group, and of the one before.
    bound: OwnedBound,
    before: OwnedBound,
}

/// A bound that is kept while the walk goes on.
#[derive(Default)]
struct OwnedBound {
    keyspace: u32,
    key: Vec<u8>,
    split: Option<(Seq, FileId)>,
}

impl OwnedBound {
    fn borrowed(&self) -> Bound<'_> {
        Bound { keyspace: KeyspaceId(self.keyspace), key: &self.key, split: self.split }
    }
}

impl<'a> GroupCheck<'a> {
    fn new(groups: Groups<'a>) -> Result<Self> {
        let (bound, before) = (OwnedBound::default(), OwnedBound::default());
        let mut check = Self { groups, place: None, bound, before };
        check.advance()?;
        Ok(check)
    }

    fn advance(&mut self) -> Result<()> {
        std::mem::swap(&mut self.before, &mut self.bound);
        self.place = None;
        if let Some((place, Bound { keyspace, key, split })) = self.groups.next_group()? {
            self.bound = OwnedBound { keyspace: keyspace.0, key: key.to_vec(), split };
            self.place = Some(place);
        }
        Ok(())
    }

    /// Whether a search for this record, which is the next one, comes to its group, and that group
    /// holds all of it.
    fn leads_to(&mut self, scanned: &ScannedRecord<'_>) -> Result<bool> {
        let rank = scanned.record.rank();
        let Some(place) = &self.place else { return Ok(false) };
        let end = scanned.offset + padded(scanned.record.bytes() as u64);
        let is_right = (place.start..place.end).contains(&scanned.offset)
            && end <= place.end
            && self.bound.borrowed().covers(&rank)
            && !self.before.borrowed().covers(&rank);
        if end == place.end {
            self.advance()?;
        }
        Ok(is_right)
    }
}

/// Properties as the records make them.
struct Counted {
    properties: Properties,
    first: Option<EdgeKey>,
    last: Option<EdgeKey>,
}

impl Counted {
    /// None yet, of the files that are stated.
    fn new(stated: &Properties) -> Self {
        let files = stated.sources.iter().map(|source| source.file);
        let sources = files.map(|file| Source { file, records: 0, bytes: 0 }).collect();
        let properties = Properties { totals: Totals::default(), edges: None, sources };
        Self { properties, first: None, last: None }
    }

    /// Counts a record; whether its file is one of those.
    fn add(&mut self, scanned: &ScannedRecord<'_>) -> bool {
        let (rank, bytes) = (scanned.record.rank(), scanned.record.bytes() as u64);
        let Properties { totals, sources, .. } = &mut self.properties;
        let smallest = if totals.records == 0 { rank.seq } else { totals.smallest_seq };
        *totals = Totals {
            records: totals.records + 1,
            record_bytes: totals.record_bytes + bytes,
            key_bytes: totals.key_bytes + rank.key.len() as u64,
            value_bytes: totals.value_bytes + u64::from(scanned.record.record.value_bytes),
            smallest_seq: smallest.min(rank.seq),
            largest_seq: totals.largest_seq.max(rank.seq),
        };
        let edge = EdgeKey { keyspace: rank.keyspace, key: rank.key.into() };
        if self.first.is_none() {
            self.first = Some(edge.clone());
        }
        self.last = Some(edge);
        let found = sources.binary_search_by_key(&rank.file, |source| source.file);
        let Some(source) = found.ok().and_then(|at| sources.get_mut(at)) else { return false };
        source.records += 1;
        source.bytes += bytes;
        true
    }

    fn done(self) -> Properties {
        Properties { edges: self.first.zip(self.last), ..self.properties }
    }
}

#[cfg(test)]
mod tests;
