//! NovKV (MSST'20): cleaning of values without queries to the index. 100 million puts of random
//! keys by one writer, values of 128 bytes to 4 KiB, LevelDB beside. Beyond the paper's own runs,
//! updates of a whole load with reads before and after, so that values that were rewritten stand
//! beside the same values when nothing had been.

mod ratios;

use super::{Experiment, Need, Pair, Part, Scale, Step, plan};
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

/// Puts; as many keys are chosen from, so some are replaced.
pub(super) const PUTS: u64 = 100_000_000;
/// Reads of each of the two passes.
pub(super) const READS: u64 = 10_000_000;
pub(super) const VALUE_BYTES: [u64; 6] = [128, 256, 512, 1 << 10, 2 << 10, 4 << 10];
/// Bytes of a file of values.
pub(super) const FILE_BYTES: u64 = 16 << 20;
/// Least of them: to end a file takes a sync, whatever its size.
const SCALED_FILE_BYTES_MIN: u64 = 4 << 20;
/// A file is cleaned when less than this is valid.
pub(super) const VALID_SHARE: f64 = 0.7;
/// Memory of the machine: 644 bytes an item at every scale, so that a locator (9 bytes an item of a
/// quarter) or an exact map (36 of a half) has room for all keys.
const MEMORY_BYTES: u64 = 60 << 30;
const KEY_BYTES: u64 = 16;
/// A bound on space that puts cleaning off beyond what a part leaves of garbage, where an engine
/// has no switch.
const NEVER: f64 = 10.0;

/// Labels of steps.
const UPDATES: &str = "updates";
const PASSES: [&str; 2] = ["read, pass 1", "read, pass 2"];
const PASSES_BEFORE: [&str; 2] = ["never rewritten, pass 1", "never rewritten, pass 2"];
const PASSES_AFTER: [&str; 2] = ["after cleaning, pass 1", "after cleaning, pass 2"];

pub(super) use ratios::markdown as ratios;

const AXIS: &str = "bytes of a value";

/// Name of the part with values of one size.
fn name(value: u64, what: &str) -> String {
    format!("{value} B, {what}")
}

fn base(scale: Scale, value: u64, collects: bool) -> Plan {
    let tuning = Tuning {
        separate_at: Some(1),
        separated_file_bytes: Some(scale.file(FILE_BYTES).max(SCALED_FILE_BYTES_MIN)),
        collects: Some(collects),
        garbage_share: Some(1.0 - VALID_SHARE),
        space_amplification_max: (!collects).then_some(NEVER),
        ..Tuning::default()
    };
    let pair = Pair { key: KEY_BYTES, value };
    plan(scale.count(PUTS), pair, scale.memory(MEMORY_BYTES), false, tuning)
}

/// Two passes of reads. All have one seed, so each asks for the same keys in the same order.
fn passes(base: &Plan, scale: Scale, labels: [&str; 2]) -> [Step; 2] {
    labels.map(|label| {
        let operations = Some(scale.count(READS));
        let phases = vec![Phase::ReadRandom];
        Step::run(label, Plan { phases, operations, ..base.clone() })
    })
}

/// A load, and as many updates of it.
fn updates(scale: Scale, value: u64, collects: bool) -> Part {
    let base = base(scale, value, collects);
    let overwrite = Plan { phases: vec![Phase::Overwrite], ..base.clone() };
    let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
    if collects {
        steps.extend(passes(&base, scale, PASSES_BEFORE));
    }
    steps.push(Step::run(UPDATES, overwrite));
    if collects {
        steps.extend(passes(&base, scale, PASSES_AFTER));
        let paper = "pass 1 slightly above WiscKey, pass 2 up to 1.85x; cleaning looks nothing up \
                     in the index and writes nothing into it";
        let part = Part::new(name(value, "updates"), paper, base, steps);
        return part.at("updates", AXIS, value as f64);
    }
    let paper = "cleaning slows WiscKey down by a factor of up to 1.3, NovKV by 0.1";
    Part::new(name(value, "updates, not cleaning"), paper, base, steps).needing(Need::CleaningLate)
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let with = VALUE_BYTES.into_iter().map(|value| {
        let base = base(scale, value, true);
        let mut steps = vec![Step::phase(&base, Phase::FillReplace)];
        steps.extend(passes(&base, scale, PASSES));
        Part::new(
            name(value, "cleaning"),
            "writes up to 1.98x WiscKey's; pass 1 slightly above WiscKey, pass 2 up to 1.85x; \
             compaction's bytes stay flat",
            base,
            steps,
        )
        .at("puts with cleaning", AXIS, value as f64)
    });
    let counted = VALUE_BYTES.into_iter().map(|value| {
        // Apart from the timed ones, for counting takes time.
        let mut base = base(scale, value, true);
        base.settings.tuning.statistics = true;
        let steps = vec![
            Step::phase(&base, Phase::FillReplace),
            Step::operations(&base, Phase::ReadRandom, scale.count(READS)),
        ];
        let paper = "index and value time of a read apart: no figure at hand";
        Part::new(name(value, "reads counted"), paper, base, steps)
    });
    let without = VALUE_BYTES.into_iter().map(|value| {
        let base = base(scale, value, false);
        let steps = vec![Step::phase(&base, Phase::FillReplace)];
        let paper = "cleaning slows WiscKey down by a factor of up to 1.3, NovKV by 0.1";
        Part::new(name(value, "not cleaning"), paper, base, steps).needing(Need::CleaningLate)
    });
    let updated = VALUE_BYTES.into_iter().map(|value| updates(scale, value, true));
    let not_cleaned = VALUE_BYTES.into_iter().map(|value| updates(scale, value, false));
    let largest = VALUE_BYTES.into_iter().max().unwrap_or(0);
    Experiment {
        name: "novkv",
        of_paper: true,
        setup: "fillrandom of 100 million keys of 16 bytes with replacement, one writer; value \
                files of 16 MiB, cleaned below 0.7 valid; then readrandomsame of 10 million twice; \
                LevelDB beside; values always separated (separate_at = 1); 60 GiB of memory. Where \
                an engine cannot switch cleaning off, a bound on space of 10 puts it off"
            .to_owned(),
        paper_bytes: PUTS * (KEY_BYTES + largest),
        lacks: vec![
            "bytes of compaction and of cleaning apart, except where an engine's own account \
             (below the table) has them",
        ],
        parts: with.chain(without).chain(updated).chain(not_cleaned).chain(counted).collect(),
    }
}
