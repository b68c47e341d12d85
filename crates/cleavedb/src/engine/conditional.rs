//! Conditional commit: "iff the newest seq of key k is still n", one primitive for
//! compare-and-swap and garbage collection, later for folds.
//!
//! A work has one condition, without which nothing of it is written, or a list of *members*, each
//! an operation with its own: those whose condition fails drop out, the others are written as one
//! batch.

use std::ops::Range;

use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::commit::{Task, Work};
use crate::engine::large::LargePut;
use crate::log::separated::Slot;

/// The condition of one commit; checked by the leader, when every earlier write is visible.
pub(crate) struct Condition {
    /// Keyspace of the key.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: Vec<u8>,
    /// The snapshot at which it was read.
    pub(crate) read_seq: Seq,
    /// The newest seq that it had then, where that alone will do. A key that was deleted since, and
    /// whose tombstone has reached the bottom, shows nothing newer; it shows nothing at all.
    pub(crate) newest_seq: Option<Seq>,
}

impl Condition {
    /// `Conflict` if the key has changed since.
    ///
    /// What was written since the read is in the memtables, unless a flush took it out of them;
    /// only then is the index asked, so the leader does not read the disk in the usual case.
    pub(crate) fn check(&self, engine: &Engine) -> Result<()> {
        if self.holds(engine)? { Ok(()) } else { Err(conflict()) }
    }

    /// Whether the key is still as it was read.
    fn holds(&self, engine: &Engine) -> Result<bool> {
        if engine.flushed.load(Ordering::Acquire) <= self.read_seq {
            return Ok(!engine.is_newer_in_memtables(self.keyspace, &self.key, self.read_seq));
        }
        let newest = engine.look_up(self.keyspace, &self.key, Some(SEQ_MAX))?.newest_seq;
        Ok(self.newest_seq.map_or(newest <= self.read_seq, |seen| newest == seen))
    }
}

/// One operation of a batch, written only if its condition holds.
pub(crate) struct Member {
    /// When to write it.
    pub(crate) condition: Condition,
    /// Its record in the payload.
    pub(crate) record: Range<usize>,
}

/// The operations of a batch, in their order, where each has a condition.
#[derive(Default)]
pub(crate) struct Members {
    /// All of them; none: the batch is written whole.
    pub(crate) list: Vec<Member>,
    /// Where the leader says which of them dropped out.
    pub(crate) dropped: Arc<Mutex<Dropped>>,
}

/// What dropped out of a batch.
#[derive(Default)]
pub(crate) struct Dropped {
    /// Numbers of the members, ascending.
    pub(crate) numbers: Vec<usize>,
    /// Their large values, which go away with the caller's list: not under leadership.
    pub(crate) given_up: Vec<LargePut>,
}

impl Members {
    /// Whether the batch is one of conditions.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes out of a batch what must not be written. Under leadership, every earlier write is
    /// visible: so nothing changes a key between this look and the batch.
    pub(crate) fn take_out(work: &mut Work, engine: &Engine) -> Result<()> {
        let mut dropped = Vec::new();
        let Some(extra) = &work.extra else { return Ok(()) };
        if extra.members.is_empty() {
            return Ok(());
        }
        let result = Arc::clone(&extra.members.dropped);
        for (number, member) in extra.members.list.iter().enumerate() {
            if !member.is_to_be_written(engine)? {
                dropped.push(number);
            }
        }
        let mut given_up = Vec::new();
        if !dropped.is_empty() {
            given_up = work.keep_members(|number| dropped.binary_search(&number).is_err());
        }
        *result.lock() = Dropped { numbers: dropped, given_up };
        Ok(())
    }
}

impl Member {
    fn is_to_be_written(&self, engine: &Engine) -> Result<bool> {
        if planted!("gc_unconditional") {
            return Ok(true);
        }
        let keyspace = engine.catalogue.lock().numbered(self.condition.keyspace);
        if keyspace.is_none_or(|keyspace| keyspace.dropped.load(Ordering::Acquire)) {
            mark!("member_of_dropped_keyspace");
            return Ok(false);
        }
        self.condition.holds(engine)
    }
}

impl Work {
    /// Leaves only these members in the batch; the others' records go, the rest moves up. Returns
    /// the large values that nothing puts now.
    fn keep_members(&mut self, is_kept: impl Fn(usize) -> bool) -> Vec<LargePut> {
        let Some(extra) = self.extra.as_deref_mut() else { return Vec::new() };
        let mut payload = Vec::with_capacity(self.payload.len());
        let mut slots = Vec::with_capacity(self.slots.len());
        let mut large = Vec::new();
        let mut count = 0;
        for (number, member) in extra.members.list.iter().enumerate() {
            if !is_kept(number) {
                continue;
            }
            let start = payload.len() as u32;
            payload.extend_from_slice(self.payload.get(member.record.clone()).unwrap_or_default());
            let slot = self.slots.iter().find(|slot| slot.operation as usize == number);
            slots.extend(slot.map(|slot| Slot { operation: count, start, ..*slot }));
            let put = extra.large.iter().position(|put| put.operation() as usize == number);
            large.extend(put.map(|at| extra.large.swap_remove(at).renumbered(count)));
            count += 1;
        }
        (self.payload, self.slots, self.count) = (payload, slots, count);
        std::mem::replace(&mut extra.large, large)
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
            if current.as_deref() != expected {
                return Ok(false);
            }
            let mut work = encode()?;
            debug_assert_eq!(work.task, Task::Write);
            let (id, key) = (keyspace.id, key.to_vec());
            let condition = Condition { keyspace: id, key, read_seq, newest_seq: None };
            work.extra.get_or_insert_default().condition = Some(condition);
            self.make_room(work.payload.len() as u64)?;
            let outcome = self.commit(work);
            // Until here it has kept what was read, and so every tombstone above it.
            drop(pin);
            match outcome {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
    }
}
