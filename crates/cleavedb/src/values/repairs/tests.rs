//! What is remembered of each handle, and how much.

use super::*;

fn handle(epoch: u32, offset: u64) -> Handle {
    Handle { file: FileId(3), epoch, offset, bytes: 100 }
}

#[test]
fn each_epoch_of_a_place_has_its_own_repair() {
    let repairs = Repairs::new(1 << 16);
    repairs.note(&handle(0, 128), handle(2, 512));
    repairs.note(&handle(1, 128), handle(2, 1024));
    assert_eq!(repairs.get(&handle(0, 128)), Some(handle(2, 512)));
    assert_eq!(repairs.get(&handle(1, 128)), Some(handle(2, 1024)));
    assert_eq!(repairs.get(&handle(2, 128)), None);
    repairs.note(&handle(0, 128), handle(3, 640));
    assert_eq!(repairs.get(&handle(0, 128)), Some(handle(3, 640)), "the later one holds");
}

#[test]
fn memory_is_bounded() {
    let repairs = Repairs::new(100 * ENTRY_BYTES);
    for offset in 0..10_000 {
        repairs.note(&handle(0, 128 + offset), handle(1, 128));
    }
    assert!(repairs.memory_bytes() <= 110 * ENTRY_BYTES, "{}", repairs.memory_bytes());
    let nothing = Repairs::new(0);
    nothing.note(&handle(0, 128), handle(1, 128));
    assert!(nothing.memory_bytes() <= ENTRY_BYTES);
}
