//! When holes pay.

use super::*;

const LIMITS: SpaceLimits = SpaceLimits { amplification_max: 1.25, slack_bytes: 0 };

/// A file of 64 records of a MiB each, of which so many are dead and would leave as holes.
fn looked(dead: u64, freed_of_each: u64) -> Looked {
    const RECORD: u64 = 1 << 20;
    Looked {
        id: FileId(7),
        length: 65 * RECORD,
        file_bytes: 64 * RECORD + 4000,
        freed_bytes: dead * freed_of_each,
        is_punched: false,
        refs: (64, 64 * RECORD),
        records_left: (64 - dead, (64 - dead) * RECORD),
        live_record_bytes: (64 - dead) * RECORD,
    }
}

#[test]
fn only_records_of_many_blocks_are_looked_at() {
    assert!(may_pay((10, 10 * 16_384), 4096) && may_pay((1, 8 << 20), 4096));
    assert!(!may_pay((10, 10 * 16_383), 4096) && !may_pay((10, 10 * 1_058), 4096));
    assert!(!may_pay((0, 0), 4096));
}

#[test]
fn dead_records_of_many_blocks_leave_as_holes() {
    let most_of_it = (1 << 20) - 8192;
    for dead in [1, 20, 40, 55] {
        assert_eq!(remedy(&looked(dead, most_of_it), &LIMITS), Remedy::Punch, "{dead}");
    }
}

#[test]
fn where_holes_leave_too_much_values_move() {
    assert_eq!(remedy(&looked(20, 500_000), &LIMITS), Remedy::Move);
    let nothing_found = Looked { freed_bytes: 0, ..looked(0, 0) };
    assert_eq!(remedy(&nothing_found, &LIMITS), Remedy::Leave);
    let not_as_holes = Looked { live_record_bytes: 30 << 20, freed_bytes: 0, ..looked(0, 0) };
    assert_eq!(remedy(&not_as_holes, &LIMITS), Remedy::Move);
}

#[test]
fn what_is_left_alone_is_not_worth_collecting() {
    let garbage = |share: u64| Looked {
        freed_bytes: 0,
        file_bytes: (100 + share) << 20,
        live_record_bytes: 100 << 20,
        refs: (100, 100 << 20),
        records_left: (100, 100 << 20),
        length: (100 + share) << 20,
        ..looked(0, 0)
    };
    for (share, is_punched, wanted) in [
        (7, false, Remedy::Leave),
        (8, false, Remedy::Move),
        (14, true, Remedy::Leave),
        (16, true, Remedy::Move),
    ] {
        let looked = Looked { is_punched, ..garbage(share) };
        assert_eq!(remedy(&looked, &LIMITS), wanted, "{share} {is_punched}");
    }
}

#[test]
fn what_little_is_left_of_a_file_moves() {
    for (dead, remedy_wanted) in [(55, Remedy::Punch), (56, Remedy::Move), (63, Remedy::Move)] {
        assert_eq!(remedy(&looked(dead, (1 << 20) - 8192), &LIMITS), remedy_wanted, "{dead}");
    }
    assert_eq!(remedy(&looked(64, 1 << 20), &LIMITS), Remedy::Move);
}
