//! Several cursors as one: a loser tree over children, walkable in both directions.
//!
//! Owned by one thread at a time. Invariants: M1 the order of entries is (key ascending, seq
//! descending, child ascending), so identical (key, seq) of two children come in child order.
//! M2 walking forwards, every other child stands on its first entry after the current one;
//! walking backwards, on its last entry before it. M3 after an error the cursor is invalid until
//! the next seek. M4 no step within one direction allocates.

use std::cmp::Ordering;

use crate::base::cursor::{BoxCursor, Cursor, Head};
use crate::base::entry::{Kind, Seq, key_prefix};
use crate::base::error::Result;
use crate::base::value::Value;

#[cfg(test)]
mod tests;

/// A child and the part of its position that most comparisons need.
struct Child {
    cursor: BoxCursor,
    /// Whether the child stands on an entry.
    valid: bool,
    /// First bytes of its key, as an integer.
    prefix: u64,
    seq: Seq,
}

impl Child {
    /// Takes over the cursor's position.
    fn refresh(&mut self) {
        let head = self.cursor.head();
        self.valid = head.is_some();
        if let Some(Head { key, seq, .. }) = head {
            (self.prefix, self.seq) = (key_prefix(key), seq);
        }
    }

    /// Whether the child stands on exactly this entry.
    fn is_at(&self, key: &[u8], seq: Seq) -> bool {
        self.cursor.head().is_some_and(|head| head.seq == seq && head.key == key)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Merges children into one ordered run.
pub(crate) struct MergingCursor {
    children: Vec<Child>,
    /// Inner node i of the tree holds the child that lost there; node 0 holds the winner. The
    /// leaf of child c is the node `children.len() + c`.
    losers: Vec<u32>,
    direction: Direction,
    valid: bool,
    /// The current key, while children are moved around it.
    scratch: Vec<u8>,
}

impl MergingCursor {
    /// A cursor over all entries of the children; not positioned yet. At most 2^32 - 1 children.
    pub(crate) fn new(children: Vec<BoxCursor>) -> Self {
        let children: Vec<Child> = children
            .into_iter()
            .map(|cursor| Child { cursor, valid: false, prefix: 0, seq: 0 })
            .collect();
        let losers = vec![0; children.len()];
        let scratch = Vec::new();
        Self { children, losers, direction: Direction::Forward, valid: false, scratch }
    }

    /// Moves every child and finds the first in `direction`.
    fn position(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut BoxCursor) -> Result<()>,
    ) -> Result<()> {
        self.valid = false;
        self.direction = direction;
        for child in &mut self.children {
            place(&mut child.cursor)?;
            child.refresh();
        }
        self.rebuild();
        Ok(())
    }

    /// Number of the child that holds the current entry.
    fn winner(&self) -> usize {
        self.losers.first().copied().unwrap_or(0) as usize
    }

    /// The child that holds the current entry.
    #[expect(clippy::indexing_slicing, reason = "only called while valid: there is a winner")]
    fn current(&self) -> &BoxCursor {
        debug_assert!(self.valid, "C1: accessors need a valid cursor");
        &self.children[self.winner()].cursor
    }

    /// Whether child `a` comes before child `b` in the direction of walking (M1); children that
    /// stand nowhere come last.
    #[expect(clippy::indexing_slicing, reason = "only numbers of children stand in the tree")]
    fn comes_before(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.children[a], &self.children[b]);
        if !(left.valid && right.valid) {
            return left.valid || (!right.valid && a < b);
        }
        let order = left.prefix.cmp(&right.prefix).then_with(|| {
            left.cursor
                .key()
                .cmp(right.cursor.key())
                .then_with(|| right.seq.cmp(&left.seq))
                .then(a.cmp(&b))
        });
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    /// Plays all matches anew.
    #[expect(clippy::indexing_slicing, reason = "nodes are below 2n, inner ones below n")]
    fn rebuild(&mut self) {
        let count = self.children.len();
        if count == 0 {
            return;
        }
        // Child by child climbs from its leaf until it meets a node where nobody waits yet; the
        // second to come plays the first. Each inner node sees exactly two.
        const EMPTY: u32 = u32::MAX;
        self.losers.fill(EMPTY);
        for child in 0..count {
            let mut climbing = child;
            let mut node = (count + child) / 2;
            while node > 0 {
                let waiting = self.losers[node];
                if waiting == EMPTY {
                    self.losers[node] = climbing as u32;
                    break;
                }
                if self.comes_before(waiting as usize, climbing) {
                    self.losers[node] = climbing as u32;
                    climbing = waiting as usize;
                }
                node /= 2;
            }
            if node == 0 {
                self.losers[0] = climbing as u32;
            }
        }
        self.valid = self.children[self.winner()].valid;
    }

    /// Plays the matches of the winner's path again, after the winner moved.
    #[expect(clippy::indexing_slicing, reason = "nodes on a path from a leaf are below n")]
    fn replay(&mut self) {
        let mut climbing = self.winner();
        let mut node = (self.children.len() + climbing) / 2;
        while node > 0 {
            let waiting = self.losers[node] as usize;
            if self.comes_before(waiting, climbing) {
                self.losers[node] = climbing as u32;
                climbing = waiting;
            }
            node /= 2;
        }
        self.losers[0] = climbing as u32;
        self.valid = self.children[climbing].valid;
    }

    /// One step of the winner within the current direction.
    #[expect(clippy::indexing_slicing, reason = "only called while valid: there is a winner")]
    fn step(&mut self) -> Result<()> {
        let winner = self.winner();
        let child = &mut self.children[winner];
        let moved = match self.direction {
            Direction::Forward => child.cursor.next(),
            Direction::Backward => child.cursor.prev(),
        };
        if let Err(error) = moved {
            self.valid = false;
            return Err(error);
        }
        child.refresh();
        self.replay();
        Ok(())
    }

    /// Turns around: moves every other child to the far side of the current entry (M2), then
    /// makes the step.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let winner = self.winner();
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        key.extend_from_slice(self.current().key());
        let seq = self.current().seq();
        self.valid = false;
        self.direction = direction;
        let moved = self.children.iter_mut().enumerate().try_for_each(|(number, child)| {
            let cursor = &mut child.cursor;
            match (direction, number.cmp(&winner)) {
                (Direction::Forward, Ordering::Equal) => cursor.next()?,
                (Direction::Backward, Ordering::Equal) => cursor.prev()?,
                (Direction::Forward, Ordering::Greater) => cursor.seek(&key, seq)?,
                (Direction::Backward, Ordering::Greater) => cursor.seek_before(&key, seq)?,
                // A repeat of the current entry in an earlier child comes before it.
                (Direction::Forward, Ordering::Less) => {
                    cursor.seek(&key, seq)?;
                    if child.is_at(&key, seq) {
                        child.cursor.next()?;
                    }
                }
                (Direction::Backward, Ordering::Less) => {
                    cursor.seek(&key, seq)?;
                    if !child.is_at(&key, seq) {
                        child.cursor.seek_before(&key, seq)?;
                    }
                }
            }
            child.refresh();
            Ok(())
        });
        self.scratch = key;
        moved?;
        self.rebuild();
        Ok(())
    }
}

impl Cursor for MergingCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, |child| child.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, |child| child.seek_last())
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.position(Direction::Forward, |child| child.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.position(Direction::Backward, |child| child.seek_before(key, seq))
    }

    fn next(&mut self) -> Result<()> {
        match self.direction {
            _ if !self.valid => Ok(()),
            Direction::Forward => self.step(),
            Direction::Backward => self.turn(Direction::Forward),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.direction {
            _ if !self.valid => Ok(()),
            Direction::Backward => self.step(),
            Direction::Forward => self.turn(Direction::Backward),
        }
    }

    fn valid(&self) -> bool {
        self.valid
    }

    fn key(&self) -> &[u8] {
        self.current().key()
    }

    fn seq(&self) -> Seq {
        self.current().seq()
    }

    fn kind(&self) -> Kind {
        self.current().kind()
    }

    fn head(&self) -> Option<Head<'_>> {
        if self.valid { self.current().head() } else { None }
    }

    fn value(&self) -> &[u8] {
        self.current().value()
    }

    fn value_owned(&self) -> Value {
        self.current().value_owned()
    }
}
