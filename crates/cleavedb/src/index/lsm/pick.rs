//! Which compaction comes next: pure functions over the shape of the levels.
//!
//! Invariants: P1 a pick from level 0 to the base takes the oldest runs without a gap, and no two
//! such picks run at once. P2 a merge takes all files of the output level that overlap its
//! inputs. P3 no pick touches a busy file or writes where another job writes. P4 a merge within
//! level 0 takes runs without a gap, and its result takes their place.

use crate::base::entry::Seq;
use crate::base::sync::Arc;
use crate::index::KeyRange;
use crate::index::lsm::shape::{FileShape, Hull, LAST_LEVEL, Shape, Targets};

#[cfg(test)]
mod amplification;
mod manual;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use manual::{Manual, ManualStep, manual_step};

/// Files that one pick takes from its input level, at most; a move costs a manifest edit only.
const INPUT_FILES_MAX: usize = 64;
/// Bytes that one pick takes from its input level, at most, in units of a table: a job stays
/// short enough to be cancelled and to make way.
const INPUT_TABLES_MAX: u64 = 16;

/// Runs of level 0, in triggers, that are worth a merge among themselves while the way down is
/// taken: below the number at which writers are slowed down.
const CROWD_TRIGGERS: usize = 2;
/// Level 0 is small where the base holds more than so many times its bytes.
const SMALL_PART: u64 = 4;

/// What a pick does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PickKind {
    /// Files change their level as they are.
    Move,
    /// Inputs and what they overlap are merged.
    Merge,
    /// Runs of level 0 become one run.
    IntraLevel0,
}

/// A piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) kind: PickKind,
    pub(crate) reason: &'static str,
    pub(crate) score: f64,
    pub(crate) input_level: usize,
    pub(crate) output_level: usize,
    /// Files of the input level, in their order there.
    pub(crate) inputs: Vec<Arc<FileShape>>,
    /// Files of the output level.
    pub(crate) overlap: Vec<Arc<FileShape>>,
    /// The keys of all inputs.
    pub(crate) hull: Hull,
    /// Keys at which the work is split into parts that can run side by side, ascending.
    pub(crate) splits: Vec<Vec<u8>>,
    /// Whether what the surviving entries name is to be put in their order.
    pub(crate) orders: bool,
}

/// The most urgent work, or `None` if the levels are in shape (or all due work is blocked).
pub(crate) fn pick(shape: &Shape<'_>) -> Option<Pick> {
    let level_bytes = shape.level_bytes();
    let targets = Targets::new(&level_bytes, shape.widths);
    let mut due: Vec<(usize, f64)> = (0..LAST_LEVEL)
        .map(|level| (level, score(shape, &targets, &level_bytes, level)))
        .filter(|(_, score)| *score >= 1.0)
        .collect();
    due.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Level 0 waits for all that it overlaps in the base to be free. Were ever more of the base
    // taken meanwhile by merges into the next level, it would wait for ever.
    let mut barred = None;
    for (level, score) in due {
        let found = match level {
            0 => from_level0_due(shape, &targets, score, &mut barred),
            _ if barred == Some(level) => None,
            _ => from_level(shape, &targets, level, score),
        };
        if found.is_some() {
            return found;
        }
    }
    tombstone_heavy(shape, barred)
}

/// What to do about a level 0 that is due.
///
/// Many runs with few bytes are merged among themselves, where that is much cheaper than to
/// rewrite the base for so little. While runs are on their way to the base, or the way is taken,
/// the newer ones wait for their turn, which costs nothing, until they would make reads slow.
fn from_level0_due(
    shape: &Shape<'_>,
    targets: &Targets,
    score: f64,
    barred: &mut Option<usize>,
) -> Option<Pick> {
    let trigger = shape.widths.level0_runs_trigger.max(2);
    if is_small(shape, targets)
        && let Some(pick) = intra_level0(shape, score, (trigger / 2).max(2))
    {
        return Some(pick);
    }
    level0_to_base(shape, targets, score).or_else(|| {
        *barred = (!level0_is_running(shape)).then_some(targets.base_level);
        intra_level0(shape, score, trigger * CROWD_TRIGGERS)
    })
}

