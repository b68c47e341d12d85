//! The test families by name, each ending in one line of figures.
//!
//! Used by the binary, by `cargo test` and by CI, so that all three mean the same.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use crate::crash::{Crasher, Depth, Figures};
use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, spread};
use crate::planted::Outcome;
use crate::random::mix;
use crate::session::{Check, Violation, lock};
use crate::{
    bounds, closing, damage, faults, guards, isolation, kill, metamorphic, planted, rate, small,
    sources,
};

/// Random operation lists under every form.
///
/// # Errors
/// The first violation; the same for every family.
pub fn model(budget: &Budget) -> Check<String> {
    let (seeds, operations) = metamorphic::campaign(budget, metamorphic::LIST)?;
    Ok(format!("operations={operations} seeds={seeds} differences=0"))
}

/// The seed of the run that has the base form.
const FIRST_SEED: u64 = 1;

/// Crash states of random lists.
pub fn crash(budget: &Budget) -> Check<String> {
    let total = Mutex::new(Figures::default());
    let seeds = spread(budget, "crash", 1, |seed| {
        // So that a seed says all of a run.
        let form = if seed == FIRST_SEED { Form::base() } else { Form::drawn(mix(seed)) };
        let mut crasher = Crasher::new(form, Depth::FULL, seed);
        let outcome = crasher.run(&Generator::list(seed, Profile::crash(40)));
        lock(&total).add(&crasher.figures);
        budget.count(crasher.figures.states);
        outcome
    })?;
    let total = lock(&total).clone();
    Ok(format!(
        "crash_states={} modes=8 seeds={seeds} points={} nested={} lost=0 holes=0 unopenable=0",
        total.states, total.points, total.nested
    ))
}

/// Crash states of all small lists.
pub fn small(budget: &Budget) -> Check<String> {
    let swept = small::sweep(budget, &Form::base())?;
    Ok(format!(
        "crash_states={} modes=8 sequences={} of={} runs={} points={} lost=0 holes=0 unopenable=0",
        swept.figures.states, swept.sequences, swept.of, swept.runs, swept.figures.points
    ))
}

/// A fault at every call, or at one in `one_in`.
pub fn faults(budget: &Budget, one_in: u64) -> Check<String> {
    let figures = faults::campaign(budget, one_in, 1)?;
    Ok(format!(
        "faults={} runs={} stopped={} full_disks={} violations=0 panics=0",
        figures.faults, figures.runs, figures.stopped, figures.full
    ))
}

/// Every damage to every byte, or to one in `one_in`.
pub fn damage(budget: &Budget, one_in: u64) -> Check<String> {
    let figures = damage::campaign(budget, one_in, 2)?;
    let detected = if figures.live == figures.detected { 100 } else { 0 };
    Ok(format!(
        "damaged={} file_kinds={} wrong=0 silent=0 panics=0 torn={} verify_detected={detected}%",
        figures.damaged,
        figures.kinds.len(),
        figures.torn
    ))
}

/// Kills of child processes that run `program`.
pub fn kills(program: &Path, budget: &Budget, kills: u64) -> Check<String> {
    let figures = kill::campaign(program, budget, kills)?;
    let (time, call) = (figures.by_time, figures.by_call);
    let commits = figures.commits;
    Ok(format!("kills={} at_calls={call} commits={commits} lost=0", time + call))
}

/// Histories of concurrent threads.
pub fn isolation(budget: &Budget, transfers: u64) -> Check<String> {
    let mut total = isolation::Figures::default();
    let mut histories = 0;
    let (mut next, mut kinds) = (0, isolation::kinds_of(budget.seed));
    while histories == 0 || !budget.is_spent() {
        // A seed says which indexes its history has: the next one of those whose turn it is.
        while isolation::kinds_of(budget.seed_of(next)) != kinds {
            next += 1;
        }
        let seed = budget.seed_of(next);
        (next, kinds) = (next + 1, kinds.after());
        let figures =
            isolation::run(seed, transfers).map_err(|v| v.context(format!("SEED={seed}")))?;
        total.transfers += figures.transfers;
        total.snapshots += figures.snapshots;
        total.swaps += figures.swaps;
        histories += 1;
        budget.count(1);
    }
    Ok(format!(
        "histories={histories} transfers={} snapshots={} swaps={} anomalies=0",
        total.transfers, total.snapshots, total.swaps
    ))
}

