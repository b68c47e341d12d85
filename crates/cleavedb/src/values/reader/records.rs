//! Records as they are stored, for whoever writes them elsewhere: sorted by place, neighbours
//! joined, all device reads under way together. Nothing of it touches the cache.

use std::ops::Range;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::value::SharedBytes;
use crate::io::Purpose;
use crate::log::separated::SeparatedRecord;
use crate::values::reader::batch::{Cost, Piece, Spot, conclude, join, prepare};
use crate::values::reader::{ValueReader, Wanted, damaged};
use crate::values::table::reader::FoundRecord;

/// A record that was read and proved itself.
pub(crate) struct StoredRecord {
    found: Found,
    /// What it proved itself with: for whoever moves it.
    pub(crate) body: u32,
    /// The container that it stands in, whatever file it belongs to.
    pub(crate) container: FileId,
    /// Where in it the record begins.
    pub(crate) offset: u64,
}

enum Found {
    Segment(SharedBytes, Range<usize>),
    Table(FoundRecord),
}

impl StoredRecord {
    /// The record.
    pub(crate) fn record(&self) -> Result<SeparatedRecord<'_>> {
        match &self.found {
            Found::Segment(owner, range) => {
                SeparatedRecord::decode(owner.get(range.clone()).unwrap_or_default())
            }
            Found::Table(found) => found.record().map(|record| record.record),
        }
    }

    /// Bytes that it takes where it stands.
    pub(crate) fn bytes(&self) -> u32 {
        match &self.found {
            Found::Segment(_, range) => range.len() as u32,
            Found::Table(found) => found.place.bytes,
        }
    }
}

/// Where many records are, before any of them is read.
pub(crate) struct RecordsPlan {
    /// (number of what was asked for, its spot), in the order of their places.
    spots: Vec<(usize, Spot)>,
    pieces: Vec<Piece>,
}

impl RecordsPlan {
    /// What these records cost more than if they stood side by side ([`Cost::needless`]).
    pub(crate) fn needless_reads(&self, order_bytes: u64) -> u64 {
        Cost::of(&self.pieces, self.spots.iter().map(|(_, spot)| spot)).needless(order_bytes)
    }

    /// Bytes of these reads.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.offset).sum()
    }
}

impl ValueReader<'_> {
    /// Where these records are, those at most `gap_bytes_max` apart in one piece; may read indexes
    /// of value tables. Large values, and what is not
    /// there, are left out: what no live view sees may be gone (rule R19).
    pub(crate) fn plan_records(
        &self,
        wanted: &[Wanted<'_>],
        gap_bytes_max: u64,
        purpose: Purpose,
    ) -> RecordsPlan {
        let way_of = |(number, one): (usize, &Wanted<'_>)| {
            if one.handle.is_large() {
                return None;
            }
            let home = self.home_of(&one.handle).ok()?;
            Some((number, home.way(one, purpose).ok()?))
        };
        let mut ways: Vec<_> = wanted.iter().enumerate().filter_map(way_of).collect();
        ways.sort_unstable_by_key(|(_, way)| way.order());
        let pieces = join(ways.iter().map(|(_, way)| way), gap_bytes_max);
        let spots = ways.into_iter().map(|(number, way)| (number, way.spot)).collect();
        RecordsPlan { spots, pieces }
    }

    /// The records of a plan, each under its number, or why it could not be had.
    pub(crate) fn read_records(
        &self,
        plan: &RecordsPlan,
        wanted: &[Wanted<'_>],
        purpose: Purpose,
    ) -> Vec<(usize, Result<StoredRecord>)> {
        let io = &self.context.io;
        let (opened, mut reads) = prepare(&plan.pieces, &io.meter, purpose);
        io.disk.read_batch(&mut reads);
        io.meter.batch_submitted();
        let brought = conclude(&plan.pieces, opened, reads);
        let mut records = Vec::with_capacity(plan.spots.len());
        for (piece, bytes) in plan.pieces.iter().zip(brought) {
            for (number, spot) in plan.spots.get(piece.from..piece.to).unwrap_or_default() {
                let Some(one) = wanted.get(*number) else { continue };
                let owner = bytes.as_ref().map_err(Error::clone);
                records.push((*number, owner.and_then(|owner| piece.record(owner, one, spot))));
            }
        }
        records
    }
}

impl Piece {
    /// A record out of what the piece brought.
    fn record(
        &self,
        owner: &SharedBytes,
        wanted: &Wanted<'_>,
        spot: &Spot,
    ) -> Result<StoredRecord> {
        let container = self.file.id();
        if let Some((table, access)) = self.access(spot) {
            let found = access.record(table, wanted, (owner, self.offset), &spot.range)?;
            let offset = found.place.offset;
            let body = found.record()?.record.body();
            return Ok(StoredRecord { found: Found::Table(found), body, container, offset });
        }
        let offset = wanted.handle.offset;
        let start = (offset - self.offset) as usize;
        let range = start..start + wanted.handle.bytes as usize;
        let bytes = owner.get(range.clone()).unwrap_or_default();
        let record = SeparatedRecord::decode(bytes).map_err(|e| damaged(&self.file, offset, e))?;
        let Some(body) = record.proven_body(self.file.seed(), offset) else {
            let error = Error::corruption("a value's record does not match its checksum");
            return Err(damaged(&self.file, offset, error));
        };
        let is_right = (record.key, record.seq) == (wanted.key, wanted.seq)
            && record.keyspace == wanted.keyspace;
        if !is_right {
            let message = format!("the record is of another entry (seq {})", record.seq);
            return Err(damaged(&self.file, offset, Error::corruption(message)));
        }
        let found = Found::Segment(owner.clone(), range);
        Ok(StoredRecord { found, body, container, offset })
    }
}