/// Whether level 0 has runs to spare but few bytes, compared with what they overlap in the base.
fn is_small(shape: &Shape<'_>, targets: &Targets) -> bool {
    let bytes: u64 = shape.level(0).iter().map(|file| file.bytes).sum();
    let Some(hull) = Hull::of(shape.level(0)) else { return false };
    let overlap: u64 =
        shape.overlapping(targets.base_level, &hull).iter().map(|file| file.bytes).sum();
    bytes < shape.widths.level_base_bytes_min && overlap / SMALL_PART > bytes
}

/// Whether runs of level 0 are on their way to the base.
fn level0_is_running(shape: &Shape<'_>) -> bool {
    shape.reserved.iter().any(|r| r.input_level == 0 && r.output_level > 0)
}

/// Urgency of a level: 1 is "due". Files that are on their way already do not count.
fn score(shape: &Shape<'_>, targets: &Targets, level_bytes: &[u64], level: usize) -> f64 {
    let idle = || shape.level(level).iter().filter(|file| !shape.is_busy(file));
    let bytes: u64 = idle().map(|file| file.bytes).sum();
    if level == 0 {
        return targets.level0_score((idle().count(), bytes), level_bytes, shape.widths);
    }
    match targets.of(level) {
        0 => 0.0,
        // A level exactly at its target is in shape.
        target if bytes <= target => (bytes as f64 / target as f64).min(0.99),
        target => bytes as f64 / target as f64,
    }
}

/// The oldest runs of level 0, as many as are free, into the base level.
fn level0_to_base(shape: &Shape<'_>, targets: &Targets, score: f64) -> Option<Pick> {
    let runs = shape.level(0);
    let free = runs.iter().rev().take_while(|file| !shape.is_busy(file)).count();
    let inputs = runs.get(runs.len() - free..)?;
    from_level0(shape, targets, inputs, "level 0", score)
}

/// These oldest runs of level 0 into the base level, if nothing stands in the way.
fn from_level0(
    shape: &Shape<'_>,
    targets: &Targets,
    inputs: &[Arc<FileShape>],
    reason: &'static str,
    score: f64,
) -> Option<Pick> {
    let output_level = targets.base_level;
    let hull = Hull::of(inputs)?;
    if level0_is_running(shape) || !shape.may_write(output_level, &hull) {
        return None;
    }
    let mut pick = merge(shape, 0, output_level, inputs.to_vec(), hull, reason, score);
    let mut sorted: Vec<&Arc<FileShape>> = inputs.iter().collect();
    sorted.sort_by(|a, b| a.hull.smallest.cmp(&b.hull.smallest));
    let disjoint =
        sorted.iter().zip(sorted.iter().skip(1)).all(|(a, b)| a.hull.ends_before(&b.hull.smallest));
    if !disjoint {
        pick.kind = PickKind::Merge;
    }
    Some(pick)
}

/// The newest free runs into one run, where there are `runs_min` of about the same size.
fn intra_level0(shape: &Shape<'_>, score: f64, runs_min: usize) -> Option<Pick> {
    let runs = shape.level(0);
    let mut count = 0;
    let mut bytes = 0u64;
    let mut cost_per_run = u64::MAX;
    for run in runs.iter().take_while(|run| !shape.is_busy(run)).take(INPUT_FILES_MAX) {
        // Each run merged away shortens reads by one; stop where the next costs more than that
        // of the runs before it.
        let with_it = bytes + run.bytes;
        let cost = if count == 0 { u64::MAX } else { with_it / count as u64 };
        if cost > cost_per_run {
            break;
        }
        (count, bytes, cost_per_run) = (count + 1, with_it, cost);
    }
    let inputs = runs.get(..count)?;
    if count < runs_min {
        return None;
    }
    let hull = Hull::of(inputs)?;
    Some(Pick {
        kind: PickKind::IntraLevel0,
        reason: "level 0 runs",
        score,
        input_level: 0,
        output_level: 0,
        inputs: inputs.to_vec(),
        overlap: Vec::new(),
        hull,
        splits: Vec::new(),
        orders: false,
    })
}

/// The newest free runs of level 0 into one run, as reads have paid for it.
pub(crate) fn pick_for_reads(shape: &Shape<'_>) -> Option<Pick> {
    intra_level0(shape, 1.0, 2).map(|pick| Pick { reason: "reads", ..pick })
}

