//! Manual compaction: everything in a range down to the last level, step by step.
//!
//! Stateless: each step follows from the levels alone, so requests survive whatever other jobs do
//! in between. Data written after the request (by seq) is not chased, so a request ends.

use crate::base::entry::Seq;
use crate::base::sync::Arc;
use crate::index::KeyRange;
use crate::index::lsm::pick::{INPUT_TABLES_MAX, Pick, PickKind, from_level0, is_concerned, merge};
use crate::index::lsm::shape::{FileShape, Hull, LAST_LEVEL, Shape, Targets};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Manual {
    /// Number of the request; bottom files of jobs chosen since then are not rewritten again.
    pub(crate) ticket: u64,
    pub(crate) range: KeyRange,
    /// Newest seq in the index when it was asked for.
    pub(crate) seq_limit: Seq,
    /// Whether what the entries of the last level name is to be put in their order: then all of
    /// its files are rewritten once.
    pub(crate) orders: bool,
}

/// What a request needs next.
#[derive(Debug)]
pub(crate) enum ManualStep {
    /// Nothing: it is fulfilled.
    Done,
    /// Running jobs must end first.
    Blocked,
    /// This.
    Work(Pick),
}

/// Urgency of manual work: somebody waits for it.
const SCORE: f64 = 2.0;

/// The next step of a request.
pub(crate) fn manual_step(shape: &Shape<'_>, manual: &Manual) -> ManualStep {
    let concerned = |file: &Arc<FileShape>| is_concerned(file, &manual.range, manual.seq_limit);
    let runs = shape.level(0);
    if let Some(newest) = runs.iter().position(concerned) {
        let inputs = runs.get(newest..).unwrap_or(&[]);
        if inputs.iter().any(|file| shape.is_busy(file)) {
            return ManualStep::Blocked;
        }
        let targets = Targets::new(&shape.level_bytes(), shape.widths);
        return match from_level0(shape, &targets, inputs, "manual", SCORE) {
            Some(pick) => ManualStep::Work(manual.ordering(pick)),
            None => ManualStep::Blocked,
        };
    }
    for level in 1..=LAST_LEVEL {
        let stale = |file: &Arc<FileShape>| {
            concerned(file)
                && (level < LAST_LEVEL
                    || ((file.is_unclean() || manual.orders) && file.tick < manual.ticket))
        };
        if !shape.level(level).iter().any(stale) {
            continue;
        }
        return match next_group(shape, level, stale) {
            Some(pick) => ManualStep::Work(manual.ordering(pick)),
            None => ManualStep::Blocked,
        };
    }
    ManualStep::Done
}

impl Manual {
    /// Work for the request, which orders values where it reaches the last level.
    fn ordering(&self, pick: Pick) -> Pick {
        let orders = self.orders && pick.output_level == LAST_LEVEL;
        let kind = if orders { PickKind::Merge } else { pick.kind };
        Pick { orders, kind, ..pick }
    }
}

/// The first free group of neighbouring files that the request concerns.
fn next_group(
    shape: &Shape<'_>,
    level: usize,
    stale: impl Fn(&Arc<FileShape>) -> bool,
) -> Option<Pick> {
    let files = shape.level(level);
    let output_level = (level + 1).min(LAST_LEVEL);
    let bytes_max = INPUT_TABLES_MAX.saturating_mul(shape.widths.table_bytes);
    let usable = |file: &Arc<FileShape>| {
        stale(file) && !shape.is_busy(file) && shape.may_write(output_level, &file.hull)
    };
    let first = files.iter().position(usable)?;
    let mut bytes = 0;
    let mut inputs: Vec<Arc<FileShape>> = files
        .iter()
        .skip(first)
        .take_while(|file| {
            bytes += file.bytes;
            (bytes <= bytes_max || bytes == file.bytes) && usable(file)
        })
        .cloned()
        .collect();
    let mut hull = Hull::of(&inputs)?;
    while inputs.len() > 1 && !shape.may_write(output_level, &hull) {
        inputs.pop();
        hull = Hull::of(&inputs)?;
    }
    Some(merge(shape, level, output_level, inputs, hull, "manual", SCORE))
}
