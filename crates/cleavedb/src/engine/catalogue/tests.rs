//! Edits of the catalogue: round trips, hostile bytes, names.

use super::*;
use proptest::prelude::*;

#[test]
fn edits_round_trip() {
    let edits = [
        KeyspaceEdit::Create {
            id: KeyspaceId(3),
            name: "users".into(),
            settings: KeyspaceSettings {
                index: IndexKind::Naive,
                merge_operator: Some("u64-add".into()),
                compression: vec![Compression::None, Compression::Zstd],
                separate_at: Some(0),
                value_compression: Compression::Lz4,
                deltas: Some(Deltas::Inline),
            },
        },
        KeyspaceEdit::Create {
            id: KeyspaceId(4),
            name: "counters".into(),
            settings: KeyspaceSettings {
                merge_operator: Some("u64-add".into()),
                compression: vec![Compression::None],
                deltas: Some(Deltas::Buckets),
                ..KeyspaceSettings::default()
            },
        },
        KeyspaceEdit::Drop { id: KeyspaceId(2) },
        KeyspaceEdit::LastId { id: 9 },
    ];
    let section = KeyspaceEdit::encode(&edits);
    assert_eq!(section.tag, SectionTag::KEYSPACES);
    assert_eq!(KeyspaceEdit::decode(&section.payload).unwrap(), edits);
}

proptest! {
    #[test]
    fn hostile_bytes_give_errors(bytes: Vec<u8>) {
        let _ = KeyspaceEdit::decode(&bytes);
    }
}

#[test]
fn names_are_checked() {
    assert!(check_name("users").is_ok());
    assert!(check_name("").is_err());
    assert!(check_name("a\nb").is_err());
    assert!(check_name(&"x".repeat(256)).is_err());
}
