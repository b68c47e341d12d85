//! Folds: the operands of a key are applied to its value, and the result is put as if a user had
//! put it, iff the key has not changed since (ED-4). The next flush leaves an anchor in the bucket,
//! and the operands go with its next collection.
//!
//! Worth it where a key has more operands than a bucket should hold, where buckets are too many,
//! for operands that stayed in the index, and where reads meet many operands of a key again and
//! again.
//!
//! Which keys wait is known in memory only, and never all: reads, compactions and collections ask
//! anew for what they meet, and an opening for buckets that are too long. So what a close or a
//! crash cut off is folded once anybody comes by. Any thread asks; a reader does no more than that.

use std::collections::BTreeSet;

use crate::base::entry::{KeyspaceId, Kind};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::VALUE_BYTES_MAX;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::deltas::record::{Bound, OwnedBound};
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::commit::{Extra, Task, Work};
use crate::engine::conditional::Condition;
use crate::engine::deltas::DeltaStore;
use crate::engine::large::{Incoming, Taken};
use crate::io::Purpose;
use crate::log::batch::{encode_large_put, encode_record};
use crate::log::separated::{SeparatedPut, encode_separated};

/// Keys that wait to be folded, at most, and their bytes: those beyond are found again.
const WAITING_MAX: usize = 4096;
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Operands that a read of now applies to a value from which on they are a chain that is worth a
/// put in their place: every later read would apply them again.
pub(crate) const CHAIN_OPERANDS: usize = 64;
/// Bytes of the value for each operand, at most: what is written stays in proportion to what was.
pub(crate) const CHAIN_BYTES_EACH: usize = 256;
/// Keys that are folded in one step.
const KEYS_MAX: usize = 64;

/// Keys that wait to be folded.
#[derive(Default)]
pub(super) struct Waiting {
    keys: BTreeSet<OwnedBound>,
    bytes: usize,
}

impl Waiting {
    fn add(&mut self, key: OwnedBound) {
        let bytes = key.key.len();
        if self.keys.len() < WAITING_MAX
            && self.bytes + bytes <= WAITING_BYTES_MAX
            && self.keys.insert(key)
        {
            self.bytes += bytes;
        }
    }

    fn take(&mut self) -> Option<OwnedBound> {
        let key = self.keys.pop_first()?;
        self.bytes -= key.key.len();
        Some(key)
    }
}

/// Operands that a read met.
pub(crate) struct MetOperands {
    /// How many it applied.
    pub(crate) count: usize,
    /// Whether any stood in an index that has buckets for them.
    pub(crate) are_strays: bool,
}

/// Whether so many operands are a chain that is worth a put of the value that they make.
fn is_chain(operands: usize, value_bytes: usize) -> bool {
    operands >= CHAIN_OPERANDS && value_bytes <= operands.saturating_mul(CHAIN_BYTES_EACH)
}

impl DeltaStore {
    /// Has these keys folded, sooner or later.
    pub(in crate::engine) fn ask_to_fold(&self, keys: impl IntoIterator<Item = OwnedBound>) {
        let mut waiting = self.to_fold.lock();
        keys.into_iter().for_each(|key| waiting.add(key));
    }

    /// Whether any key waits to be folded.
    pub(crate) fn is_fold_due(&self) -> bool {
        !self.to_fold.lock().keys.is_empty()
    }

    fn next_to_fold(&self) -> Option<OwnedBound> {
        self.to_fold.lock().take()
    }
}

impl Engine {
    /// A read of now has applied operands to a value of so many bytes.
    pub(crate) fn note_folded(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        met: &MetOperands,
        value_bytes: usize,
    ) {
        let is_worth_it = met.are_strays || is_chain(met.count, value_bytes);
        if is_worth_it && !self.settings.read_only {
            self.deltas.ask_to_fold([Bound { keyspace, key }.to_owned()]);
        }
    }

    /// The same, of one that cannot tell where they stood.
    pub(crate) fn note_chain(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        operands: usize,
        value_bytes: usize,
    ) {
        let met = MetOperands { count: operands, are_strays: false };
        self.note_folded(keyspace, key, &met, value_bytes);
    }

    /// Folds some keys; false if none waits.
    pub(crate) fn fold_some(self: &Arc<Self>) -> Result<bool> {
        for _ in 0..KEYS_MAX {
            if self.cancelled.load(Ordering::Acquire) {
                return Ok(false);
            }
            let Some(bound) = self.deltas.next_to_fold() else { return Ok(false) };
            // Dropped since: nothing is to be folded.
            let keyspace = self.catalogue.lock().numbered(bound.keyspace);
            let Some(keyspace) = keyspace else { continue };
            match self.fold_key(&keyspace, &bound.key) {
                Ok(()) => {}
                Err(error) if may_wait(&error) => {
                    tracing::debug!(%error, keyspace = keyspace.name, "a key is not folded");
                }
                Err(error) => {
                    self.deltas.ask_to_fold([bound]);
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// Puts the value that a key's operands make, iff it has any and does not change meanwhile.
    fn fold_key(self: &Arc<Self>, keyspace: &KeyspaceState, key: &[u8]) -> Result<()> {
        let pin = self.snapshots.take(&self.visible);
        let read_seq = pin.seq();
        let known = self.look_up(keyspace.id, key, Some(read_seq))?;
        if known.operands.is_empty() {
            return Ok(());
        }
        let value = self.look_up_value(keyspace, key, Some(read_seq))?;
        // What no get would hand out stays operands.
        let Some(value) = value.filter(|value| value.len() <= VALUE_BYTES_MAX) else {
            return Ok(());
        };
        let condition =
            Condition { keyspace: keyspace.id, key: key.to_vec(), read_seq, newest_seq: None };
        let work = self.folding_put(keyspace, key, &value, condition)?;
        let outcome = self.commit(work);
        // Until here it has kept what was read, and so every tombstone above it.
        drop(pin);
        outcome?;
        mark!("key_folded");
        Ok(())
    }

    /// A put of a value, wherever the keyspace has it.
    fn folding_put(
        self: &Arc<Self>,
        keyspace: &KeyspaceState,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Work> {
        let placement = &keyspace.placement;
        let purpose = Some(Purpose::Compaction);
        let mut extra = Extra { condition: Some(condition), purpose, ..Extra::default() };
        let (mut payload, mut slots) = (Vec::new(), Vec::new());
        let mut incoming = None;
        if self.is_large(value.len()) {
            let source = Incoming { source: &mut &*value, length: None };
            incoming = Some(self.take_large(keyspace, key, source)?);
        }
        if let Some(Taken::Large(put)) = incoming {
            encode_large_put(&mut payload, keyspace.id, key, &put.handle().encode());
            extra.large.push(put);
        } else if placement.separates(value.len()) {
            let hash = placement.hash.hash(keyspace.id, key);
            let compression = placement.compression;
            let put = SeparatedPut { keyspace: keyspace.id, key, value, compression, hash };
            slots.push(encode_separated(&mut payload, 0, &put, &mut Vec::new()));
        } else {
            encode_record(&mut payload, Kind::Put, keyspace.id, key, value);
        }
        self.io.limiter.acquire(payload.len() as u64);
        Ok(Work {
            payload,
            slots,
            count: 1,
            extra: Some(Box::new(extra)),
            frees_space: false,
            ..Work::control(Task::Write)
        })
    }
}

/// Whether a key stays as it is after such an error, and no more comes of it: readers of the key
/// are told, and whoever finds it too long again asks again.
fn may_wait(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Closed | ErrorKind::NoSpace | ErrorKind::Stopped | ErrorKind::Io
    )
}
