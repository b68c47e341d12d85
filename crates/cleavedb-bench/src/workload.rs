//! The steps of every phase, as seeded generators that know nothing of engines.
//!
//! - W1: a generator is a pure function of (phase, shape, seed, thread, items there are), so one
//!   thread's steps are the same in every run.
//! - W2: the fill phases together write every item below `num` exactly once over all threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::distribution::{Chooser, Permutation, ZIPF_EXPONENT, mix};
use crate::phase::{FILL_BATCH, Phase};

/// Additions among 1,000 steps of `up2x`; the others read.
const UP2X_ADDITIONS_PERMILLE: u32 = 925;

/// Longest scan of YCSB E.
const YCSB_SCAN_PAIRS_MAX: usize = 100;

/// One thing to do. Items are numbers that [`crate::data::Dataset`] turns into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Store `version` of an item.
    Put {
        /// Which.
        item: u64,
        /// Distinguishes values of one item.
        version: u64,
    },
    /// Read an item.
    Get(u64),
    /// Ask for a key near an item that does not exist.
    GetMissing(u64),
    /// Read one item of several that are fetched together.
    GetTogether(u64),
    /// Read pairs from an item on.
    Scan {
        /// Where.
        item: u64,
        /// How many.
        pairs: usize,
        /// Downwards.
        reverse: bool,
    },
    /// Delete an item.
    Delete(u64),
    /// Delete all items in one call.
    DeleteRange,
    /// Drop the keyspace.
    DropKeyspace,
    /// Compact everything.
    Compact,
    /// Add one to a counter.
    Add(u64),
    /// Read a counter, which may not be there yet.
    GetCounter(u64),
    /// Append part of this number to the one long value, as a merge.
    Append(u64),
    /// Read the one long value.
    GetAppended,
    /// Read a counter and store it one larger, as two calls.
    AddByPut(u64),
    /// Change a part of an item's value.
    ChangePart {
        /// Which item.
        item: u64,
        /// Distinguishes values of one item.
        version: u64,
        /// Which part, after taking the remainder by the parts of a value.
        part: u64,
        /// As one merge, rather than as get and put.
        merged: bool,
    },
    /// Read an item and store it anew.
    ReadModifyWrite {
        /// Which.
        item: u64,
        /// Distinguishes values of one item.
        version: u64,
    },
}

/// Shares of the phases `mixput` and `mixmerge`; what remains changes a part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Reads among 1,000 steps.
    pub read_permille: u32,
    /// Puts among 1,000 steps.
    pub put_permille: u32,
    /// Bytes of one part of a value.
    pub part_bytes: usize,
}

impl Default for Mix {
    fn default() -> Self {
        Self { read_permille: 100, put_permille: 0, part_bytes: 100 }
    }
}

/// Sizes of the phases.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Items loaded by the fill phases.
    pub num: u64,
    /// Steps of the other phases over all threads, where it is not the phase's own number.
    pub operations: Option<u64>,
    /// Pairs read after each seek of `seekrandom` and `seekreverse`.
    pub seek_pairs: usize,
    /// Pairs in one run of `scan` and `scanreverse`.
    pub scan_pairs: usize,
    /// Items passed over at the beginning of the random order by `readonce` and `multigetonce`.
    pub skip: u64,
    /// Threads.
    pub threads: usize,
    /// Exponent of the zipfian phases.
    pub zipf_exponent: f64,
    /// Shares of the phases that mix.
    pub mix: Mix,
    /// Seed of the whole run.
    pub seed: u64,
}

/// Gets of missing keys for each item there is.
const MISSING_PER_ITEM: u64 = 8;

impl Shape {
    /// Steps of a phase over all threads.
    #[must_use]
    pub fn steps(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Device | Phase::Rest => 0,
            Phase::DeleteRange | Phase::DropKeyspace | Phase::Compact => 1,
            Phase::FillReplace => self.num,
            Phase::BareWrites | Phase::BareWritesSynced | Phase::BareWritesDirect => self.num,
            phase if phase.fills() => self.num,
            Phase::Scan | Phase::ScanReverse => self.num.div_ceil(self.scan_pairs.max(1) as u64),
            Phase::SeekRandom | Phase::SeekReverse | Phase::YcsbE => {
                self.operations.unwrap_or_else(|| (self.num / 10).max(1))
            }
            // No device has a part in most of them: one for each item would be over in no time.
            Phase::ReadMissing => self.operations.unwrap_or(MISSING_PER_ITEM * self.num),
            _ => self.operations.unwrap_or(self.num),
        }
    }

    /// The steps of a phase that fall to one thread.
    pub(crate) fn share(&self, phase: Phase, thread: usize) -> Range<u64> {
        let (steps, threads) = (u128::from(self.steps(phase)), self.threads.max(1) as u128);
        let bound = |thread: usize| (steps * thread as u128 / threads) as u64;
        bound(thread)..bound(thread + 1)
    }
}

