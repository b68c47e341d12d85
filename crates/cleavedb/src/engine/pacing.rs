//! How hard writers are held back: a pure function of the backlog.
//!
//! Writers are slowed smoothly from the moment the backlog leaves its normal range, so that the
//! hard stop is the exception: the delay grows with the square of the overshoot.

use std::time::Duration;

use crate::base::widths::Widths;

/// What writers outrun.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pressure {
    /// Frozen memtables that wait for their flush.
    pub(crate) frozen: usize,
    /// Most level-0 runs of any keyspace.
    pub(crate) level0_runs: usize,
    /// Bytes that compaction owes, all keyspaces.
    pub(crate) pending_bytes: u64,
    /// Garbage in value files, in percent of what is allowed.
    pub(crate) value_garbage: u64,
}

/// Why a writer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Frozen memtables wait for their flush.
    Memtables,
    /// Too many runs in level 0.
    Level0,
    /// Compaction owes too many bytes.
    Compaction,
    /// A full journal segment is sealed and the next begun.
    JournalRoll,
    /// A full value segment is sealed and the next begun.
    ValueLogRoll,
    /// The journal is synced for a group of which a member asked for that.
    JournalSync,
    /// The memtable is frozen.
    Freeze,
    /// Groups logged before are still on their way into the memtable.
    Publication,
    /// Too much garbage in value files.
    ValueGarbage,
}

impl Reason {
    /// All reasons, in the order of their counters.
    pub(crate) const ALL: [Self; 9] = [
        Self::Memtables,
        Self::Level0,
        Self::Compaction,
        Self::JournalRoll,
        Self::ValueLogRoll,
        Self::JournalSync,
        Self::Freeze,
        Self::Publication,
        Self::ValueGarbage,
    ];

    /// The word in statistics and events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memtables => "memtables",
            Self::Level0 => "level0_runs",
            Self::Compaction => "compaction_debt",
            Self::JournalRoll => "journal_roll",
            Self::ValueLogRoll => "value_log_roll",
            Self::JournalSync => "journal_sync",
            Self::Freeze => "memtable_freeze",
            Self::Publication => "predecessor",
            Self::ValueGarbage => "value_garbage",
        }
    }
}

/// What to do with a writer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Go on.
    Free,
    /// Owe this delay, then go on.
    Delay(Duration, Reason),
    /// Wait until the backlog shrinks.
    Stop(Reason),
}

/// Longest single delay: "never longer than a few milliseconds" for a small write.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(4);
/// Bytes to which the delays below refer.
const DELAY_UNIT_BYTES: f64 = 64.0 * 1024.0;
/// Runs, in triggers, at which pacing begins and at which writers stop. Level 0 goes down with up
/// to seven quarters of a trigger, and as many may come meanwhile.
const LEVEL0_PACE: usize = 4;
const LEVEL0_STOP: usize = 6;
/// Debt, in first levels, at which pacing begins and at which writers stop.
const DEBT_PACE: u64 = 16;
const DEBT_STOP: u64 = 128;
/// Percent of the garbage allowed at which pacing begins and at which delays are longest. Writers
/// never stop for it: collection itself is a writer. The two are near each other, since whatever
/// lies between them is beyond what the user allows.
const GARBAGE_PACE: u64 = 100;
const GARBAGE_LONGEST: u64 = 110;

/// Decides for a write of `bytes`.
pub(crate) fn pace(pressure: Pressure, bytes: u64, widths: &Widths) -> Pace {
    if pressure.frozen > widths.frozen_memtables_max {
        return Pace::Stop(Reason::Memtables);
    }
    let base = widths.level_base_bytes_min.max(1);
    let level0_pace = widths.level0_runs_trigger * LEVEL0_PACE;
    // What nearly every write finds.
    if pressure.level0_runs <= level0_pace
        && pressure.pending_bytes <= base * DEBT_PACE
        && pressure.value_garbage <= GARBAGE_PACE
    {
        return Pace::Free;
    }
    let level0 = overshoot(
        pressure.level0_runs as u64,
        level0_pace as u64,
        (widths.level0_runs_trigger * LEVEL0_STOP) as u64,
    );
    if level0 >= 1.0 {
        return Pace::Stop(Reason::Level0);
    }
    let debt = overshoot(pressure.pending_bytes, base * DEBT_PACE, base * DEBT_STOP);
    if debt >= 1.0 {
        return Pace::Stop(Reason::Compaction);
    }
    let (worst, reason) =
        if level0 >= debt { (level0, Reason::Level0) } else { (debt, Reason::Compaction) };
    let garbage = overshoot(pressure.value_garbage, GARBAGE_PACE, GARBAGE_LONGEST).min(1.0);
    let (worst, reason) =
        if garbage > worst { (garbage, Reason::ValueGarbage) } else { (worst, reason) };
    if worst <= 0.0 {
        return Pace::Free;
    }
    let share = (bytes as f64 / DELAY_UNIT_BYTES).max(1.0 / 64.0);
    let delay = DELAY_MAX.mul_f64((worst * worst * share).min(1.0));
    Pace::Delay(delay, reason)
}

/// 0 at `from`, 1 at `to`, linear between; negative below `from`.
fn overshoot(value: u64, from: u64, to: u64) -> f64 {
    (value as f64 - from as f64) / (to as f64 - from as f64)
}

#[cfg(test)]
mod tests;
