//! When gets leave the locator out.

use super::*;

const COUNTED: u64 = 0;
const OTHER: u64 = 1 << 32;

#[test]
fn a_streak_of_counted_answers_leaves_the_others_out_until_a_value_ends_it() {
    let streak = Streak::default();
    let leaves_out = |hash: u64| streak.leaves_out(|| hash);
    // Those that do not count change nothing, however many they are.
    (0..1000).for_each(|_| streak.note(OTHER, false));
    assert!(!leaves_out(OTHER));
    (1..STREAK_MIN).for_each(|_| streak.note(COUNTED, false));
    assert!(!leaves_out(OTHER));
    streak.note(COUNTED, false);
    assert!(leaves_out(OTHER) && !leaves_out(COUNTED));
    // Any value ends it, whichever key it is of, and it begins anew.
    streak.note(OTHER, true);
    assert!(!leaves_out(OTHER));
    (1..STREAK_MIN).for_each(|_| streak.note(COUNTED, false));
    assert!(!leaves_out(OTHER));
}

#[test]
fn no_hash_is_asked_for_without_a_streak() {
    assert!(!Streak::default().leaves_out(|| panic!("asked")));
}

#[test]
fn one_in_eight_keys_counts() {
    let hash = |key: u64| crate::base::checksum::key_hash(&key.to_be_bytes());
    let counted = (0..8_000_u64).filter(|key| counts(hash(*key))).count();
    assert!((900..1_100).contains(&counted), "{counted}");
}