/// The steps of one thread in one phase. `items` counts the items there are, for all threads.
pub struct Generator<'a> {
    phase: Phase,
    shape: Shape,
    range: Range<u64>,
    version: u64,
    random: Xoshiro256PlusPlus,
    chooser: Chooser,
    order: Permutation,
    /// Items of a sorted batch that are still to be stored, the next one last.
    sorted: Vec<u64>,
    items: &'a AtomicU64,
}

impl<'a> Generator<'a> {
    /// The generator of `thread` (below the shape's threads) for `phase`.
    #[must_use]
    pub fn new(phase: Phase, shape: Shape, thread: usize, items: &'a AtomicU64) -> Self {
        let place = Phase::every().position(|other| other == phase).unwrap_or(0) as u64;
        let num = shape.num.max(1);
        let chooser = match phase {
            Phase::YcsbA | Phase::YcsbB | Phase::YcsbC | Phase::YcsbE | Phase::YcsbF => {
                Chooser::zipfian(num, ZIPF_EXPONENT, shape.seed)
            }
            Phase::ReadZipf
            | Phase::OverwriteZipf
            | Phase::Up2x
            | Phase::MixPut
            | Phase::MixMerge => Chooser::zipfian(num, shape.zipf_exponent, shape.seed),
            Phase::ReadComposite | Phase::OverwriteComposite => {
                Chooser::composite(num, shape.zipf_exponent, shape.seed)
            }
            Phase::YcsbD => Chooser::latest(num),
            _ => Chooser::Uniform,
        };
        // In another order than the load's: what was loaded one after the other lies side by side.
        let reads_once = matches!(phase, Phase::ReadOnce | Phase::MultiGetOnce);
        let order_seed = if reads_once { mix(!shape.seed) } else { shape.seed };
        let seed = mix(shape.seed ^ mix(place << 32 | thread as u64));
        Self {
            phase,
            shape,
            range: shape.share(phase, thread),
            version: (place + 1) << 56 | (thread as u64) << 40,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            chooser,
            order: Permutation::new(num, order_seed),
            sorted: Vec::new(),
            items,
        }
    }

    /// Steps that remain.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn choose(&mut self) -> u64 {
        match self.phase {
            Phase::YcsbD => {
                let count = self.items.load(Ordering::Relaxed);
                let chosen = self.chooser.next(&mut self.random, count);
                if chosen < self.shape.num { self.loaded(chosen) } else { chosen }
            }
            _ => self.chooser.next(&mut self.random, self.shape.num),
        }
    }

    /// The item that was loaded so many items after the first: every thread loads its share of the
    /// random order from the front, so what came last stands at the ends of the shares.
    fn loaded(&self, place: u64) -> u64 {
        let num = self.shape.num.max(1);
        let threads = self.shape.threads.max(1) as u64;
        let later = num - 1 - place.min(num - 1);
        let share = self.shape.share(Phase::FillRandom, (later % threads) as usize);
        self.order.apply((share.end - 1).saturating_sub(later / threads).max(share.start))
    }

    fn put(&mut self, item: u64) -> Step {
        self.version += 1;
        Step::Put { item, version: self.version }
    }

    /// The next item of the sorted batch, or the first of the batch that begins at `index`.
    fn put_sorted(&mut self, index: u64) -> Step {
        if self.sorted.is_empty() {
            let end = self.range.end.min(index + FILL_BATCH as u64);
            self.sorted.extend((index..end).map(|place| self.order.apply(place)));
            self.sorted.sort_unstable_by(|one, other| other.cmp(one));
        }
        let item = self.sorted.pop().unwrap_or(index);
        self.put(item)
    }

    fn insert(&mut self) -> Step {
        let item = self.items.fetch_add(1, Ordering::Relaxed);
        self.put(item)
    }

    /// True in `percent` of 100 calls.
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn count_or_read(&mut self) -> Step {
        let counter = self.choose();
        if self.random.random_range(0..1_000) < UP2X_ADDITIONS_PERMILLE {
            Step::Add(counter)
        } else {
            Step::GetCounter(counter)
        }
    }

    /// One step of a mix; `merged`: changes are merges.
    fn mixed(&mut self, merged: bool) -> Step {
        let (item, mix) = (self.choose(), self.shape.mix);
        let chance = self.random.random_range(0..1_000);
        if chance < mix.read_permille {
            return Step::Get(item);
        }
        if chance < mix.read_permille + mix.put_permille {
            return self.put(item);
        }
        self.version += 1;
        let part = self.random.random_range(0..u64::MAX);
        Step::ChangePart { item, version: self.version, part, merged }
    }

    /// The item at a place of the random order, counted from where phases before have ended.
    fn passed(&self, index: u64) -> u64 {
        let num = self.shape.num.max(1);
        self.order.apply(index.wrapping_add(self.shape.skip) % num)
    }

    fn run(&self, index: u64, reverse: bool) -> Step {
        let pairs = self.shape.scan_pairs.max(1) as u64;
        let first = (index * pairs).min(self.shape.num.saturating_sub(1));
        let count = pairs.min(self.shape.num - first) as usize;
        let item = if reverse { self.shape.num - 1 - first } else { first };
        Step::Scan { item, pairs: count, reverse }
    }
}

