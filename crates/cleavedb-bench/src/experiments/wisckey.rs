//! WiscKey (FAST'16): values in a log of their own. 100 GB of pairs with keys of 16 bytes, values
//! of 64 bytes to 256 KiB, LevelDB as the base.

use super::{Experiment, Need, Pair, Part, Scale, Step, plan};
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

const GB: u64 = 1_000_000_000;
/// Data of each database.
const DATA_BYTES: u64 = 100 * GB;
/// Sizes of values from which the paper's curves are drawn.
pub(super) const VALUE_BYTES: [u64; 7] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Look-ups after a load.
pub(super) const LOOKUPS: u64 = 100_000;
/// Memory of the machine: the page cache is as large a part of the data as there.
const MEMORY_BYTES: u64 = 64 << 30;
/// Shares of the items that are invalid when cleaning begins, in percent.
pub(super) const INVALID_PERCENT: [u64; 4] = [25, 50, 75, 100];
/// Range queries and the share of the data each of them reads, so that together they read 4 %.
const RANGES: u64 = 4;
const RANGE_SHARE: u64 = 100;
/// What the curves are drawn over.
const AXIS: &str = "bytes of a value";

fn tuning() -> Tuning {
    // All values are separated, whatever their size.
    Tuning { separate_at: Some(1), collects: Some(true), ..Tuning::default() }
}

fn pair(value: u64) -> Pair {
    Pair { key: 16, value }
}

fn base(scale: Scale, data: u64, value: u64, direct: bool) -> Plan {
    let num = scale.items(data, pair(value));
    plan(num, pair(value), scale.memory(MEMORY_BYTES), direct, tuning())
}

fn label(value: u64) -> String {
    if value < 1_024 { format!("{value} B") } else { format!("{} KiB", value >> 10) }
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let mut parts = loads(scale);
    parts.extend(amplification(scale));
    parts.extend(cleaning(scale));
    parts.push(recovery(scale));
    parts.extend(ycsb(scale));
    Experiment {
        name: "wisckey",
        of_paper: true,
        setup: "100 GB of pairs with keys of 16 bytes; LevelDB 1.18 as the base; 64 GB of memory \
                and the page cache; values always separated (separate_at = 1); one thread"
            .to_owned(),
        paper_bytes: DATA_BYTES,
        lacks: vec![
            "the parallel range query's 32 threads: engines read ranges as they do by themselves",
        ],
        parts,
    }
}

/// Sequential and random load, look-ups, and ranges over both, for each size.
fn loads(scale: Scale) -> Vec<Part> {
    let mut parts = Vec::new();
    for value in VALUE_BYTES {
        let base = base(scale, DATA_BYTES, value, false);
        let seek_pairs = usize::try_from(base.num / RANGE_SHARE).unwrap_or(usize::MAX).max(1);
        let operations = Some(RANGES);
        let phases = vec![Phase::SeekRandom];
        let ranges = Plan { phases, seek_pairs, operations, ..base.clone() };
        let lookups = Step::operations(&base, Phase::ReadRandom, scale.count(LOOKUPS));
        parts.push(
            Part::new(
                format!("random load, {}", label(value)),
                "load 2.5x-111x LevelDB's, look-ups 1.6x-14x; ranges over random-loaded data up to \
             8.4x faster for large values, 12x slower at 64 B",
                base.clone(),
                vec![
                    Step::phase(&base, Phase::FillRandom),
                    lookups,
                    Step::run("range, random-loaded", ranges.clone()),
                ],
            )
            .at("random load", AXIS, value as f64),
        );
        parts.push(
            Part::new(
                format!("sequential load, {}", label(value)),
                "ranges over sequentially loaded data are fast again",
                base.clone(),
                vec![
                    Step::phase(&base, Phase::FillSeq),
                    Step::run("range, sequentially loaded", ranges),
                ],
            )
            .at("sequential load", AXIS, value as f64),
        );
    }
    parts
}

/// Write and read amplification against the size of the data.
fn amplification(scale: Scale) -> Vec<Part> {
    let sizes = [(1, "LevelDB: writes 3.1x, reads 8.2x"), (100, "LevelDB: writes 14x, reads 327x")];
    let part = |(gb, paper): (u64, &str)| {
        // Past the page cache, so that every byte read is counted.
        let base = base(scale, gb * GB, 1_024, true);
        let at = gb as f64 * scale.factor();
        Part::new(
            format!("amplification, {gb} GB"),
            paper,
            base.clone(),
            vec![
                Step::phase(&base, Phase::FillRandom),
                Step::operations(&base, Phase::ReadRandom, scale.count(LOOKUPS)),
            ],
        )
        .at("amplification", "GB of data", at)
    };
    sizes.into_iter().map(part).collect()
}

/// A random load over data of which a share has been deleted.
fn cleaning(scale: Scale) -> Vec<Part> {
    let part = |percent: u64| {
        let base = base(scale, DATA_BYTES, 4_096, false);
        let deleted = Step::operations(&base, Phase::DeleteOnce, base.num * percent / 100);
        let again = Plan { phases: vec![Phase::FillRandom], seed: 2, ..base.clone() };
        Part::new(
            format!("cleaning, {percent} % invalid"),
            "cleaning costs a random load 10 % (all invalid) to 35 % (worst)",
            base.clone(),
            vec![
                Step::phase(&base, Phase::FillRandom),
                deleted,
                Step::run("fillrandom while cleaning", again),
            ],
        )
        .at("cleaning", "percent of the old data that is invalid", percent as f64)
    };
    INVALID_PERCENT.into_iter().map(part).collect()
}

fn recovery(scale: Scale) -> Part {
    let base = base(scale, DATA_BYTES, 1_024, false);
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        Step::operations(&base, Phase::Overwrite, (base.num / 20).max(1)),
        Step::Crash { cold: false },
        Step::operations(&base, Phase::ReadRandom, 100),
    ];
    Part::new("recovery, 1 KiB", "2.6 s against LevelDB's 0.7 s in the worst case", base, steps)
        .needing(Need::Files)
        .lacking("the moment just before a memtable is stored, which is the paper's worst case")
}

/// YCSB with and without cleaning beside it.
fn ycsb(scale: Scale) -> Vec<Part> {
    let part = |collects: bool| {
        let mut base = base(scale, DATA_BYTES, 1_024, false);
        base.settings.tuning.collects = Some(collects);
        let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
        steps.extend(super::ycsb(&base, scale.count(LOOKUPS)));
        let name = if collects { "ycsb, cleaning" } else { "ycsb, not cleaning" };
        let paper = "by LevelDB: load 48-116x, A 6-16x, B 2-20x, C 2.6-25x, D 1.5-4x, E 1-7x, \
                     F 6-8x (WiscKey with and without cleaning)";
        let part = Part::new(name, paper, base, steps);
        if collects { part } else { part.needing(Need::CleaningOff) }
    };
    vec![part(true), part(false)]
}
