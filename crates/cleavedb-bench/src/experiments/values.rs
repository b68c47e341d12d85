//! Values stored apart, held against what the device itself can do in the same run: loads against
//! a bare loop of `write`, cold gets and long scans against random reads at the same depth, updates
//! under bounds on space, recovery from a long log.

use super::{Experiment, Need, Pair, Part, Scale, Step, plan};
use crate::engine::Settings;
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

const GIB: u64 = 1 << 30;
const MEMORY_BYTES: u64 = 256 << 20;

/// Loads: bytes, sizes of values, threads.
const LOAD_BYTES: u64 = 2 * GIB;
pub(super) const LOAD_VALUES: [u64; 3] = [1 << 10, 4 << 10, 16 << 10];
const LOAD_THREADS: [usize; 2] = [1, 2];

/// Data of cold gets and of scans.
const READ_BYTES: u64 = GIB;
/// Bare reads at each depth: as many as fit into this time.
const BARE_READS: u64 = 100_000_000;
const BARE_SECONDS: f64 = 2.0;
/// Longest time of the gets or scans of one kind.
const READ_SECONDS: f64 = 20.0;
/// Gets that bring the index into the cache, and gets measured of each kind: shares of the items,
/// so that no item is read twice.
const WARMING_SHARE: u64 = 10;
const MEASURED_SHARE: u64 = 5;
/// Keys of one multi-get.
const MULTI_GET_KEYS: usize = 32;

const SCAN_VALUES: [u64; 2] = [1 << 10, 4 << 10];
/// Pairs between two seeks of a long scan.
const SCAN_PAIRS: usize = 20_000;
const SCAN_DEPTH: usize = 64;

/// Updates: bytes, how often each item is updated on average, bounds.
const UPDATED_BYTES: u64 = 2 * GIB;
const UPDATES: u64 = 3;
pub(super) const BOUNDS: [f64; 4] = [1.1, 1.25, 1.5, 2.0];

/// Recovery: bytes of pairs, a little below what the engine's bound on unflushed log lets stand;
/// memory in which all of them stay in one memtable.
const UNFLUSHED_BYTES: u64 = 480 << 20;
const ROOM_BYTES: u64 = 2 * GIB;
const ROOM_BUDGET_BYTES: u64 = 8 * GIB;
const RECOVERED_VALUES: [u64; 2] = [1 << 10, 100];

fn pair(value: u64) -> Pair {
    Pair { key: 16, value }
}

fn base(scale: Scale, data: u64, value: u64, threads: usize, direct: bool) -> Plan {
    let num = scale.items(data, pair(value));
    let tuning = Tuning::default();
    Plan { threads, ..plan(num, pair(value), scale.memory(MEMORY_BYTES), direct, tuning) }
}

fn size(value: u64) -> String {
    if value < 1_024 { format!("{value} B") } else { format!("{} KiB", value >> 10) }
}

fn counted(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The parts.
pub(super) fn experiment(scale: Scale) -> Experiment {
    let mut parts = loads(scale);
    parts.push(cold_gets(scale));
    parts.extend(SCAN_VALUES.map(|value| scans(scale, value)));
    parts.extend(updates(scale));
    parts.extend(recoveries(scale));
    Experiment {
        name: "values",
        of_paper: false,
        setup:
            "keys of 16 bytes, no compression, 256 MiB of memory; bare phases ask no engine but \
                the device that holds the store, in the same process and just before"
                .to_owned(),
        paper_bytes: LOAD_BYTES,
        lacks: Vec::new(),
        parts,
    }
}

/// Loads beside a bare loop of writes of the same bytes by as many threads.
fn loads(scale: Scale) -> Vec<Part> {
    let mut parts = Vec::new();
    for direct in [false, true] {
        for threads in LOAD_THREADS {
            for value in LOAD_VALUES {
                let base = base(scale, LOAD_BYTES, value, threads, direct);
                let mut steps = vec![Step::phase(&base, Phase::BareWrites)];
                steps.push(Step::phase(&base, Phase::BareWritesSynced));
                if direct {
                    steps.push(Step::phase(&base, Phase::BareWritesDirect));
                }
                steps.push(Step::phase(&base, Phase::FillRandom));
                let io = if direct { "direct" } else { "buffered" };
                let curve = format!("load, {}, {io}", counted(threads));
                let name = format!("load, {}, {}, {io}", size(value), counted(threads));
                let held = "a bare loop of write(2)";
                let part = Part::new(name, held, base, steps);
                parts.push(part.at(&curve, "bytes of a value", value as f64));
            }
        }
    }
    parts
}

/// Random pages by the device itself, so many at a time.
pub(super) fn bare_reads(base: &Plan, scale: Scale, depth: usize) -> Step {
    let operations = Some(scale.count(BARE_READS));
    let (phases, seconds) = (vec![Phase::BareReads], Some(BARE_SECONDS));
    let plan = Plan { phases, operations, seconds, threads: depth, ..base.clone() };
    Step::run(format!("bare reads of 4 KiB, {depth} at a time"), plan)
}

/// Gets of values that no cache holds; the index is in the cache.
fn cold_gets(scale: Scale) -> Part {
    let base = base(scale, READ_BYTES, 1 << 10, 2, true);
    let multi_get_keys = MULTI_GET_KEYS;
    let (warming, each) = (base.num / WARMING_SHARE, base.num / MEASURED_SHARE);
    let once = |label: &str, phase, threads, skip, operations| {
        let (phases, operations) = (vec![phase], Some(operations));
        let seconds = Some(READ_SECONDS);
        let plan =
            Plan { phases, threads, skip, operations, seconds, multi_get_keys, ..base.clone() };
        Step::run(label, plan)
    };
    let place = |nth: u64| warming + nth * each;
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        Step::Reopen(Box::new(base.settings.clone())),
        once("gets that warm the index", Phase::ReadOnce, 32, 0, warming),
        bare_reads(&base, scale, 2),
        once("cold gets, 2 threads", Phase::ReadOnce, 2, place(0), each),
        bare_reads(&base, scale, 32),
        once("cold gets, 32 threads", Phase::ReadOnce, 32, place(1), each),
        once("cold multi-gets of 32, 1 thread", Phase::MultiGetOnce, 1, place(2), each),
        bare_reads(&base, scale, 64),
        once("cold multi-gets of 32, 2 threads", Phase::MultiGetOnce, 2, place(3), each),
    ];
    let held = "the device's random reads";
    let mut part = Part::new("cold gets, 1 KiB", held, base, steps).needing(Need::Files);
    part.note = Some(
        "Every item is read at most once, so no value can come from a cache. Every get needs one \
         device read at least."
            .to_owned(),
    );
    part
}

