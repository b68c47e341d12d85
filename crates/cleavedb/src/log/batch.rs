//! The payload of a frame of journal or value lane: the records of one write batch. Encoding
//! appends to the caller's buffer; decoding borrows from the payload and copies nothing. No state,
//! any thread.
//!
//! Record: kind (1 byte), keyspace (varint), key (varint length, bytes), and unless the kind is
//! `Delete` a value (varint length, bytes): the value, the operand, or the end of the range. In
//! the value lane there are separated puts besides: `log::separated`. In either lane there are puts
//! of large values, whose value stands in a file of its own: what the record has in its place is a
//! handle, which this layer does not look into.

#[cfg(test)]
use crate::base::codec::varint_len;
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{KeyspaceId, Kind};
use crate::base::error::{Error, Result};
use crate::base::limits::{KEY_BYTES_MAX, RANGE_END_BYTES_MAX, VALUE_BYTES_MAX};
use crate::log::separated::{Binding, SeparatedRecord};

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// `Put`, `Delete`, `Merge` or `RangeDelete`; in the value lane `PutSeparated` too, which in
    /// either lane also is the kind of a large value's put.
    pub(crate) kind: Kind,
    /// Where the key lives; never zero.
    pub(crate) keyspace: KeyspaceId,
    /// The key, or the inclusive start of the range.
    pub(crate) key: &'a [u8],
    /// The value or operand, the exclusive end of the range, or nothing for `Delete`; of a
    /// separated put what is stored, which may be compressed.
    pub(crate) value: &'a [u8],
    /// Of a separated put, where it is; of a large value's there is only the handle in `value`.
    pub(crate) separated: Option<Separated<'a>>,
}

/// A separated put in the payload of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Separated<'a> {
    /// Where in the payload the record begins.
    pub(crate) start: usize,
    /// The record.
    pub(crate) record: SeparatedRecord<'a>,
}

/// Kind of a record that puts a large value: an entry of kind `PutSeparated` with the handle in the
/// record. Stands in logs only; no other kind has the number. On disk: never renumber.
const LARGE_PUT: u8 = 8;

/// Most bytes of the handle in such a record.
const LARGE_HANDLE_BYTES_MAX: usize = 32;

/// Bytes of the shortest record: kind, keyspace, empty key.
pub(crate) const RECORD_BYTES_MIN: usize = 3;

/// Most bytes of a record besides key and value: kind, keyspace, two lengths.
const RECORD_OVERHEAD_MAX: usize = 1 + 5 + 4 + 5;

/// Appends one record. The caller has checked lengths and kind; for `Delete` the value is not
/// written.
pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    kind: Kind,
    keyspace: KeyspaceId,
    key: &[u8],
    value: &[u8],
) {
    debug_assert!(check(kind, keyspace, key, value).is_ok());
    debug_assert!(kind != Kind::Delete || value.is_empty());
    // At most one growth a record: growing byte by byte costs as much as the encoding itself.
    out.reserve(RECORD_OVERHEAD_MAX + key.len() + value.len());
    out.push(kind as u8);
    put_varint(out, u64::from(keyspace.0));
    put_bytes(out, key);
    if kind != Kind::Delete {
        put_bytes(out, value);
    }
}

/// Appends the put of a large value that stands in a file of its own already. The caller has
/// checked the lengths.
pub(crate) fn encode_large_put(out: &mut Vec<u8>, keyspace: KeyspaceId, key: &[u8], handle: &[u8]) {
    debug_assert!(keyspace.0 != 0 && key.len() <= KEY_BYTES_MAX);
    debug_assert!(!handle.is_empty() && handle.len() <= LARGE_HANDLE_BYTES_MAX);
    out.push(LARGE_PUT);
    put_varint(out, u64::from(keyspace.0));
    put_bytes(out, key);
    put_bytes(out, handle);
}

#[cfg(test)]
/// Bytes that [`encode_record`] appends.
pub(crate) fn record_bytes(kind: Kind, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> usize {
    let prefixed = |bytes: &[u8]| varint_len(bytes.len() as u64) + bytes.len();
    let value = if kind == Kind::Delete { 0 } else { prefixed(value) };
    1 + varint_len(u64::from(keyspace.0)) + prefixed(key) + value
}

/// Iterates over the records of a payload. Yields one error and then nothing where the payload
/// is not exactly `count` valid records.
#[derive(Clone, Debug)]
pub(crate) struct BatchReader<'a> {
    reader: Reader<'a>,
    payload_bytes: usize,
    count: u32,
    left: u32,
    failed: bool,
    lane: Lane,
}

