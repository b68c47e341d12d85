//! The footer of a sealed value segment: the payload of its last frame. What the segment holds in
//! sum, and one line per separated record, from which a locator is built without reading values.
//!
//! Payload: version (1 byte); varints: records, record bytes, key bytes, value bytes, smallest
//! seq, largest seq less smallest; the lines; length of the payload (4 bytes). A line: hash of
//! keyspace and key (8 bytes); varints: seq less that of the line before (of the first: zero),
//! offset less the end of the record before (of the first: the offset), bytes of the record.
//!
//! Collected by the lane's leader while it writes, or by a scan afterwards, with the same result:
//! lines stand in the order of the file, in which offsets and seqs ascend.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::VALUE_BYTES_MAX;
use crate::log::format::PAYLOAD_BYTES_MAX;
use crate::log::separated::{Binding, SEPARATED_BYTES_MIN, Slot};

/// Version of the payload. On disk: raised by every change.
const VERSION: u8 = 1;

/// Bytes of the shortest line.
const LINE_BYTES_MIN: usize = 8 + 3;

/// Bytes of the length at the end of the payload, by which a reader finds where it begins.
pub(crate) const FOOTER_LENGTH_BYTES: usize = 4;

/// What a segment's separated records come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Separated records.
    pub(crate) records: u64,
    /// Their bytes, heads and checksums included.
    pub(crate) record_bytes: u64,
    /// Bytes of their keys.
    pub(crate) key_bytes: u64,
    /// Bytes of their values as the user gave them.
    pub(crate) value_bytes: u64,
    /// Smallest seq; zero where there is no record.
    pub(crate) smallest_seq: Seq,
    /// Largest seq; zero where there is no record.
    pub(crate) largest_seq: Seq,
}

impl Totals {
    /// Appends six varints.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { records, record_bytes, key_bytes, value_bytes, smallest_seq, largest_seq } =
            *self;
        debug_assert!(smallest_seq <= largest_seq);
        let seqs = largest_seq.saturating_sub(smallest_seq);
        for number in [records, record_bytes, key_bytes, value_bytes, smallest_seq, seqs] {
            put_varint(out, number);
        }
    }

    /// Decodes what [`Self::encode`] wrote; refuses sums that no records have.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let records = reader.varint()?;
        let record_bytes = reader.varint()?;
        let key_bytes = reader.varint()?;
        let value_bytes = reader.varint()?;
        let smallest_seq = reader.varint()?;
        let seqs = reader.varint()?;
        let largest_seq = smallest_seq.saturating_add(seqs);
        let totals =
            Self { records, record_bytes, key_bytes, value_bytes, smallest_seq, largest_seq };
        let least = records.checked_mul(SEPARATED_BYTES_MIN as u64);
        let most_values = records.saturating_mul(VALUE_BYTES_MAX as u64);
        let is_sound = if records == 0 {
            totals == Self::default()
        } else {
            smallest_seq > 0
                && largest_seq <= SEQ_MAX
                && records - 1 <= seqs
                && value_bytes <= most_values
                && least.and_then(|b| b.checked_add(key_bytes)).is_some_and(|b| b <= record_bytes)
        };
        if !is_sound {
            return Err(Error::corruption("sums of records that no segment holds"));
        }
        Ok(totals)
    }
}

/// One separated record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// `KeyedHash` of keyspace and key.
    pub(crate) hash: u64,
    /// Its seq.
    pub(crate) seq: Seq,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: u32,
}

/// Collects a footer. Holds about 13 bytes a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct FooterBuilder {
    totals: Totals,
    lines: Vec<u8>,
    /// End of the last record.
    end: u64,
}

impl FooterBuilder {
    /// Notes the separated records of a frame that was written.
    pub(crate) fn add_frame(&mut self, slots: &[Slot], binding: Binding) {
        for slot in slots {
            let line = Line {
                hash: slot.hash,
                seq: binding.base_seq + u64::from(slot.operation),
                offset: binding.payload_offset + u64::from(slot.start),
                bytes: slot.bytes,
            };
            self.add(line, slot.key_bytes, slot.value_bytes);
        }
    }