/// Long scans after a random load, with and without reading ahead.
fn scans(scale: Scale, value: u64) -> Part {
    let base = base(scale, READ_BYTES, value, 1, true);
    let reopen = |prefetch| {
        let tuning = Tuning { prefetch: Some(prefetch), ..Tuning::default() };
        Step::Reopen(Box::new(Settings { tuning, ..base.settings.clone() }))
    };
    let scan = |label: &str, threads| {
        let (phases, seconds) = (vec![Phase::Scan], Some(READ_SECONDS));
        let scan_pairs = SCAN_PAIRS;
        Step::run(label, Plan { phases, threads, scan_pairs, seconds, ..base.clone() })
    };
    let steps = vec![
        Step::phase(&base, Phase::FillRandom),
        reopen(true),
        bare_reads(&base, scale, SCAN_DEPTH),
        scan("long scan, 1 thread, prefetch", 1),
        scan("long scan, 2 threads, prefetch", 2),
        reopen(false),
        scan("long scan, 1 thread, no prefetch", 1),
        scan("long scan, 2 threads, no prefetch", 2),
    ];
    let held = "the same thread without prefetch; the device's random reads";
    Part::new(format!("long scans, {}", size(value)), held, base, steps).needing(Need::Files)
}

/// Updates while garbage is collected, under each bound.
fn updates(scale: Scale) -> Vec<Part> {
    let mut parts = Vec::new();
    for (choice, phase) in [("uniform", Phase::Overwrite), ("zipfian", Phase::OverwriteZipf)] {
        let base = base(scale, UPDATED_BYTES, 1 << 10, 2, true);
        let part = |base: Plan, name: String, held: &str| {
            let updated = Step::operations(&base, phase, base.num * UPDATES);
            Part::new(
                name,
                held,
                base.clone(),
                vec![Step::phase(&base, Phase::FillRandom), updated],
            )
        };
        for bound in BOUNDS {
            let mut base = base.clone();
            base.settings.tuning.space_amplification_max = Some(bound);
            let name = format!("updates, {choice}, space at most {bound}");
            let part = part(base, name, "its own bound on space").needing(Need::SpaceBound);
            parts.push(part.at(&format!("updates, {choice}"), "space_amplification_max", bound));
        }
        parts.push(part(base, format!("updates, {choice}, as opened"), "each other"));
    }
    parts
}

/// A kill with a log as long as one may be that nothing was flushed of.
fn recoveries(scale: Scale) -> Vec<Part> {
    let mut parts = Vec::new();
    for value in RECOVERED_VALUES {
        for cold in [false, true] {
            let mut base = base(scale, UNFLUSHED_BYTES, value, 2, false);
            base.settings.memory_budget = scale.memory(ROOM_BUDGET_BYTES);
            base.settings.tuning.memtable_bytes = Some(scale.file(ROOM_BYTES));
            base.settings.tuning.replay_bytes_max = Some(scale.file(ROOM_BYTES));
            let steps = vec![
                Step::phase(&base, Phase::FillRandom),
                Step::Crash { cold },
                Step::operations(&base, Phase::ReadRandom, 100),
            ];
            let cache = if cold { "log not cached" } else { "log cached" };
            let name = format!("recovery, {}, {cache}", size(value));
            let part = Part::new(name, "bytes of log by seconds", base, steps);
            parts.push(part.needing(Need::Files));
        }
    }
    parts
}
