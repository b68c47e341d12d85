//! Records that gets have read out of intervals which are not in the cache, kept one by one.
//!
//! Keys that are asked for often seldom stand side by side: an interval in the cache is room for
//! some twenty records, of which one is wanted. So while the cache is full, a get that had to read
//! keeps its own record and nothing beside it.
//!
//! A record is kept with what names the contents that it was read from. It answers for the interval
//! of its key as long as these are in force, or all that came since stands in a tail that is known
//! and holds nothing that may be of the key. Plain functions. Invariants: KR-1 what is kept is the
//! newest version of its key in those contents, and decides a look-up by itself. KR-2 no view is
//! answered with what its interval does not hold.

use crate::base::lookup::Found;
use crate::index::flex::intervals::anchors::Interval;
use crate::memory::cached_record::CachedRecord;

/// The contents that a record was read from: their stamp, the stamp of what they were before
/// anything was appended, and how many records stood in the tail.
struct Origin {
    stamp: u64,
    born: u64,
    tail_records: u64,
}

impl Origin {
    fn encode(&self) -> [u8; 24] {
        let mut note = [0; 24];
        let numbers = [self.stamp, self.born, self.tail_records];
        for (place, number) in note.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        note
    }

    fn decode(note: &[u8]) -> Option<Self> {
        let mut numbers = note
            .chunks_exact(8)
            .filter_map(|part| part.first_chunk())
            .copied()
            .map(u64::from_le_bytes);
        let (stamp, born) = (numbers.next()?, numbers.next()?);
        Some(Self { stamp, born, tail_records: numbers.next()? })
    }
}

/// What is kept of a key that a get has found in an interval; `None` where it would answer for
/// nothing else, or does not decide by itself.
pub(super) fn record_of(interval: &Interval, key: &[u8], found: &Found) -> Option<CachedRecord> {
    let tail_records = interval.known_tail().filter(|_| found.kind.is_base())? as u64;
    let origin = Origin { stamp: interval.stamp, born: interval.born, tail_records };
    CachedRecord::new(&origin.encode(), key, (found.seq, found.kind), &found.value)
}

/// Whether a record is what an interval holds of a key of this hash, if it is of the key (KR-2).
pub(super) fn answers(record: &CachedRecord, interval: &Interval, hash: u64) -> bool {
    let Some(origin) = Origin::decode(record.note()) else { return false };
    let is_untouched = || {
        let tail = interval.tail_index.as_ref();
        tail.is_some_and(|tail| tail.lacks_since(origin.tail_records as usize, hash))
    };
    origin.stamp == interval.stamp || origin.born == interval.born && is_untouched()
}