    /// Notes one record, which must stand behind those before it and have a larger seq.
    pub(crate) fn add(&mut self, line: Line, key_bytes: u32, value_bytes: u32) {
        let Totals { records, largest_seq, .. } = self.totals;
        debug_assert!(line.offset >= self.end && line.seq > largest_seq);
        let before = if records == 0 { line.seq } else { largest_seq };
        self.lines.extend_from_slice(&line.hash.to_le_bytes());
        put_varint(&mut self.lines, line.seq - before);
        put_varint(&mut self.lines, line.offset - self.end);
        put_varint(&mut self.lines, u64::from(line.bytes));
        self.end = line.offset + u64::from(line.bytes);
        let totals = &mut self.totals;
        if records == 0 {
            totals.smallest_seq = line.seq;
        }
        totals.largest_seq = line.seq;
        totals.records += 1;
        totals.record_bytes += u64::from(line.bytes);
        totals.key_bytes += u64::from(key_bytes);
        totals.value_bytes += u64::from(value_bytes);
    }

    /// What has been noted so far comes to this.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.capacity()
    }

    /// The payload of the footer's frame; `None` where it is longer than a frame may be, in which
    /// case the segment does without.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(1 + 6 * 10 + self.lines.len() + FOOTER_LENGTH_BYTES);
        out.push(VERSION);
        self.totals.encode(&mut out);
        out.extend_from_slice(&self.lines);
        let bytes = u32::try_from(out.len() + FOOTER_LENGTH_BYTES).ok()?;
        out.extend_from_slice(&bytes.to_le_bytes());
        (out.len() <= PAYLOAD_BYTES_MAX).then_some(out)
    }
}

/// A footer, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// What the records come to.
    pub(crate) totals: Totals,
    /// The records in the order of the file.
    pub(crate) lines: Vec<Line>,
}

impl Footer {
    /// Decodes the payload of a footer's frame; every byte must have a meaning.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let version = reader.u8()?;
        if version != VERSION {
            let message = format!("footer of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let totals = Totals::decode(&mut reader)?;
        // The count is not trusted with an allocation further than the bytes justify (rule F8).
        if totals.records > (reader.rest().len() / LINE_BYTES_MIN) as u64 {
            return Err(Error::corruption("a footer states more records than it lists"));
        }
        let mut lines = Vec::with_capacity(totals.records as usize);
        let mut seq = totals.smallest_seq;
        let mut end = 0;
        let mut record_bytes = 0;
        for number in 0..totals.records {
            let line = decode_line(&mut reader, seq, end, number == 0)?;
            (seq, end) = (line.seq, line.offset + u64::from(line.bytes));
            record_bytes += u64::from(line.bytes);
            lines.push(line);
        }
        let length = reader.u32()? as usize;
        if !reader.is_empty() || length != payload.len() {
            return Err(Error::corruption("a footer that states another length"));
        }
        if record_bytes != totals.record_bytes || seq != totals.largest_seq {
            return Err(Error::corruption("a footer whose sums differ from its lines"));
        }
        Ok(Self { totals, lines })
    }
}

/// The line behind one with this seq whose record ends at `end`.
fn decode_line(reader: &mut Reader<'_>, seq: Seq, end: u64, is_first: bool) -> Result<Line> {
    let hash = reader.u64()?;
    let seqs = reader.varint()?;
    let gap = reader.varint()?;
    let bytes = reader.varint_u32()?;
    let place = seq.checked_add(seqs).filter(|&seq| seq <= SEQ_MAX).zip(end.checked_add(gap));
    let (seq, offset) =
        place.ok_or_else(|| Error::corruption("a footer's line with a number out of range"))?;
    let is_sound = (seqs == 0) == is_first
        && bytes as usize >= SEPARATED_BYTES_MIN
        && offset.checked_add(u64::from(bytes)).is_some();
    if !is_sound {
        return Err(Error::corruption("a footer's line that describes no record"));
    }
    Ok(Line { hash, seq, offset, bytes })
}

#[cfg(test)]
mod tests;
