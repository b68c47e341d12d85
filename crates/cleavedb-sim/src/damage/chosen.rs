//! Which stores are damaged first: those that have every kind of file, whatever else is drawn.
//!
//! Plain data. Invariant CH-1: a store has what it was chosen for, or the family fails.

use cleavedb::{Deltas, StrategyKind};

use crate::damage::{Specimen, kinds};
use crate::form::Form;
use crate::harness::Budget;
use crate::kinds::Kinds;
use crate::session::{Check, Violation};

/// The seeds of the first stores, each of which has something that others seldom have.
pub(super) struct Chosen {
    /// LSM-trees, and sealed segments of both lanes.
    lanes: u64,
    /// A Flex index, and large values.
    large: u64,
    /// Value tables, and files of facts.
    pub(super) tables: u64,
    pub(super) locator: u64,
    buckets: u64,
    /// Both kinds of index.
    both: u64,
}

impl Chosen {
    pub(super) fn of(budget: &Budget) -> Self {
        let [lanes, large, tables, locator, buckets, both] =
            [0, 1, 2, 3, 4, 5].map(|number| budget.seed_of(number));
        Self { lanes, large, tables, locator, buckets, both }
    }

    /// Whether a store is gone through to the last byte.
    pub(super) fn is_whole(&self, seed: u64) -> bool {
        [self.lanes, self.large, self.tables, self.both].contains(&seed)
    }

    pub(super) fn form(&self, seed: u64) -> Form {
        let is_whole = self.is_whole(seed);
        let mut form = if is_whole { Form::base() } else { Form::drawn(seed) };
        if is_whole || seed.is_multiple_of(3) {
            // Several sealed journals that no table has made superfluous.
            form.widths.memtable_bytes = 32 << 10;
            form.widths.journal_segment_bytes = 1 << 10;
            form.widths.value_segment_bytes = 1 << 10;
        }
        if is_whole {
            // Both lanes, open, in the stores that are gone through to the last byte.
            form.separate_at = Some(64);
        }
        if seed == self.both {
            form = Kinds::Both.form(&form);
        }
        if seed == self.large {
            form = Kinds::Flex.form(&form);
            // The log of its tree is short, so that there are pages.
            form.widths.table_bytes = 256;
            form.widths.large_value_bytes = 100;
            form.widths.large_chunk_bytes = 64;
        }
        if seed == self.tables {
            form.strategy = StrategyKind::Novkv;
            form.separate_at = Some(8);
            form.widths.memtable_bytes = 4 << 10;
            form.widths.facts_bytes_max = 1;
        }
        if seed == self.locator {
            form.strategy = StrategyKind::Unified;
            form.separate_at = Some(8);
        }
        if seed == self.buckets {
            form.deltas = Deltas::Buckets;
            form.widths.memtable_bytes = 2 << 10;
        }
        form
    }

    /// Every store has what it was chosen for.
    pub(super) fn check(&self, seed: u64, specimen: &Specimen) -> Check {
        let has = [
            (self.tables, "vtb", "many writes has no value tables"),
            (self.tables, "drp", "many overwrites has no files of facts"),
            (self.locator, "loc", "a locator has not saved it when it was closed"),
            (self.buckets, "dlt", "many merges has no buckets"),
            (self.large, "fxs", "a Flex index has no segments"),
            (self.large, "fxp", "a Flex index has no pages"),
        ];
        let there = kinds(specimen);
        let is_missing =
            |(of, kind, _): &&(u64, &str, &str)| *of == seed && !there.contains_key(*kind);
        match has.iter().find(is_missing) {
            Some((.., what)) => Err(Violation(format!("a store of {what}: {there:?}"))),
            None => Ok(()),
        }
    }
}
