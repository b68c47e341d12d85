//! FlexDB (EuroSys'22): pairs sorted in a flexible address space. 64 GB of pairs of three sizes,
//! four clients; sequential, zipfian, uniform and zipfian-composite choices. `cleavedb-flex` and
//! `cleavedb-inline` are the two indexes beside each other, at the same memory as all others.

use super::inserts::PAGE_BYTES;
use super::{Experiment, Need, Pair, Part, Scale, Step, plan};
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

const GIB: u64 = 1 << 30;
/// Data of each store.
pub(super) const DATA_BYTES: u64 = 64_000_000_000;
const BIG_DATA_BYTES: u64 = 500_000_000_000;
pub(super) const CLIENTS: usize = 4;
/// Pairs of the three services.
pub(super) const PAIRS: [(&str, Pair); 3] = [
    ("ZippyDB", Pair { key: 48, value: 43 }),
    ("UDB", Pair { key: 27, value: 127 }),
    ("SYS", Pair { key: 28, value: 396 }),
];
const UDB: Pair = Pair { key: 27, value: 127 };
pub(super) const SCAN_PAIRS: [usize; 4] = [10, 20, 50, 100];
pub(super) const SCALING: [usize; 4] = [1, 2, 4, 8];
/// Updates of the cleaning experiment.
pub(super) const UPDATES: u64 = 800_000_000;
/// Pages inserted into a file: 1 GiB, and how long at most, for moving a tail takes long.
pub(super) const INSERTS: u64 = GIB / PAGE_BYTES;
const INSERT_SECONDS: f64 = 30.0;

fn base(scale: Scale, pair: Pair, data: u64) -> Plan {
    let tuning = Tuning {
        memtable_bytes: Some(scale.file(GIB)),
        cache_bytes: Some(scale.memory(16 * GIB)),
        ..Tuning::default()
    };
    let num = scale.items(data, pair);
    let mut plan = plan(num, pair, scale.memory(18 * GIB), false, tuning);
    plan.threads = CLIENTS;
    plan
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let mut parts = Vec::new();
    for (name, pair) in PAIRS {
        parts.extend(puts(scale, name, pair));
        parts.push(gets(scale, name, pair));
        parts.push(scans(scale, name, pair));
    }
    parts.extend(ycsb(scale));
    parts.extend(SCALING.map(|threads| scaling(scale, threads)));
    parts.push(cleaning(scale));
    parts.push(recovery(scale));
    parts.push(insert_range(scale));
    Experiment {
        name: "flexdb",
        of_paper: true,
        setup: "64 GB in pairs of 91 (ZippyDB), 154 (UDB) and 424 bytes (SYS); memtable 1 GiB, \
                cache 16 GiB, 4 clients, zipfian 0.99, buffered I/O, writes not synced one by \
                one; nothing separated (separate_at not set)"
            .to_owned(),
        paper_bytes: DATA_BYTES,
        lacks: vec![
            "FlexDB itself and KVell; `cleavedb-flex` is what has a flexible address space here",
            "inserting into the middle of a file by FlexSpace, beside the file system's own ways \
             (part `insert-range`): no engine here can insert into a file",
            "space utilisation of 50 and 85 %: no engine here takes a bound on its space",
        ],
        parts,
    }
}

/// Puts into an empty store, for each choice of keys.
fn puts(scale: Scale, name: &str, pair: Pair) -> Vec<Part> {
    let base = base(scale, pair, DATA_BYTES);
    let choices = [
        ("sequential", Phase::FillSeq),
        ("zipf", Phase::OverwriteZipf),
        ("zipf-composite", Phase::OverwriteComposite),
        ("uniform", Phase::FillReplace),
    ];
    let paper = if pair == UDB {
        "Mops/s sequential/zipf/composite: FlexDB 0.90/0.95/0.70, RocksDB 0.40/0.30/0.28; GB \
         written for 64 GB: FlexDB 135/90/108, RocksDB 330/205/258; latency in us \
         avg/p95/p99 (zipf): FlexDB 3.9/9/17, RocksDB 13.8/17/19"
    } else {
        "FlexDB writes less than RocksDB"
    };
    let part = |(choice, phase): (&str, Phase)| {
        let steps = vec![Step::phase(&base, phase)];
        Part::new(format!("put {choice}, {name}"), paper, base.clone(), steps).with_pairs(pair)
    };
    choices.into_iter().map(part).collect()
}

