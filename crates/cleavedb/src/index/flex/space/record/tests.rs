//! Round trips, and records that no space writes.

use super::*;
use crate::base::error::ErrorKind;
use crate::index::flex::tree::TreeWidths;

fn tree() -> Tree {
    let mut tree = Tree::new(TreeWidths::USUAL).unwrap();
    tree.append(Extent::new(1000, 100)).unwrap();
    tree
}

fn records() -> Vec<Record> {
    vec![
        Record::Update { offset: 50, removed: 0, extents: vec![Extent::new(5000, 10)] },
        Record::Update { offset: 0, removed: 20, extents: Vec::new() },
        Record::Tag { offset: 30, tag: Tag::new(7) },
        Record::Tag { offset: 30, tag: None },
        Record::Moved { offset: 0, length: 30, old: 1020, new: 1 << 40 },
    ]
}

#[test]
fn records_round_trip_and_are_done_again() {
    let (mut tree, mut bytes) = (tree(), Vec::new());
    for record in records() {
        record.encode(&mut bytes);
        record.redo(&mut tree).unwrap();
    }
    let mut reader = Reader::new(&bytes);
    for record in records() {
        assert_eq!(Record::decode(&mut reader).unwrap(), record);
    }
    assert!(reader.is_empty());
    assert_eq!((tree.length(), tree.physical(0)), (90, Some(1 << 40)));
    assert_eq!((tree.physical(30), tree.tag(30)), (Some(5000), None));
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(
                Record::decode(&mut Reader::new(&bytes[..end])).is_err(),
                "{end} of {record:?}"
            );
        }
    }
}

#[test]
fn what_cannot_have_been_done_is_corruption() {
    let far = u64::MAX;
    for record in [
        Record::Update { offset: 101, removed: 0, extents: vec![Extent::new(0, 1)] },
        Record::Update { offset: 1, removed: 100, extents: Vec::new() },
        Record::Update { offset: far, removed: far, extents: Vec::new() },
        Record::Update { offset: 0, removed: 0, extents: vec![Extent::new(far, 1)] },
        Record::Update { offset: 0, removed: 0, extents: vec![Extent::new(0, 0)] },
        Record::Tag { offset: 100, tag: Tag::new(1) },
        Record::Moved { offset: 0, length: 30, old: 1001, new: 5000 },
        Record::Moved { offset: 0, length: 101, old: 1000, new: 5000 },
        Record::Moved { offset: 0, length: 30, old: 1000, new: far },
    ] {
        let mut tree = tree();
        let error = record.redo(&mut tree).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{record:?}");
        assert_eq!((tree.length(), tree.physical(0)), (100, Some(1000)));
    }
    for record in [
        Record::Update { offset: 0, removed: 0, extents: vec![Extent::new(5, 0)] },
        Record::Update { offset: 0, removed: 0, extents: vec![Extent::new((1 << 22) - 1, 2)] },
        Record::Moved { offset: 0, length: 5 << 20, old: 0, new: 1 << 40 },
        Record::Moved { offset: 0, length: 0, old: 0, new: 0 },
        Record::Moved { offset: 0, length: 2, old: 0, new: far },
    ] {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert!(Record::decode(&mut Reader::new(&bytes)).is_err(), "{record:?}");
    }
    for bytes in [&[][..], &[0], &[4, 0], &[1, 0, 0, 200], &[2, 0, 0x80, 0x80, 4]] {
        assert!(Record::decode(&mut Reader::new(bytes)).is_err(), "{bytes:?}");
    }
}
