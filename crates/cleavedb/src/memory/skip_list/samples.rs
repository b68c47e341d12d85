//! Nodes of a list with the beginnings of their keys in a sorted array, to begin searches from.
//!
//! In a list that exceeds the caches a search is a chain of cache misses, two or three a level.
//! One node in sixteen, with eight bytes of each key, fits where a whole list does not: a binary
//! search there replaces all levels but the lowest three. An array never changes. Whenever there
//! are twice as many nodes to choose from, another one is made; those before it stay for who reads
//! them, since nodes do.
//!
//! Invariants: S1 every node in an array is linked at [`LEVEL`]. S2 [`Samples::before`] gives a
//! node strictly before the place. Which one is a matter of speed alone: from any such node the
//! walk along the levels ends at the same place, as nothing is ever removed.

use std::sync::OnceLock;

use crate::base::entry::key_prefix;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::memory::skip_list::{Header, Node, SkipList, Target};

/// Nodes whose towers reach this level are chosen: one in sixteen.
pub(super) const LEVEL: usize = 2;
/// Chosen nodes of the first array; each further one has twice as many.
const FIRST: usize = if cfg!(any(shuttle, miri)) { 2 } else { 4 };
/// Arrays at most. The last one comes with 30 million entries; what is linked after it stands
/// further from its sample, or is searched for from the head.
const ARRAYS: usize = 20;
/// Stretches of the list walked at once: as many lines as a core fetches at a time.
const WALKS: usize = 16;

/// A node's address in an array. The list that the array belongs to owns the node.
#[derive(Clone, Copy)]
struct Place(std::ptr::NonNull<Header>);

