//! What is expected after runs of one length, of many, and of another.

use super::{Expected, RUN_MAX, UsualRun};

fn after(runs: impl IntoIterator<Item = usize>) -> Option<Expected> {
    let usual = UsualRun::default();
    runs.into_iter().for_each(|run| usual.note(run));
    usual.expected()
}

#[test]
fn nothing_is_expected_of_the_first_run() {
    assert_eq!(after([]), None);
    assert_eq!(after([0, 0]), None);
}

#[test]
fn runs_of_one_length_are_expected_to_the_pair() {
    for run in [1, 2, 10, 50, 100, 777] {
        let expected = after([run; 64]).expect("runs were noted");
        assert_eq!(expected.least, run);
        assert!((run..=run + 1).contains(&expected.most), "{expected:?} of {run}");
    }
    assert_eq!(after([1_000_000; 64]).map(|expected| expected.least), Some(RUN_MAX));
}

#[test]
fn runs_of_many_lengths_are_expected_with_care() {
    // 1 to 100 in an order that mixes them.
    let expected = after((0..1000).map(|i| i * 37 % 100 + 1)).expect("runs were noted");
    assert!((10..=45).contains(&expected.least), "{expected:?}");
    assert!((55..=95).contains(&expected.most), "{expected:?}");
    // Looks for one key between long scans: no seek is to read ahead.
    let expected = after((0..100).flat_map(|_| [1, 1000])).expect("runs were noted");
    assert!(expected.least <= 128, "{expected:?}");
}

#[test]
fn a_change_of_habit_is_learned_within_some_runs() {
    let expected = after([1000; 50].into_iter().chain([1; 24])).expect("runs were noted");
    assert!(expected.least <= 1, "{expected:?}");
    let expected = after([1; 50].into_iter().chain([50; 40])).expect("runs were noted");
    assert!((44..=50).contains(&expected.least), "{expected:?}");
}
