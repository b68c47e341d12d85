//! Runs a model, a few threads over real parts of the engine, through many schedules.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p cleavedb --lib --target-dir target/shuttle shuttle`;
//! `SCHEDULES` sets how many each model of [`THOROUGH`] runs through; the others run through a
//! tenth of them. A failure prints its schedule, which `SCHEDULE` runs again, best with the
//! model's name and `SHUTTLE_CAPTURE_BACKTRACE=1`.

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::base::sync::Arc;

/// A thread's stack: opening a database takes more than the few pages that shuttle gives.
const STACK_BYTES: usize = 256 << 10;

/// Far above what any model takes: threads that wait for each other for ever are told apart.
const STEPS_MAX: usize = 200_000;

/// Switches of a schedule with few of them.
const SWITCHES: usize = 3;

/// The models of what everything else stands on.
const THOROUGH: [&str; 16] = [
    "commit_order",
    "commit_failed_append",
    "commit_failed_sync",
    "commit_sync",
    "memtable_switch",
    "flush_hand_over",
    "snapshot_against_flush",
    "version_pinning",
    "keyspace_drop",
    "journal_roll",
    "compactions_in_pool",
    "lanes_durability",
    "lanes_dead_files",
    "gc_delete",
    "checkpoint",
    "close",
];

/// Runs a model under random schedules, half of them with few, far-apart switches (PCT).
pub(crate) fn check(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let most = std::env::var("SCHEDULES").ok().and_then(|s| s.parse().ok()).unwrap_or(1000);
    let schedules: usize = if THOROUGH.contains(&name) { most } else { most.div_ceil(10) };
    let model: Arc<dyn Fn() + Send + Sync> = Arc::new(model);
    if let Ok(schedule) = std::env::var("SCHEDULE") {
        run(ReplayScheduler::new_from_encoded(&schedule), &model);
        return;
    }
    let few = schedules / 2;
    run(RandomScheduler::new(schedules - few), &model);
    run(PctScheduler::new(SWITCHES, few), &model);
    println!("shuttle name={name} schedules={schedules} failures=0");
}

fn run(scheduler: impl Scheduler + 'static, model: &Arc<dyn Fn() + Send + Sync>) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    // All orderings are taken as sequentially consistent; that is known.
    config.silence_warnings = true;
    let model = Arc::clone(model);
    Runner::new(scheduler, config).run(move || model());
}
