//! KDSep (ICDE'24): changes of parts of values (deltas) in a store of their own. Reads and changes
//! 10:90 of 100-byte parts of 1,000-byte values, zipfian, over three bases: values in the index
//! (`cleavedb-inline`), `unified` (`cleavedb`) and `wisckey` (`cleavedb-wisckey`), each with its
//! operands in buckets and, as another engine, in the index.

use super::{Experiment, Need, Pair, Part, Scale, Step, plan};
use crate::distribution::ZIPF_EXPONENT;
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;
use crate::workload::Mix;

const GIB: u64 = 1 << 30;
const DATA_BYTES: u64 = 100 * GIB;
pub(super) const OPERATIONS: u64 = 200_000_000;
/// Items and operations of the motivating experiments.
pub(super) const MOTIVATION_ITEMS: u64 = 100_000_000;
pub(super) const MOTIVATION_OPERATIONS: u64 = 50_000_000;
/// Items of the UP2X experiment.
pub(super) const UP2X_ITEMS: u64 = 1_000_000_000;
/// Shares of reads, in percent.
pub(super) const READ_PERCENT: [u32; 5] = [10, 30, 50, 70, 90];
/// Those of them at which reads are counted by level.
pub(super) const COUNTED_READ_PERCENT: [u32; 2] = [10, 50];
pub(super) const EXPONENTS: [f64; 5] = [0.8, 0.9, 0.99, 1.1, 1.2];
pub(super) const VALUE_BYTES: [u64; 5] = [100, 500, 1_000, 4_000, 8_000];
pub(super) const PART_BYTES: [usize; 6] = [25, 50, 100, 200, 400, 800];
/// Exp#8.
pub(super) const SPLIT_PERCENT: [u64; 6] = [10, 30, 50, 70, 80, 90];
/// Exp#11.
pub(super) const WRITE_BUFFER_MIB: [u64; 5] = [1, 2, 4, 8, 16];
/// Exp#12.
pub(super) const DELTA_CACHE_MIB: [u64; 7] = [0, 32, 64, 128, 256, 512, 1_024];
/// Items beside a value or a counter with very many operands, and its operands.
const LIST_NEIGHBOURS: u64 = 10_000;
pub(super) const APPENDS: u64 = 50_000;
pub(super) const INCREMENTS: u64 = 1_000_000;
/// The parts of these; full size comes at a thousandth already.
pub(super) const LONG: [&str; 2] =
    ["a value of 50,000 appends", "a counter of a million increments among a million others"];
const LONG_MEMORY_BYTES: u64 = 64 << 20;
/// Gets whose mean is the warm one.
const WARM_GETS: u64 = 100;
const PAIR: Pair = Pair { key: 24, value: 1_000 };
const UP2X_PAIR: Pair = Pair { key: 10, value: 47 };

fn base(scale: Scale, pair: Pair, num: u64) -> Plan {
    let tuning = Tuning {
        memtable_bytes: Some(scale.file(64 << 20)),
        file_bytes: Some(scale.file(16 << 20)),
        merges_parts: true,
        // The paper's bases that keep values apart do so whatever their length.
        separate_at: Some(1),
        ..Tuning::default()
    };
    let mut plan = plan(num, pair, scale.memory(4 * GIB), true, tuning);
    plan.settings.background_threads = 8;
    plan.zipf_exponent = ZIPF_EXPONENT;
    plan
}

/// The plan of Exp#1 and of everything that varies it.
fn usual(scale: Scale) -> Plan {
    base(scale, PAIR, scale.items(DATA_BYTES, PAIR))
}

/// A mix under a name; reads and puts in thousandths, the rest changes a part.
fn mixed(base: &Plan, phase: Phase, mix: Mix, operations: u64) -> Step {
    let change = if phase == Phase::MixPut { "get+put" } else { "merge" };
    let (read, put) = (mix.read_permille, mix.put_permille);
    let change_permille = 1_000 - read - put;
    let label = format!("reads {read} puts {put} {change} {change_permille} of 1000");
    let plan = Plan { phases: vec![phase], mix, operations: Some(operations), ..base.clone() };
    Step::run(label, plan)
}

fn percent(read: u32) -> Mix {
    Mix { read_permille: read * 10, ..Mix::default() }
}

