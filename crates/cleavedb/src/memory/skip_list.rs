//! An ordered set of entries that any number of threads may insert into and read at once.
//!
//! A node, its tower of links, its key and its value are one allocation of the arena; nothing is
//! ever removed, and all goes when the list is dropped. Inserts link level by level, lowest first,
//! with one compare-and-swap each; readers never wait and never write, except to mend a `before`
//! pointer. Any thread may call anything.
//!
//! Invariants: L1 order: keyspace ascending, key ascending, seq descending. L2 a node is written
//! in full before its first link is published with Release, and everything but its links and
//! its `before` pointer never changes after. L3 a link of level l only ever leads to nodes that
//! stand in level l already or are just being linked there, and only to greater ones. L4 `before`
//! of a linked node is null (the head) or a linked, smaller node: walking on from it along level 0
//! reaches the node again. L5 a hint of level l is null, the head, or a node linked at level l.

use std::cmp::Ordering as Order;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq, key_prefix};
use crate::base::marks::mark;
use crate::base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::memory::arena::Arena;

mod node;
mod samples;
#[cfg(test)]
mod tests;
mod together;

use node::NodeParts;
pub(super) use node::{Header, Node};
use samples::Samples;

/// Levels of the tallest tower: with one node in four going up a level, 4^12 nodes (16 million)
/// before the top level holds more than a few.
const LEVELS_MAX: usize = 12;
/// Sets of hints; keyspaces share one when their numbers agree in the last bits.
const HINTS: usize = 4;
/// Steps from a stale `before` pointer after which it is mended, and searched for instead.
const BEFORE_STEPS_MAX: usize = 16;
/// Steps from a sample after which the search begins at the head: many nodes have come since, all
/// in one place.
const SAMPLE_STEPS_MAX: usize = 8;

/// A place in the order: what a search looks for.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    keyspace: u32,
    prefix: u64,
    key: &'a [u8],
    seq: Seq,
}

impl<'a> Target<'a> {
    /// The place of (key, seq) in a keyspace. Seqs above [`SEQ_MAX`] stand for it.
    pub(super) fn new(keyspace: KeyspaceId, key: &'a [u8], seq: Seq) -> Self {
        Self { keyspace: keyspace.0, prefix: key_prefix(key), key, seq: seq.min(SEQ_MAX) }
    }

    /// How a node's place compares with this one (L1).
    #[inline]
    fn compare(&self, node: Node<'_>) -> Order {
        let (left, right) = (place(node.keyspace(), node.prefix()), self.place());
        left.cmp(&right)
            .then_with(|| node.key().cmp(self.key))
            .then_with(|| self.seq.cmp(&node.seq()))
    }

    /// Whether a node stands before this place; the hot half of [`Target::compare`].
    #[inline]
    fn is_after(&self, node: Node<'_>) -> bool {
        let (left, right) = (place(node.keyspace(), node.prefix()), self.place());
        if left == right { self.compare(node).is_lt() } else { left < right }
    }

    #[inline]
    fn place(&self) -> u128 {
        place(self.keyspace, self.prefix)
    }
}

/// Keyspace and the key's first bytes as one integer, in the list's order.
#[inline]
fn place(keyspace: u32, prefix: u64) -> u128 {
    (u128::from(keyspace) << 64) | u128::from(prefix)
}

/// The neighbours of a place at one level: the last node before it (or the head), and what
/// follows that.
#[derive(Clone, Copy)]
struct Bracket<'a> {
    before: Node<'a>,
    after: Option<Node<'a>>,
}

type Brackets<'a> = [Bracket<'a>; LEVELS_MAX];

/// Where the last insertions went, by level; null where unknown.
#[derive(Default)]
struct Hint([AtomicPtr<Header>; LEVELS_MAX]);

/// What the hint was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintUse {
    /// The place is elsewhere.
    Miss,
    /// The place is right behind the last insertion, but upper levels had to be searched for.
    Partial,
    /// All levels that were needed.
    Hit,
}

/// What became of an insertion.
pub(super) enum Inserted<'a> {
    /// Nothing: (keyspace, key, seq) is there.
    Repeated,
    /// It stands before this one, or is the last.
    Before(Option<Node<'a>>),
}

/// The list. See the module's invariants.
pub(super) struct SkipList {
    arena: Arena,
    head: NonNull<Header>,
    /// Levels in use; only a hint where to begin, since the head's tower is of full height.
    levels: AtomicUsize,
    hints: [CachePadded<Hint>; HINTS],
    /// Some of the nodes, to begin searches from.
    samples: Samples,
}

// SAFETY: nodes live in the list's own arena (Send and Sync) and are changed only through
// atomics (L2); the pointer to the head carries no thread affinity.
#[expect(unsafe_code, reason = "the head's pointer carries no thread affinity")]
unsafe impl Send for SkipList {}
// SAFETY: as above; every operation takes `&self` and synchronises through the links.
#[expect(unsafe_code, reason = "all shared state is atomic")]
unsafe impl Sync for SkipList {}

