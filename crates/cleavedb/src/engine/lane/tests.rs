//! Edits of the list of segments, and when a segment is superfluous.

use super::*;
use proptest::prelude::*;

#[test]
fn edits_round_trip_and_apply() {
    let sealed = Sealed { id: FileId(4), bytes: 1234, checksum: 0xdead_beef };
    let edits = [
        JournalEdit::Added { id: FileId(4) },
        JournalEdit::Added { id: FileId(7) },
        JournalEdit::Sealed { sealed, last_seq: 99 },
        JournalEdit::Removed { id: FileId(4) },
    ];
    let section = JournalEdit::encode(&edits);
    let decoded = JournalEdit::decode(&section.payload).unwrap();
    assert_eq!(decoded, edits);
    let mut segments = VecDeque::new();
    for edit in decoded {
        edit.apply(&mut segments).unwrap();
    }
    assert_eq!(segments, [Segment { id: FileId(7), last_seq: 0, sealed: None }]);
    let unknown = JournalEdit::Removed { id: FileId(5) };
    assert_eq!(unknown.apply(&mut segments).unwrap_err().kind(), ErrorKind::Corruption);
}

proptest! {
    #[test]
    fn hostile_bytes_give_errors(bytes: Vec<u8>) {
        let _ = JournalEdit::decode(&bytes);
    }
}

#[test]
fn a_segment_is_superfluous_once_sealed_and_flushed() {
    let sealed = |id| Some(Sealed { id: FileId(id), bytes: 10, checksum: 0 });
    let journal = Lane::new(
        VecDeque::from([
            Segment { id: FileId(1), last_seq: 10, sealed: sealed(1) },
            Segment { id: FileId(2), last_seq: 20, sealed: sealed(2) },
            Segment { id: FileId(3), last_seq: 20, sealed: None },
        ]),
        20,
    );
    assert_eq!(journal.superfluous(9), []);
    assert_eq!(journal.superfluous(10), [FileId(1)]);
    assert_eq!(journal.superfluous(20), [FileId(1), FileId(2)]);
    // While a roll is under way the last one is sealed, but its edit is not durable yet.
    let journal = Lane::new(
        VecDeque::from([
            Segment { id: FileId(1), last_seq: 10, sealed: sealed(1) },
            Segment { id: FileId(2), last_seq: 20, sealed: sealed(2) },
        ]),
        20,
    );
    assert_eq!(journal.superfluous(20), [FileId(1)]);
}
