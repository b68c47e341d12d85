//! What changes of an interval that is in order: which bytes are others now, and where it is cut if
//! it has become too large. Plain functions of two runs.

use std::ops::Range;

use crate::base::entry::compare_entries;
use crate::index::flex::intervals::run::{Run, RunBuilder};

/// Bytes of one interval that are replaced by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) old: Range<u64>,
    pub(super) new: Range<u64>,
}

/// What differs between the bytes of two runs in order, as few ranges as their records allow.
pub(super) fn splices(old: &Run, new: &RunBuilder) -> Vec<Splice> {
    let mut splices: Vec<Splice> = Vec::new();
    let (mut i, mut j) = (0, 0);
    loop {
        let (before, after) = (old.get(i), new.get(j));
        let order = match (&before, &after) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => compare_entries((a.key, a.seq), (b.key, b.seq)),
        };
        let (goes, comes) = (order.is_le(), order.is_ge());
        if before != after {
            let next = Splice {
                old: old.start(i)..old.start(i + usize::from(goes)),
                new: new.start(j)..new.start(j + usize::from(comes)),
            };
            match splices.last_mut() {
                Some(last) if last.old.end == next.old.start && last.new.end == next.new.start => {
                    (last.old.end, last.new.end) = (next.old.end, next.new.end);
                }
                _ => splices.push(next),
            }
        }
        (i, j) = (i + usize::from(goes), j + usize::from(comes));
    }
    // What comes before the first record takes that one along: its byte has the interval's tag.
    if let Some(first) = splices.first_mut().filter(|first| first.old == (0..0)) {
        let bytes = old.start(1);
        (first.old.end, first.new.end) = (bytes, first.new.end + bytes);
        let (end, new_end) = (first.old.end, first.new.end);
        if splices.get(1).is_some_and(|next| next.old.start == end && next.new.start == new_end) {
            let next = splices.remove(1);
            if let Some(first) = splices.first_mut() {
                (first.old.end, first.new.end) = (next.old.end, next.new.end);
            }
        }
    }
    splices
}

/// The records of an interval, or of the two that it is cut into if it is too large: between keys,
/// where the halves differ least. Nothing if one of them were still too large.
pub(super) fn parts(new: &RunBuilder, bytes_max: u64) -> Option<Vec<Range<usize>>> {
    let (bytes, count) = (new.bytes(), new.len());
    if bytes <= bytes_max {
        return Some(std::iter::once(0..count).collect());
    }
    let key = |number: usize| new.get(number).map(|record| record.key);
    let cuts = (1..count).filter(|number| key(*number) != key(number - 1));
    let cut = cuts.min_by_key(|number| (2 * new.start(*number)).abs_diff(bytes))?;
    let larger = new.start(cut).max(bytes - new.start(cut));
    (larger <= bytes_max).then(|| vec![0..cut, cut..count])
}

#[cfg(test)]
mod tests;
