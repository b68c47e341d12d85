//! Entries on their way through a compaction that also puts in order what they name: they are
//! handed to the listener in batches, so that it can read many values at once, and written behind.
//!
//! Owned by one part of a compaction. Invariants: OR-1 entries are written in the order in which
//! they survive, each once. OR-2 a batch takes no more memory than [`BATCH_BYTES`], one entry
//! excepted.

use crate::base::entry::{Kind, Seq};
use crate::base::error::Result;
use crate::index::outputs::Outputs;
use crate::index::stripes::Survivors;

/// Entries handed over together: what a scan reads ahead at a time, which keeps a device's queue
/// full.
const BATCH_ENTRIES: usize = 64;

/// Bytes of keys and values, at most.
const BATCH_BYTES: usize = 1 << 20;

/// An entry that survives and is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passing {
    /// Its key.
    pub(crate) key: Vec<u8>,
    /// Its seq.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its value, operand or handle.
    pub(crate) value: Vec<u8>,
}

impl Passing {
    fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// Writes all survivors, and lets their listener put what they name in order.
pub(super) fn write_in_order(survivors: &mut Survivors<'_>, outputs: &mut Outputs) -> Result<()> {
    let mut batch = Vec::with_capacity(BATCH_ENTRIES);
    let mut bytes = 0;
    while survivors.advance()? {
        let passing = Passing {
            key: survivors.key().to_vec(),
            seq: survivors.seq(),
            kind: survivors.kind(),
            value: survivors.value().to_vec(),
        };
        bytes += passing.bytes();
        batch.push(passing);
        if batch.len() == BATCH_ENTRIES || bytes >= BATCH_BYTES {
            write_batch(survivors, &mut batch, outputs)?;
            bytes = 0;
        }
    }
    write_batch(survivors, &mut batch, outputs)
}

fn write_batch(
    survivors: &mut Survivors<'_>,
    batch: &mut Vec<Passing>,
    outputs: &mut Outputs,
) -> Result<()> {
    survivors.listener().order(batch)?;
    for Passing { key, seq, kind, value } in batch.drain(..) {
        outputs.add(&key, seq, kind, &value)?;
    }
    Ok(())
}
