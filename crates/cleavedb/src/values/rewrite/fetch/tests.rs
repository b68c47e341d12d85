//! Which values are read together.

use super::*;

fn pieces_of(wanted: &[Wanted], bytes_max: u64) -> Vec<(u64, u64, usize)> {
    let mut rest = wanted;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let piece = next_piece(&mut rest, bytes_max);
        assert!(!piece.wanted.is_empty(), "each piece brings something");
        pieces.push((piece.offset, piece.end, piece.wanted.len()));
    }
    pieces
}

#[test]
fn close_values_of_one_segment_are_one_piece() {
    let gap = GAP_BYTES_MAX;
    let at = Wanted::at;
    assert_eq!(pieces_of(&[at(1, 100, 50), at(1, 150, 50)], 1 << 20), [(100, 200, 2)]);
    let apart = [at(1, 100, 50), at(1, 150 + gap, 50), at(1, 201 + 2 * gap, 9)];
    assert_eq!(
        pieces_of(&apart, 1 << 20),
        [(100, 200 + gap, 2), (201 + 2 * gap, 210 + 2 * gap, 1)]
    );
    let of_two = [at(1, 100, 50), at(2, 160, 50)];
    assert_eq!(pieces_of(&of_two, 1 << 20), [(100, 150, 1), (160, 210, 1)]);
}

#[test]
fn a_piece_is_no_longer_than_it_may_be_but_for_one_value() {
    let wanted: Vec<_> = (0..10).map(|number| Wanted::at(1, 100 + number * 50, 50)).collect();
    assert_eq!(pieces_of(&wanted, 120).len(), 5);
    assert_eq!(pieces_of(&wanted, 500).len(), 1);
    assert_eq!(pieces_of(&wanted, 10).len(), 10, "each is longer than it may be");
}