// SAFETY: an address without thread affinity: nodes are changed only through atomics (L2).
#[expect(unsafe_code, reason = "a node's address carries no thread affinity")]
unsafe impl Send for Place {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a node's address carries no thread affinity")]
unsafe impl Sync for Place {}

/// The nodes of one keyspace in an array.
struct Stretch {
    keyspace: u32,
    /// Bytes that all their keys begin with.
    common: Box<[u8]>,
    /// The next eight bytes of each key as an integer, ascending.
    prefixes: Box<[u64]>,
    places: Box<[Place]>,
}

impl Stretch {
    fn new(nodes: &[Node<'_>]) -> Option<Self> {
        let (first, last) = (nodes.first()?, nodes.last()?);
        // What the least and the greatest key share, all between them do.
        let is_same = |(left, right): &(&u8, &u8)| left == right;
        let shared = first.key().iter().zip(last.key()).take_while(is_same).count();
        let common: Box<[u8]> = first.key().iter().copied().take(shared).collect();
        let behind = |node: &Node<'_>| key_prefix(node.key().get(shared..).unwrap_or(&[]));
        Some(Self {
            keyspace: first.keyspace(),
            common,
            prefixes: nodes.iter().map(behind).collect(),
            places: nodes.iter().map(|node| Place(node.as_non_null())).collect(),
        })
    }

    /// The last of its nodes that these bytes prove to stand before a key (S2).
    fn before(&self, key: &[u8]) -> Option<Place> {
        let wanted = key_prefix(key.strip_prefix(&*self.common)?);
        let smaller = self.prefixes.partition_point(|prefix| *prefix < wanted);
        self.places.get(smaller.checked_sub(1)?).copied()
    }
}

/// One array: keyspaces ascending.
#[derive(Default)]
struct Array(Vec<Stretch>);

impl Array {
    /// Of nodes in the order of the list.
    fn new(nodes: &[Node<'_>]) -> Self {
        let of_keyspaces = nodes.chunk_by(|left, right| left.keyspace() == right.keyspace());
        Self(of_keyspaces.filter_map(Stretch::new).collect())
    }

    fn before(&self, target: &Target<'_>) -> Option<Place> {
        let at = self.0.binary_search_by_key(&target.keyspace, |stretch| stretch.keyspace).ok()?;
        self.0.get(at)?.before(target.key)
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.0.iter().flat_map(|stretch| stretch.places.iter().copied())
    }

    fn memory_bytes(&self) -> usize {
        let bytes = |stretch: &Stretch| {
            let one = size_of::<u64>() + size_of::<Place>();
            size_of::<Stretch>() + stretch.common.len() + one * stretch.places.len()
        };
        self.0.iter().map(bytes).sum()
    }
}

/// The arrays of a list.
pub(super) struct Samples {
    /// Nodes linked at [`LEVEL`] so far.
    linked: AtomicUsize,
    arrays: [OnceLock<Array>; ARRAYS],
    /// One more than the number of the largest array; 0: there is none.
    latest: AtomicUsize,
    memory_bytes: AtomicUsize,
}

impl Samples {
    pub(super) fn new() -> Self {
        Self {
            linked: AtomicUsize::new(0),
            arrays: [const { OnceLock::new() }; ARRAYS],
            latest: AtomicUsize::new(0),
            memory_bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes of all arrays.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    fn latest(&self) -> Option<&Array> {
        let latest = self.latest.load(Ordering::Acquire);
        self.arrays.get(latest.checked_sub(1)?)?.get()
    }

    /// A node that is linked at [`LEVEL`] and stands before a place, close to it as a rule.
    #[expect(unsafe_code, reason = "ties the stored node to the borrow of the list's part")]
    #[inline]
    pub(super) fn before(&self, target: &Target<'_>) -> Option<Node<'_>> {
        let place = self.latest()?.before(target)?;
        // SAFETY: arrays hold nodes of the list that `self` is a part of only, whose arena lives as
        // long (N1).
        Some(unsafe { Node::from_non_null(place.0) })
    }

    /// Counts a node that was linked at [`LEVEL`]; the number of the array that is to be made now,
    /// which nobody else is told.
    pub(super) fn count(&self) -> Option<usize> {
        let linked = self.linked.fetch_add(1, Ordering::Relaxed) + 1;
        let times = linked / FIRST;
        let is_due = linked.is_multiple_of(FIRST) && times.is_power_of_two();
        is_due.then(|| times.ilog2() as usize)
    }
}

impl SkipList {
    /// Makes the array of this number.
    #[cold]
    pub(super) fn make_samples(&self, number: usize) {
        let array = Array::new(&self.nodes_of_level());
        let bytes = array.memory_bytes();
        let Some(slot) = self.samples.arrays.get(number) else { return };
        if slot.set(array).is_ok() {
            self.samples.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
            // A smaller one may come after a larger one.
            self.samples.latest.fetch_max(number + 1, Ordering::AcqRel);
        }
    }

    /// All nodes linked at [`LEVEL`], in order. Some may be missing that are linked meanwhile.
    ///
    /// From each node of the array before this one goes a walk to the next of them, some at once:
    /// one walk through all would wait for each node.
    #[expect(unsafe_code, reason = "reads the nodes of the array before")]
    fn nodes_of_level(&self) -> Vec<Node<'_>> {
        let known = self.samples.latest().into_iter().flat_map(Array::places);
        // SAFETY: the array is of nodes of this list (N1).
        let known = known.map(|place| unsafe { Node::from_non_null(place.0) });
        let starts: Vec<_> = std::iter::once(self.head()).chain(known).collect();
        let mut ends = starts.iter().copied().skip(1);
        let mut nodes = Vec::with_capacity(2 * starts.len() + FIRST);
        for starts in starts.chunks(WALKS) {
            let walk = |&start| Walk { at: Some(start), end: ends.next(), found: Vec::new() };
            let mut walks: Vec<_> = starts.iter().map(walk).collect();
            while walks.iter_mut().fold(false, |goes_on, walk| walk.step() | goes_on) {}
            for (walk, &start) in walks.iter().zip(starts) {
                nodes.extend((start != self.head()).then_some(start));
                nodes.extend(&walk.found);
            }
        }
        nodes
    }
}

/// A walk along [`LEVEL`].
struct Walk<'a> {
    at: Option<Node<'a>>,
    end: Option<Node<'a>>,
    /// What lies between.
    found: Vec<Node<'a>>,
}

impl Walk<'_> {
    /// One step, with the next one on its way into the cache; false at the end.
    fn step(&mut self) -> bool {
        let Some(at) = self.at else { return false };
        self.at = at.next(LEVEL).filter(|next| Some(*next) != self.end);
        if let Some(next) = self.at {
            next.prefetch_next(LEVEL);
            self.found.push(next);
        }
        self.at.is_some()
    }
}

#[cfg(test)]
mod tests;
