//! Against a plain list of all that was pushed; the bound; reuse of memory.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_is_found_is_what_was_written(
        groups in proptest::collection::vec((0..3u64, 0..300usize, 0..50u64), 1..40),
        bytes_max in 0..4000usize,
        asked in proptest::collection::vec(
            (any::<prop::sample::Index>(), 0..400usize, 0..300usize), 20),
    ) {
        let buffer = TailBuffer::new(bytes_max);
        let (mut file, mut end) = (1, 120);
        let mut pushed: Vec<(FileId, u64, Vec<u8>)> = Vec::new();
        for (number, &(files, length, gap)) in groups.iter().enumerate() {
            if files > 0 && number % 5 == 4 {
                (file, end) = (file + files, 120);
            }
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
            let spare = buffer.push(FileId(file), end + gap, bytes.clone());
            prop_assert!(spare.is_empty());
            prop_assert!(buffer.memory_bytes() <= bytes_max);
            pushed.push((FileId(file), end + gap, bytes));
            end += gap + length as u64;
        }
        for (which, from, length) in asked {
            let (file, start, bytes) = which.get(&pushed);
            let found = buffer.get(*file, start + from as u64, length);
            let is_inside = from + length <= bytes.len();
            if let Some((owner, range)) = found {
                prop_assert_eq!(range.len(), length);
                // Behind the end of this group another one of the file may follow.
                if is_inside {
                    prop_assert_eq!(&owner[range], &bytes[from..from + length]);
                }
            }
        }
        let (file, start, bytes) = pushed.last().unwrap();
        if bytes.len() + GROUP_OVERHEAD_BYTES <= bytes_max {
            let found = buffer.get(*file, *start, bytes.len()).expect("the newest group is here");
            prop_assert_eq!(&found.0[found.1], &bytes[..]);
            let longer = buffer.get(*file, *start, bytes.len() + 1);
            prop_assert!(longer.is_none(), "no group is joined");
        }
        prop_assert!(buffer.get(FileId(99), *start, 0).is_none());
    }
}

#[test]
fn the_oldest_give_way_and_lend_their_memory() {
    let weight = 1000 + GROUP_OVERHEAD_BYTES;
    let buffer = TailBuffer::new(2 * weight);
    let group = || Vec::from([7; 1000]);
    assert_eq!(buffer.push(FileId(1), 1000, group()).capacity(), 0);
    assert_eq!(buffer.push(FileId(1), 2000, group()).capacity(), 0);
    let held = buffer.get(FileId(1), 2000, 10).unwrap();
    assert_eq!(buffer.push(FileId(1), 3000, group()).capacity(), 1000, "the first one's memory");
    assert!(buffer.get(FileId(1), 1000, 10).is_none());
    assert_eq!(buffer.push(FileId(1), 4000, group()).capacity(), 0, "the second one is read");
    assert_eq!(&held.0[held.1], &[7; 10]);
    // One that never fits leaves nothing behind, and is itself given back.
    assert!(buffer.push(FileId(1), 5000, vec![1; 3 * weight]).capacity() >= 3 * weight);
    assert_eq!(buffer.memory_bytes(), 0);
}

#[test]
fn many_small_groups_are_bounded_too() {
    let buffer = TailBuffer::new(1 << 30);
    for number in 0..2 * GROUPS_MAX as u64 {
        buffer.push(FileId(1), 120 + number, vec![number as u8]);
    }
    assert!(buffer.get(FileId(1), 120, 1).is_none());
    assert!(buffer.memory_bytes() <= GROUPS_MAX * (GROUP_OVERHEAD_BYTES + 8));
}

#[test]
fn a_large_buffer_is_not_kept_for_a_small_group() {
    let buffer = TailBuffer::new(10_000);
    let mut large = Vec::with_capacity(1 << 20);
    for number in 0..5u8 {
        large.extend_from_slice(&[number; 700]);
        large = buffer.push(FileId(1), 120 + 700 * u64::from(number), large);
        assert!(large.is_empty() && large.capacity() >= 1 << 20, "the same memory again");
    }
    for number in 0..5u8 {
        let (owner, range) = buffer.get(FileId(1), 120 + 700 * u64::from(number), 700).unwrap();
        assert_eq!(&owner[range], &[number; 700]);
    }
    assert!(buffer.memory_bytes() <= 5 * (700 + GROUP_OVERHEAD_BYTES));
}
