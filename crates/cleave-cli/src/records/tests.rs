//! Pairs survive every line form; wrong lines say what is wrong.

use super::*;

#[test]
fn every_pair_survives_every_form() {
    let binary: Vec<u8> = (0..=255).collect();
    let pairs: [(&[u8], &[u8]); 6] = [
        (b"key", b"value"),
        (b"", b""),
        (b"tab\there", b"line\nfeed\\n"),
        ("käse".as_bytes(), "\u{1f9c0}".as_bytes()),
        (&binary, &binary),
        (b"cr\r", b"cr\r"),
    ];
    for format in [LineFormat::Json, LineFormat::Tsv] {
        for hex in [false, true] {
            for (key, value) in pairs {
                let line = encode(format, key, Some(value), hex);
                assert!(!line.contains('\n'));
                let back = decode(format, line.as_bytes(), hex);
                assert_eq!(back, Ok(Some((key.to_vec(), value.to_vec()))), "{line}");
            }
        }
    }
}

#[test]
fn json_uses_text_where_it_can() {
    let line = |key, value| encode(LineFormat::Json, key, value, false);
    assert_eq!(line(b"a", Some(b"b")), r#"{"key":"a","value":"b"}"#);
    assert_eq!(line(b"\xff", Some(b"b")), r#"{"key_hex":"ff","value":"b"}"#);
    assert_eq!(line(b"a", Some(b"\x80")), r#"{"key":"a","value_hex":"80"}"#);
    assert_eq!(line(b"a", None), r#"{"key":"a"}"#);
}

#[test]
fn wrong_lines_say_what_is_wrong() {
    for (format, line, part) in [
        (LineFormat::Json, "{", "EOF"),
        (LineFormat::Json, r#"{"key":"a"}"#, "neither \"value\""),
        (LineFormat::Json, r#"{"key":"a","key_hex":"61","value":"b"}"#, "both"),
        (LineFormat::Json, r#"{"key":"a","value":"b","more":1}"#, "more"),
        (LineFormat::Json, r#"{"key":"a","value":1}"#, "expected a string"),
        (LineFormat::Json, r#"{"key_hex":"6","value":"b"}"#, "odd"),
        (LineFormat::Tsv, "key", "no tab"),
        (LineFormat::Tsv, "key\tva\\lue", "\\l"),
    ] {
        let error = decode(format, line.as_bytes(), false).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn empty_lines_and_windows_line_ends() {
    assert_eq!(decode(LineFormat::Tsv, b"\r", false), Ok(None));
    let pair = Some((b"a".to_vec(), b"b\tc".to_vec()));
    assert_eq!(decode(LineFormat::Tsv, b"a\tb\tc\r", false), Ok(pair));
}