/// Databases closed while threads write and compact.
pub fn closing(budget: &Budget) -> Check<String> {
    let cancelled = || cleavedb::sim::marks().get("compaction_cancelled").copied().unwrap_or(0);
    let before = cancelled();
    let figures = closing::campaign(budget)?;
    Ok(format!(
        "closings={} writes={} refused={} compactions_cancelled={} lost=0",
        figures.closings,
        figures.writes,
        figures.refused,
        cancelled() - before
    ))
}

/// Memory, files and space of a load of `times` the memory budget.
pub fn bounds(budget: &Budget, memory_budget: u64, times: u64) -> Check<String> {
    let figures = bounds::run(budget.seed, memory_budget, times)?;
    Ok(format!(
        "budget={} loaded={} memory_peak={} descriptors={} files={} leaked=0 space_amp={:.2} \
         write_amp={:.2}",
        figures.budget,
        figures.loaded,
        figures.peak,
        figures.descriptors,
        figures.files,
        figures.space_amplification,
        figures.write_amplification
    ))
}

/// The rate limit of background writes, measured in `directory`.
pub fn rate(directory: &Path, seed: u64, limit: u64, seconds: u64) -> Check<String> {
    let figures = rate::run(directory, seed, limit, Duration::from_secs(seconds))?;
    let mb = |bytes: f64| bytes / 1e6;
    Ok(format!(
        "limit_mb_s={:.0} measured_mb_s={:.1} unlimited_mb_s={:.1} user_mb_s={:.1} \
         seconds={seconds}",
        mb(figures.limit),
        mb(figures.measured),
        mb(figures.unlimited),
        mb(figures.user)
    ))
}

/// Planted bugs; `all` runs every family against every bug. Prints the table.
pub fn planted(seed: u64, seconds: u64, all: bool, only: Option<&str>) -> Check<String> {
    let matrix = planted::matrix(seed, seconds, all, only);
    println!("{}", planted::table(&matrix));
    for (name, row) in &matrix {
        for Outcome { family, violation, .. } in row {
            if let Some(what) = violation {
                let first = what.lines().next().unwrap_or_default();
                println!("{name}: {family}: {}", first.chars().take(200).collect::<String>());
            }
        }
    }
    let (planted, caught) = (matrix.len(), planted::caught(&matrix));
    let figure = format!("planted={planted} caught={caught}");
    if planted == caught { Ok(figure) } else { Err(Violation(figure)) }
}

/// The rules for values, each switched off in turn; prints the table, row by row.
pub fn guards(seed: u64, seconds: u64) -> Check<String> {
    let caught = guards::print_table(seed, seconds);
    let all = guards::GUARDS.len();
    let figure = format!("guards={all} caught={caught}");
    if all == caught { Ok(figure) } else { Err(Violation(figure)) }
}

