//! What is fetched together, when a batch is full, and that all of it is inserted.

use super::*;
use crate::base::entry::Kind;
use crate::base::error::ErrorKind;
use crate::log::batch::encode_record;

const KEYSPACE: KeyspaceId = KeyspaceId(3);
const MEMTABLE_BYTES: u64 = 1 << 20;

/// Adds a frame of puts of these keys.
fn push(batch: &mut Batch, keys: &[&[u8]], value_bytes: usize, base_seq: u64) {
    let mut payload = Vec::new();
    for key in keys {
        encode_record(&mut payload, Kind::Put, KEYSPACE, key, &vec![0; value_bytes]);
    }
    let frame = Pending::for_test(base_seq, keys.len() as u32, payload);
    batch.push(LaneId::Journal, FileId(7), &frame);
}

#[test]
fn a_batch_is_full_by_its_own_bound_or_the_memtable_s() {
    let mut batch = Batch::default();
    assert!(!batch.is_full(1 << 30) && !batch.is_full(1) && !batch.is_long());
    push(&mut batch, &[b"k"], 300 << 10, 1);
    assert!(batch.is_long() && !batch.is_full(64 << 20) && batch.is_full(1 << 20));
    for seq in 2..15 {
        push(&mut batch, &[b"k"], 300 << 10, seq);
    }
    assert!(batch.is_full(64 << 20));
    batch.clear();
    assert!(!batch.is_full(1) && batch.insert(&Memtable::new(1, MEMTABLE_BYTES)).is_ok());
}

#[test]
fn groups_have_sixteen_records_or_one_frame() {
    let mut batch = Batch::default();
    (1..40).for_each(|seq| push(&mut batch, &[b"k"], 1, seq));
    assert_eq!(group_frames(&batch.frames), RECORDS);
    assert_eq!(group_frames(&batch.frames[..3]), 3);
    let keys: Vec<&[u8]> = vec![b"k"; 100];
    batch.clear();
    push(&mut batch, &keys, 1, 1);
    push(&mut batch, &[b"k"], 1, 101);
    assert_eq!(group_frames(&batch.frames), 1);
}

#[test]
fn keys_of_several_frames_are_fetched_and_damage_ends_them() {
    let mut batch = Batch::default();
    push(&mut batch, &[b"a", b"b"], 1, 1);
    push(&mut batch, &[b"c"], 1, 3);
    push(&mut batch, &[b"d", b"e"], 1, 4);
    let keys = |batch: &Batch| -> Vec<Vec<u8>> {
        batch.first_keys(&batch.frames).map(|(_, key)| key.to_vec()).collect()
    };
    assert_eq!(keys(&batch), [b"a", b"b", b"c", b"d", b"e"]);
    batch.frames.last_mut().unwrap().payload.end -= 1;
    assert_eq!(keys(&batch), [b"a", b"b", b"c", b"d"]);
}

#[test]
fn all_is_inserted_up_to_what_cannot_be() {
    let memtable = Memtable::new(1, MEMTABLE_BYTES);
    let mut batch = Batch::default();
    let keys: Vec<_> = (0..50_u64).map(|number| (number * 7 % 50).to_be_bytes()).collect();
    for (key, seq) in keys.iter().zip(1..) {
        push(&mut batch, &[key], 3, seq);
    }
    assert!(batch.insert(&memtable).is_ok());
    assert_eq!((memtable.entries(), memtable.last_seq()), (50, 50));
    for (key, seq) in keys.iter().zip(1..) {
        assert_eq!(memtable.newest_seq(KEYSPACE, key), seq);
    }
    batch.clear();
    push(&mut batch, &[b"c"], 1, 51);
    push(&mut batch, &[b"d", b"e"], 1, 52);
    batch.frames.last_mut().unwrap().payload.end -= 1;
    let failed = batch.insert(&memtable).unwrap_err();
    assert_eq!((failed.lane, failed.file, failed.at), (LaneId::Journal, FileId(7), 0));
    assert_eq!(failed.error.kind(), ErrorKind::Corruption);
    assert_eq!(memtable.newest_seq(KEYSPACE, b"c"), 51);
}
