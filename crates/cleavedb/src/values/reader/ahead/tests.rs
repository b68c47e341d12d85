//! Which values of a run the cache is asked for.

use super::*;
use crate::base::entry::FileId;

fn handle(number: u64) -> Handle {
    Handle { file: FileId(7), offset: 100 * number, bytes: 90, epoch: 0 }
}

/// The numbers of those that are asked for, where the cache has nothing but `kept` and reads go
/// past the page cache.
fn asked(numbers: impl IntoIterator<Item = u64>, kept: &[u64]) -> Vec<u64> {
    asked_after(Missed::before_all(true), numbers, kept)
}

fn asked_after(
    mut missed: Missed,
    numbers: impl IntoIterator<Item = u64>,
    kept: &[u64],
) -> Vec<u64> {
    let is_asked = |number: &u64| {
        let is_spared = missed.spares(&handle(*number));
        let is_hit = !is_spared && kept.contains(number);
        missed.last = (!is_hit).then(|| handle(*number));
        !is_spared
    };
    numbers.into_iter().filter(is_asked).collect()
}

#[test]
fn one_in_four_of_a_run_is_asked_for_in_both_directions() {
    assert_eq!(asked(0..10, &[]), [0, 4, 8]);
    assert_eq!(asked((0..10).rev(), &[]), [9, 5, 1]);
}

#[test]
fn one_of_a_run_is_asked_for_where_the_page_cache_has_it() {
    let buffered = || Missed::before_all(false);
    assert_eq!(asked_after(buffered(), 0..100, &[]), [0]);
    assert_eq!(asked_after(buffered(), 0..10, &[0, 1, 5]), [0, 1, 2]);
    assert_eq!(asked_after(buffered(), [3, 9, 1, 5], &[]), [3, 9, 1, 5]);
}

#[test]
fn all_are_asked_for_where_the_cache_had_the_one_before() {
    let kept: Vec<_> = (2..9).collect();
    assert_eq!(asked(0..14, &kept), [0, 4, 5, 6, 7, 8, 9, 13]);
}

#[test]
fn scattered_values_are_all_asked_for() {
    assert_eq!(asked([3, 9, 1, 5], &[]), [3, 9, 1, 5]);
    let mut missed = Missed { last: Some(handle(1)), ..Missed::before_all(true) };
    assert!(missed.spares(&handle(2)));
    let others = [
        Handle { file: FileId(8), ..handle(2) },
        Handle { epoch: 1, ..handle(2) },
        // The same one again.
        handle(1),
    ];
    for other in others {
        let mut missed = Missed { last: Some(handle(1)), ..Missed::before_all(true) };
        assert!(!missed.spares(&other), "{other:?}");
    }
}
