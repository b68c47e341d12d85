//! The decisions over random stores: what is due, that it helps, that it ends.

use super::*;
use crate::values::strategy::wisckey::Wisckey;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn limits(amplification_max: f64) -> SpaceLimits {
    SpaceLimits { amplification_max, slack_bytes: 0 }
}

fn file(id: u64, file_bytes: u64, live_bytes: u64) -> FileFigures {
    let is_dead = live_bytes == 0;
    let id = FileId(id);
    let (is_settled, is_taken, is_punched) = (true, false, false);
    let (rewrites, newest_seq) = (0, id.0);
    FileFigures {
        id,
        file_bytes,
        live_bytes,
        is_dead,
        is_settled,
        is_taken,
        is_punched,
        rewrites,
        newest_seq,
    }
}

fn any_file() -> impl Strategy<Value = FileFigures> {
    (1..1000u64, 80..MIB, 0..=100u64, 0..10u8, 0..10u8).prop_map(
        |(id, file_bytes, live, settled, taken)| FileFigures {
            id: FileId(id),
            file_bytes,
            live_bytes: file_bytes * live / 100,
            is_dead: live == 0 && settled > 1,
            is_settled: settled > 1,
            is_taken: taken == 0,
            is_punched: taken % 2 == 1,
            rewrites: u32::from(settled % 5),
            newest_seq: id,
        },
    )
}

fn any_files() -> impl Strategy<Value = Vec<FileFigures>> {
    proptest::collection::btree_map(1..1000u64, any_file(), 0..40).prop_map(|files| {
        files.into_iter().map(|(id, file)| FileFigures { id: FileId(id), ..file }).collect()
    })
}

fn any_limits() -> impl Strategy<Value = SpaceLimits> {
    (prop_oneof![1.01..1.5f64, 1.5..10.0f64], prop_oneof![Just(0), 0..8 * MIB])
        .prop_map(|(amplification_max, slack_bytes)| SpaceLimits { amplification_max, slack_bytes })
}

use proptest::strategy::Strategy;

proptest! {
    #[test]
    fn plans_touch_only_what_they_may(files in any_files(), limits in any_limits()) {
        let plan = plan(&files, &limits, 0, &Wisckey);
        let find = |id| files.iter().find(|file| file.id == id).unwrap();
        for &id in plan.dead.iter().chain(&plan.victims) {
            prop_assert!(find(id).is_settled && !find(id).is_taken);
        }
        for file in files.iter().filter(|file| file.is_settled && !file.is_taken) {
            prop_assert_eq!(plan.dead.contains(&file.id), file.is_dead);
        }
        for &id in &plan.victims {
            prop_assert!(!find(id).is_dead, "the dead go unread");
            prop_assert!(find(id).garbage_bytes() > 0, "something is freed");
        }
        prop_assert!(plan.victims.is_sorted(), "the oldest first");
        // G1
        prop_assert_eq!(plan.urgency > Urgency::None, !plan.victims.is_empty());
    }

    #[test]
    fn urgency_follows_the_share_of_what_is_allowed(files in any_files(), limits in any_limits()) {
        let space = Space::of(&files);
        prop_assert_eq!(space.file_bytes, space.live_bytes + space.garbage_bytes);
        let share = space.garbage_bytes as f64 / space.allowed_bytes(&limits).max(1) as f64;
        let wanted = match share {
            _ if space.garbage_bytes == 0 => Urgency::None,
            share if share >= 1.0 => Urgency::Paced,
            share if share >= 0.85 => Urgency::Urgent,
            share if share >= 0.6 => Urgency::Due,
            _ => Urgency::None,
        };
        let is_close = [0.6, 0.85, 1.0].iter().any(|mark| (share - mark).abs() < 1e-3);
        prop_assert!(is_close || space.urgency(&limits) == wanted, "share {}", share);
        // Below the limit of the user nobody waits.
        let amplification = space.file_bytes as f64 / space.live_bytes.max(1) as f64;
        if amplification < limits.amplification_max * 0.999 {
            prop_assert!(space.urgency(&limits) < Urgency::Paced || is_close);
        }
    }

    /// Collecting what the plan says, until it says nothing, ends, and ends within the limits.
    #[test]
    fn collection_comes_to_an_end(mut files in any_files(), limits in any_limits()) {
        for next_id in 1000.. {
            prop_assert!(next_id <= 1040, "it goes on and on");
            let plan = plan(&files, &limits, 0, &Wisckey);
            files.retain(|file| !plan.dead.contains(&file.id));
            let Some(victim) = plan.victims.first() else {
                prop_assert_eq!(plan.urgency, Urgency::None);
                break;
            };
            let at = files.iter().position(|file| file.id == *victim).unwrap();
            let live_bytes = files.remove(at).live_bytes;
            // Put again: into a file without garbage.
            files.push(file(next_id, live_bytes, live_bytes));
        }
        prop_assert_eq!(Space::of(&files).urgency(&limits), Urgency::None);
    }
}