impl Iterator for Generator<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let index = self.range.next()?;
        let phase = self.phase;
        let step = match phase {
            Phase::Device | Phase::Rest | Phase::BareReads => return None,
            Phase::BareWrites | Phase::BareWritesSynced | Phase::BareWritesDirect => return None,
            Phase::DeleteRange => Step::DeleteRange,
            Phase::DropKeyspace => Step::DropKeyspace,
            Phase::Compact => Step::Compact,
            Phase::FillSeq => self.put(index),
            Phase::FillRandom | Phase::FillBatch => self.put(self.order.apply(index)),
            Phase::FillSorted => self.put_sorted(index),
            Phase::RmwRandom => Step::AddByPut(self.choose()),
            Phase::Overwrite
            | Phase::OverwriteZipf
            | Phase::OverwriteComposite
            | Phase::FillReplace => {
                let item = self.choose();
                self.put(item)
            }
            Phase::ReadRandom | Phase::ReadZipf | Phase::ReadComposite | Phase::YcsbC => {
                Step::Get(self.choose())
            }
            Phase::ReadSeq => Step::Get(index % self.shape.num.max(1)),
            Phase::DeleteOnce => Step::Delete(self.order.apply(index % self.shape.num.max(1))),
            Phase::MixPut => self.mixed(false),
            Phase::MixMerge => self.mixed(true),
            Phase::Up2x => self.count_or_read(),
            Phase::ReadOnce => Step::Get(self.passed(index)),
            Phase::MultiGetOnce => Step::GetTogether(self.passed(index)),
            Phase::ReadMissing => Step::GetMissing(self.choose()),
            Phase::MultiGet => Step::GetTogether(self.choose()),
            Phase::SeekRandom | Phase::SeekReverse => {
                let item = self.choose();
                let reverse = phase == Phase::SeekReverse;
                Step::Scan { item, pairs: self.shape.seek_pairs, reverse }
            }
            Phase::Scan => self.run(index, false),
            Phase::ScanReverse => self.run(index, true),
            Phase::DeleteRandom => Step::Delete(self.choose()),
            Phase::MergeRandom => Step::Add(self.choose()),
            Phase::AppendOne | Phase::ReadAppended => long_value(phase, index),
            Phase::CountHot | Phase::ReadHot => hot_counter(phase, index),
            Phase::YcsbA | Phase::YcsbB => {
                let reads = if phase == Phase::YcsbA { 50 } else { 95 };
                let (item, read) = (self.choose(), self.chance(reads));
                if read { Step::Get(item) } else { self.put(item) }
            }
            Phase::YcsbD if self.chance(95) => Step::Get(self.choose()),
            Phase::YcsbE if self.chance(95) => {
                let item = self.choose();
                let pairs = self.random.random_range(1..=YCSB_SCAN_PAIRS_MAX);
                Step::Scan { item, pairs, reverse: false }
            }
            Phase::YcsbD | Phase::YcsbE => self.insert(),
            Phase::YcsbF => {
                let (item, read) = (self.choose(), self.chance(50));
                if read {
                    Step::Get(item)
                } else {
                    self.version += 1;
                    Step::ReadModifyWrite { item, version: self.version }
                }
            }
        };
        Some(step)
    }
}

/// Steps on the one value that grows.
fn long_value(phase: Phase, index: u64) -> Step {
    if phase == Phase::AppendOne { Step::Append(index) } else { Step::GetAppended }
}

/// Steps on the one counter among others.
fn hot_counter(phase: Phase, index: u64) -> Step {
    match phase {
        Phase::ReadHot => Step::GetCounter(0),
        _ if index.is_multiple_of(2) => Step::Add(0),
        _ => Step::Add(1 + index / 2),
    }
}

#[cfg(test)]
mod tests;
