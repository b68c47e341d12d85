//! Conditional commit: "iff the newest seq of key k is still n", one primitive for
//! compare-and-swap, and later for garbage collection and folds.

use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::commit::{Task, Work};

/// The condition of one commit; checked by the leader, when every earlier write is visible.
pub(crate) struct Condition {
    /// Keyspace of the key.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: Vec<u8>,
    /// The snapshot at which it was read.
    pub(crate) read_seq: Seq,
}

impl Condition {
    /// `Conflict` if the key has changed since.
    ///
    /// What was written since the read is in the memtables, unless a flush took it out of them;
    /// only then is the index asked, so the leader does not read the disk in the usual case.
    pub(crate) fn check(&self, engine: &Engine) -> Result<()> {
        let newest = if engine.flushed.load(Ordering::Acquire) <= self.read_seq {
            engine.newest_in_memtables(self.keyspace, &self.key)
        } else {
            engine.look_up(self.keyspace, &self.key, Some(SEQ_MAX))?.newest_seq
        };
        if newest > self.read_seq { Err(conflict()) } else { Ok(()) }
    }
}

/// The error that the retry loop of compare-and-swap recognises.
fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, "the key changed between the read and the write")
}

impl Engine {
    /// Sets `key` to what `encode` writes iff its value is `expected`; returns whether it did.
    pub(crate) fn compare_and_swap(
        self: &Arc<Self>,
        keyspace: &KeyspaceState,
        key: &[u8],
        expected: Option<&[u8]>,
        encode: &dyn Fn() -> Result<Work>,
    ) -> Result<bool> {
        loop {
            self.check_readable(keyspace)?;
            let pin = self.snapshots.take(&self.visible);
            let read_seq = pin.seq();
            let current = self.look_up_value(keyspace, key, Some(read_seq))?;
            drop(pin);
            if current.as_deref() != expected {
                return Ok(false);
            }
            let mut work = encode()?;
            debug_assert_eq!(work.task, Task::Write);
            work.condition = Some(Condition { keyspace: keyspace.id, key: key.to_vec(), read_seq });
            self.make_room(work.payload.len() as u64)?;
            match self.commit(work) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
    }
}
