//! When segments are emptied.

use super::*;

fn plans(garbage_bytes: u64) -> Plans {
    Plans::new(of(garbage_bytes), 25)
}

fn of(garbage_bytes: u64) -> Figures {
    Figures { closed: Sums { bytes: 1000, garbage_bytes }, ..Figures::default() }
}

/// What it would move is written anew by the pass.
#[test]
fn a_pass_over_nearly_all_intervals_lets_garbage_gather() {
    let limits = FlexLimits { gathered_bytes_min: 100, ..FlexLimits::USUAL };
    let mut plans = plans(400);
    plans.installed(Some(of(400)), &Done::Flush(1000));
    assert!(plans.reclaim_due(false, &limits).is_some(), "somebody may be writing");
    assert!(plans.note_quiet(&limits, 1000));
    assert!(plans.reclaim_due(false, &limits).is_none(), "a pass is about to write it anew");
    plans.installed(Some(of(501)), &Done::Passed(Some(b"key".into()), 100));
    assert!(plans.reclaim_due(false, &limits).is_some(), "there is an end to it");
    plans.installed(Some(of(400)), &Done::Passed(Some(b"key".into()), 100));
    assert!(plans.reclaim_due(false, &limits).is_none());
    plans.installed(Some(of(400)), &Done::Flush(1));
    assert!(plans.reclaim_due(false, &limits).is_some(), "the pass is put off");
    plans.note_quiet(&limits, 1000);
    assert!(plans.reclaim_due(false, &limits).is_none());
    plans.installed(Some(of(400)), &Done::Passed(None, 100));
    plans.installed(Some(of(400)), &Done::Passed(None, 100));
    assert!(plans.reclaim_due(false, &limits).is_some(), "all has been passed");
}

/// It leaves alone most of what a reclaim would move.
#[test]
fn a_pass_over_the_worst_intervals_alone_does_not() {
    let limits = FlexLimits { gathered_bytes_min: 100, ..FlexLimits::USUAL };
    let mut plans = plans(400);
    plans.installed(Some(of(400)), &Done::Flush(200));
    assert!(plans.note_quiet(&limits, 1000));
    assert!(plans.reclaim_due(false, &limits).is_some());
    plans.installed(Some(of(250)), &Done::Reclaim(true));
    assert!(plans.reclaim_due(false, &limits).is_none(), "so much is left alone");
}

#[test]
fn intervals_are_written_anew_first_unless_garbage_comes_too_fast() {
    let may_rewrite = |garbage_bytes| plans(garbage_bytes).may_rewrite(&FlexLimits::USUAL);
    assert!(may_rewrite(300) && !may_rewrite(320));
}

/// As on a full disk, where segments are to be emptied all the sooner.
#[test]
fn a_pass_that_failed_is_given_up() {
    let limits = FlexLimits { gathered_bytes_min: 100, ..FlexLimits::USUAL };
    let mut plans = plans(400);
    plans.installed(Some(of(400)), &Done::Flush(1000));
    plans.note_quiet(&limits, 1000);
    assert!(plans.reclaim_due(false, &limits).is_none());
    plans.rewrite_failed();
    assert!(plans.reclaim_due(false, &limits).is_some() && plans.rewrites_wait);
    assert!(!plans.note_quiet(&limits, 1000) && plans.reclaim_due(false, &limits).is_some());
    plans.installed(Some(of(400)), &Done::Reclaim(true));
    assert!(plans.rewrites_wait, "nothing is known to be better");
    plans.installed(Some(of(400)), &Done::Flush(1000));
    assert!(!plans.rewrites_wait && plans.note_quiet(&limits, 1000));
}