/// Marks that no seed can promise, with what meets them instead.
const MET_ELSEWHERE: [(&str, &str); 50] = [
    ("checkpoint_file_copied", "disks here have hard links; tests of db take them away"),
    (
        "failed_checkpoint_removed",
        "checkpoints are rare here; tests of db let each call of one fail",
    ),
    ("group_encoded_ahead", "a race of threads; models of db"),
    ("group_encoded_anew", "a race of threads; models of db"),
    ("gc_victim_gone", "a race of threads; a model of db"),
    ("gc_file_refused", "damage is met by reads here; tests of db damage what is collected"),
    ("facts_file_unreadable", "damage is met by the next open here; a test of db damages one"),
    ("values_left_unordered", "damage is met by reads here; a test of db compacts over some"),
    ("map_entry_range_deleted_in_replay", "a naive index that flushes in replay; the crash family"),
    ("map_flush_touched_again", "a flush that failed; seldom, in the faults family"),
    ("map_had_no_room", "stores are small here; a test of db fills a map"),
    ("gc_handle_beside_map", "as above"),
    ("map_place_after_view", "a race of threads; the map's model meets it"),
    ("map_place_before_view", "a race of threads; a test of db reads in that moment"),
    ("map_read_with_snapshot", "a race of threads; the map's model meets it"),
    ("gc_container_arriving", "a race of threads; the map's model shows what it saves from"),
    ("map_swung_nothing", "a flush between two steps of a collection; the map's model meets it"),
    ("map_rebuilt_without_some", "a crash between a collection and a flush that it relies on"),
    ("replay_by_two_threads", "logs are short here; a test of db replays a long one"),
    ("reads_under_way_dropped", "what the page cache has is never under way; tests of io"),
    ("batched_read_short", "the kernel's choice; tests of io"),
    ("direct_io_refused", "a file system without direct I/O; tests of io"),
    ("fallocate_refused", "a file system without fallocate; tests of io"),
    ("punch_refused_by_file_system", "a file system without holes; tests of io"),
    ("gc_little_is_dead_after_all", "samples of small files are exact; tests of values decide it"),
    ("gc_runs_were_given_back", "a disk that knows of each hole; a test of db reopens one"),
    ("ring_failed", "a kernel without io_uring; tests of io"),
    ("log_preallocation_unsupported", "a file system without fallocate; tests of log"),
    ("log_chain_ends_in_unborn_segment", "the manifest names segments first; tests of log"),
    ("log_damage_below_watermark", "the tear rule mostly speaks first; tests of log"),
    ("operator_failed_in_compaction", "the harness's operators do not fail; tests of index"),
    ("partial_merge_in_compaction", "folds mostly come first here; asserted by tests of index"),
    ("keyspace_dropped_during_flush", "a race of threads; tests of engine"),
    ("skip_list_insert_raced", "a race of threads; tests of memory"),
    ("table_batch_reads_what_another_reads", "a race of threads; tests of table"),
    ("view_taken_again_for_value_file", "a race of threads; models of db"),
    ("values_not_counted_for_dropped_keyspace", "a race of threads; models of db"),
    ("keyspace_counted_again_at_drop", "a race of threads; models of db"),
    ("value_segment_without_footer", "a disk that is full at the last frame; tests of db"),
    ("scan_error_ahead_delivered", "a scan seldom goes on to it; a test of db does"),
    ("gc_fold_is_large", "collection meets few operands here; a test of db folds one"),
    ("member_of_dropped_keyspace", "rare here; a test of db drops one in each step"),
    ("locator_chain_hit", "old snapshots of keys flushed since are rare; a test of db reads them"),
    ("locator_chain_miss", "links go with their snapshots; the locator's model meets it"),
    ("locator_stale_container", "collection tells the locator at once; tests of values"),
    ("locator_offer_over_gone", "as above; the locator's tests offer so"),
    ("kept_record_answered", "stores are small, and whole intervals fit the cache; tests of index"),
    ("kept_record_superseded", "as above; the model of kept records meets it"),
    ("values_count_of_a_gone_file", "only garbage collection leaves such entries; tests of values"),
    ("interval_rewritten_for_reclaim", "stores are small, and few tails are long; tests of index"),
];

/// Every mark in the engine must have been hit `least` times in this process.
pub fn marks(least: u64) -> Check<String> {
    let counts = cleavedb::sim::marks();
    let names = sources::marks();
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let met_elsewhere = |name: &str| MET_ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == name);
    let mut rarest: Vec<(u64, &String)> =
        names.iter().filter(|name| !met_elsewhere(name)).map(|name| (count(name), name)).collect();
    rarest.sort_unstable();
    let list = |rare: &[(u64, &String)]| {
        let rare: Vec<String> =
            rare.iter().map(|(count, name)| format!("{name}={count}")).collect();
        rare.join(" ")
    };
    let short = rarest.partition_point(|(count, _)| *count < least);
    if short > 0 {
        let rare = list(rarest.get(..short).unwrap_or_default());
        return Err(Violation(format!("marks hit fewer than {least} times: {rare}")));
    }
    let (all, elsewhere) = (names.len(), MET_ELSEWHERE.len());
    let rarest = list(rarest.get(..3).unwrap_or_default());
    Ok(format!("marks={all} each_at_least={least} met_elsewhere={elsewhere} rarest: {rarest}"))
}