/// Where a payload comes from.
#[derive(Clone, Copy, Debug)]
enum Lane {
    /// Separated puts are damage.
    Journal,
    /// Separated puts must hold where they stand; `None`: they do not stand anywhere yet.
    Values(Option<Binding>),
}

impl<'a> BatchReader<'a> {
    /// A reader over the payload of a journal's frame that says it holds `count` records.
    pub(crate) fn new(payload: &'a [u8], count: u32) -> Self {
        Self::of_lane(payload, count, Lane::Journal)
    }

    /// A reader over the payload of a frame of the value lane. With the place of the payload each
    /// separated put is proved; without, the payload is one that waits to be written.
    pub(crate) fn of_values(payload: &'a [u8], count: u32, place: Option<Binding>) -> Self {
        Self::of_lane(payload, count, Lane::Values(place))
    }

    fn of_lane(payload: &'a [u8], count: u32, lane: Lane) -> Self {
        let reader = Reader::new(payload);
        Self { reader, payload_bytes: payload.len(), count, left: count, failed: false, lane }
    }

    /// Bytes that have not been decoded yet.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.reader.rest().len()
    }

    fn record(&mut self) -> Result<Record<'a>> {
        let bytes = self.reader.rest();
        let byte = self.reader.u8()?;
        if byte == LARGE_PUT {
            return self.large_put();
        }
        let kind = Kind::from_u8(byte)
            .ok_or_else(|| Error::corruption(format!("unknown kind of record {byte}")))?;
        if let (Kind::PutSeparated, Lane::Values(place)) = (kind, self.lane) {
            return self.separated(bytes, place);
        }
        let keyspace = KeyspaceId(self.reader.varint_u32()?);
        let key = self.reader.bytes()?;
        let value = if kind == Kind::Delete { &[][..] } else { self.reader.bytes()? };
        check(kind, keyspace, key, value)?;
        Ok(Record { kind, keyspace, key, value, separated: None })
    }

    /// The put of a large value, its kind taken off already.
    fn large_put(&mut self) -> Result<Record<'a>> {
        let keyspace = KeyspaceId(self.reader.varint_u32()?);
        let key = self.reader.bytes()?;
        let value = self.reader.bytes()?;
        let is_sound = keyspace.0 != 0
            && key.len() <= KEY_BYTES_MAX
            && (1..=LARGE_HANDLE_BYTES_MAX).contains(&value.len());
        if !is_sound {
            return Err(Error::corruption("the put of a large value holds a number out of range"));
        }
        Ok(Record { kind: Kind::PutSeparated, keyspace, key, value, separated: None })
    }

    /// The separated put that begins `bytes`, its kind taken off already.
    fn separated(&mut self, bytes: &'a [u8], place: Option<Binding>) -> Result<Record<'a>> {
        let record = SeparatedRecord::decode_after_kind(bytes, &mut self.reader)?;
        let start = self.payload_bytes - bytes.len();
        if let Some(place) = place {
            let operation = u64::from(self.count - self.left - 1);
            let offset = place.payload_offset + start as u64;
            if record.seq != place.base_seq + operation || !record.holds_at(place.seed, offset) {
                let message = "a value's record does not match its checksum";
                return Err(Error::corruption(message).at_offset(offset));
            }
        }
        record.compression()?;
        let SeparatedRecord { keyspace, key, stored, .. } = record;
        let separated = Some(Separated { start, record });
        Ok(Record { kind: Kind::PutSeparated, keyspace, key, value: stored, separated })
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.left == 0 {
            if self.reader.is_empty() {
                return None;
            }
            self.failed = true;
            let extra = self.reader.rest().len();
            return Some(Err(Error::corruption(format!("{extra} bytes after the last record"))));
        }
        self.left -= 1;
        let record = self.record();
        self.failed = record.is_err();
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // The count is not trusted further than the bytes justify (rule F8).
        let justified = self.reader.rest().len() / RECORD_BYTES_MIN;
        (0, Some(justified.min(self.left as usize) + 1))
    }
}

/// What holds of every record.
fn check(kind: Kind, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> Result<()> {
    if keyspace.0 == 0 {
        return Err(Error::corruption("record of keyspace zero"));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::corruption(format!("key of {} bytes", key.len())));
    }
    let fits = match kind {
        Kind::Put | Kind::Merge => value.len() <= VALUE_BYTES_MAX,
        Kind::Delete => true,
        Kind::RangeDelete => value.len() <= RANGE_END_BYTES_MAX && key < value,
        Kind::PutSeparated | Kind::PutBare | Kind::Relocation => {
            return Err(Error::corruption(format!("a record of kind {kind:?} in a journal")));
        }
    };
    if fits {
        return Ok(());
    }
    Err(Error::corruption(format!("{kind:?} record with a value it may not have")))
}

#[cfg(test)]
mod tests;
