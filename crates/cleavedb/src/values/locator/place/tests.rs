//! Every record that fits is reached, and hardly more is read than it takes.

use super::*;
use proptest::prelude::*;

#[test]
fn classes_ascend_and_reach_from_320_bytes_to_16_mib() {
    assert_eq!(reach_of(0), 320);
    assert_eq!(REACH_BYTES_MAX, 16 << 20);
    for class in 1..64 {
        assert!(reach_of(class) > reach_of(class - 1));
        assert_eq!(class_of(reach_of(class)), class, "a class that reaches just there");
        assert_eq!(class_of(reach_of(class - 1) + 1), class, "one byte more");
    }
    assert_eq!(class_of(0), 0);
}

#[test]
fn what_an_entry_cannot_name_has_no_place() {
    let container = FileId(9);
    assert!(Place::of(container, OFFSET_END - 1, 100).is_some());
    assert!(Place::of(container, OFFSET_END, 100).is_none(), "behind 64 MiB");
    assert!(Place::of(container, 32, REACH_BYTES_MAX).is_some());
    assert!(Place::of(container, 33, REACH_BYTES_MAX).is_none(), "longer than the last class");
    assert!(Place::of(container, u64::MAX, u32::MAX).is_none());
}

proptest! {
    #[test]
    fn a_place_survives_an_entry_and_covers_its_record(
        (base, in_window) in (0..1u64 << 40, 1..1u64 << WINDOW_BITS),
        (offset, bytes) in (0..OFFSET_END, 17..16u32 << 20),
        fingerprint: u16,
    ) {
        let container = FileId(base + in_window);
        let Some(place) = Place::of(container, offset, bytes) else {
            prop_assert!(offset % UNIT_BYTES + u64::from(bytes) > u64::from(REACH_BYTES_MAX));
            return Ok(());
        };
        let entry = u64::from(fingerprint) << PAYLOAD_BITS | place.pack(in_window);
        prop_assert_eq!(Place::unpack(entry, base), place);
        prop_assert_eq!(container_in(entry), in_window);
        prop_assert!(place.offset() <= offset && offset < place.offset() + UNIT_BYTES);
        let end = place.offset() + u64::from(place.bytes());
        let wanted = offset + u64::from(bytes);
        prop_assert!(wanted <= end, "the read ends before the record");
        let allowed = (wanted - place.offset()) * 5 / 4 + 320;
        prop_assert!(u64::from(place.bytes()) <= allowed, "a quarter more at most");
    }
}
