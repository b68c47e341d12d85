//! The measure of gaps between keys.

use super::*;

#[test]
fn gaps_are_wide_by_their_part_of_the_range() {
    let number = |number: u64| number.to_be_bytes();
    let span = KeySpan::new(&number(1_000), &number(1_000 + 16 * 50));
    assert!(!span.is_wide_gap(&number(1_000), &number(1_049)));
    assert!(span.is_wide_gap(&number(1_000), &number(1_050)));
    // Behind the range nothing is measured, but nothing fails either.
    assert!(!span.is_wide_gap(&number(5_000), &number(4_000)));
}

#[test]
fn what_all_keys_begin_with_does_not_count() {
    let span = KeySpan::new(b"user:0001:name", b"user:9999:name");
    assert!(!span.is_wide_gap(b"user:0001:name", b"user:0002:name"));
    assert!(span.is_wide_gap(b"user:0001:name", b"user:5000:name"));
}

#[test]
fn ranges_of_one_key_and_keys_that_end_are_fine() {
    let span = KeySpan::new(b"same", b"same");
    assert!(!span.is_wide_gap(b"same", b"same"));
    let span = KeySpan::new(b"", b"zz");
    assert!(!span.is_wide_gap(b"a", b"a\0"));
    assert!(span.is_wide_gap(b"a", b"q"));
    assert!(!span.is_wide_gap(b"", b""));
}
