//! Several searches at once: while one waits for memory, the others go on.
//!
//! A search in a list that exceeds the caches is a chain of nodes to be fetched, each known only
//! when the one before has arrived. Invariant: each search takes the steps that it takes alone.

use crate::base::sync::atomic::Ordering;
use crate::memory::skip_list::{LEVELS_MAX, Node, SkipList, Target};

/// Searches at once: as many lines as a core fetches at a time.
const SEARCHES: usize = 16;

/// A search on its way down.
#[derive(Clone, Copy)]
struct Search<'a> {
    /// A node before the place, or the head.
    before: Node<'a>,
    /// A node known to stand at or after the place.
    known: Option<Node<'a>>,
    /// Levels that are left to be searched.
    levels: usize,
}

impl SkipList {
    /// The first entry at or after each of these places, handed to `found` in their order.
    pub(in crate::memory) fn seek_many<'a, 't>(
        &'a self,
        targets: impl Iterator<Item = Target<'t>>,
        found: &mut dyn FnMut(Option<Node<'a>>),
    ) {
        let mut together = Vec::with_capacity(SEARCHES);
        let mut targets = targets.peekable();
        while targets.peek().is_some() {
            let levels = self.levels.load(Ordering::Relaxed).min(LEVELS_MAX);
            let search = Search { before: self.head(), known: None, levels };
            together.extend(targets.by_ref().take(SEARCHES).map(|target| (target, search)));
            let mut are_open = true;
            while are_open {
                are_open = false;
                for (target, search) in &mut together {
                    are_open |= search.step(target);
                }
            }
            together.drain(..).for_each(|(_, search)| found(search.known));
        }
    }
}

impl Search<'_> {
    /// One comparison, and the next node on its way into the cache; false at the end.
    #[inline]
    fn step(&mut self, target: &Target<'_>) -> bool {
        let Some(level) = self.levels.checked_sub(1) else { return false };
        let after = self.before.next(level);
        match after {
            Some(node) if after != self.known && target.is_after(node) => {
                self.before = node;
                node.prefetch_next(level);
            }
            _ => {
                (self.known, self.levels) = (after, level);
                if let Some(below) = level.checked_sub(1) {
                    self.before.prefetch_next(below);
                }
            }
        }
        true
    }
}
