//! Bounds and prefixes become half-open ranges.

use super::*;

#[test]
fn bounds_become_half_open() {
    let range = key_range(&("a".."c"));
    assert_eq!(range, KeyRange { start: Some(b"a".into()), end: Some(b"c".into()) });
    let range = key_range(&("a"..="c"));
    assert_eq!(range.end.as_deref(), Some(&b"c\0"[..]));
    let range = key_range::<&str>(&(Bound::Excluded("a"), Bound::Unbounded));
    assert_eq!(range, KeyRange { start: Some(b"a\0".into()), end: None });
    assert_eq!(key_range::<&str>(&..), KeyRange::default());
}

#[test]
fn prefixes_end_before_their_successor() {
    assert_eq!(prefix_range(b"ab").end.as_deref(), Some(&b"ac"[..]));
    assert_eq!(prefix_range(b"a\xff\xff").end.as_deref(), Some(&b"b"[..]));
    assert_eq!(prefix_range(b"\xff").end, None);
    assert_eq!(prefix_range(b""), KeyRange::default());
}

#[test]
fn reversed_ranges_are_refused_and_empty_ones_known() {
    let range = |start: &str, end: &str| key_range(&(start..end));
    assert!(check_range(&range("b", "a")).is_err());
    assert!(check_range(&range("a", "a")).is_ok());
    assert!(is_empty_range(&range("a", "a")));
    assert!(is_empty_range(&range("", "")));
    assert!(!is_empty_range(&range("a", "b")));
}
