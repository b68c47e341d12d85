//! Stores over time, which no single rate tells: space while everything is overwritten three
//! times, disk after deletes, scans as updates move what they read, opening after a kill. The
//! strategies side by side, and peers where a part means something for them.

#[cfg(feature = "peers")]
mod plots;
mod tables;

use super::{Experiment, Need, Pair, Part, Scale, Step, plan};
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

const GB: u64 = 1_000_000_000;
/// Pairs of every part; a value of this size is kept apart as stores are opened by default.
const PAIR: Pair = Pair { key: 16, value: 1_024 };
/// Memory of an engine, and where as many keys as here are to be found from memory.
const MEMORY_BYTES: u64 = 256 << 20;
const OPENED_MEMORY_BYTES: u64 = 512 << 20;
/// Bytes of a file of values, as the engine has them; two of them may be garbage in any case.
pub(super) const SEGMENT_BYTES: u64 = 64 << 20;

/// Overwriting: data, how often each item is overwritten on average, bounds on space, looks.
pub(super) const OVERWRITTEN_BYTES: u64 = 5 * GB;
pub(super) const UPDATES: u64 = 3;
pub(super) const BOUNDS: [f64; 3] = [1.1, 1.25, 1.5];
pub(super) const SAMPLES: u64 = 300;
const CHOICES: [(&str, Phase); 2] =
    [("uniform", Phase::Overwrite), ("zipf 0.99", Phase::OverwriteZipf)];

/// Deleting: the ways, and the share of the disk before that is to be left at most.
const DELETES: [(&str, Phase); 3] = [
    ("every key", Phase::DeleteOnce),
    ("one range", Phase::DeleteRange),
    ("the keyspace", Phase::DropKeyspace),
];
const LEFT_SHARE: f64 = 0.05;

/// Scans: data, lengths, how many of each at most, and the times between which updates lie.
const SCANNED_BYTES: u64 = 2 * GB;
pub(super) const SCANS: [(usize, u64); 2] = [(50, 20_000), (10_000, 200)];
const SCAN_SECONDS: f64 = 20.0;
pub(super) const TIMES: u64 = 6;

/// Opening: keys, gets afterwards.
pub(super) const OPENED_KEYS: [u64; 2] = [1_000_000, 10_000_000];
pub(super) const GETS: u64 = 10_000;

/// Longest rest, and how long a store has to be still; times the factor within these bounds.
const REST_SECONDS: [f64; 2] = [60.0, 600.0];
const STABLE_SECONDS: [f64; 2] = [0.5, 10.0];
/// Seconds of stillness of a factor of 1, before the bounds.
const STABLE_SECONDS_WHOLE: f64 = 5_000.0;

/// Labels of steps.
const OVERWRITE: &str = "overwrite";
const DELETE: &str = "delete";
const REST: &str = "left to itself";
const COMPACT: &str = "compact()";

#[cfg(feature = "peers")]
pub(super) use plots::plots;
pub(super) use tables::markdown as tables;

fn base(scale: Scale, num: u64, memory: u64, direct: bool) -> Plan {
    // At its real size nothing is set that a user would not set.
    let scaled = (scale.factor() < 1.0).then(|| scale.file(SEGMENT_BYTES));
    let tuning = Tuning { separated_file_bytes: scaled, ..Tuning::default() };
    plan(num, PAIR, scale.memory(memory), direct, tuning)
}

/// The engine is left to itself until nothing changes any more.
fn rest(base: &Plan, scale: Scale, label: impl Into<String>) -> Step {
    let [least, most] = REST_SECONDS;
    let seconds = Some((most * scale.factor()).clamp(least, most));
    let [least, most] = STABLE_SECONDS;
    let stable_seconds = (STABLE_SECONDS_WHOLE * scale.factor()).clamp(least, most);
    let phases = vec![Phase::Rest];
    Step::run(label, Plan { phases, seconds, stable_seconds, threads: 1, ..base.clone() })
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let mut parts = overwrites(scale);
    parts.extend(DELETES.map(|(way, phase)| deletes(scale, way, phase)));
    parts.push(scans(scale));
    parts.extend(openings(scale));
    Experiment {
        name: "unified",
        of_paper: false,
        setup: "keys of 16 bytes and values of 1 KiB, which stores keep apart by default, no \
                compression; only memory and, where a part says so, space_amplification_max are \
                set. Below a factor of 1 files of values have 64 MiB times the factor, 1 MiB at \
                least"
            .to_owned(),
        paper_bytes: OVERWRITTEN_BYTES,
        lacks: Vec::new(),
        parts,
    }
}