fn part(name: impl Into<String>, paper: &str, base: Plan, steps: Vec<Step>) -> Part {
    let mut all = vec![Step::phase(&base, Phase::FillRandom)];
    all.extend(steps);
    let value = (base.value_bytes + base.key_bytes) as u64 - PAIR.key.min(base.value_bytes as u64);
    let pair = Pair { key: PAIR.key, value };
    Part::new(name, paper, base, all).with_pairs(pair)
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let mut parts = motivation(scale);
    parts.extend(reads(scale));
    parts.extend(workloads(scale));
    parts.extend(shapes(scale));
    parts.extend(insides(scale));
    parts.extend(crashes(scale));
    parts.extend(without_journal(scale));
    parts.extend(long(scale));
    Experiment {
        name: "kdsep",
        of_paper: true,
        setup: "100 GiB of 24 + 1,000 bytes, 200 million operations, parts of 100 bytes, zipfian \
                0.99; memtable 64 MiB, files of 16 MiB, 8 background threads, direct I/O, 4 GiB of \
                memory; bases RocksDB, BlobDB and a value log of the authors (vLogDB); what \
                keeps values apart keeps all of them apart (separate_at of 1)"
            .to_owned(),
        paper_bytes: DATA_BYTES,
        lacks: vec!["vLogDB, for which fjall-blob and surrealkv-vlog may stand"],
        parts,
    }
}

fn motivation(scale: Scale) -> Vec<Part> {
    let base = base(scale, PAIR, scale.count(MOTIVATION_ITEMS));
    let operations = scale.count(MOTIVATION_OPERATIONS);
    // Each on a store of its own: merges of an earlier mix would be read by a later one.
    let each = READ_PERCENT.into_iter().flat_map(|read| {
        [Phase::MixPut, Phase::MixMerge].map(|phase| {
            let change = if phase == Phase::MixPut { "get+put" } else { "merge" };
            part(
                format!("figures 2-3, {change}, {read}:{}", 100 - read),
                "RocksDB: a merge takes 4.8-6.0 us instead of 139.8-156.1 us as get+put, reads \
                 50.8-74.1 % longer; at 50:50 with BlobDB get+put 46.5 % and its reads 48.0 % \
                 shorter, reads beside merges 116.6 % longer than beside get+put",
                base.clone(),
                vec![mixed(&base, phase, percent(read), operations)],
            )
        })
    });
    each.collect()
}

/// Figure 4. Apart from the timed ones, for counting takes time.
fn reads(scale: Scale) -> Vec<Part> {
    let mut base = base(scale, PAIR, scale.count(MOTIVATION_ITEMS));
    base.settings.tuning.statistics = true;
    let operations = scale.count(MOTIVATION_OPERATIONS);
    let each = COUNTED_READ_PERCENT.into_iter().flat_map(|read| {
        [(Phase::MixPut, "get+put"), (Phase::MixMerge, "merge")].map(|(phase, change)| {
            part(
                format!("figure 4, {change}, {read}:{}", 100 - read),
                "reads for each level and the share of operands: no figure at hand",
                base.clone(),
                vec![mixed(&base, phase, percent(read), operations)],
            )
        })
    });
    each.collect()
}

/// Exp#1 to Exp#3.
fn workloads(scale: Scale) -> Vec<Part> {
    let (base, operations) = (usual(scale), scale.count(OPERATIONS));
    let mut up2x = self::base(scale, UP2X_PAIR, scale.count(UP2X_ITEMS));
    up2x.mix = Mix { read_permille: 75, put_permille: 0, part_bytes: up2x.value_bytes };
    let mixes = [("A", 50), ("B", 95), ("F", 50)].map(|(name, read)| {
        let Step::Run { plan, .. } = mixed(&base, Phase::MixMerge, percent(read), operations)
        else {
            return Step::Crash { cold: false };
        };
        Step::run(format!("{name}M: {read} % reads, {} % merges", 100 - read), *plan)
    });
    vec![
        part(
            "Exp#1, 10:90",
            "KDSep over RocksDB, BlobDB, vLogDB: throughput +80.5/67.0/68.2 %, reads \
             -49.9/41.9/46.3 %, changes -6.7/33.3/7.4 %, I/O -27/41/37 %, space +6.4/-12.5/+6.1 %",
            base.clone(),
            vec![mixed(&base, Phase::MixMerge, percent(10), operations)],
        ),
        part(
            "Exp#2, UP2X",
            "KDSep +51.3/30.3/34.2 %; RocksDB ahead of BlobDB and vLogDB",
            up2x.clone(),
            vec![mixed(&up2x, Phase::MixMerge, up2x.mix, operations)],
        )
        .with_pairs(UP2X_PAIR),
        part(
            "Exp#3, YCSB A-F",
            "KDSep within 2.4 %; BlobDB +53.0-101.2 % by RocksDB in A-D and F, -89.8 % in E",
            base.clone(),
            super::ycsb(&base, operations),
        ),
        part("Exp#3, AM BM FM", "KDSep: AM, FM +80/20/65 %, BM +5-12 %", base, mixes.to_vec()),
    ]
}

