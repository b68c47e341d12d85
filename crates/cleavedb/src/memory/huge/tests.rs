//! Pieces are apart, at their bounds, and writable to the last byte.

use super::*;

#[test]
#[expect(unsafe_code, reason = "writes to pieces and gives them back")]
fn pieces_are_whole_and_apart() {
    let pieces: Vec<NonNull<u8>> = (0..5).map(|_| map().unwrap()).collect();
    for (number, piece) in pieces.iter().enumerate() {
        assert_eq!(piece.as_ptr() as usize % HUGE_BYTES, 0);
        for at in [0, HUGE_BYTES / 2, HUGE_BYTES - 1] {
            // SAFETY: within the piece, which is ours.
            unsafe { piece.as_ptr().add(at).write(number as u8 + 1) };
        }
    }
    for (number, piece) in pieces.into_iter().enumerate() {
        for at in [0, HUGE_BYTES / 2, HUGE_BYTES - 1] {
            // SAFETY: within the piece, which is ours, and written above.
            assert_eq!(unsafe { piece.as_ptr().add(at).read() }, number as u8 + 1);
        }
        // SAFETY: it came from `map` and is not used any more.
        unsafe { unmap(piece) };
    }
}