/// Gets of the four choices after a random load.
fn gets(scale: Scale, name: &str, pair: Pair) -> Part {
    let base = base(scale, pair, DATA_BYTES);
    let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
    let choices = [Phase::ReadSeq, Phase::ReadZipf, Phase::ReadComposite, Phase::ReadRandom];
    steps.extend(choices.map(|phase| Step::phase(&base, phase)));
    let paper = if pair == UDB {
        "Mops/s sequential/zipf/composite: FlexDB 3.0/1.35/0.92, RocksDB 0.5/0.55/0.3; latency \
         in us avg/p95/p99 (zipf): FlexDB 3.7/9/33, RocksDB 9.0/21/43"
    } else {
        "no figure at hand"
    };
    Part::new(format!("get, {name}"), paper, base, steps).with_pairs(pair)
}

fn scan(base: &Plan, pairs: usize) -> Step {
    let (phases, operations) = (vec![Phase::SeekRandom], Some((base.num / 10).max(1)));
    let plan = Plan { phases, operations, seek_pairs: pairs, ..base.clone() };
    Step::run(format!("scan {pairs}"), plan)
}

fn scans(scale: Scale, name: &str, pair: Pair) -> Part {
    let base = base(scale, pair, DATA_BYTES);
    let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
    steps.extend(SCAN_PAIRS.map(|pairs| scan(&base, pairs)));
    let paper = if pair == UDB {
        "Mops/s of 10/20/50/100: FlexDB 0.73/0.52/0.28/0.16, RocksDB 0.09/0.06/0.03/0.015"
    } else {
        "no figure at hand"
    };
    Part::new(format!("scan, {name}"), paper, base, steps).with_pairs(pair)
}

fn ycsb(scale: Scale) -> Vec<Part> {
    let rows = [
        (
            "ycsb, 64 GB",
            DATA_BYTES,
            "FlexDB A-F 787K/1.12M/1.78M/3.86M (less)/266K/815K; RocksDB 2.0-5.9x lower",
        ),
        (
            "ycsb, 500 GB",
            BIG_DATA_BYTES,
            "FlexDB A-F 520K/677K/857K/2.73M/169K/552K; RocksDB 1.1-3.9x lower",
        ),
    ];
    let part = |(name, data, paper): (&str, u64, &str)| {
        let base = base(scale, UDB, data);
        let mut steps = vec![Step::phase(&base, Phase::FillRandom)];
        steps.extend(super::ycsb(&base, base.num));
        Part::new(name, paper, base, steps).with_pairs(UDB)
    };
    rows.into_iter().map(part).collect()
}

fn scaling(scale: Scale, threads: usize) -> Part {
    let base = Plan { threads, ..base(scale, UDB, DATA_BYTES) };
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        Step::phase(&base, Phase::OverwriteZipf),
        Step::phase(&base, Phase::ReadZipf),
        scan(&base, 50),
    ];
    Part::new(
        format!("scaling, {threads} clients"),
        "1 to 8 clients, Mops/s: set FlexDB 0.52 to 0.97, RocksDB 0.24 to 0.47; get 0.4 to 2.5, \
         0.2 to 1.2; scans of 50 0.07 to 0.53, up to 0.04",
        base,
        steps,
    )
    .with_pairs(UDB)
    .at("scaling", "clients", threads as f64)
}

fn cleaning(scale: Scale) -> Part {
    let base = base(scale, UDB, DATA_BYTES);
    let updates = |phase| Step::operations(&base, phase, scale.count(UPDATES));
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        updates(Phase::OverwriteZipf),
        updates(Phase::OverwriteComposite),
    ];
    Part::new(
        "cleaning, 800 million updates",
        "FlexDB at 50 and 85 % utilisation: zipf 0.75 and 0.70 Mops/s, composite 0.57 and 0.46",
        base.clone(),
        steps,
    )
    .with_pairs(UDB)
    .lacking("a bound on space, which is what the paper varies")
}

/// The file system alone.
fn insert_range(scale: Scale) -> Part {
    let page = Pair { key: 0, value: PAGE_BYTES };
    let num = scale.items(DATA_BYTES, page);
    let plan = plan(num, page, scale.memory(18 * GIB), false, Tuning::default());
    Part::of_inserts(
        "insert-range",
        "random inserts of 4 KB: FlexSpace 0.62 GB/s, write amplification 1.03; ext4's \
         insert-range 3.4 MB/s, 2.23; XFS's write amplification 5.5",
        plan,
        scale.count(INSERTS),
        INSERT_SECONDS,
    )
}

fn recovery(scale: Scale) -> Part {
    let base = base(scale, UDB, DATA_BYTES);
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        Step::operations(&base, Phase::OverwriteZipf, (base.num / 20).max(1)),
        Step::Crash { cold: false },
        Step::operations(&base, Phase::ReadRandom, 100),
    ];
    Part::new("recovery", "FlexDB 7.8 s or 1.9 s by its rebuilding step; KVell 64 s", base, steps)
        .needing(Need::Files)
        .with_pairs(UDB)
}
