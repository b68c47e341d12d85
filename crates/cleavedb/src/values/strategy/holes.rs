//! Whether the dead records of a file are given back in place, as holes, or its live ones put
//! elsewhere. Pure functions.
//!
//! A hole costs one edit, and no value is written again; but it takes whole blocks only, so that
//! it pays for values of many blocks. And what is left of a file takes a file: where that is
//! little, it is put elsewhere after all.

use crate::base::entry::FileId;
use crate::values::strategy::space::{FileFigures, SpaceLimits, is_worth_it, needed_bytes};

/// Blocks that a record must have on average: of a dead one alone, all but about one are freed, so
/// this is what makes three quarters.
const BLOCKS_MIN: u64 = 4;

/// A file of which less than this part is live is not kept for it: there would be ever more files.
const LIVE_PART: u64 = 8;

/// Whether the records that are left of a file, so many of so many bytes, are large enough that
/// looking for holes is worth it.
pub(crate) fn may_pay(records_left: (u64, u64), block_bytes: u64) -> bool {
    let (records, record_bytes) = records_left;
    records > 0 && record_bytes / records >= record_bytes_min(block_bytes)
}

/// Bytes of a record that is large enough to leave as a hole of its own.
pub(crate) fn record_bytes_min(block_bytes: u64) -> u64 {
    block_bytes.saturating_mul(BLOCKS_MIN)
}

/// What is known of a file after all of its records were looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// Number of the file.
    pub(crate) id: FileId,
    /// Bytes of it, holes included.
    pub(crate) length: u64,
    /// Bytes of it now.
    pub(crate) file_bytes: u64,
    /// Bytes that more holes would free.
    pub(crate) freed_bytes: u64,
    /// Whether there are holes in it already.
    pub(crate) is_punched: bool,
    /// Index entries that name it, and the bytes of the records they name.
    pub(crate) refs: (u64, u64),
    /// What would be left of its records by number and bytes.
    pub(crate) records_left: (u64, u64),
    /// Bytes of those that are live.
    pub(crate) live_record_bytes: u64,
}

impl Looked {
    /// The share of the record bytes that would be left that is live.
    pub(crate) fn live_share(&self) -> f64 {
        match self.records_left.1 {
            0 => 0.0,
            left => self.live_record_bytes as f64 / left as f64,
        }
    }
}

/// What to do about a file's garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Give the dead records back where they are.
    Punch,
    /// There is too little of it after all.
    Leave,
    /// Put the live records elsewhere.
    Move,
}

/// Decides it: holes, if the file would not be worth collecting with them.
pub(crate) fn remedy(looked: &Looked, limits: &SpaceLimits) -> Remedy {
    let file_bytes = looked.file_bytes.saturating_sub(looked.freed_bytes);
    let (refs, ref_bytes) = looked.refs;
    let share = Some(looked.live_share());
    let live_bytes = needed_bytes(refs, ref_bytes, Some(looked.records_left), share);
    let after = FileFigures {
        id: looked.id,
        file_bytes,
        live_bytes: live_bytes.min(file_bytes),
        is_dead: false,
        is_settled: true,
        is_taken: false,
        // As the file is judged when the next victim is chosen: or it would be chosen for ever.
        is_punched: looked.is_punched || looked.freed_bytes > 0,
        rewrites: 0,
        newest_seq: 0,
    };
    let is_worth_moving = after.is_mostly_dead() || is_worth_it(&after, limits);
    let is_little = looked.live_record_bytes.saturating_mul(LIVE_PART) < looked.length;
    match looked.freed_bytes {
        _ if is_worth_moving => Remedy::Move,
        0 => Remedy::Leave,
        _ if is_little => Remedy::Move,
        _ => Remedy::Punch,
    }
}

#[cfg(test)]
mod tests;
