//! What is kept is what is found, by the right key and snapshot alone.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_record_is_what_was_put_in(
        note in prop::collection::vec(any::<u8>(), 0..30),
        key in prop::collection::vec(any::<u8>(), 0..40),
        other in prop::collection::vec(any::<u8>(), 0..40),
        value in prop::collection::vec(any::<u8>(), 0..200),
        seq in 1u64..1 << 50,
    ) {
        for kind in [Kind::Put, Kind::PutSeparated, Kind::PutBare, Kind::Delete] {
            let record = CachedRecord::new(&note, &key, (seq, kind), &value).unwrap();
            prop_assert_eq!(record.note(), &note);
            for snapshot in [seq, seq + 1] {
                let found = record.visible(&key, snapshot).unwrap();
                prop_assert_eq!((found.seq, found.kind), (seq, kind));
                prop_assert_eq!(found.value().to_vec(), value.clone());
            }
            prop_assert!(record.visible(&key, seq - 1).is_none(), "not visible yet");
            prop_assert_eq!(record.visible(&other, seq).is_some(), other == key);
            let bytes = 14 + note.len() + key.len() + value.len() + 32;
            prop_assert_eq!(record.memory_bytes(), bytes as u64);
        }
    }
}
