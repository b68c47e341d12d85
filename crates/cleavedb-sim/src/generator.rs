//! Random operation lists: few keys, some of them hot, so that versions pile up; every kind of
//! operation with a weight that the profile decides.
//!
//! Invariant G1: the list is a function of seed and profile alone.

use crate::operation::{
    Change, Edge, Expect, HELD, Move, Operation, Payload, Read, SLOTS, SNAPSHOTS, Span, Walk,
    key_bytes,
};
use crate::random::{Random, mix};

/// How a list is made.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Operations in the list.
    pub operations: usize,
    /// Keys.
    pub keys: u16,
    /// Keys that half of the operations go to.
    pub hot_keys: u16,
    /// Longest value in bytes.
    pub value_bytes_max: u32,
    /// Weights of changes, reads, snapshot and iterator work, maintenance, background steps,
    /// reopens and checkpoints.
    pub weights: [u32; 6],
    /// Of 100 writes, how many ask for `Sync`.
    pub sync_percent: u64,
}

impl Profile {
    /// For model tests: everything.
    #[must_use]
    pub fn model(operations: usize) -> Self {
        Self {
            operations,
            keys: 220,
            hot_keys: 16,
            value_bytes_max: 6000,
            weights: [46, 26, 14, 4, 8, 2],
            sync_percent: 10,
        }
    }

    /// For model tests: so few keys that what happens to one of them follows closely upon one
    /// another, under old snapshots and over reopens.
    #[must_use]
    pub fn dense(operations: usize) -> Self {
        Self {
            operations,
            keys: 24,
            hot_keys: 4,
            value_bytes_max: 700,
            weights: [40, 24, 20, 8, 10, 6],
            sync_percent: 10,
        }
    }

    /// For model tests, one of both: many keys and few.
    #[must_use]
    pub fn of(seed: u64, operations: usize) -> Self {
        if mix(seed).is_multiple_of(2) { Self::dense(operations) } else { Self::model(operations) }
    }

    /// For crash and fault tests: mostly changes, small values, much background work.
    #[must_use]
    pub fn crash(operations: usize) -> Self {
        Self {
            operations,
            keys: 40,
            hot_keys: 6,
            value_bytes_max: 700,
            weights: [66, 4, 4, 10, 14, 2],
            sync_percent: 25,
        }
    }
}

/// Makes operations.
pub struct Generator {
    random: Random,
    /// Decides what takes the place of another operation, so that the others stay as they are.
    replacing: Random,
    /// A key of the range that was deleted last.
    range_deleted: Option<(u8, u16)>,
    profile: Profile,
    next_tag: u32,
}

impl Generator {
    /// A generator for a seed.
    #[must_use]
    pub fn new(seed: u64, profile: Profile) -> Self {
        let (random, replacing) = (Random::new(seed), Random::new(mix(!seed)));
        Self { random, replacing, range_deleted: None, profile, next_tag: 1 }
    }

    /// The list of a seed.
    #[must_use]
    pub fn list(seed: u64, profile: Profile) -> Vec<Operation> {
        let mut generator = Self::new(seed, profile);
        (0..profile.operations).map(|_| generator.operation()).collect()
    }

    /// The next operation.
    pub fn operation(&mut self) -> Operation {
        let total: u32 = self.profile.weights.iter().sum();
        let mut drawn = self.random.below(u64::from(total)) as u32;
        let mut class = 0;
        for (index, &weight) in self.profile.weights.iter().enumerate() {
            class = index;
            if drawn < weight {
                break;
            }
            drawn -= weight;
        }
        match class {
            0 => self.write(),
            1 => self.reading(),
            2 => self.pinned(),
            3 => self.maintenance(),
            4 => self.background(),
            _ => self.rare(),
        }
    }

    /// Now and then a get of a key in the range that was deleted last: what shortcuts know of such
    /// keys must not show.
    fn reading(&mut self) -> Operation {
        let usual = Operation::Read(self.slot(), self.read());
        match self.range_deleted {
            Some((slot, key)) if self.replacing.chance(1, 10) => {
                Operation::Read(slot, Read::Get(key))
            }
            _ => usual,
        }
    }

    fn write(&mut self) -> Operation {
        match self.random.below(20) {
            0..=12 => Operation::Write(self.change()),
            13..=16 => {
                let count = self.random.within(1, 8);
                let changes = (0..count).map(|_| self.legal_change()).collect();
                Operation::Batch(changes, self.random.chance(self.profile.sync_percent, 100))
            }
            _ => {
                let expect = match self.random.below(4) {
                    0 => Expect::Absent,
                    1 => Expect::Other(self.payload()),
                    _ => Expect::Current,
                };
                let new = self.random.chance(4, 5).then(|| self.payload());
                Operation::Swap(self.slot(), self.key(), expect, new)
            }
        }
    }

    /// Now and then a change that the engine must refuse.
    fn change(&mut self) -> Change {
        if self.random.chance(1, 60) {
            let (key, value) = (self.key(), self.payload());
            return Change::Merge(0, key, value);
        }
        if self.random.chance(1, 60) {
            let Span { from, to } = self.span();
            return Change::DeleteRange(self.slot(), Span { from: to, to: from });
        }
        self.legal_change()
    }

    fn legal_change(&mut self) -> Change {
        let slot = self.slot();
        match self.random.below(40) {
            0..=1 => {
                let span = self.narrow_span();
                if let Edge::With(key) | Edge::Without(key) = span.from {
                    self.range_deleted = Some((slot, key));
                }
                Change::DeleteRange(slot, span)
            }
            2..=8 => Change::Delete(slot, self.key()),
            9..=19 if slot != 0 => {
                let mut operand = self.payload();
                operand.bytes = if slot == 2 { 8 } else { operand.bytes.min(40) };
                Change::Merge(slot, self.key(), operand)
            }
            _ => Change::Put(slot, self.key(), self.payload()),
        }
    }

