//! What a value table holds in sum, by file, and from which key to which. Encoding and decoding; no
//! I/O, any thread.
//!
//! Varints: records, bytes of them, of their keys, of their values, smallest seq, largest seq less
//! that; where there are records, the first key and the last one (keyspace, length, bytes); number
//! of files, and of each its number less that of the one before, records and bytes.

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{FileId, KeyspaceId, SEQ_MAX};
use crate::base::error::{Error, Result};
use crate::base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::names::FILE_ID_MAX;
use crate::log::footer::Totals;
use crate::values::table::format::{PLACE_BYTES, RECORD_BYTES_MIN};

/// Fewest bytes of a file's line.
const SOURCE_BYTES_MIN: usize = 3;

/// A key with its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EdgeKey {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: Box<[u8]>,
}

/// A file that was merged into the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its number.
    pub(crate) file: FileId,
    /// Records of it that survived; a file of which none did is named all the same.
    pub(crate) records: u64,
    /// Their bytes, without padding.
    pub(crate) bytes: u64,
}

/// What a container holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// In sum.
    pub(crate) totals: Totals,
    /// First and last key; none where there are no records.
    pub(crate) edges: Option<(EdgeKey, EdgeKey)>,
    /// By file, in ascending order.
    pub(crate) sources: Vec<Source>,
}

impl Properties {
    /// The section's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.totals.encode(&mut out);
        for EdgeKey { keyspace, key } in self.edges.iter().flat_map(|(first, last)| [first, last]) {
            put_varint(&mut out, u64::from(keyspace.0));
            put_bytes(&mut out, key);
        }
        put_varint(&mut out, self.sources.len() as u64);
        let mut before = 0;
        for source in &self.sources {
            for number in [source.file.0 - before, source.records, source.bytes] {
                put_varint(&mut out, number);
            }
            before = source.file.0;
        }
        out
    }

    /// Decodes the section of a container with so many bytes of records and padding.
    pub(crate) fn decode(bytes: &[u8], region_bytes: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let totals = decode_totals(&mut reader)?;
        let edges = match totals.records {
            0 => None,
            _ => Some((decode_edge(&mut reader)?, decode_edge(&mut reader)?)),
        };
        let count = reader.varint()?;
        if count > (reader.rest().len() / SOURCE_BYTES_MIN) as u64 {
            return Err(Error::corruption("a value table claims more files than it has room for"));
        }
        let mut sources = Vec::with_capacity(count as usize);
        let mut before = 0_u64;
        for _ in 0..count {
            let file = before.saturating_add(reader.varint()?);
            let source =
                Source { file: FileId(file), records: reader.varint()?, bytes: reader.varint()? };
            if file <= before || file > FILE_ID_MAX {
                return Err(Error::corruption("a value table's files do not ascend"));
            }
            before = file;
            sources.push(source);
        }
        let properties = Self { totals, edges, sources };
        if !reader.is_empty() || !properties.is_sound(region_bytes) {
            return Err(Error::corruption("a value table's properties state what cannot be"));
        }
        Ok(properties)
    }

    fn is_sound(&self, region_bytes: u64) -> bool {
        let sum = |of: fn(&Source) -> u64| {
            self.sources.iter().try_fold(0_u64, |sum, source| sum.checked_add(of(source)))
        };
        let Totals { records, record_bytes, .. } = self.totals;
        let padding_max = records.saturating_mul(PLACE_BYTES - 1);
        let ascends = self
            .edges
            .as_ref()
            .is_none_or(|(first, last)| (first.keyspace, &first.key) <= (last.keyspace, &last.key));
        ascends
            && sum(|source| source.records) == Some(records)
            && sum(|source| source.bytes) == Some(record_bytes)
            && (record_bytes..=record_bytes.saturating_add(padding_max)).contains(&region_bytes)
    }

    /// The line of a file, if it was merged into this container.
    #[cfg(test)]
    pub(crate) fn source(&self, file: FileId) -> Option<&Source> {
        let at = self.sources.binary_search_by_key(&file, |source| source.file).ok()?;
        self.sources.get(at)
    }
}

/// As those of a segment, but for seqs: records of two files may have the same.
pub(crate) fn decode_totals(reader: &mut Reader<'_>) -> Result<Totals> {
    let [records, record_bytes, key_bytes, value_bytes, smallest_seq, seqs] = [
        reader.varint()?,
        reader.varint()?,
        reader.varint()?,
        reader.varint()?,
        reader.varint()?,
        reader.varint()?,
    ];
    let largest_seq = smallest_seq.saturating_add(seqs);
    let totals =
        Totals { records, record_bytes, key_bytes, value_bytes, smallest_seq, largest_seq };
    let least = records.checked_mul(RECORD_BYTES_MIN as u64);
    let least = least.and_then(|bytes| bytes.checked_add(key_bytes));
    let is_sound = if records == 0 {
        totals == Totals::default()
    } else {
        smallest_seq > 0
            && largest_seq <= SEQ_MAX
            && value_bytes <= records.saturating_mul(VALUE_BYTES_MAX as u64)
            && least.is_some_and(|bytes| bytes <= record_bytes)
    };
    if !is_sound {
        return Err(Error::corruption("sums of records that no value table holds"));
    }
    Ok(totals)
}

fn decode_edge(reader: &mut Reader<'_>) -> Result<EdgeKey> {
    let keyspace = KeyspaceId(reader.varint_u32()?);
    let key = reader.bytes()?;
    if keyspace.0 == 0 || key.len() > KEY_BYTES_MAX {
        return Err(Error::corruption("a value table begins or ends with what is no key"));
    }
    Ok(EdgeKey { keyspace, key: key.into() })
}

#[cfg(test)]
mod tests;