/// The file of a level whose removal costs least per byte, with neighbours that come for free.
fn from_level(shape: &Shape<'_>, targets: &Targets, level: usize, score: f64) -> Option<Pick> {
    let files = shape.level(level);
    let cost = |file: &FileShape| {
        let overlap: u64 =
            shape.overlapping(level + 1, &file.hull).iter().map(|below| below.bytes).sum();
        overlap as f64 / file.compensated_bytes().max(1) as f64
    };
    let (chosen, _) = files
        .iter()
        .enumerate()
        .filter(|(_, file)| !shape.is_busy(file) && shape.may_write(level + 1, &file.hull))
        .map(|(number, file)| (number, cost(file)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let excess = bytes.saturating_sub(targets.of(level));
    grow(shape, level, chosen, excess, "level size", score)
}

/// A file full of tombstones goes down though its level is in shape: it frees more than it costs.
fn tombstone_heavy(shape: &Shape<'_>, barred: Option<usize>) -> Option<Pick> {
    (1..LAST_LEVEL).filter(|level| barred != Some(*level)).find_map(|level| {
        let chosen = shape.level(level).iter().position(|file| {
            file.is_tombstone_heavy()
                && !shape.is_busy(file)
                && shape.may_write(level + 1, &file.hull)
        })?;
        grow(shape, level, chosen, 0, "tombstones", 1.0)
    })
}

/// The pick of one file, grown by following files that need no more of the output level.
fn grow(
    shape: &Shape<'_>,
    level: usize,
    chosen: usize,
    excess: u64,
    reason: &'static str,
    score: f64,
) -> Option<Pick> {
    let files = shape.level(level);
    let first = files.get(chosen)?;
    let overlap = shape.overlapping(level + 1, &first.hull);
    let room = Hull::of(overlap);
    let mut inputs = vec![first.clone()];
    let mut bytes = first.bytes;
    for file in files.iter().skip(chosen + 1).take(INPUT_FILES_MAX - 1) {
        let free_of_cost = match &room {
            Some(room) => !file.hull.ends_before(&room.smallest) && within(&file.hull, room),
            None => bytes < excess && shape.overlapping(level + 1, &file.hull).is_empty(),
        };
        let too_much = room.is_some()
            && bytes + file.bytes > INPUT_TABLES_MAX.saturating_mul(shape.widths.table_bytes);
        if shape.is_busy(file) || too_much || !free_of_cost {
            break;
        }
        bytes += file.bytes;
        inputs.push(file.clone());
    }
    let mut hull = Hull::of(&inputs)?;
    while inputs.len() > 1
        && (!shape.may_write(level + 1, &hull)
            || shape.overlapping(level + 1, &hull).len() > overlap.len())
    {
        inputs.pop();
        hull = Hull::of(&inputs)?;
    }
    Some(merge(shape, level, level + 1, inputs, hull, reason, score))
}

/// Whether `inner` ends within `outer`.
fn within(inner: &Hull, outer: &Hull) -> bool {
    inner.largest < outer.largest
        || (inner.largest == outer.largest && (inner.exclusive || !outer.exclusive))
}

/// A merge of these inputs, or a move where nothing is in their way.
fn merge(
    shape: &Shape<'_>,
    input_level: usize,
    output_level: usize,
    inputs: Vec<Arc<FileShape>>,
    mut hull: Hull,
    reason: &'static str,
    score: f64,
) -> Pick {
    let overlap = if input_level == output_level {
        Vec::new()
    } else {
        shape.overlapping(output_level, &hull).to_vec()
    };
    // At the bottom tombstones can go, so files full of them are worth rewriting.
    let drops = output_level == LAST_LEVEL && inputs.iter().any(|file| file.is_tombstone_heavy());
    let moves = overlap.is_empty()
        && input_level != output_level
        && !drops
        && shape.same_compression(input_level, output_level);
    overlap.iter().for_each(|file| hull.cover(&file.hull));
    let splits = split::splits(shape, input_level, &inputs, &overlap, &hull);
    let kind = if moves { PickKind::Move } else { PickKind::Merge };
    let orders = false;
    Pick { kind, reason, score, input_level, output_level, inputs, overlap, hull, splits, orders }
}

/// Whether a file is concerned by a request for the keys in `range` up to `seq_limit`.
fn is_concerned(file: &FileShape, range: &KeyRange, seq_limit: Seq) -> bool {
    file.smallest_seq <= seq_limit && file.hull.overlaps_range(range)
}
