//! The tree of extents alone, for the test of its bytes and for its measurement.

use crate::index::flex::tree::extent::Extent;
use crate::index::flex::tree::{Tree, TreeWidths};

/// A space of records of one length.
#[derive(Clone)]
pub struct TreeProbe {
    tree: Tree,
    record_bytes: u32,
}

impl TreeProbe {
    /// An empty space of usual widths; `None` where a record has no bytes.
    #[must_use]
    pub fn new(record_bytes: u32) -> Option<Self> {
        let tree = Tree::new(TreeWidths::USUAL).ok().filter(|_| record_bytes > 0)?;
        Some(Self { tree, record_bytes })
    }

    /// From now on changes are held, as those of a group are.
    pub fn hold(&mut self) {
        self.tree.hold();
    }

    /// Changes are held no longer.
    pub fn settle(&mut self) {
        self.tree.settle();
    }

    /// Adds a record that stands there; returns whether it could be.
    pub fn append(&mut self, physical: u64) -> bool {
        self.tree.append(Extent::new(physical, self.record_bytes)).is_ok()
    }

    /// Puts a record that stands there before the n-th one; returns whether it could be.
    pub fn insert(&mut self, number: u64, physical: u64) -> bool {
        let offset = number.saturating_mul(u64::from(self.record_bytes));
        self.tree.insert(offset, Extent::new(physical, self.record_bytes)).is_ok()
    }

    /// Puts a record that stands there in the place of the n-th one; returns whether it could be.
    pub fn update(&mut self, number: u64, physical: u64) -> bool {
        let offset = number.saturating_mul(u64::from(self.record_bytes));
        self.tree.overwrite(offset, Extent::new(physical, self.record_bytes)).is_ok()
    }

    /// Takes records out; returns whether they were there.
    pub fn remove(&mut self, numbers: std::ops::Range<u64>) -> bool {
        let offset = |number: u64| number.saturating_mul(u64::from(self.record_bytes));
        self.tree.collapse(offset(numbers.start)..offset(numbers.end)).is_ok()
    }

    /// Where the n-th record begins.
    #[must_use]
    pub fn physical(&self, number: u64) -> Option<u64> {
        self.tree.physical(number.checked_mul(u64::from(self.record_bytes))?)
    }

    /// Where records begin, added up, from the n-th one on; `None` where they are not all there.
    #[must_use]
    pub fn sum(&self, numbers: std::ops::Range<u64>) -> Option<u64> {
        let offset = |number: u64| number.saturating_mul(u64::from(self.record_bytes));
        let walk = self.tree.walk(offset(numbers.start)..offset(numbers.end)).ok()?;
        // A record that lies across two windows of places is two extents.
        let firsts = walk.filter(|placed| placed.offset % u64::from(self.record_bytes) == 0);
        Some(firsts.fold(0, |sum: u64, placed| sum.wrapping_add(placed.extent.physical)))
    }

    /// Extents, and bytes that the tree counts.
    #[must_use]
    pub fn figures(&self) -> (u64, u64) {
        (self.tree.extents(), self.tree.memory_bytes() as u64)
    }
}