/// Everything is overwritten three times under each bound on space.
fn overwrites(scale: Scale) -> Vec<Part> {
    let mut parts = Vec::new();
    for (choice, phase) in CHOICES {
        let num = scale.items(OVERWRITTEN_BYTES, PAIR);
        let base = Plan { threads: 2, ..base(scale, num, MEMORY_BYTES, false) };
        let part = |base: Plan, name: String, held: &str| {
            let (phases, operations) = (vec![phase], Some(base.num * UPDATES));
            let overwrite = Plan { phases, operations, samples: SAMPLES, ..base.clone() };
            let steps =
                vec![Step::phase(&base, Phase::FillRandom), Step::run(OVERWRITE, overwrite)];
            Part::new(name, held, base, steps).needing(Need::Files)
        };
        for bound in BOUNDS {
            let mut base = base.clone();
            base.settings.tuning.space_amplification_max = Some(bound);
            let name = format!("overwrite, {choice}, space at most {bound}");
            let part = part(base, name, "its own bound on space").needing(Need::SpaceBound);
            parts.push(part.at(&format!("overwrite, {choice}"), "space_amplification_max", bound));
        }
        let name = format!("overwrite, {choice}, as opened");
        parts.push(part(base, name, "the bounds before").needing(Need::Unbounded));
    }
    parts
}

/// Everything is deleted in one way, and nothing else is called.
fn deletes(scale: Scale, way: &str, phase: Phase) -> Part {
    let num = scale.items(OVERWRITTEN_BYTES, PAIR);
    let base = base(scale, num, MEMORY_BYTES, false);
    let delete = Plan { phases: vec![phase], unaided: true, samples: 20, ..base.clone() };
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        Step::run(DELETE, delete),
        rest(&base, scale, REST),
    ];
    let part = Part::new(format!("delete {way}"), "below 5 % of the disk by itself", base, steps);
    let part = part.needing(Need::Files);
    if phase == Phase::DropKeyspace { part.needing(Need::Keyspaces) } else { part }
}

/// Name of a scan after so many of [`TIMES`] parts of the updates, or after compaction.
fn scan_label(pairs: usize, time: Option<u64>) -> String {
    match time {
        Some(time) => format!("scans of {pairs}, each updated {} times", updates_until(time)),
        None => format!("scans of {pairs}, compacted"),
    }
}

/// Updates of each item on average until then.
fn updates_until(time: u64) -> f64 {
    (time * UPDATES) as f64 / TIMES as f64
}

/// Scans of data loaded in random order, as it is updated without any other call, and compacted.
fn scans(scale: Scale) -> Part {
    // Past the page cache: within it, it does not matter where values lie.
    let base = base(scale, scale.items(SCANNED_BYTES, PAIR), MEMORY_BYTES, true);
    let both = |time: Option<u64>| {
        SCANS.map(|(seek_pairs, most)| {
            let (phases, seconds) = (vec![Phase::SeekRandom], Some(SCAN_SECONDS));
            let operations = Some(scale.count(most));
            let plan = Plan { phases, operations, seconds, seek_pairs, ..base.clone() };
            Step::run(scan_label(seek_pairs, time), plan)
        })
    };
    let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
    steps.extend(both(Some(0)));
    for time in 1..=TIMES {
        let update = Plan {
            phases: vec![Phase::Overwrite],
            operations: Some((base.num * UPDATES / TIMES).max(1)),
            // Other choices each time.
            seed: base.seed + time,
            unaided: true,
            ..base.clone()
        };
        let until = updates_until(time);
        steps.push(Step::run(format!("updates, until {until} of each"), update));
        steps.push(rest(&base, scale, format!("{REST}, {until} updates of each")));
        steps.extend(both(Some(time)));
    }
    let compact = Plan { phases: vec![Phase::Compact], threads: 1, ..base.clone() };
    steps.push(Step::run(COMPACT, compact));
    steps.extend(both(None));
    Part::new("scans over updates", "itself before", base, steps)
}

/// A kill right after a load, the store opened by another process.
fn openings(scale: Scale) -> Vec<Part> {
    let mut parts = Vec::new();
    for keys in OPENED_KEYS {
        for cold in [false, true] {
            let base = base(scale, scale.count(keys), OPENED_MEMORY_BYTES, false);
            let steps = vec![
                Step::phase(&base, Phase::FillRandom),
                Step::Crash { cold },
                Step::operations(&base, Phase::ReadRandom, scale.count(GETS)),
            ];
            let cache = if cold { "files not cached" } else { "files cached" };
            let name = format!("open after a kill, {keys} keys, {cache}");
            let part = Part::new(name, "first right get within 1 s", base, steps);
            let curve = format!("open after a kill, {cache}");
            let part = part.needing(Need::Files);
            parts.push(part.at(&curve, "keys", keys as f64 * scale.factor()));
        }
    }
    parts
}

#[cfg(test)]
mod tests;
