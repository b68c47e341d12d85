//! The properties section: numbered facts about the table, for checks and for people.
//!
//! On disk: for each property its number (varint, ascending), then its value, length-prefixed.
//! Unknown numbers are skipped, so that later versions can add properties without a new format.

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::compress::Compression;
use crate::base::entry::Kind;
use crate::base::error::{Error, Result};

/// Number of a property. On disk: never renumber. Zero is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Property {
    /// Data blocks.
    Blocks = 1,
    /// Entries of kind `Put`.
    Puts = 2,
    /// Entries of kind `PutSeparated`.
    SeparatedPuts = 3,
    /// Entries of kind `PutBare`.
    BarePuts = 4,
    /// Entries of kind `Delete`.
    Deletes = 5,
    /// Entries of kind `Merge`.
    Merges = 6,
    /// Entries of other kinds.
    Others = 7,
    /// Range tombstones.
    RangeTombstones = 8,
    /// Smallest seq of entries and range tombstones.
    SmallestSeq = 9,
    /// Largest seq of entries and range tombstones.
    LargestSeq = 10,
    /// Bytes of all keys as given.
    RawKeyBytes = 11,
    /// Bytes of all values as given.
    RawValueBytes = 12,
    /// The level the table was written for.
    Level = 13,
    /// The compression asked for, as its number.
    Compression = 14,
    /// Smallest key, as bytes.
    SmallestKey = 15,
    /// Largest key or end of a range tombstone, as bytes.
    LargestKey = 16,
    /// 1 where the largest key is the end of a range tombstone.
    LargestExclusive = 17,
    /// Name and version of the software that wrote the table.
    CreatedBy = 18,
}

/// Counts of entries by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindCounts {
    /// `Put`, `PutSeparated`, `PutBare`, `Delete`, `Merge`, others.
    pub(crate) counts: [u64; 6],
}

impl KindCounts {
    /// Counts one entry.
    #[inline]
    pub(crate) fn add(&mut self, kind: Kind) {
        let place = match kind {
            Kind::Put => 0,
            Kind::PutSeparated => 1,
            Kind::PutBare => 2,
            Kind::Delete => 3,
            Kind::Merge => 4,
            Kind::RangeDelete | Kind::Relocation => 5,
        };
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
    }

    /// Entries of all kinds; saturates on hostile input.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Point deletes.
    pub(crate) fn deletes(&self) -> u64 {
        let [_, _, _, deletes, _, _] = self.counts;
        deletes
    }

    /// Merge operands.
    pub(crate) fn merges(&self) -> u64 {
        let [_, _, _, _, merges, _] = self.counts;
        merges
    }
}

/// All properties of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Data blocks.
    pub(crate) blocks: u64,
    /// Entries by kind.
    pub(crate) kinds: KindCounts,
    /// Range tombstones.
    pub(crate) range_tombstones: u64,
    /// Smallest seq; 0 in an empty table.
    pub(crate) smallest_seq: u64,
    /// Largest seq.
    pub(crate) largest_seq: u64,
    /// Bytes of all keys.
    pub(crate) raw_key_bytes: u64,
    /// Bytes of all values.
    pub(crate) raw_value_bytes: u64,
    /// The level the table was written for.
    pub(crate) level: u64,
    /// The compression asked for.
    pub(crate) compression: Compression,
    /// Smallest key.
    pub(crate) smallest: Box<[u8]>,
    /// Largest key.
    pub(crate) largest: Box<[u8]>,
    /// Whether `largest` is the end of a range tombstone.
    pub(crate) largest_exclusive: bool,
    /// Who wrote the table.
    pub(crate) created_by: String,
}

/// Name and version of this software, as property; fixed in tests, which compare whole files.
pub(crate) const CREATED_BY: &str =
    if cfg!(test) { "cleavedb test" } else { concat!("cleavedb ", env!("CARGO_PKG_VERSION")) };

impl Properties {
    /// The numeric properties with their numbers, in order.
    pub(crate) fn numbers(&self) -> [(Property, u64); 14] {
        let [puts, separated, bare, deletes, merges, others] = self.kinds.counts;
        [
            (Property::Blocks, self.blocks),
            (Property::Puts, puts),
            (Property::SeparatedPuts, separated),
            (Property::BarePuts, bare),
            (Property::Deletes, deletes),
            (Property::Merges, merges),
            (Property::Others, others),
            (Property::RangeTombstones, self.range_tombstones),
            (Property::SmallestSeq, self.smallest_seq),
            (Property::LargestSeq, self.largest_seq),
            (Property::RawKeyBytes, self.raw_key_bytes),
            (Property::RawValueBytes, self.raw_value_bytes),
            (Property::Level, self.level),
            (Property::Compression, self.compression as u64),
        ]
    }

    /// The section's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut value = Vec::new();
        for (property, number) in self.numbers() {
            value.clear();
            put_varint(&mut value, number);
            put_varint(&mut out, property as u64);
            put_bytes(&mut out, &value);
        }
        let exclusive = [u8::from(self.largest_exclusive)];
        let texts: [(Property, &[u8]); 4] = [
            (Property::SmallestKey, &self.smallest),
            (Property::LargestKey, &self.largest),
            (Property::LargestExclusive, &exclusive),
            (Property::CreatedBy, self.created_by.as_bytes()),
        ];
        for (property, bytes) in texts {
            put_varint(&mut out, property as u64);
            put_bytes(&mut out, bytes);
        }
        out
    }

    fn set_number(&mut self, property: u64, number: u64) -> Result<()> {
        let [puts, separated, bare, deletes, merges, others] = &mut self.kinds.counts;
        let place = match property {
            1 => &mut self.blocks,
            2 => puts,
            3 => separated,
            4 => bare,
            5 => deletes,
            6 => merges,
            7 => others,
            8 => &mut self.range_tombstones,
            9 => &mut self.smallest_seq,
            10 => &mut self.largest_seq,
            11 => &mut self.raw_key_bytes,
            12 => &mut self.raw_value_bytes,
            13 => &mut self.level,
            14 => {
                let byte = u8::try_from(number).unwrap_or(0);
                self.compression = Compression::from_u8(byte)?;
                return Ok(());
            }
            _ => return Ok(()),
        };
        *place = number;
        Ok(())
    }
}

/// Decodes the section.
pub(crate) fn decode_properties(bytes: &[u8]) -> Result<Properties> {
    let mut reader = Reader::new(bytes);
    let mut properties = Properties::default();
    let mut last = 0;
    while !reader.is_empty() {
        let property = reader.varint()?;
        let value = reader.bytes()?;
        if property <= last {
            return Err(Error::corruption("properties out of order"));
        }
        last = property;
        match property {
            1..=14 => {
                let mut value = Reader::new(value);
                properties.set_number(property, value.varint()?)?;
                if !value.is_empty() {
                    return Err(Error::corruption("bytes behind a number among the properties"));
                }
            }
            15 => properties.smallest = value.into(),
            16 => properties.largest = value.into(),
            17 => properties.largest_exclusive = value == [1],
            18 => properties.created_by = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests;
