//! What was noted comes back as it was.

use super::*;

#[test]
fn records_come_back_as_they_were_noted_and_take_few_bytes() {
    let place = |container: u64, file: u64, offset, bytes| Place {
        container: FileId(container),
        file: FileId(file),
        offset,
        bytes,
    };
    let mut wanted = Vec::new();
    for number in 0..1000_u64 {
        let key = format!("user{number:012}").into_bytes();
        let from = place(7 + number % 3, 7 + number % 3, number * 7919 % 65536, 1030);
        wanted.push((KeyspaceId(1), key, from, place(40, 39, number * 1040, 1031)));
    }
    let far = place(u64::MAX / 2, 1, u64::MAX / 2, u32::MAX);
    wanted.push((KeyspaceId(u32::MAX), Vec::new(), far, place(1, u64::MAX / 2, 0, 1)));
    wanted.push((KeyspaceId(0), vec![0xff; 300], far, far));
    let mut moved = MovedInMap::default();
    for (keyspace, key, from, to) in &wanted[..1000] {
        moved.note(*keyspace, key, *from, *to);
    }
    assert!(moved.used_bytes() < 20 * 1000, "{} bytes for 1000", moved.used_bytes());
    for (keyspace, key, from, to) in &wanted[1000..] {
        moved.note(*keyspace, key, *from, *to);
    }
    let mut got = Vec::new();
    moved.each(|keyspace, key, from, to| got.push((keyspace, key.to_vec(), from, to))).unwrap();
    assert_eq!(got, wanted);
    assert!(moved.memory_bytes() >= moved.used_bytes());
}
