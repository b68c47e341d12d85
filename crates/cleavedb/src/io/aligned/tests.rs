//! Aligned buffers: address, growth, zeros.

use super::*;

#[test]
fn starts_on_a_page_and_keeps_its_bytes_while_growing() {
    let mut buffer = AlignedBuffer::new();
    let mut expected = Vec::new();
    for step in 0..2_000_usize {
        let piece = vec![step as u8; step % 37];
        buffer.extend_from_slice(&piece);
        expected.extend_from_slice(&piece);
    }
    assert_eq!(&*buffer, &expected[..]);
    assert_eq!(buffer.as_ptr().addr() % DIRECT_ALIGN, 0);
}

#[test]
fn growing_after_clear_shows_zeros_not_old_bytes() {
    let mut buffer = AlignedBuffer::new();
    buffer.extend_from_slice(&[7; 5_000]);
    buffer.clear();
    buffer.extend_from_slice(b"ab");
    buffer.resize(4_096);
    assert_eq!(&buffer[..2], b"ab");
    assert!(buffer[2..].iter().all(|&byte| byte == 0));
}

#[test]
fn consume_moves_the_rest_to_the_front() {
    let mut buffer = AlignedBuffer::zeroed(3);
    buffer.extend_from_slice(b"xyz");
    buffer.consume(4);
    assert_eq!(&*buffer, b"yz");
    buffer.consume(9);
    assert!(buffer.is_empty());
}

#[test]
fn alignment_needs_address_length_and_offset() {
    let buffer = AlignedBuffer::zeroed(8_192);
    assert!(is_direct_aligned(&buffer, 4_096));
    assert!(!is_direct_aligned(&buffer, 512));
    assert!(!is_direct_aligned(&buffer[..100], 0));
    assert!(!is_direct_aligned(&buffer[1..4_097], 0));
}
