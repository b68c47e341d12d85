//! The merging cursor against a sorted vector, with random walks.

use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering as Atomic};

use super::*;
use crate::base::error::{Error, ErrorKind};
use proptest::prelude::*;

type Entry = (Vec<u8>, Seq, Vec<u8>);

fn order(a: &Entry, b: &Entry) -> Ordering {
    a.0.cmp(&b.0).then(b.1.cmp(&a.1))
}

/// A sorted vector as a cursor; fails once `fuel` is used up, if there is any.
struct VecCursor {
    entries: Vec<Entry>,
    at: Option<usize>,
    fuel: Option<StdArc<AtomicUsize>>,
}

impl VecCursor {
    fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(order);
        Self { entries, at: None, fuel: None }
    }

    fn place(&mut self, at: Option<usize>) -> Result<()> {
        if let Some(fuel) = &self.fuel
            && fuel.fetch_sub(1, Atomic::Relaxed) == 1
        {
            self.at = None;
            return Err(Error::corruption("planted"));
        }
        self.at = at.filter(|at| *at < self.entries.len());
        Ok(())
    }

    fn first_at_or_after(&self, key: &[u8], seq: Seq) -> usize {
        self.entries.partition_point(|e| e.0.as_slice() < key || (e.0 == key && e.1 > seq))
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.place(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.place(self.entries.len().checked_sub(1))
    }
    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.place(Some(self.first_at_or_after(key, seq)))
    }
    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.place(self.first_at_or_after(key, seq).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.place(self.at.map(|at| at + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.place(self.at.and_then(|at| at.checked_sub(1)))
    }
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.entries[self.at.unwrap()].0
    }
    fn seq(&self) -> Seq {
        self.entries[self.at.unwrap()].1
    }
    fn kind(&self) -> Kind {
        Kind::Put
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at.unwrap()].2
    }
    fn value_owned(&self) -> Value {
        Value::copy_from(&[self.value(), b" owned"].concat())
    }
}

#[derive(Clone, Debug)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>, Seq),
    SeekBefore(Vec<u8>, Seq),
    Next,
    Prev,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, b'a', 0xff]), 0..3),
        prop::collection::vec(prop::sample::select(vec![0u8, b'a']), 7..11),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::First),
        1 => Just(Step::Last),
        2 => (key(), 0u64..12).prop_map(|(key, seq)| Step::Seek(key, seq)),
        2 => (key(), 0u64..12).prop_map(|(key, seq)| Step::SeekBefore(key, seq)),
        6 => Just(Step::Next),
        6 => Just(Step::Prev),
    ]
}

/// Children with distinct entries each, which may repeat among children.
fn children() -> impl Strategy<Value = Vec<Vec<Entry>>> {
    let child = prop::collection::btree_set((key(), 1u64..10), 0..12);
    prop::collection::vec(child, 0..8).prop_map(|children| {
        children
            .into_iter()
            .enumerate()
            .map(|(number, child)| {
                child.into_iter().map(|(key, seq)| (key, seq, vec![number as u8])).collect()
            })
            .collect()
    })
}

fn apply(cursor: &mut impl Cursor, step: &Step) -> Result<()> {
    match step {
        Step::First => cursor.seek_first(),
        Step::Last => cursor.seek_last(),
        Step::Seek(key, seq) => cursor.seek(key, *seq),
        Step::SeekBefore(key, seq) => cursor.seek_before(key, *seq),
        Step::Next => cursor.next(),
        Step::Prev => cursor.prev(),
    }
}

fn boxed(children: &[Vec<Entry>]) -> Vec<BoxCursor> {
    children.iter().map(|c| Box::new(VecCursor::new(c.clone())) as BoxCursor).collect()
}

#[test]
fn no_children_is_an_empty_run() {
    let mut cursor = MergingCursor::new(Vec::new());
    for step in [Step::First, Step::Last, Step::Seek(vec![], 1), Step::SeekBefore(vec![], 1)] {
        apply(&mut cursor, &step).unwrap();
        assert!(!cursor.valid());
    }
    cursor.next().unwrap();
    cursor.prev().unwrap();
}

#[test]
fn the_owned_value_comes_from_the_child() {
    let mut cursor = MergingCursor::new(boxed(&[vec![(b"k".to_vec(), 1, b"v".to_vec())]]));
    cursor.seek_first().unwrap();
    assert_eq!(cursor.value_owned(), b"v owned".as_slice());
}

proptest! {
    #[test]
    fn walks_as_the_sorted_vector_does(
        children in children(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        // The stable sort keeps repeats in child order.
        let mut twin = VecCursor::new(children.concat());
        let mut cursor = MergingCursor::new(boxed(&children));
        for step in &steps {
            apply(&mut twin, step).unwrap();
            apply(&mut cursor, step).unwrap();
            prop_assert_eq!(cursor.valid(), twin.valid());
            if twin.valid() {
                prop_assert_eq!(cursor.key(), twin.key());
                prop_assert_eq!(cursor.seq(), twin.seq());
                prop_assert_eq!(cursor.value(), twin.value());
            }
        }
    }

    #[test]
    fn an_error_makes_it_invalid_until_the_next_seek(
        children in children(),
        steps in prop::collection::vec(step(), 1..40),
        failing in 1usize..60,
    ) {
        let fuel = StdArc::new(AtomicUsize::new(failing));
        let cursors = children.iter().map(|child| {
            let mut cursor = VecCursor::new(child.clone());
            cursor.fuel = Some(fuel.clone());
            Box::new(cursor) as BoxCursor
        });
        let mut cursor = MergingCursor::new(cursors.collect());
        let mut twin = VecCursor::new(children.concat());
        let mut broken = false;
        for step in &steps {
            apply(&mut twin, step).unwrap();
            let moved = apply(&mut cursor, step);
            broken &= matches!(step, Step::Next | Step::Prev);
            if let Err(error) = &moved {
                prop_assert_eq!(error.kind(), ErrorKind::Corruption);
                broken = true;
            }
            prop_assert_eq!(cursor.valid(), twin.valid() && !broken);
            if cursor.valid() {
                prop_assert_eq!((cursor.key(), cursor.seq()), (twin.key(), twin.seq()));
            }
            if broken {
                // A walk that goes on from nowhere stays nowhere.
                twin.at = None;
            }
        }
    }

    #[test]
    fn a_prefix_orders_as_its_key(a in key(), b in key()) {
        let (left, right) = (key_prefix(&a), key_prefix(&b));
        prop_assert!(left == right || left.cmp(&right) == a.cmp(&b));
        prop_assert!(left != right || a.len() > 8 || b.len() > 8 || a == b
            || a.iter().zip(&b).all(|(x, y)| x == y));
    }
}