#[test]
fn the_thresholds_are_those_of_the_design() {
    // 1000 live bytes in all, so 250 bytes of garbage are allowed.
    let urgency = |garbage: u64| Space::of(&[file(1, 1000 + garbage, 1000)]).urgency(&limits(1.25));
    assert_eq!(urgency(0), Urgency::None);
    assert_eq!((urgency(149), urgency(150)), (Urgency::None, Urgency::Due));
    assert_eq!((urgency(212), urgency(213)), (Urgency::Due, Urgency::Urgent));
    assert_eq!((urgency(249), urgency(250)), (Urgency::Urgent, Urgency::Paced));
}

#[test]
fn dead_files_go_first_and_do_not_make_others_go() {
    let files = [file(1, 1000, 900), file(2, 1000, 0), file(3, 5000, 0)];
    let plan = plan(&files, &limits(1.25), 0, &Wisckey);
    assert_eq!(plan.dead, [FileId(2), FileId(3)]);
    assert_eq!((plan.urgency, plan.victims), (Urgency::None, vec![]));
}

#[test]
fn a_small_store_has_some_slack() {
    let files = [file(1, MIB, MIB / 2)];
    let strict = plan(&files, &limits(1.25), 0, &Wisckey);
    assert_eq!((strict.urgency, strict.victims), (Urgency::Paced, vec![FileId(1)]));
    let slack = SpaceLimits { amplification_max: 1.25, slack_bytes: 2 * MIB };
    assert_eq!(plan(&files, &slack, 0, &Wisckey).urgency, Urgency::None);
    assert_eq!(worthwhile(&files, &slack, &Wisckey), [FileId(1)], "where somebody asks");
}

#[test]
fn a_file_that_is_mostly_dead_goes_whatever_the_slack() {
    let slack = SpaceLimits { amplification_max: 1.25, slack_bytes: 100 * MIB };
    let files = [file(1, MIB, MIB / 3), file(2, MIB, MIB / 5)];
    let plan = plan(&files, &slack, 0, &Wisckey);
    assert_eq!((plan.urgency, plan.victims), (Urgency::Due, vec![FileId(2)]));
}

#[test]
fn what_is_not_flushed_counts_as_live() {
    let growing = FileFigures { is_settled: false, is_dead: false, ..file(1, MIB, 0) };
    let plan = plan(&[growing], &limits(1.25), 0, &Wisckey);
    assert_eq!((plan.urgency, plan.dead, plan.victims), (Urgency::None, vec![], vec![]));
    assert_eq!(Space::of(&[growing]).live_bytes, MIB);
}

#[test]
fn what_is_expected_counts_where_it_is_a_part_worth_finding_out() {
    let limits = SpaceLimits { amplification_max: 1.25, slack_bytes: 0 };
    let space = |garbage_bytes| Space { file_bytes: 0, live_bytes: 4000, garbage_bytes };
    // 1000 are allowed, collection is due at 600.
    assert!(is_due(&space(0), 600, &limits) && !is_due(&space(0), 599, &limits));
    assert!(is_due(&space(300), 300, &limits));
    assert!(!is_due(&space(900), 299, &limits), "what is known comes first");
}

#[test]
fn what_is_about_to_die_makes_collection_more_pressing() {
    let files = [file(1, 1100, 1000), file(2, 1000, 1000)];
    let planned = |expected| plan(&files, &limits(1.25), expected, &Wisckey);
    assert_eq!((planned(0).urgency, planned(0).victims), (Urgency::None, vec![]));
    assert_eq!((planned(250).urgency, planned(250).victims), (Urgency::Due, vec![FileId(1)]));
    assert_eq!(planned(400).urgency, Urgency::Paced);
    // There is nothing to collect where all that is known lives.
    let whole = [file(2, 1000, 1000)];
    assert_eq!(plan(&whole, &limits(1.25), 900, &Wisckey).urgency, Urgency::None);
}
