//! What the engine stores: versions of keys, each with its sequence number and kind.
//!
//! Order of entries everywhere: key ascending, then seq *descending*, so that the newest version
//! of a key comes first. Every operation has a seq of its own, so (key, seq) is unique.

/// Sequence number: one per operation, contiguous over the life of a database, never reused
/// and never zeroed (rule S1). Zero means "before everything".
pub(crate) type Seq = u64;

/// Largest sequence number: 56 bits, so that (seq, kind) packs into eight bytes.
pub(crate) const SEQ_MAX: Seq = (1 << 56) - 1;

/// Number of a keyspace; never reused within a database. Zero is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyspaceId(pub(crate) u32);

/// Number of a file; never reused within a database (rule F6). Zero is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub(crate) u64);

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// What an entry says about its key. On disk: never renumber. Zero is reserved so that a zeroed
/// byte never parses; 8 is taken by a record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The value stands in the entry.
    Put = 1,
    /// The value stands in the value log; the entry carries its handle.
    PutSeparated = 2,
    /// The value stands in the value log; the exact map knows where.
    PutBare = 3,
    /// The key is deleted.
    Delete = 4,
    /// The value is one merge operand.
    Merge = 5,
    /// All keys from the entry's key (inclusive) to its value (exclusive) are deleted.
    RangeDelete = 6,
    /// A value moved without a new version (garbage collection's record).
    Relocation = 7,
}

impl Kind {
    /// Decodes a kind byte; `None` for a number that was never given out.
    pub(crate) fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Put,
            2 => Self::PutSeparated,
            3 => Self::PutBare,
            4 => Self::Delete,
            5 => Self::Merge,
            6 => Self::RangeDelete,
            7 => Self::Relocation,
            _ => return None,
        })
    }

    /// Whether an entry of this kind gives its key a value.
    pub(crate) fn holds_value(self) -> bool {
        matches!(self, Self::Put | Self::PutSeparated | Self::PutBare)
    }

    /// Whether an entry of this kind decides its key's value without looking further down.
    pub(crate) fn is_base(self) -> bool {
        matches!(self, Self::Put | Self::PutSeparated | Self::PutBare | Self::Delete)
    }
}

/// Compares two entries: key ascending, then seq descending.
pub(crate) fn compare_entries(a: (&[u8], Seq), b: (&[u8], Seq)) -> std::cmp::Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}

/// First eight bytes of a key as an integer: where two prefixes differ, they order as their keys
/// do; where they are equal, the keys must be compared. Short keys are padded with zeros.
pub(crate) fn key_prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key.iter().rev().fold(0, |prefix, byte| (prefix >> 8) | (u64::from(*byte) << 56)),
    }
}
