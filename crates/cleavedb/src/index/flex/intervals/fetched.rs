//! Intervals that work is about to write anew, read together before it comes to them.
//!
//! A flush meets its intervals one after the other, and each that it has to read is a dozen
//! fragments; a device gives several times as much to who asks for some hundred at once. Contents
//! have stamps that others never have, so that what was read of the index as the work found it is
//! right as long as the stamp is.
//!
//! Owned by one change. Invariant: FT-1 what is held is what was read together last.

use std::collections::HashMap;
use std::sync::Arc as ValueArc;

use crate::base::error::Result;
use crate::base::marks::mark;
use crate::index::flex::intervals::anchors::Found;
use crate::index::flex::intervals::run::Run;
use crate::index::flex::intervals::view::Source;
use crate::io::Purpose;

/// Contents by their stamps.
pub(super) struct Fetched<'a> {
    /// The index as the work found it.
    pub(super) source: &'a Source,
    runs: HashMap<u64, ValueArc<Run>>,
}

impl<'a> Fetched<'a> {
    /// Nothing yet.
    pub(super) fn new(source: &'a Source) -> Self {
        Self { source, runs: HashMap::new() }
    }

    /// Reads intervals that are not in the cache, all of them at once; what was read before and
    /// nobody came for goes.
    pub(super) fn fetch(&mut self, wanted: &[Found<'_>], purpose: Purpose) -> Result<()> {
        self.runs.clear();
        // A lone one is read as well when it is its turn.
        if wanted.len() > 1 {
            mark!("intervals_fetched_ahead");
            let stamps = wanted.iter().map(|found| found.interval.stamp);
            self.runs = stamps.zip(self.source.read_many(wanted, purpose)?).collect();
        }
        Ok(())
    }

    /// The contents of a stamp, if they were read.
    pub(super) fn take(&mut self, stamp: u64) -> Option<ValueArc<Run>> {
        self.runs.remove(&stamp)
    }
}
