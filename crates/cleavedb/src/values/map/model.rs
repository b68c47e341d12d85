//! The rules of the map as a model: a small store round the real code, every task in sub-steps,
//! chance from a seed, a crash between any two steps. Whatever is read must be the truth, and at
//! the end nothing may be left that nobody needs.
//!
//! `MAP_SEEDS` and `MAP_STEPS` make it run longer, `SEED` from another seed on.

mod reader;
mod tasks;
mod world;

use crate::values::map::guards::{Guard, Guards};
use crate::values::needed::{Broken, Marks, assert_all_met, needless};

use reader::Reader;
use world::World;

/// Mistakes of the callers, which break their duties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lapse {
    /// A read does not register its snapshot.
    UnregisteredRead,
    /// The list of snapshots is made before the memtable is frozen.
    EarlySnapshotList,
    /// A flush touches after its index is published.
    TouchAfterPublication,
    /// A flush touches before both lanes are synced.
    TouchBeforeSync,
    /// A key goes bare into the index that the map had no room for.
    RefusalIgnored,
    /// A container is collected while records are swung into it.
    CollectBeforeSwing,
    /// A container is collected that is not wholly flushed.
    CollectAboveFlushed,
    /// What was flushed is replayed.
    ReplayFlushed,
    /// A rebuild scans an index that was flushed into since the open.
    LateScan,
    /// A rebuild misses what the replayed log has superseded.
    NoShadows,
}

/// What every long enough run must meet.
const MARKS: [&str; 33] = [
    "absent_since",
    "answered_by_handle",
    "answered_by_map",
    "asked_for_snapshots",
    "checkpoint_put_off",
    "checkpoint_stale",
    "checkpoint_taken",
    "checkpoint_written",
    "crash",
    "crash_before_collection_edit",
    "crash_between_edit_and_publication",
    "crash_between_publication_and_close",
    "crash_between_touches_and_edit",
    "crash_while_swinging",
    "crash_while_touching",
    "flush_repeated_after_touch",
    "found_in_chain",
    "looked_up_again",
    "no_room",
    "quiesced",
    "rebuilt",
    "rebuilt_after_a_flush",
    "relocated",
    "relocated_too_late",
    "replaced",
    "seqs_reused_after_cut",
    "several_versions_touched",
    "shard_waits",
    "superseded_but_needed",
    "swing",
    "swing_of_nothing",
    "two_collections",
    "view_between_touch_and_publication",
];

/// One run.
fn run(seed: u64, steps: u64, guards: Guards, lapse: Option<Lapse>) -> Result<Marks, Broken> {
    let mut world = World::new(seed, guards, lapse);
    let mut readers: Vec<Reader> = Vec::new();
    let crash_percent = [2, 40, 10][seed as usize % 3];
    let told = |step: u64| move |what: String| Broken { seed, step, what };
    for step in 0..steps {
        match world.random.below(100) {
            0..=7 => {
                let key = world.any_key();
                world.write(key);
            }
            8..=44 => {
                let at = world.random.index(3);
                if at < readers.len() {
                    let next = readers.swap_remove(at).step(&mut world).map_err(told(step))?;
                    readers.extend(next);
                } else {
                    let key = world.any_key();
                    readers.push(Reader::new(&mut world, step, key));
                }
            }
            45..=64 => world.flush_step(),
            65..=67 => world.begin_collection(false),
            68..=82 => world.collection_step(),
            83..=84 if world.snapshots.len() < 3 => world.snapshots.push(world.next_seq - 1),
            83..=85 if !world.snapshots.is_empty() => {
                let at = world.random.index(world.snapshots.len());
                world.snapshots.swap_remove(at);
                if world.random.chance(50) {
                    world.map.prune_chains(&world.live());
                }
            }
            86..=89 => {
                let shard = world.random.index(2);
                world.checkpoint(shard);
            }
            90..=95 => {
                let shard = world.random.index(2);
                world.load(shard).map_err(told(step))?;
            }
            96 if world.random.chance(crash_percent) => {
                // A clean end: what is loaded is written.
                (0..2).for_each(|shard| world.checkpoint(shard));
                readers.clear();
                world.crash();
            }
            97 if world.random.chance(crash_percent) => {
                readers.clear();
                world.crash();
            }
            98 if world.random.chance(3) => {
                readers.clear();
                world.quiesce().map_err(told(step))?;
                world.mark("quiesced");
            }
            _ => {}
        }
    }
    drop(readers);
    world.quiesce().map_err(told(steps))?;
    Ok(world.marks)
}

#[test]
fn no_answer_is_wrong_and_every_mark_is_met() {
    let all = |seed, steps| run(seed, steps, Guards::default(), None);
    assert_all_met("MAP", &MARKS, all);
}

#[test]
fn every_guard_is_needed() {
    let guards = [
        (Guard::Versions, 20),
        (Guard::ExactChain, 50),
        (Guard::HiddenVersions, 50),
        (Guard::SmallestSuperseding, 50),
        (Guard::ChainInterval, 50),
        (Guard::RemoveTouches, 20),
        (Guard::ExactSwing, 50),
        (Guard::SwingChains, 50),
        (Guard::SnapshotsAfterMap, 1000),
        (Guard::FreshCheckpoint, 100),
        (Guard::QuietCheckpoint, 300),
        (Guard::RepeatTouches, 100),
        (Guard::ExactRebuild, 2000),
    ];
    let run = |guard, seed, steps| run(seed, steps, Guards::without(guard), None);
    let needless = needless("map", &guards, run);
    assert!(needless.is_empty(), "no run fails without {needless:?}");
}

#[test]
fn every_duty_of_the_callers_is_needed() {
    let lapses = [
        (Lapse::UnregisteredRead, 100),
        (Lapse::EarlySnapshotList, 1000),
        (Lapse::TouchAfterPublication, 50),
        (Lapse::TouchBeforeSync, 3000),
        (Lapse::RefusalIgnored, 20),
        (Lapse::CollectBeforeSwing, 100),
        (Lapse::CollectAboveFlushed, 50),
        (Lapse::ReplayFlushed, 50),
        (Lapse::LateScan, 300),
        (Lapse::NoShadows, 4000),
    ];
    let run = |lapse, seed, steps| run(seed, steps, Guards::default(), Some(lapse));
    let harmless = needless("map, callers", &lapses, run);
    assert!(harmless.is_empty(), "no run fails with {harmless:?}");
}