    fn slot(&mut self) -> u8 {
        // Half of the work goes to one keyspace, so that it grows deep.
        if self.random.chance(1, 2) { 1 } else { self.random.below(u64::from(SLOTS)) as u8 }
    }

    fn key(&mut self) -> u16 {
        let bound =
            if self.random.chance(1, 2) { self.profile.hot_keys } else { self.profile.keys };
        self.random.below(u64::from(bound)) as u16
    }

    fn payload(&mut self) -> Payload {
        let tag = self.next_tag;
        self.next_tag += 1;
        let bytes = match self.random.below(100) {
            0..=4 => 0,
            5..=54 => self.random.within(1, 16),
            55..=84 => self.random.within(17, 200),
            85..=96 => self.random.within(200, 1500),
            _ => self.random.within(1500, 6000),
        };
        Payload { tag, bytes: (bytes as u32).min(self.profile.value_bytes_max) }
    }

    fn edge(&mut self) -> Edge {
        match self.random.below(5) {
            0 => Edge::Open,
            1 | 2 => Edge::With(self.key()),
            _ => Edge::Without(self.key()),
        }
    }

    /// A range that is not reversed.
    fn span(&mut self) -> Span {
        let span = Span { from: self.edge(), to: self.edge() };
        Self::in_order(span)
    }

    fn in_order(span: Span) -> Span {
        let key = |edge| match edge {
            Edge::Open => None,
            Edge::With(key) | Edge::Without(key) => Some(key),
        };
        match (key(span.from), key(span.to)) {
            // Without both ends there would be no telling an empty range from a reversed one.
            (Some(a), Some(b)) if a == b => Span { from: Edge::With(a), to: Edge::With(b) },
            (Some(_), Some(_)) if span.is_reversed() => Span { from: span.to, to: span.from },
            _ => span,
        }
    }

    /// A range of some neighbours, so that range deletes do not empty the keyspace each time.
    fn narrow_span(&mut self) -> Span {
        if self.random.chance(1, 8) {
            return self.span();
        }
        let key = self.key();
        let near = key.saturating_add(self.random.below(8) as u16 + 1);
        let (low, high) = if key_bytes(key) <= key_bytes(near) { (key, near) } else { (near, key) };
        let from = if self.random.chance(3, 4) { Edge::With(low) } else { Edge::Without(low) };
        let to = if self.random.chance(3, 4) { Edge::Without(high) } else { Edge::With(high) };
        Self::in_order(Span { from, to })
    }

    fn walk(&mut self) -> Walk {
        match self.random.below(8) {
            0..=2 => Walk::Forward,
            3..=4 => Walk::Backward,
            5 => Walk::Both(self.random.bits() as u32),
            6 => Walk::Keys,
            _ => Walk::Guards,
        }
    }

    fn read(&mut self) -> Read {
        match self.random.below(16) {
            0..=5 => Read::Get(self.key()),
            6 => Read::Contains(self.key()),
            7..=8 => {
                let count = self.random.within(0, 12);
                Read::MultiGet((0..count).map(|_| self.key()).collect())
            }
            9..=11 => Read::Scan(self.span(), self.walk()),
            12 => Read::Prefix(self.key(), self.random.below(9) as u8, self.walk()),
            _ => {
                let count = self.random.within(1, 16);
                Read::Cursor((0..count).map(|_| self.one_move()).collect())
            }
        }
    }

    fn one_move(&mut self) -> Move {
        match self.random.below(12) {
            0 => Move::First,
            1 => Move::Last,
            2..=3 => Move::Seek(self.key()),
            4..=5 => Move::SeekBack(self.key()),
            6..=8 => Move::Next,
            _ => Move::Prev,
        }
    }

    fn pinned(&mut self) -> Operation {
        let snapshot = self.random.below(u64::from(SNAPSHOTS)) as u8;
        let held = self.random.below(u64::from(HELD)) as u8;
        match self.random.below(12) {
            0..=1 => Operation::TakeSnapshot(snapshot),
            2..=5 => Operation::ReadSnapshot(snapshot, self.slot(), self.read()),
            6 => Operation::DropSnapshot(snapshot),
            7..=8 => Operation::Hold(held, self.slot(), self.span()),
            9..=10 => {
                let count = self.random.within(1, 20) as u8;
                Operation::Advance(held, count, self.random.chance(1, 2))
            }
            _ => Operation::Drain(held),
        }
    }

    fn maintenance(&mut self) -> Operation {
        match self.random.below(10) {
            0..=1 => Operation::Sync,
            2..=4 => Operation::Flush,
            5..=6 => Operation::Reclaim,
            7 => Operation::Compact,
            _ => Operation::CompactRange(self.slot(), self.span()),
        }
    }

    fn background(&mut self) -> Operation {
        match self.random.below(8) {
            0..=5 => Operation::Step(self.random.within(1, 6) as u8),
            6 => Operation::WaitIdle,
            _ => Operation::Tick(self.random.within(1, 3000) as u16),
        }
    }

    fn rare(&mut self) -> Operation {
        match self.random.below(16) {
            0..=4 => Operation::Reopen(self.random.chance(1, 2)),
            5..=6 => Operation::Checkpoint,
            7..=10 => Operation::Create(self.random.below(u64::from(SLOTS)) as u8),
            11..=12 => Operation::Discard(3),
            13..=14 => Operation::Verify,
            _ => Operation::Stats,
        }
    }
}

#[cfg(test)]
mod tests;
