//! How many pairs a run begins, and when: pure numbers.

use super::{AHEAD_PAIRS_MAX, AHEAD_PAIRS_MIN, Expected, FIRST_PAIRS_MAX, room};

/// Windows of a run of so many pairs, each as (pairs taken when it was begun, its pairs).
fn windows(length: usize, expected: Option<Expected>) -> Vec<(usize, usize)> {
    windows_where(length, expected, false)
}

fn windows_where(
    length: usize,
    expected: Option<Expected>,
    is_cached: bool,
) -> Vec<(usize, usize)> {
    let mut windows = Vec::new();
    let mut ahead = 0;
    for run in 0..length {
        if let Some(room) = room(run, ahead, expected, is_cached) {
            assert!((1..=AHEAD_PAIRS_MAX).contains(&room.pairs));
            windows.push((run, room.pairs));
            ahead += room.pairs;
        }
        assert!(ahead > 0, "whoever asks for a pair gets one");
        ahead -= 1;
    }
    windows
}

#[test]
fn what_is_ahead_follows_what_was_taken_if_nothing_is_known() {
    let windows = windows(3000, None);
    assert_eq!(windows[..3], [(0, 1), (1, 1), (2, AHEAD_PAIRS_MIN)]);
    let begun_by = |run| windows.iter().filter(|(at, _)| *at <= run).map(|(_, n)| n).sum::<usize>();
    for run in AHEAD_PAIRS_MIN..3000 {
        let ahead = begun_by(run) - run;
        assert!(ahead <= run.next_power_of_two().max(AHEAD_PAIRS_MIN + 1), "{ahead} at {run}");
        assert!(ahead <= AHEAD_PAIRS_MAX);
        // The device is kept busy once a run is long.
        assert!(run < 1024 || ahead >= AHEAD_PAIRS_MAX / 2, "{ahead} at {run}");
    }
}

#[test]
fn a_run_as_long_as_usual_reads_exactly_its_pairs() {
    for length in [2, 3, 7, 8, 9, 50, 64, 65, 100, 200] {
        let expected = Expected { least: length, most: length + 1 };
        let windows = windows(length, Some(expected));
        let first = if length < 2 * FIRST_PAIRS_MAX { length } else { FIRST_PAIRS_MAX };
        assert_eq!(windows[0], (0, first));
        assert_eq!(windows.iter().map(|(_, pairs)| pairs).sum::<usize>(), length);
    }
}

#[test]
fn beyond_the_usual_nothing_is_begun_until_somebody_waits() {
    let expected = Expected { least: 25, most: 75 };
    let windows = windows(75, Some(expected));
    assert_eq!(windows[..2], [(0, 25), (25, AHEAD_PAIRS_MIN)]);
    let mut begun = 0;
    for (run, pairs) in windows {
        assert_eq!(run, begun, "the window before is used up");
        begun += pairs;
    }
    assert_eq!(room(10, 15, Some(expected), false), None);
    assert_eq!(room(25, 0, Some(expected), false).map(|room| room.beside), Some(50));
}

#[test]
fn a_run_of_which_much_is_expected_keeps_the_device_busy_from_its_seek_on() {
    let expected = Expected { least: 1000, most: 1024 };
    let windows = windows(1000, Some(expected));
    assert_eq!(windows[..4], [(0, 64), (1, 64), (2, 64), (3, 64)]);
}

#[test]
fn what_the_page_cache_has_is_begun_when_it_is_asked_for() {
    let usual = Expected { least: 1000, most: 1024 };
    for expected in [None, Some(Expected { least: 25, most: 75 }), Some(usual)] {
        let mut begun = 0;
        for (run, pairs) in windows_where(2000, expected, true) {
            assert_eq!(run, begun, "the window before is used up");
            begun += pairs;
        }
    }
    let beside = |is_cached| room(25, 0, Some(usual), is_cached).unwrap().beside_bytes;
    assert!(beside(true) < beside(false));
}