impl SkipList {
    /// An empty list.
    pub(super) fn new() -> Self {
        let arena = Arena::new();
        let head = Node::write(&arena, &NodeParts::head(), LEVELS_MAX).as_non_null();
        let (levels, hints) = (AtomicUsize::new(1), Default::default());
        Self { arena, head, levels, hints, samples: Samples::new() }
    }

    /// The node that every level begins with.
    #[expect(unsafe_code, reason = "ties the head to the borrow of the list")]
    #[inline]
    fn head(&self) -> Node<'_> {
        // SAFETY: the head was written into this list's arena (N1).
        unsafe { Node::from_non_null(self.head) }
    }

    /// Bytes of memory held, without the list's own struct.
    pub(super) fn memory_bytes(&self) -> usize {
        self.arena.memory_bytes() + self.samples.memory_bytes()
    }

    /// Adds an entry. Changes nothing if (keyspace, key, seq) is there.
    ///
    /// # Panics
    /// If the key is longer than 65,535 bytes or the value than `u32::MAX` bytes: the engine
    /// checks both long before.
    #[expect(clippy::indexing_slicing, reason = "a remainder of HINTS")]
    pub(super) fn insert(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: Seq,
        kind: Kind,
        value: &[u8],
    ) -> Inserted<'_> {
        debug_assert!(seq <= SEQ_MAX);
        let target = Target::new(keyspace, key, seq);
        let hint = &*self.hints[keyspace.0 as usize % HINTS];
        let height = height_of(seq);
        let mut brackets = [Bracket { before: self.head(), after: None }; LEVELS_MAX];
        let hint_use = self.find_by_hint(&target, hint, height, &mut brackets);
        if hint_use != HintUse::Hit {
            self.find(&target, height, &mut brackets);
        }
        let [lowest, ..] = &brackets;
        if lowest.after.is_some_and(|node| target.compare(node).is_eq()) {
            return Inserted::Repeated;
        }
        let Target { prefix, .. } = target;
        let parts = NodeParts { keyspace: keyspace.0, prefix, seq, kind, key, value };
        let node = Node::write(&self.arena, &parts, height);
        if !self.link(&target, node, height, &mut brackets) {
            return Inserted::Repeated;
        }
        Self::remember(hint, hint_use, node, height, &brackets);
        if height > samples::LEVEL
            && let Some(number) = self.samples.count()
        {
            self.make_samples(number);
        }
        let [lowest, ..] = &brackets;
        Inserted::Before(lowest.after)
    }

    /// Notes where an insertion went (L5). Random keys change one slot only: they must not pay
    /// for what only sequential keys can use.
    fn remember(
        hint: &Hint,
        hint_use: HintUse,
        node: Node<'_>,
        height: usize,
        brackets: &Brackets<'_>,
    ) {
        let levels = match hint_use {
            HintUse::Miss => 1,
            HintUse::Partial => LEVELS_MAX,
            HintUse::Hit => height,
        };
        for (level, (slot, bracket)) in hint.0.iter().zip(brackets).enumerate().take(levels) {
            let place = if level < height { node } else { bracket.before };
            slot.store(place.as_ptr(), Ordering::Release);
        }
    }

    /// Links a node at all its levels, lowest first. False if an equal one came first.
    fn link<'a>(
        &'a self,
        target: &Target<'_>,
        node: Node<'a>,
        height: usize,
        brackets: &mut Brackets<'a>,
    ) -> bool {
        if height > self.levels.load(Ordering::Relaxed) {
            self.levels.fetch_max(height, Ordering::Relaxed);
        }
        for (level, bracket) in brackets.iter_mut().enumerate().take(height) {
            loop {
                if level == 0 {
                    let before = bracket.before;
                    node.set_before((before != self.head()).then_some(before));
                }
                node.prepare_next(level, bracket.after);
                if bracket.before.link_next(level, bracket.after, node) {
                    break;
                }
                // Somebody linked a node here since: go on from where we stood.
                mark!("skip_list_insert_raced");
                *bracket = self.bracket(target, bracket.before, level, None);
                let after = bracket.after;
                if level == 0 && after.is_some_and(|node| target.compare(node).is_eq()) {
                    return false;
                }
            }
            if level == 0
                && let Some(after) = bracket.after
            {
                after.set_before(Some(node));
            }
        }
        true
    }

    /// Fills the brackets of levels below `height` from the hint, as far as the place is right
    /// behind the last insertion.
    fn find_by_hint<'a>(
        &'a self,
        target: &Target<'_>,
        hint: &Hint,
        height: usize,
        brackets: &mut Brackets<'a>,
    ) -> HintUse {
        for (level, (slot, bracket)) in hint.0.iter().zip(brackets).enumerate().take(height) {
            match self.bracket_by_hint(target, slot, level) {
                Some(found) => *bracket = found,
                None if level == 0 => return HintUse::Miss,
                None => return HintUse::Partial,
            }
        }
        HintUse::Hit
    }

    /// The bracket of a place at one level, if the hinted node begins it.
    #[expect(unsafe_code, reason = "follows a hint")]
    #[inline]
    fn bracket_by_hint<'a>(
        &'a self,
        target: &Target<'_>,
        slot: &AtomicPtr<Header>,
        level: usize,
    ) -> Option<Bracket<'a>> {
        // SAFETY: hints hold nodes of this list only, stored with Release (N1).
        let before = unsafe { Node::from_ptr(slot.load(Ordering::Acquire)) }?;
        if before != self.head() && !target.is_after(before) {
            return None;
        }
        let after = before.next(level);
        let tight = after.is_none_or(|node| !target.is_after(node));
        tight.then_some(Bracket { before, after })
    }

    /// The brackets of a place at all levels below `height`, and usually more.
    fn find<'a>(&'a self, target: &Target<'_>, height: usize, brackets: &mut Brackets<'a>) {
        let is_low = height <= samples::LEVEL + 1;
        let sampled = if is_low { self.bracket_by_sample(target) } else { None };
        let (mut at, levels) = match sampled {
            Some(bracket) => (bracket, samples::LEVEL + 1),
            None => {
                let before = self.head();
                (Bracket { before, after: None }, self.levels.load(Ordering::Relaxed))
            }
        };
        for (level, bracket) in brackets.iter_mut().enumerate().take(levels).rev() {
            at = self.bracket(target, at.before, level, at.after);
            *bracket = at;
        }
    }

    /// The bracket of a place at the level of samples, if one of them stands close before it.
    #[inline]
    fn bracket_by_sample<'a>(&'a self, target: &Target<'_>) -> Option<Bracket<'a>> {
        let mut before = self.samples.before(target)?;
        for _ in 0..SAMPLE_STEPS_MAX {
            let after = before.next(samples::LEVEL);
            before.prefetch_next(samples::LEVEL - 1);
            match after {
                Some(node) if target.is_after(node) => before = node,
                _ => {
                    mark!("skip_list_search_from_sample");
                    return Some(Bracket { before, after });
                }
            }
        }
        None
    }

    /// The bracket of a place at one level, going on from a node before it. `known` is a node
    /// known to stand at or after the place.
    #[inline(always)]
    fn bracket<'a>(
        &'a self,
        target: &Target<'_>,
        mut before: Node<'a>,
        level: usize,
        known: Option<Node<'a>>,
    ) -> Bracket<'a> {
        loop {
            let after = before.next(level);
            if let Some(below) = level.checked_sub(1) {
                // Where the search goes on if `after` is too far: fetched while it is compared.
                before.prefetch_next(below);
            }
            match after {
                Some(node) if after != known && target.is_after(node) => before = node,
                _ => return Bracket { before, after },
            }
        }
    }

    /// The bracket of a place at level 0.
    fn locate(&self, target: &Target<'_>) -> Bracket<'_> {
        let (mut at, levels) = match self.bracket_by_sample(target) {
            Some(bracket) => (bracket, samples::LEVEL),
            None => {
                let before = self.head();
                (Bracket { before, after: None }, self.levels.load(Ordering::Relaxed))
            }
        };
        for level in (0..levels).rev() {
            at = self.bracket(target, at.before, level, at.after);
        }
        at
    }

    /// The first entry at or after a place.
    pub(super) fn seek(&self, target: &Target<'_>) -> Option<Node<'_>> {
        self.locate(target).after
    }

    /// The last entry strictly before a place.
    pub(super) fn seek_before(&self, target: &Target<'_>) -> Option<Node<'_>> {
        let before = self.locate(target).before;
        (before != self.head()).then_some(before)
    }

    /// The last entry of all.
    pub(super) fn last(&self) -> Option<Node<'_>> {
        let mut at = self.head();
        for level in (0..self.levels.load(Ordering::Relaxed)).rev() {
            while let Some(next) = at.next(level) {
                at = next;
            }
        }
        (at != self.head()).then_some(at)
    }

    /// The entry after a node of this list. The one after that is on its way into the cache.
    pub(super) fn next<'a>(&'a self, node: Node<'a>) -> Option<Node<'a>> {
        let next = node.next(0);
        if let Some(next) = next {
            next.prefetch_next(0);
        }
        next
    }

    /// The entry before a node of this list (L4): usually one step.
    pub(super) fn prev<'a>(&'a self, node: Node<'a>) -> Option<Node<'a>> {
        let mut before = node.before().unwrap_or(self.head());
        for step in 0..BEFORE_STEPS_MAX {
            let after = before.next(0);
            if after == Some(node) {
                if step > 1 && before != self.head() {
                    node.set_before(Some(before));
                }
                return (before != self.head()).then_some(before);
            }
            let Some(after) = after else { break };
            before = after;
        }
        let target = Target {
            keyspace: node.keyspace(),
            prefix: node.prefix(),
            key: node.key(),
            seq: node.seq(),
        };
        let before = self.seek_before(&target);
        if before.is_some() {
            node.set_before(before);
        }
        before
    }
}

/// Height of the tower for an entry, 1 to [`LEVELS_MAX`]: a hash of its seq, which is unique and
/// gives the same list in every run. One in four goes up a level.
pub(super) fn height_of(seq: Seq) -> usize {
    let mut bits = seq.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (1 + bits.trailing_zeros() as usize / 2).min(LEVELS_MAX)
}
