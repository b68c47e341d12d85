//! Cuts of what has become too large.

use super::*;
use crate::base::entry::Kind;
use crate::index::flex::intervals::run::Record;

/// The parts, as where each of them begins and ends.
fn cut(run: &RunBuilder, bytes_max: u64) -> Option<Vec<(usize, usize)>> {
    let parts = parts(run, bytes_max)?;
    Some(parts.into_iter().map(|part| (part.start, part.end)).collect())
}

/// Records of these keys, each with a value of so many bytes.
fn of(keys: &[(&str, usize)]) -> RunBuilder {
    let mut builder = RunBuilder::default();
    for ((key, bytes), seq) in keys.iter().zip((1..100).rev()) {
        let value = vec![7; *bytes];
        builder.add(&Record { key: key.as_bytes(), seq, kind: Kind::Put, value: &value });
    }
    builder
}

#[test]
fn what_is_not_too_large_is_not_cut() {
    let run = of(&[("a", 10), ("b", 10), ("c", 10)]);
    assert_eq!(cut(&run, run.bytes()), Some(vec![(0, 3)]));
    assert_eq!(cut(&run, run.bytes() - 1), Some(vec![(0, 1), (1, 3)]));
}

#[test]
fn halves_differ_as_little_as_their_records_allow() {
    let run = of(&[("a", 10), ("b", 10), ("c", 10), ("d", 30), ("e", 10)]);
    assert_eq!(cut(&run, 80), Some(vec![(0, 3), (3, 5)]));
    let run = of(&[("a", 50), ("b", 10), ("c", 10)]);
    assert_eq!(cut(&run, 80), Some(vec![(0, 1), (1, 3)]));
}

#[test]
fn versions_of_a_key_stay_together() {
    let run = of(&[("a", 10), ("b", 10), ("b", 10), ("b", 10), ("b", 10), ("c", 10)]);
    assert_eq!(cut(&run, 80), Some(vec![(0, 1), (1, 6)]));
    let run = of(&[("b", 10), ("b", 10), ("b", 10)]);
    assert_eq!(cut(&run, 20), None, "there is no cut");
}

#[test]
fn what_two_are_too_few_for_is_not_cut() {
    let run = of(&[("a", 10), ("b", 90), ("c", 10)]);
    assert_eq!(cut(&run, 80), None);
    let run = of(&[("a", 10), ("b", 10), ("c", 10), ("d", 10), ("e", 10), ("f", 10)]);
    assert_eq!(cut(&run, run.bytes() / 2 - 1), None);
    assert_eq!(cut(&run, run.bytes() / 2), Some(vec![(0, 3), (3, 6)]));
}
