//! What the twin alone must do; what it shares with the LSM-tree is tested there.

use super::*;
use crate::base::entry::{Kind, SEQ_MAX};
use crate::base::error::ErrorKind;
use crate::base::tombstone::RangeTombstone;
use crate::index::testing::world::{World, entries_of, get, verify};
use crate::index::testing::{Entry, Recorder, cursors_of};

fn flush(index: &NaiveIndex, entries: Vec<Entry>, tombstones: Vec<RangeTombstone>) -> Vec<Section> {
    let input = FlushInput {
        bytes: entries.len() as u64,
        is_waited_for: false,
        entries: cursors_of(entries),
        tombstones,
        stripes: &[],
        listeners: Box::new(|| Box::new(Recorder::default())),
    };
    let prepared = index.apply_flush(input).unwrap();
    index.install(prepared.change).unwrap();
    prepared.sections
}

fn put(key: &str, seq: Seq) -> Entry {
    Entry { key: key.into(), seq, kind: Kind::Put, value: key.into() }
}

#[test]
fn it_is_one_run_and_can_become_none() {
    let world = World::new();
    let index = NaiveIndex::recover(world.context(), &[]).unwrap();
    assert!(entries_of(&*index.view(), KeyRange::default()).is_empty());
    flush(&index, vec![put("a", 1), put("b", 2)], vec![]);
    flush(&index, vec![put("c", 3), put("a", 4)], vec![]);
    let view = index.view();
    assert_eq!((view.files().len(), view.space().entries), (1, 3));
    assert_eq!(get(&*view, b"a", SEQ_MAX).unwrap().unwrap(), b"a");
    verify(&*view);
    drop(view);
    let all = RangeTombstone { start: (*b"a").into(), end: (*b"z").into(), seq: 5 };
    let sections = flush(&index, vec![], vec![all]);
    assert!(index.view().files().is_empty(), "nothing is left, the tombstone included");
    world.sweep();
    assert_eq!(world.names(), Vec::<String>::new());
    let again = NaiveIndex::recover(world.context(), &sections).unwrap();
    assert!(again.view().files().is_empty());
}

#[test]
fn sections_that_no_writer_wrote_are_refused() {
    let world = World::new();
    let index = NaiveIndex::recover(world.context(), &[]).unwrap();
    let good = flush(&index, vec![put("a", 1)], vec![]).remove(0);
    let recover = |payload: &[u8]| {
        let section = Section { tag: SectionTag::NAIVE, payload: payload.to_vec() };
        NaiveIndex::recover(world.context(), &[section]).err().map(|error| error.kind())
    };
    assert_eq!(recover(&good.payload), None);
    for len in 0..good.payload.len() {
        assert_eq!(recover(&good.payload[..len]), Some(ErrorKind::Corruption), "{len} bytes");
    }
    let with = |at: usize, byte: u8| {
        let mut payload = good.payload.clone();
        payload[at] = byte;
        recover(&payload)
    };
    assert_eq!(with(0, 99), Some(ErrorKind::Corruption));
    assert_eq!(with(4, 9), Some(ErrorKind::Unsupported));
    assert_eq!(with(5, 2), Some(ErrorKind::Corruption));
    assert_eq!(recover(&[good.payload.as_slice(), &[0]].concat()), Some(ErrorKind::Corruption));
}
