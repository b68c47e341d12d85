//! What a window holds while it is too small for what it is shown.

use super::*;
use crate::base::sync::Arc;
use crate::log::footer::Totals;
use crate::log::format::Sealed;
use crate::log::testing::{disk, io};
use crate::values::edit::SealedValues;
use crate::values::file::ValueFile;

fn segment(io: &Io) -> Segment {
    let context = crate::values::testing::context(io, false);
    let file = ValueFile::new(&context, crate::base::names::FileKind::Value, FileId(15));
    let sealed = Sealed { id: FileId(15), bytes: 1 << 20, checksum: 0 };
    let sealed = SealedValues { sealed, last_seq: 999, totals: Totals::default() };
    Segment { file: Arc::clone(&file), sealed, punched: None, source: 0 }
}

/// Keys in an order that is not theirs, of different lengths.
fn keys() -> Vec<Vec<u8>> {
    let key = |number: u64| {
        let width = 3 + number as usize % 9;
        format!("{:0>width$}/{number}", number * 377 % 500)
    };
    (0..500).map(|number| key(number).into_bytes()).collect()
}

fn show(window: &mut Window, segment: &Segment, keys: &[Vec<u8>]) {
    for (key, seq) in keys.iter().zip(1..) {
        let whole = key.repeat(9);
        let (keyspace, bytes, whole) = (KeyspaceId(1), whole.len() as u32, Some(&*whole));
        window.add(segment, &Met { keyspace, key, seq, offset: seq * 100, bytes, whole });
    }
    window.sort();
}

#[test]
fn every_survivor_has_its_turn_in_order_whatever_the_room() {
    let io = io(&disk());
    let (segment, keys) = (segment(&io), keys());
    let mut wanted: Vec<_> = keys.clone();
    wanted.sort();
    let records = (500, keys.concat().len() as u64);
    for memory in [0, 100, 1000, 5000, 30_000, 60_000, 1 << 20] {
        let mut window = Window::new(&io, vec![FileId(15)], memory, records);
        let (mut found, mut walks, mut kept) = (Vec::new(), 0, 0);
        loop {
            walks += 1;
            show(&mut window, &segment, &keys);
            let most = memory.max(100) + memory / 8 + 100;
            let held = io.meter.bytes_held(Purpose::Collection);
            assert!(held <= most, "{held} bytes held of {memory}");
            while let Some((survivor, rank)) = window.front() {
                assert_eq!(survivor.offset, rank.seq * 100);
                assert_eq!(keys[rank.seq as usize - 1], rank.key);
                assert!(window.front_bytes().is_none_or(|whole| whole == rank.key.repeat(9)));
                assert!(window.limit().is_none_or(|limit| rank < limit));
                kept += u64::from(window.front_bytes().is_some());
                found.push(rank.key.to_vec());
                window.pass();
            }
            if !window.go_on() {
                break;
            }
        }
        assert!(found == wanted, "{memory}");
        assert_eq!(walks == 1, memory >= 60_000, "{walks} walks with {memory} bytes");
        assert_eq!(kept == 500, memory == 1 << 20, "{kept} values kept with {memory} bytes");
        drop(window);
        assert_eq!(io.meter.bytes_held(Purpose::Collection), 0);
    }
}

#[test]
fn a_batch_is_what_there_is_room_for_in_the_order_of_places() {
    let io = io(&disk());
    let (segment, keys) = (segment(&io), keys());
    let mut window = Window::new(&io, vec![FileId(15)], 64 << 10, (500, 5000));
    for (key, seq) in keys.iter().zip(1..) {
        let (keyspace, offset) = (KeyspaceId(1), seq * 100);
        // One in ten is longer than all the room.
        let bytes = if seq % 10 == 0 { 100_000 } else { 60 };
        window.add(&segment, &Met { keyspace, key, seq, offset, bytes, whole: None });
    }
    window.sort();
    let mut batches = Vec::new();
    while window.front().is_some() {
        if window.front_bytes().is_none() {
            let wanted = window.begin_batch();
            assert!(wanted.is_sorted_by_key(|wanted| wanted.offset));
            let is_long = |wanted: &Wanted| wanted.bytes > 60;
            assert!(wanted.len() == 1 || !wanted.iter().any(is_long));
            for wanted in &wanted {
                let number = (wanted.offset / 100) as u8;
                window
                    .take(wanted, |memory| {
                        memory.fill(number);
                        Ok::<(), ()>(())
                    })
                    .unwrap();
            }
            batches.push(wanted.len());
        }
        let (survivor, rank) = window.front().unwrap();
        let bytes = window.front_bytes().unwrap();
        assert_eq!(bytes.len(), survivor.bytes as usize);
        assert!(bytes.iter().all(|&byte| byte == rank.seq as u8));
        window.pass();
    }
    assert_eq!(batches.iter().sum::<usize>(), 500);
    assert!(batches.iter().any(|&count| count > 5), "{batches:?}");
}
