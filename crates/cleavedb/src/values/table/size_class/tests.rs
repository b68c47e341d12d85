//! A read of a class's bytes holds every record of the class, and little more.

use super::*;
use crate::values::table::format::RECORD_BYTES_MIN;

#[test]
fn a_read_of_the_class_holds_the_whole_record() {
    let around = (0..64).filter_map(SizeClass::from_number).map(SizeClass::bytes);
    let edges = around.flat_map(|bytes| [bytes - 1, bytes, bytes + 1]);
    for bytes in (RECORD_BYTES_MIN as u32..70_000).chain(edges) {
        let Some(class) = SizeClass::of(bytes) else {
            assert!(bytes > CLASS_BYTES_MAX);
            continue;
        };
        assert!(class.bytes() >= bytes, "{bytes} bytes in class {}", class.number());
        if bytes > STEP_BYTES * u32::from(STEPS) {
            assert!(class.bytes() - bytes < class.bytes() / 5, "{bytes} in {}", class.bytes());
        }
        let smaller = class.number().checked_sub(1).and_then(SizeClass::from_number);
        assert!(smaller.is_none_or(|smaller| smaller.bytes() < bytes), "the smallest that fits");
    }
}

#[test]
fn classes_fit_six_bits_and_ascend() {
    let all: Vec<_> = (0..=u8::MAX).filter_map(SizeClass::from_number).collect();
    assert_eq!(all.len(), 64);
    assert!(all.is_sorted_by(|a, b| a < b && a.bytes() < b.bytes()));
    for class in all {
        assert_eq!(SizeClass::of(class.bytes()), Some(class));
        assert_eq!(class.bytes() % 16, 0);
    }
    assert_eq!(SizeClass::of(CLASS_BYTES_MAX + 1), None);
    assert_eq!(SizeClass::of(u32::MAX), None);
    assert_eq!(SizeClass::of(0).map(SizeClass::number), Some(0));
}