/// Exp#4 to Exp#6.
fn shapes(scale: Scale) -> Vec<Part> {
    let (base, operations) = (usual(scale), scale.count(OPERATIONS));
    let mut parts = Vec::new();
    for read in READ_PERCENT {
        let (phases, operations) = (vec![Phase::MixMerge], Some(operations));
        let plan = Plan { phases, mix: percent(read), operations, ..base.clone() };
        // One name for all shares, so that they are one curve.
        let step = Step::run("gets and merges", plan);
        let paper = "KDSep by vLogDB +68.2, 68.4, 66.0, 35.1, 18.6 % from 10:90 to 90:10";
        let name = format!("Exp#4, {read}:{}", 100 - read);
        let part = part(name, paper, base.clone(), vec![step]);
        parts.push(part.at("Exp#4, gets and merges", "% of gets", f64::from(read)));
    }
    for zipf_exponent in EXPONENTS {
        let base = Plan { zipf_exponent, ..base.clone() };
        let step = mixed(&base, Phase::MixMerge, percent(10), operations);
        let paper = "KDSep by vLogDB +50.8 % (0.8) to +67.2 %";
        let part = part(format!("Exp#5, zipf {zipf_exponent}"), paper, base, vec![step]);
        parts.push(part.at("Exp#5, skew", "Zipf exponent", zipf_exponent));
    }
    for value in VALUE_BYTES {
        let pair = Pair { key: 24, value };
        let base = self::base(scale, pair, scale.items(DATA_BYTES, pair));
        let step = mixed(&base, Phase::MixMerge, percent(10), operations);
        let paper = "KDSep by vLogDB +20.5 to +68.2 %, most for values of medium size";
        let part = part(format!("Exp#6, values of {value} B"), paper, base, vec![step]);
        parts.push(part.at("Exp#6, size of values", "bytes of a value", value as f64));
    }
    for part_bytes in PART_BYTES {
        let pair = Pair { key: 24, value: 8_000 };
        let base = self::base(scale, pair, scale.items(DATA_BYTES, pair));
        let step = mixed(&base, Phase::MixMerge, Mix { part_bytes, ..percent(10) }, operations);
        let paper = "KDSep by vLogDB +13.3 % (25 B) to +80.6 % (800 B)";
        let part = part(format!("Exp#6, parts of {part_bytes} B"), paper, base, vec![step]);
        parts.push(part.at("Exp#6, size of parts", "bytes of a part", part_bytes as f64));
    }
    parts
}

/// Exp#7, 8, 11, 12: the parts of the delta store.
fn insides(scale: Scale) -> Vec<Part> {
    let base = usual(scale);
    let varied = |name: String, paper: &str, vary: &dyn Fn(&mut Tuning)| {
        let mut base = base.clone();
        vary(&mut base.settings.tuning);
        let step = mixed(&base, Phase::MixMerge, percent(10), scale.count(OPERATIONS));
        part(name, paper, base, vec![step])
    };
    let mut parts = Vec::new();
    for (name, splits) in [("splits and merges", true), ("rewriting only", false)] {
        let paper = "splits and merges by rewriting only: +55.1/29.4/19.3 %";
        let vary = |tuning: &mut Tuning| tuning.bucket_splits = Some(splits);
        parts.push(varied(format!("Exp#7, {name}"), paper, &vary).needing(Need::Widths));
    }
    for percent in SPLIT_PERCENT {
        let vary = |tuning: &mut Tuning| tuning.bucket_split_percent = Some(percent);
        let part = varied(format!("Exp#8, split at {percent} %"), "no influence", &vary);
        let part = part.at("Exp#8, split threshold", "% of a bucket", percent as f64);
        parts.push(part.needing(Need::Widths));
    }
    for buffer in WRITE_BUFFER_MIB {
        let vary = |tuning: &mut Tuning| tuning.memtable_bytes = Some(buffer << 20);
        let paper = "within 2.1 %; here the memtable is the write buffer";
        let part = varied(format!("Exp#11, write buffer {buffer} MiB"), paper, &vary);
        parts.push(part.at("Exp#11, write buffer", "MiB", buffer as f64));
    }
    for cache in DELTA_CACHE_MIB {
        let vary = |tuning: &mut Tuning| tuning.delta_cache_bytes = Some(scale.times(cache << 20));
        let paper = "0.802 of vLogDB without a cache, more from 32 MiB on, +68.2 % at 512 MiB";
        let part = varied(format!("Exp#12, delta cache {cache} MiB"), paper, &vary);
        let part = part.at("Exp#12, delta cache", "MiB, before scaling", cache as f64);
        parts.push(part.needing(Need::Widths));
    }
    parts
}

