//! The one way to walk entries in order, whatever holds them.

use crate::base::entry::{Kind, Seq};
use crate::base::error::Result;
use crate::base::value::Value;

/// What an entry is, but for its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// Its key.
    pub(crate) key: &'a [u8],
    /// Its sequence number.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: Kind,
}

/// A position in an ordered run of entries (key ascending, seq descending).
///
/// Invariants: C1 accessors may only be called while [`Cursor::valid`]. C2 after an error the
/// cursor is invalid until the next seek. C3 `next` and `prev` may be mixed freely. C4 a cursor
/// pins what it reads, so it never meets a file that the engine removed.
pub(crate) trait Cursor: Send {
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after (key, seq), that is: entries of `key` with a seq
    /// *not above* `seq`, or entries of a greater key.
    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()>;
    /// Moves to the last entry strictly before (key, seq) in entry order.
    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()>;
    /// Moves one entry on.
    fn next(&mut self) -> Result<()>;
    /// Moves one entry back.
    fn prev(&mut self) -> Result<()>;
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// Key of the current entry.
    fn key(&self) -> &[u8];
    /// Sequence number of the current entry.
    fn seq(&self) -> Seq;
    /// Kind of the current entry.
    fn kind(&self) -> Kind;
    /// The current entry but for its value, if there is one: one call of a boxed cursor where
    /// four ask for the same.
    fn head(&self) -> Option<Head<'_>> {
        self.valid().then(|| Head { key: self.key(), seq: self.seq(), kind: self.kind() })
    }
    /// Value bytes of the current entry.
    fn value(&self) -> &[u8];
    /// The current value, kept alive beyond the cursor (shares the block where it can).
    fn value_owned(&self) -> Value {
        Value::copy_from(self.value())
    }
}

/// A boxed cursor that owns what it needs.
pub(crate) type BoxCursor = Box<dyn Cursor>;
