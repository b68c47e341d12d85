//! Values share the buffers they come from, whatever these are.

use super::*;

#[test]
fn values_share_their_buffer() {
    let slice: Arc<[u8]> = Arc::from(&b"0123456789"[..]);
    let vec = Arc::new(b"0123456789".to_vec());
    let owners = [SharedBytes::from(slice), SharedBytes::from(vec)];
    for owner in owners {
        let value = Value::shared(owner.clone(), 2..5);
        assert!(value == b"234");
        assert_eq!(value.as_ptr(), owner.get(2..).unwrap().as_ptr(), "without a copy");
        assert_eq!(value.clone().as_ptr(), value.as_ptr());
    }
    let made = b"made".to_vec();
    let place = made.as_ptr();
    let value = Value::from(made);
    assert_eq!((value.as_ptr(), &*value), (place, &b"made"[..]));
    assert!(Value::copy_from(b"copied") == b"copied");
}

/// Short copies need no buffer and stay what they are wherever the value goes.
#[test]
fn short_copies_stand_in_the_value() {
    for length in [0, 1, INLINE_BYTES_MAX - 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 300] {
        let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let value = Value::copy_from(&bytes);
        let is_inline = length <= INLINE_BYTES_MAX;
        assert_eq!(value.held_bytes(), if is_inline { 0 } else { length });
        let moved = Box::new(value.clone());
        assert_eq!((&**moved, value.as_bytes()), (&bytes[..], &bytes[..]));
        assert_eq!(moved.as_ptr() == value.as_ptr(), !is_inline, "a long one is shared");
    }
}
