//! Tree and array are asked the same, and each row is there.

use super::*;

#[test]
fn each_operation_is_measured_and_both_say_the_same() {
    let rows = run(1, 100_000).unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row.name, row.extents)).collect();
    let all = [
        "random insertions",
        "appends, each by itself",
        "appends",
        "look-ups at random",
        "ranges of 50 extents",
    ];
    assert_eq!(names, all.map(|name| (name, 100_000)));
    assert!(rows.iter().all(|row| row.tree > 0.0 && row.array > 0.0));
    assert_eq!(rows.iter().filter(|row| row.published.is_some()).count(), 1);
    assert_eq!(table(&rows).lines().count(), 2 + rows.len());
}

#[test]
fn a_tree_smaller_than_a_range_is_no_failure() {
    assert_eq!(run(1, 10).unwrap().len(), 4);
}

#[test]
fn an_answer_that_differs_is_told() {
    assert!(same(1, 1).is_ok());
    assert!(same(1, 2).unwrap_err().to_string().contains("the array 2"));
}

#[test]
fn an_array_moves_what_is_behind() {
    let mut array = Array::of(3);
    array.insert(1, 7);
    let all: Vec<_> = (0..5).map(|number| array.physical(number)).collect();
    assert_eq!(all, [Some(place(0)), Some(7), Some(place(1)), Some(place(2)), None]);
}
