//! Operations as data: small numbers that stand for keys and values, so that a failing list prints
//! as a Rust expression and shrinks by dropping elements.
//!
//! Invariant O1: an operation list means the same whatever elements are dropped from it; an
//! operation that names an empty slot does nothing.

use std::ops::Bound;

/// Keyspaces that operations may name. Slot 0 has no merge operator, 1 and 3 append, 2 sums.
pub const SLOTS: u8 = 4;
/// Snapshots that may live at once.
pub const SNAPSHOTS: u8 = 4;
/// Iterators that may be held open at once.
pub const HELD: u8 = 3;

/// The key of a number: the empty key, long keys, shared prefixes, zero bytes, 0xff bytes.
#[must_use]
pub fn key_bytes(index: u16) -> Vec<u8> {
    let [high, low] = index.to_be_bytes();
    match index {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![0xff; 4],
        _ => match index % 16 {
            1 => format!("shared/{}/{index:05}", "prefix".repeat(6)).into_bytes(),
            2 => vec![0xff, 0xff, high, low],
            3 => vec![0, high, low],
            5 if index % 64 == 5 => format!("long{index:05}{}", "x".repeat(300)).into_bytes(),
            6 => vec![b'a', high, 0, low],
            _ => format!("key{index:05}").into_bytes(),
        },
    }
}

/// A value: `tag` makes it unlike every other, `bytes` is its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// What tells it from others.
    pub tag: u32,
    /// Length in bytes.
    pub bytes: u32,
}

impl Payload {
    /// The bytes: the tag, then text that compresses (even tags) or noise (odd tags).
    #[must_use]
    pub fn contents(self) -> Vec<u8> {
        let mut contents = self.tag.to_be_bytes().to_vec();
        let mut word = u64::from(self.tag);
        while contents.len() < self.bytes as usize {
            if self.tag.is_multiple_of(2) {
                contents.extend_from_slice(b"compressible text, ");
                contents.push(b'0' + (self.tag % 10) as u8);
            } else {
                word = crate::random::mix(word.wrapping_add(1));
                contents.extend_from_slice(&word.to_le_bytes());
            }
        }
        // Short values keep the low bytes of the tag, which vary most.
        let length = self.bytes as usize;
        if length < 4 {
            contents.drain(..4 - length);
        }
        contents.truncate(length);
        contents
    }
}

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// No bound.
    Open,
    /// With this key.
    With(u16),
    /// Without this key.
    Without(u16),
}

impl Edge {
    /// As a bound of the standard library.
    #[must_use]
    pub fn bound(self) -> Bound<Vec<u8>> {
        match self {
            Self::Open => Bound::Unbounded,
            Self::With(key) => Bound::Included(key_bytes(key)),
            Self::Without(key) => Bound::Excluded(key_bytes(key)),
        }
    }
}

/// A range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub from: Edge,
    /// Where it ends.
    pub to: Edge,
}

/// Bounds of a range as the engine takes them.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl Span {
    /// Everything.
    pub const ALL: Self = Self { from: Edge::Open, to: Edge::Open };

    /// As bounds of the standard library.
    #[must_use]
    pub fn bounds(self) -> Bounds {
        (self.from.bound(), self.to.bound())
    }

    /// Whether the start lies above the end.
    #[must_use]
    pub fn is_reversed(self) -> bool {
        match (self.from, self.to) {
            (Edge::Open, _) | (_, Edge::Open) => false,
            (Edge::With(a) | Edge::Without(a), Edge::With(b) | Edge::Without(b)) => {
                key_bytes(a) > key_bytes(b)
            }
        }
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a key.
    Put(u8, u16, Payload),
    /// Removes a key.
    Delete(u8, u16),
    /// Merges an operand.
    Merge(u8, u16, Payload),
    /// Removes a range.
    DeleteRange(u8, Span),
}

impl Change {
    /// The keyspace it concerns.
    #[must_use]
    pub fn slot(self) -> u8 {
        match self {
            Self::Put(slot, ..) | Self::Delete(slot, _) => slot,
            Self::Merge(slot, ..) | Self::DeleteRange(slot, _) => slot,
        }
    }
}

/// What a compare-and-swap expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// What is there.
    Current,
    /// That nothing is there.
    Absent,
    /// Something that is not there.
    Other(Payload),
}

/// How a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Backward,
    /// From both ends, alternating by the bits of the number.
    Both(u32),
    /// Keys only.
    Keys,
    /// Guards, with every other value fetched.
    Guards,
}

/// One move of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// To the first pair.
    First,
    /// To the last pair.
    Last,
    /// To the first pair at or above.
    Seek(u16),
    /// To the last pair at or below.
    SeekBack(u16),
    /// One on.
    Next,
    /// One back.
    Prev,
}

/// One read, of now or of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// One key.
    Get(u16),
    /// Whether a key exists.
    Contains(u16),
    /// Many keys.
    MultiGet(Vec<u16>),
    /// A range.
    Scan(Span, Walk),
    /// Keys that begin with the first bytes of a key.
    Prefix(u16, u8, Walk),
    /// A cursor's walk.
    Cursor(Vec<Move>),
}

/// One operation of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A single change.
    Write(Change),
    /// Several changes at once, durable or not.
    Batch(Vec<Change>, bool),
    /// Compare and swap.
    Swap(u8, u16, Expect, Option<Payload>),
    /// A read of now.
    Read(u8, Read),
    /// Takes a snapshot into a slot.
    TakeSnapshot(u8),
    /// Reads through a snapshot.
    ReadSnapshot(u8, u8, Read),
    /// Lets a snapshot go.
    DropSnapshot(u8),
    /// Opens an iterator over a range and keeps it.
    Hold(u8, u8, Span),
    /// Takes some pairs from the front or the back of a held iterator.
    Advance(u8, u8, bool),
    /// Takes the rest of a held iterator and lets it go.
    Drain(u8),
    /// Makes everything durable.
    Sync,
    /// Writes the memtables out.
    Flush,
    /// Compacts everything.
    Compact,
    /// Compacts a range of a keyspace.
    CompactRange(u8, Span),
    /// Collects value files that are worth it.
    Reclaim,
    /// Runs some steps of background work.
    Step(u8),
    /// Waits until no background work is due.
    WaitIdle,
    /// Moves the clock on by milliseconds.
    Tick(u16),
    /// Closes (or drops) the database and opens it again.
    Reopen(bool),
    /// Writes a checkpoint and compares it.
    Checkpoint,
    /// Creates a keyspace.
    Create(u8),
    /// Drops a keyspace.
    Discard(u8),
    /// Verifies every file.
    Verify,
    /// Reads the statistics.
    Stats,
}

/// A list as a Rust expression, for a regression test.
#[must_use]
pub fn as_rust(operations: &[Operation]) -> String {
    let mut text = String::from("vec![\n");
    for operation in operations {
        let line = format!("{operation:?}").replace('[', "vec![");
        text.push_str("        ");
        text.push_str(&line);
        text.push_str(",\n");
    }
    text.push_str("    ]");
    text
}

/// Everything a printed list needs in scope.
pub mod language {
    pub use super::Change::*;
    pub use super::Edge::*;
    pub use super::Expect::*;
    pub use super::Move::*;
    pub use super::Operation::*;
    pub use super::Read::*;
    pub use super::Walk::*;
    pub use super::{Payload, Span};
}
