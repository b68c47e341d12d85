//! Hashes that stand on disk keep their values; parts of a checksum add up.

use super::*;

#[test]
fn the_hash_on_disk_keeps_its_value() {
    let hash = KeyedHash::new(b"0123456789abcdef");
    // As in docs/format/golden/value-segment-v3.txt.
    assert_eq!(hash.hash(KeyspaceId(1), b"apple"), 0x8a67_8acb_d37b_91e4);
    assert_eq!(hash.hash(KeyspaceId(1), b"plum"), 0x1ca3_3c29_245a_9aad);
    assert_ne!(hash.hash(KeyspaceId(2), b"apple"), hash.hash(KeyspaceId(1), b"apple"));
    let other = KeyedHash::new(b"0123456789abcdeF");
    assert_ne!(other.hash(KeyspaceId(1), b"apple"), hash.hash(KeyspaceId(1), b"apple"));
}

#[test]
fn the_wide_hash_on_disk_keeps_its_value() {
    let hash = KeyedHash::new(b"0123456789abcdef");
    assert_eq!(hash.wide(KeyspaceId(1), b"apple"), 0x144a_f52d_0929_24c3_e847_80b0_d37e_4ef6);
    assert_ne!(hash.wide(KeyspaceId(2), b"apple"), hash.wide(KeyspaceId(1), b"apple"));
    assert_ne!(hash.wide(KeyspaceId(1), b"plum"), hash.wide(KeyspaceId(1), b"apple"));
    let other = KeyedHash::new(b"0123456789abcdeF");
    assert_ne!(other.wide(KeyspaceId(1), b"apple"), hash.wide(KeyspaceId(1), b"apple"));
}

#[test]
fn parts_add_up() {
    let bytes = b"any bytes at all";
    let whole = crc_of_parts(bytes, b"");
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(crc_of_parts(first, second), whole, "cut at {cut}");
    }
    assert_ne!(crc_of_parts(b"any bytes", b"at all"), whole);
}
