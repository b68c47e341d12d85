//! Both text forms of bytes go both ways; sizes and counts parse.

use super::*;

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    escape(bytes, &mut text);
    text
}

#[test]
fn hexadecimal_goes_both_ways() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(from_hex(to_hex(&all).as_bytes()), Ok(all));
    assert_eq!(from_hex(b"00fFA0"), Ok(vec![0, 255, 160]));
    assert!(from_hex(b"0").is_err() && from_hex(b"0g").is_err() && from_hex(b"+1").is_err());
}

#[test]
fn text_form_goes_both_ways() {
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [b"plain".as_slice(), "käse\t\u{85}\n\\x41".as_bytes(), &all, b""] {
        let text = escaped(bytes);
        assert!(!text.contains(['\t', '\n', '\r']));
        assert_eq!(unescape(text.as_bytes()).as_deref(), Ok(bytes));
    }
    assert_eq!(escaped(b"a\tb\\\xff\x00"), "a\\tb\\\\\\xff\\x00");
}

#[test]
fn wrong_escapes_are_named() {
    for wrong in [r"\", r"\q", r"\x", r"\x1", r"\xzz"] {
        assert!(unescape(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn sizes_and_counts() {
    assert_eq!(parse_size("4096"), Ok(4096));
    assert_eq!(parse_size("64k"), Ok(64 << 10));
    assert_eq!(parse_size("512MiB"), Ok(512 << 20));
    assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
    assert_eq!(parse_count("10M"), Ok(10_000_000));
    assert_eq!(parse_count("1_000"), Ok(1000));
    for wrong in ["", "k", "1x", "-1", "99999999999999999999", "99999999T"] {
        assert!(parse_size(wrong).is_err(), "{wrong}");
    }
}
