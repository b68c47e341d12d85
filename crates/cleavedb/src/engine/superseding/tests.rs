//! The share follows what flushes meet, within its bounds.

use super::*;

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
