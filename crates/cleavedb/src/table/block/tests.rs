//! Tests of blocks and their cursor against plain entries, and with damaged bytes.

use proptest::prelude::*;

use super::*;
use crate::base::entry::SEQ_MAX;
use crate::table::block_builder::BlockBuilder;
use crate::table::block_cursor::BlockCursor;
use crate::table::reader::tests::items;
use crate::table::testing::{Item, expected, item, outcome};

fn build(items: &[Item], restart_interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    let mut last: &[u8] = b"";
    for item in items {
        let before = builder.len();
        let exact = builder.entry_len(last, &item.key, item.seq, &item.value);
        builder.add(last, &item.key, item.seq, item.kind, &item.value);
        assert_eq!(builder.len(), before + exact);
        assert!(exact <= BlockBuilder::entry_len_max(&item.key, &item.value));
        last = &item.key;
    }
    let length = builder.len();
    let bytes = builder.finish().to_vec();
    assert_eq!(bytes.len(), length);
    bytes
}

/// Walks a block in every way; nothing may panic and every walk must end.
fn walk(bytes: &[u8]) {
    let Ok(block) = Block::from_raw(bytes.into(), bytes.len()) else { return };
    let mut cursor = BlockCursor::default();
    cursor.set_block(block.clone());
    let mut outcome = cursor.seek_first();
    while outcome.is_ok() && cursor.entry().is_some() {
        cursor.key();
        outcome = cursor.next();
    }
    let mut outcome = cursor.seek_last();
    let mut steps = 0;
    while outcome.is_ok() && cursor.entry().is_some() && steps < 10_000 {
        outcome = cursor.prev();
        steps += 1;
    }
    assert!(steps < 10_000, "walking back does not end");
    for key in [&b""[..], b"user/1/name/3", b"zz"] {
        let _ = cursor.seek(key, 5).and_then(|()| cursor.prev());
        let _ = block.get(key, &mut Lookup::new(7));
    }
}

proptest! {
    #[test]
    fn a_block_answers_as_its_entries_do(
        items in items().prop_filter("not empty", |items| !items.is_empty()),
        restart_interval in 1usize..20,
    ) {
        let bytes = build(&items, restart_interval);
        let block = Block::from_raw(bytes.clone().into(), bytes.len()).unwrap();
        for item in &items {
            for snapshot in [item.seq - 1, item.seq, SEQ_MAX] {
                let mut lookup = Lookup::new(snapshot);
                block.get(&item.key, &mut lookup).unwrap();
                let wanted = expected(&items, &[], &item.key, snapshot);
                prop_assert_eq!(outcome(&lookup), wanted);
            }
        }
    }

    #[test]
    fn damaged_blocks_never_panic_or_loop(
        items in items().prop_filter("not empty", |items| !items.is_empty()),
        restart_interval in 1usize..20,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = build(&items, restart_interval);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        walk(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic_or_loop(mut bytes: Vec<u8>, restarts in 0u32..5) {
        walk(&bytes);
        bytes.extend_from_slice(&restarts.to_le_bytes());
        walk(&bytes);
    }

    #[test]
    fn common_prefix_counts_equal_bytes(mut a: Vec<u8>, b: Vec<u8>, same in 0usize..20) {
        a.truncate(same);
        let longer = [a.as_slice(), &b].concat();
        prop_assert!(common_prefix(&a, &longer) == a.len());
        let naive = longer.iter().zip(&b).take_while(|(x, y)| x == y).count();
        prop_assert_eq!(common_prefix(&longer, &b), naive);
    }
}

/// What is read at a glance is what is read number by number, whatever the lengths.
#[test]
fn short_headers_are_read_as_long_ones() {
    for value in [0, 1, 126, 127, 128, 129, 255, 256, 16_383, 16_384, 16_385] {
        for key in [1, 127, 128] {
            for seq in [1, 255, 256, (1 << 48) - 1, 1 << 48, SEQ_MAX] {
                let (first, key) = (item(b"", 1, Kind::Put, b""), vec![b'k'; key]);
                let value = vec![7; value];
                let bytes = build(&[first, item(&key, seq, Kind::Put, &value)], 1);
                let block = Block::from_raw(bytes.clone().into(), bytes.len()).unwrap();
                let start = block.restart(1).unwrap();
                let (entry, slow) = (block.entry(start).unwrap(), block.entry_slow(start).unwrap());
                let outline = block.outline(start).unwrap();
                let parts = |e: &EntryAt| (e.start, e.shared, e.key, e.value, e.end, e.seq, e.kind);
                assert_eq!(parts(&entry), parts(&slow));
                assert_eq!(
                    (outline.shared, outline.key, outline.value, outline.end),
                    (slow.shared, slow.key, slow.value, slow.end)
                );
                assert_eq!((entry.seq, block.slice(entry.key, entry.value)), (seq, &key[..]));
                assert_eq!(block.value(&entry), value);
                let is_short = Short::of(block.bytes_from(start)).is_some();
                assert_eq!(is_short, value.len() < 16_384 && key.len() < 128);
            }
        }
    }
    // A length in more bytes than it needs is no length.
    assert!(Short::of(&[0, 1, 0x80, 0, 0x11, 1, b'k']).is_none());
}

#[test]
fn lengths_beyond_one_byte_take_the_slow_path() {
    let long = vec![b'k'; 300];
    let items = [
        item(&long, 9, Kind::Put, &[1; 70_000]),
        item(&[&long[..], b"x"].concat(), SEQ_MAX, Kind::Put, b""),
        item(&[&long[..], b"y"].concat(), 0, Kind::Put, b"last"),
    ];
    let bytes = build(&items, 16);
    let block = Block::from_raw(bytes.clone().into(), bytes.len()).unwrap();
    for item in &items {
        let mut lookup = Lookup::new(SEQ_MAX);
        assert_eq!(block.get(&item.key, &mut lookup).unwrap(), BlockGet::Decided);
        assert_eq!(lookup.found.unwrap().value, item.value);
    }
}
