//! What was given back of a sealed value segment: runs of whole frames, and what is known of the
//! rest.
//!
//! Encoded: varints: records in the runs, their bytes, checksum of the headers that are left,
//! number of runs; for each run, its first byte less the end of the run before (of the first: less
//! zero), and its bytes.
//!
//! Invariants: PU-1 runs are sorted, behind the segment's header, and at least one byte apart: what
//! touches is one run. PU-2 each begins with a frame and ends with one; the reader checks it. PU-3
//! what is left proves itself: each frame by its own checksums, and that they are the right ones by
//! the checksum of their headers.

use crate::base::checksum::Rolling;
use crate::base::codec::{Reader, put_varint};
use crate::base::error::{Error, Result};
use crate::base::runs::{Run, are_within, run_at};
use crate::base::sync::Arc;
use crate::log::footer::{Line, Totals};
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, SEGMENT_HEADER_BYTES};
use crate::log::separated::SEPARATED_BYTES_MIN;

/// Bytes of a run as it is encoded, at least.
const RUN_BYTES_MIN: usize = 2;

/// What was given back of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Punched {
    /// The runs.
    pub(crate) runs: Arc<[Run]>,
    /// Separated records in them.
    pub(crate) records: u64,
    /// Bytes of these.
    pub(crate) record_bytes: u64,
    /// Checksum of the segment's header and those of all frames that are left.
    pub(crate) checksum: u32,
}

impl Punched {
    /// Appends the fields.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.records);
        put_varint(out, self.record_bytes);
        put_varint(out, u64::from(self.checksum));
        put_varint(out, self.runs.len() as u64);
        let mut end = 0;
        for run in self.runs.iter() {
            put_varint(out, run.start.saturating_sub(end));
            put_varint(out, run.bytes());
            end = run.end;
        }
    }

    /// Decodes what [`Self::encode`] wrote; refuses runs that no segment has.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let (records, record_bytes) = (reader.varint()?, reader.varint()?);
        let checksum = reader.varint_u32()?;
        let count = reader.varint()?;
        // Not trusted with an allocation further than the bytes justify (rule F8).
        if count == 0 || count > (reader.rest().len() / RUN_BYTES_MIN) as u64 {
            return Err(Error::corruption("holes of a value file that are none, or too many"));
        }
        let mut runs: Vec<Run> = Vec::with_capacity(count as usize);
        let (mut end, mut bytes_in_all) = (0u64, 0u64);
        for _ in 0..count {
            let (gap, bytes) = (reader.varint()?, reader.varint()?);
            let first = if runs.is_empty() { SEGMENT_HEADER_BYTES as u64 } else { 1 };
            let start = end.checked_add(gap);
            let run = start.zip(start.and_then(|start| start.checked_add(bytes)));
            let Some((start, after)) = run.filter(|_| gap >= first && bytes >= FRAME_BYTES_MIN)
            else {
                return Err(Error::corruption("a hole in a value file that cannot be"));
            };
            runs.push(Run { start, end: after });
            end = after;
            bytes_in_all += bytes;
        }
        let least = records.checked_mul(SEPARATED_BYTES_MIN as u64);
        if least.is_none_or(|least| least > record_bytes) || record_bytes > bytes_in_all {
            return Err(Error::corruption("holes with more records than bytes"));
        }
        Ok(Self { runs: runs.into(), records, record_bytes, checksum })
    }

    /// Whether this can be what is known of a segment of so many bytes and records of which
    /// `before` was given back already: what is gone stays gone.
    pub(crate) fn follows(&self, before: Option<&Self>, bytes: u64, totals: &Totals) -> bool {
        let fits = self.runs.last().is_some_and(|last| last.end <= bytes)
            && self.records <= totals.records
            && self.record_bytes <= totals.record_bytes;
        fits && before.is_none_or(|before| {
            are_within(&before.runs, &self.runs)
                && before.records <= self.records
                && before.record_bytes <= self.record_bytes
        })
    }

    /// Whether a record's line is of one that is gone.
    pub(crate) fn has(&self, line: &Line) -> bool {
        run_at(&self.runs, line.offset).is_some()
    }
}

/// Bytes of the shortest frame.
const FRAME_BYTES_MIN: u64 = FRAME_OVERHEAD_BYTES as u64;

/// Sums up the headers of a segment, its own and those of the frames that are left, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderSum(Rolling);

impl HeaderSum {
    /// Of no header yet, in the file with this seed.
    pub(crate) fn new(seed: u32) -> Self {
        Self(Rolling::new(seed))
    }

    /// Adds the header of the segment, given the file's bytes from its start on.
    pub(crate) fn add_segment(&mut self, bytes: &[u8]) {
        self.0.update(bytes.get(..SEGMENT_HEADER_BYTES).unwrap_or_default());
    }

    /// Adds the header of a frame, given the file's bytes from there on.
    pub(crate) fn add_frame(&mut self, bytes: &[u8]) {
        self.0.update(bytes.get(..FRAME_HEADER_BYTES).unwrap_or_default());
    }

    /// The checksum.
    pub(crate) fn value(self) -> u32 {
        self.0.value()
    }
}

#[cfg(test)]
pub(crate) mod tests;
