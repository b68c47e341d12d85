//! The share follows what flushes meet, within its bounds.

use std::collections::BTreeSet;

use super::*;
use crate::io::seeded::Seeded;

#[test]
fn it_halves_its_distance_to_what_the_latest_flush_met() {
    let share = SupersedingShare::new();
    assert!((share.get() - 0.5).abs() < 1e-9);
    share.learn(0, 0);
    assert!((share.get() - 0.5).abs() < 1e-9, "a flush without values tells nothing");
    share.learn(100, 75);
    assert!((share.get() - 0.75).abs() < 1e-9, "the first one is all that is known");
    share.learn(100, 25);
    assert!((share.get() - 0.5).abs() < 1e-9);
}

#[test]
fn it_stays_within_its_bounds() {
    let share = SupersedingShare::new();
    (0..50).for_each(|_| share.learn(10, 0));
    assert!((share.get() - SHARE_MIN).abs() < 1e-9);
    // A memtable may supersede more records of others than it has itself.
    (0..50).for_each(|_| share.learn(10, 1000));
    assert!((share.get() - 1.0).abs() < 1e-9);
}

/// Memtables that supersede one another, of keys at random: what each knows of itself is enough.
#[test]
fn memtables_tell_of_what_they_supersede_in_one_another() {
    for (memtables, keys) in [(1, 4_000), (2, 10_000), (4, 10_000), (4, 50_000), (6, 20_000)] {
        let mut random = Seeded::new(7);
        let mut all: BTreeSet<u64> = BTreeSet::new();
        let counts: Vec<(u64, u64)> = (0..memtables)
            .map(|_| {
                let own: BTreeSet<u64> = (0..1000).map(|_| random.below(keys)).collect();
                all.extend(&own);
                (1000, 1000 - own.len() as u64)
            })
            .collect();
        let truth = 1.0 - all.len() as f64 / (1000.0 * memtables as f64);
        let share = share_in_memtables(counts.into_iter());
        let bound = truth.max(SHARE_MIN);
        assert!(share > bound * 0.8 && share < bound * 1.35, "{memtables}: {share} for {truth}");
    }
    // An empty one takes no part.
    let with_empty = share_in_memtables([(0, 0), (100, 25)].into_iter());
    assert!((with_empty - 0.25).abs() < 1e-9);
}