/// One value of very many appends, and one counter of very many increments among others: what a
/// get of it takes, with all caches filled and just after opening. As large as here from a factor
/// of a thousandth on.
fn long(scale: Scale) -> Vec<Part> {
    let scale = Scale((scale.factor() * 1_000.0).min(1.0));
    let mut list = base(scale, PAIR, scale.count(LIST_NEIGHBOURS));
    list.settings.memory_budget = LONG_MEMORY_BYTES;
    list.settings.tuning.memtable_bytes = None;
    let mut counter = list.clone();
    counter.settings.tuning.merges_parts = false;
    let of = |name: &str, base: Plan, (write, read): (Phase, Phase), operations: u64| {
        let get = |label: &str, operations| {
            let operations = Some(operations);
            Step::run(label, Plan { phases: vec![read], operations, ..base.clone() })
        };
        let steps = vec![
            Step::operations(&base, write, operations),
            get("gets, warm", WARM_GETS),
            Step::Reopen(Box::new(base.settings.clone())),
            get("one get, cold", 1),
        ];
        let part = part(name, "no paper: operands of one key beyond all measure", base, steps);
        part.needing(Need::Files)
    };
    vec![
        of(LONG[0], list, (Phase::AppendOne, Phase::ReadAppended), scale.count(APPENDS)),
        of(LONG[1], counter, (Phase::CountHot, Phase::ReadHot), 2 * scale.count(INCREMENTS)),
    ]
}

/// The four workloads of Exp#9 and Exp#10: shares of reads and puts in thousandths.
pub(super) const CRASH_MIXES: [(&str, u32, u32); 4] =
    [("W1", 100, 0), ("W2", 0, 0), ("W3", 0, 500), ("W4", 0, 1_000)];

/// Exp#9 and Exp#10: each workload, killed at its end, and opened again.
fn crashes(scale: Scale) -> Vec<Part> {
    let base = usual(scale);
    let part = |(name, read_permille, put_permille): (&str, u32, u32)| {
        let mix = Mix { read_permille, put_permille, ..Mix::default() };
        let steps = vec![
            mixed(&base, Phase::MixMerge, mix, scale.count(OPERATIONS)),
            Step::Crash { cold: false },
            Step::operations(&base, Phase::ReadRandom, 100),
        ];
        part(
            format!("Exp#9-10, {name}"),
            "being able to recover costs KDSep 2.5-6.9 % (W1-W3), 0.6 % (W4); vLogDB recovers in \
             1.07-1.82 s, KDSep in 4.08-5.02 s more, as fast in W4",
            base.clone(),
            steps,
        )
        .needing(Need::Files)
    };
    CRASH_MIXES.into_iter().map(part).collect()
}

/// The other side of Exp#9: the same workloads without a log, so that nothing could be recovered.
fn without_journal(scale: Scale) -> Vec<Part> {
    let mut base = usual(scale);
    base.settings.tuning.journaled = Some(false);
    let part = |(name, read_permille, put_permille): (&str, u32, u32)| {
        let mix = Mix { read_permille, put_permille, ..Mix::default() };
        let steps = vec![mixed(&base, Phase::MixMerge, mix, scale.count(OPERATIONS))];
        part(
            format!("Exp#9, {name} without a log"),
            "what being able to recover costs: by the part of the same workload with a log",
            base.clone(),
            steps,
        )
        .needing(Need::Widths)
    };
    CRASH_MIXES.into_iter().map(part).collect()
}
