//! Which keys stand as they are, and that no two facts' subjects are one.

use super::*;
use crate::values::drops::testing::{hash, long_key};

fn subject(kind: FactKind, keyspace: u32, key: &[u8]) -> Subject {
    let subject = Subject::new(hash(), kind, KeyspaceId(keyspace), key);
    subject.check().unwrap();
    assert_eq!(subject.kind(), kind);
    subject
}

#[test]
fn subjects_differ_by_keyspace_kind_and_key() {
    let keys = [vec![], vec![0], vec![1], vec![7; 16], vec![7; 32], vec![7; 33], long_key(1)];
    let mut all = Vec::new();
    for kind in [FactKind::Superseded, FactKind::Moved] {
        for keyspace in [1, 2, 31, 32, 1 << 20, u32::MAX] {
            all.extend(keys.iter().map(|key| subject(kind, keyspace, key)));
        }
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn keys_of_up_to_32_bytes_stand_as_they_are() {
    let kind = FactKind::Superseded;
    assert_eq!(*subject(kind, 1, b"apple"), *b"\x04apple");
    assert_eq!(*subject(FactKind::Moved, 1, b"apple"), *b"\x06apple");
    assert_eq!(subject(kind, u32::MAX, &[9; 32]).len(), SUBJECT_BYTES_MAX);
    let hashed = subject(kind, 1, &[9; 33]);
    assert_eq!(hashed.len(), 1 + HASH_BYTES);
    assert_eq!(hashed[0], 5);
    // A short key with the very bytes of a long one's hash is another subject.
    assert_ne!(subject(kind, 1, &hashed[1..]), hashed);
}

#[test]
fn what_no_key_makes_is_refused() {
    let mut subject = Subject::EMPTY;
    assert!(subject.check().is_err(), "nothing");
    for (bytes, why) in [
        (&b"\x00key"[..], "keyspace zero"),
        (b"\x80", "a head cut short"),
        (b"\x84\x00", "a head longer than it needs to be"),
        (b"\xff\xff\xff\xff\x7f", "a keyspace of more than 32 bits"),
        (b"\x05seventeen bytes !", "a hash of 17 bytes"),
        (b"\x05fifteen bytes !", "a hash of 15 bytes"),
    ] {
        subject.replace_tail(0, bytes).unwrap();
        assert!(subject.check().is_err(), "{why}");
    }
    subject.replace_tail(0, &[4; 34]).unwrap();
    assert!(subject.check().is_err(), "a key of 33 bytes");
    assert!(subject.replace_tail(0, &[4; SUBJECT_BYTES_MAX + 1]).is_err());
    assert!(subject.replace_tail(35, b"").is_err(), "more shared than there is");
    assert!(subject.replace_tail(34, b"abc").is_ok());
    assert!(subject.replace_tail(37, b"d").is_err());
}
