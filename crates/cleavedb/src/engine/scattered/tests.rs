//! What is paid, and for which keys.

use super::*;

#[test]
fn the_range_holds_all_that_was_paid_for_and_payment_begins_anew() {
    let mut paid = Paid::default();
    paid.note(3, b"f", b"k");
    paid.note(4, b"h", b"m");
    paid.note(5, b"c", b"d");
    assert_eq!(paid.reads, 12);
    let range = paid.take_range();
    assert_eq!(range, KeyRange { start: Some(b"c".to_vec()), end: Some(b"m\0".to_vec()) });
    assert_eq!((paid.reads, paid.hull.is_none()), (0, true));
}
