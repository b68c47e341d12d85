//! NovKV (MSST'20): cleaning of values without queries to the index. 100 million puts of random
//! keys by one writer, values of 128 bytes to 4 KiB, LevelDB beside.

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
/// A file is cleaned when less than this is valid.
pub(super) const VALID_SHARE: f64 = 0.7;
/// Memory of the machine.
const MEMORY_BYTES: u64 = 60 << 30;
const KEY_BYTES: u64 = 16;

fn base(scale: Scale, value: u64, collects: bool) -> Plan {
    let tuning = Tuning {
        separate_at: Some(1),
        separated_file_bytes: Some(scale.file(FILE_BYTES)),
        collects: Some(collects),
        garbage_share: Some(1.0 - VALID_SHARE),
        ..Tuning::default()
    };
    let pair = Pair { key: KEY_BYTES, value };
    plan(scale.count(PUTS), pair, scale.memory(MEMORY_BYTES), false, tuning)
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let with = VALUE_BYTES.into_iter().map(|value| {
        let base = base(scale, value, true);
        let pass = |name: &str| {
            let operations = Some(scale.count(READS));
            let phases = vec![Phase::ReadRandom];
            Step::run(name, Plan { phases, operations, ..base.clone() })
        };
        // Both passes have one seed, so the second asks for the same keys in the same order.
        let steps = vec![
            Step::phase(&base, Phase::FillReplace),
            pass("read, pass 1"),
            pass("read, pass 2"),
        ];
        Part::new(
            format!("{value} B, cleaning"),
            "writes up to 1.98x WiscKey's; pass 1 slightly above WiscKey, pass 2 up to 1.85x; \
             compaction's bytes stay flat",
            base,
            steps,
        )
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
        Part::new(format!("{value} B, reads counted"), paper, base, steps)
    });
    let without = VALUE_BYTES.into_iter().map(|value| {
        let base = base(scale, value, false);
        let steps = vec![Step::phase(&base, Phase::FillReplace)];
        let paper = "cleaning slows WiscKey down by a factor of up to 1.3, NovKV by 0.1";
        Part::new(format!("{value} B, not cleaning"), paper, base, steps).needing(Need::CleaningOff)
    });
    let largest = VALUE_BYTES.into_iter().max().unwrap_or(0);
    Experiment {
        name: "novkv",
        of_paper: true,
        setup: "fillrandom of 100 million keys of 16 bytes with replacement, one writer; value \
                files of 16 MiB, cleaned below 0.7 valid; then readrandomsame of 10 million twice; \
                LevelDB beside; values always separated (separate_at = 1); 60 GiB of memory"
            .to_owned(),
        paper_bytes: PUTS * (KEY_BYTES + largest),
        lacks: vec![
            "bytes of compaction and of cleaning apart, except where an engine's own account \
             (below the table) has them",
        ],
        parts: with.chain(without).chain(counted).collect(),
    }
}
