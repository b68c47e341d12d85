//! The rules of the locator as a model: a small store round the real code, fingerprints of two
//! bits, every task in sub-steps, chance from a seed. Whatever is read must be the truth.
//!
//! `LOCATOR_SEEDS` and `LOCATOR_STEPS` make it run longer, `SEED` from another seed on.

mod reader;
mod tasks;
mod world;

use crate::values::locator::guards::{Guard, Guards};
use crate::values::needed::{Broken, Marks, assert_all_met, needless};

use reader::Reader;
use world::World;

/// Mistakes of the callers, which break their duties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lapse {
    /// A candidate's record is not compared with the key.
    NoKeyCheck,
    /// Nor its seq with the snapshot.
    NoSeqCheck,
    /// A flush touches after its index is published.
    TouchAfterPublication,
    /// A reader offers what its snapshot sees.
    OfferAtSnapshot,
    /// A link of a chain gets the largest seq of the key in the flush.
    LargestSuperseding,
    /// Checkpoints are stamped with the flushed seq.
    StampIsSeq,
}

/// What every long enough run must meet.
const MARKS: [&str; 40] = [
    "answered_by_locator",
    "candidate_gone",
    "candidate_newer_than_snapshot",
    "candidate_of_another_key",
    "chain_hit",
    "chain_miss",
    "checkpoint_missing",
    "checkpoint_put_off",
    "checkpoint_stale",
    "checkpoint_taken",
    "checkpoint_taken_late",
    "checkpoint_written",
    "crash",
    "crash_before_collection_edit",
    "crash_between_collection_and_swing",
    "crash_between_edit_and_publication",
    "crash_between_publication_and_close",
    "crash_while_touching",
    "entry_dropped_by_split",
    "entry_evicted",
    "fact_that_matches_nothing",
    "flush_repeated_after_touch",
    "link_evicted",
    "offer_beside",
    "offer_inserted",
    "offer_over_gone",
    "offer_refused_changed",
    "offer_refused_has_home",
    "offer_refused_newer",
    "offer_refused_odd",
    "offer_refused_unverified",
    "offer_refused_waiting",
    "seqs_reused_after_cut",
    "several_matches_touched",
    "side_evicted",
    "swing",
    "touch_with_match",
    "two_collections",
    "view_between_touch_and_publication",
    "window_rolled",
];

/// One run.
fn run(seed: u64, steps: u64, guards: Guards, lapse: Option<Lapse>) -> Result<Marks, Broken> {
    let mut world = World::new(seed, guards, lapse);
    let mut readers: Vec<Reader> = Vec::new();
    for step in 0..steps {
        match world.random.below(100) {
            0..=5 => world.write(),
            6..=45 => {
                let at = world.random.index(3);
                if at < readers.len() {
                    let reader = readers.swap_remove(at);
                    let next = reader.step(&mut world);
                    let next = next.map_err(|what| Broken { seed, step, what })?;
                    readers.extend(next);
                } else {
                    let key = world.any_key();
                    readers.push(Reader::new(&mut world, key));
                }
            }
            46..=71 => {
                // For a while mostly the one, then mostly the other: flushes overtake each other.
                let is_usual = world.random.chance(85);
                let keyspace = if is_usual { step as usize / 64 } else { world.random.index(2) };
                world.flush_step(keyspace % 2);
            }
            72..=74 => world.begin_collection(),
            75..=86 => world.collection_step(),
            87..=88 if world.snapshots.len() < 3 => world.snapshots.push(world.next_seq - 1),
            87..=89 if !world.snapshots.is_empty() => {
                let at = world.random.index(world.snapshots.len());
                world.snapshots.swap_remove(at);
                // A reader of it would hold it.
                readers.clear();
                if world.random.chance(50) {
                    world.locator.prune_chains(world.snapshots.iter().min().copied());
                }
            }
            90..=91 if world.random.chance(10) => world.checkpoints.clear(),
            92..=94 => world.checkpoint(),
            95..=97 => world.load(),
            98 if world.random.chance(world.profile.crash_percent) => {
                readers.clear();
                world.crash();
            }
            99 if world.random.chance(3) => world.locator.clear(),
            _ => {}
        }
    }
    world.sum_figures();
    Ok(world.marks)
}

#[test]
fn no_answer_is_wrong_and_every_mark_is_met() {
    let all = |seed, steps| run(seed, steps, Guards::default(), None);
    assert_all_met("LOCATOR", &MARKS, all);
}

#[test]
fn every_guard_is_needed() {
    let guards = [
        (Guard::RemoveTouches, 20),
        (Guard::TouchEveryMatch, 1000),
        (Guard::ShardVersion, 100),
        (Guard::OddUntilPublished, 100),
        (Guard::VerifiedSide, 300),
        (Guard::OneHome, 1000),
        (Guard::ExactSwing, 50),
        (Guard::ChainInterval, 50),
        (Guard::ExactChain, 3000),
        (Guard::FreshCheckpoint, 100),
        (Guard::RepeatTouches, 100),
        (Guard::RepeatRemovals, 200),
        (Guard::WindowRoll, 1000),
    ];
    let run = |guard, seed, steps| run(seed, steps, Guards::without(guard), None);
    let needless = needless("locator", &guards, run);
    assert!(needless.is_empty(), "no run fails without {needless:?}");
}

#[test]
fn every_duty_of_the_callers_is_needed() {
    let lapses = [
        (Lapse::NoKeyCheck, 20),
        (Lapse::NoSeqCheck, 20),
        (Lapse::TouchAfterPublication, 50),
        (Lapse::OfferAtSnapshot, 100),
        (Lapse::LargestSuperseding, 100),
        (Lapse::StampIsSeq, 1000),
    ];
    let run = |lapse, seed, steps| run(seed, steps, Guards::default(), Some(lapse));
    let harmless = needless("locator, callers", &lapses, run);
    assert!(harmless.is_empty(), "no run fails with {harmless:?}");
}
