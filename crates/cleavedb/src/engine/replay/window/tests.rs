//! What is fetched together, and when the window is full.

use super::*;
use crate::base::entry::Kind;
use crate::log::batch::encode_record;

fn taken(keys: &[&[u8]], value_bytes: usize, base_seq: u64) -> Taken {
    let mut payload = Vec::new();
    for key in keys {
        encode_record(&mut payload, Kind::Put, KeyspaceId(3), key, &vec![0; value_bytes]);
    }
    let frame = Pending::for_test(base_seq, keys.len() as u32, payload);
    Taken { lane: LaneId::Journal, file: FileId(1), frame }
}

#[test]
fn it_is_full_at_so_many_records_or_bytes() {
    let mut window = Window::default();
    for seq in 1..RECORDS as u64 {
        assert!(!window.push(taken(&[b"k"], 1, seq)));
    }
    assert!(window.push(taken(&[b"k"], 1, RECORDS as u64)));
    assert_eq!(window.drain().count(), RECORDS);
    assert!(!window.push(taken(&[b"k"], BYTES_MAX / 2, 100)), "nothing is left of before");
    assert!(window.push(taken(&[b"k"], BYTES_MAX / 2, 101)));
}

#[test]
fn keys_of_several_frames_are_fetched_and_damage_ends_them() {
    let mut window = Window::default();
    window.push(taken(&[b"a", b"b"], 1, 1));
    window.push(taken(&[b"c"], 1, 3));
    let keys = |window: &Window| -> Vec<Vec<u8>> {
        window.first_keys().map(|(_, key)| key.to_vec()).collect()
    };
    assert_eq!(keys(&window), [b"a", b"b", b"c"]);
    let mut damaged = taken(&[b"d", b"e"], 1, 4);
    damaged.frame.payload.pop();
    window.push(damaged);
    assert_eq!(keys(&window), [b"a", b"b", b"c", b"d"]);
}
