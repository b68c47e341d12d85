//! Typed operands become what the operators take; values become text.

use super::*;

#[test]
fn operands_have_the_operators_encoding() {
    assert_eq!(encode("u64-add", b"258").unwrap(), [2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode("i64-add", b"-1").unwrap(), [255; 8]);
    assert_eq!(encode("append", b"-1").unwrap(), b"-1");
    assert_eq!(encode("set-union", b"pear").unwrap(), b"\x04pear");
    assert_eq!(encode("patch", b"5:a:b").unwrap(), b"\x05\0\0\0a:b");
    for (operator, wrong) in [
        ("u64-add", "-1"),
        ("u64-max", "x"),
        ("i64-add", "1.5"),
        ("patch", "abc"),
        ("patch", "-1:abc"),
        ("patch", "4294967295:a"),
    ] {
        assert!(encode(operator, wrong.as_bytes()).is_err(), "{operator} {wrong}");
    }
}

#[test]
fn sets_are_shown_one_member_a_line() {
    let long = vec![b'x'; 300];
    let set = operators::encode_set([b"a\tb".as_slice(), &long]);
    let shown = show_set(&set).unwrap();
    assert_eq!(shown.lines().next(), Some("a\\tb"));
    assert_eq!(shown.lines().nth(1).map(str::len), Some(300));
    assert!(show_set(b"\x05abc").is_err());
    assert!(show_set(&[0xff; 20]).is_err());
    assert_eq!(show_set(b"").unwrap(), "");
}
