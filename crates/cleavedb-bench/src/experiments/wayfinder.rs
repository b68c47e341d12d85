//! Wayfinder (SiMoD'24): addresses in memory instead of in the tree. 100 million pairs of 16
//! bytes and 1 KiB, 35 % of them updated, 5 % read, everything past the page cache.

use super::{Experiment, Pair, Part, Scale, Step, plan};
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

pub(super) const ITEMS: u64 = 100_000_000;
pub(super) const UPDATES: u64 = 35_000_000;
pub(super) const READS: u64 = 5_000_000;
/// Steps in which the updates are taken to see the size of the database in between.
pub(super) const LOOKS: u64 = 7;
const MEMTABLE_BYTES: u64 = 64 << 20;
/// Bytes of memory for each item, whatever the scale: an exact map of keys of 16 bytes takes 36 of
/// them, and is given half of an engine's memory. Every engine gets them, so that none has more.
pub(super) const ITEM_BYTES: u64 = 72;
const PAIR: Pair = Pair { key: 16, value: 1_024 };
/// Bytes of value files by those of the valid records in them; engines that have no such bound go
/// by `age_cutoff`.
pub(super) const SPACE_AMPLIFICATION_MAX: f64 = 1.2;
/// A file of values is filled by one memtable.
const SCALED_FILE_BYTES_MIN: u64 = 4 << 20;
/// Threads of the gets that are held against the device.
const GET_THREADS: [usize; 2] = [2, 32];
const MULTI_GET_KEYS: usize = 32;

fn base(scale: Scale) -> Plan {
    let tuning = Tuning {
        memtable_bytes: Some(scale.file(MEMTABLE_BYTES)),
        cache_bytes: Some(0),
        filter_bits: Some(10),
        size_ratio: Some(5),
        separate_at: Some(1),
        collects: Some(true),
        age_cutoff: Some(0.25),
        space_amplification_max: Some(SPACE_AMPLIFICATION_MAX),
        separated_file_bytes: Some(scale.file(MEMTABLE_BYTES).max(SCALED_FILE_BYTES_MIN)),
        ..Tuning::default()
    };
    // Memtables, two of them, as RocksDB has by default; and what finds values without the index.
    let items = scale.count(ITEMS);
    let memory = scale.memory(4 * MEMTABLE_BYTES) + items * ITEM_BYTES;
    let mut plan = plan(items, PAIR, memory, true, tuning);
    plan.settings.background_threads = 4;
    plan
}

/// Gets by some threads and many keys at a time, with the index in the engine's hands, beside what
/// the device does at the same depth. The paper's gets have one thread.
fn gets(scale: Scale, base: &Plan) -> Part {
    let operations = scale.count(READS);
    let once = |label: String, phase, threads, nth: u64| {
        let (phases, skip, operations) = (vec![phase], nth * operations, Some(operations));
        let multi_get_keys = MULTI_GET_KEYS;
        Step::run(label, Plan { phases, threads, skip, operations, multi_get_keys, ..base.clone() })
    };
    let mut steps = vec![Step::phase(base, Phase::FillRandom)];
    for (nth, threads) in GET_THREADS.into_iter().enumerate() {
        steps.push(super::values::bare_reads(base, scale, threads));
        let label = format!("gets, {threads} threads");
        steps.push(once(label, Phase::ReadOnce, threads, nth as u64));
    }
    let nth = GET_THREADS.len() as u64;
    let label = format!("multi-gets of {MULTI_GET_KEYS}, 2 threads");
    steps.push(once(label, Phase::MultiGetOnce, 2, nth));
    let held = "the device's random reads";
    Part::new("gets beside the device", held, base.clone(), steps)
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let base = base(scale);
    let main = Part::new(
        "load, update, get",
        "load and updates 3.1x RocksDB's and 1.78x BlobDB's throughput; gets 1.32x and 2.14x; \
         write amplification 82 % below RocksDB's; size as RocksDB's, BlobDB the largest",
        base.clone(),
        vec![
            Step::phase(&base, Phase::FillRandom),
            Step::operations(&base, Phase::Overwrite, scale.count(UPDATES)),
            Step::operations(&base, Phase::ReadRandom, scale.count(READS)),
        ],
    );
    let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
    steps.extend((1..=LOOKS).map(|look| {
        let plan = Plan {
            phases: vec![Phase::Overwrite],
            operations: Some(scale.count(UPDATES / LOOKS)),
            // Other choices in each step.
            seed: base.seed + look,
            ..base.clone()
        };
        Step::run(format!("{} % updated", look * 100 * UPDATES / LOOKS / ITEMS), plan)
    }));
    let size = Part::new(
        "size over time",
        "space amplification 1.2 for Wayfinder and RocksDB; BlobDB's size the largest throughout",
        base.clone(),
        steps,
    );
    let gets = gets(scale, &base);
    Experiment {
        name: "wayfinder",
        of_paper: true,
        setup: "100 million pairs of 16 bytes + 1 KiB; memtable 64 MiB, filters of 10 bits, no \
                cache, direct I/O, size ratio 5, dynamic levels, 4 background jobs, BlobDB's age \
                cutoff 25 %, a space amplification of 1.2 where an engine takes such a bound; \
                values always separated (separate_at = 1). Memory of each engine: \
                four memtables, and 72 bytes an item, so that an exact map of all keys has room \
                in its half"
            .to_owned(),
        paper_bytes: ITEMS * PAIR.bytes(),
        lacks: Vec::new(),
        parts: vec![main, size, gets],
    }
}
