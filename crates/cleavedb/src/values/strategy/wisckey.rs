//! `wisckey`: entries carry the handle and nothing else knows where a value is. Garbage collection
//! takes the oldest file, asks the index about each record, and puts live values again.

use crate::base::error::{Error, Result};
use crate::values::handle::Handle;
use crate::values::strategy::victims::{VictimOrder, VictimPolicy};
use crate::values::strategy::{AsksIndex, Collects, Liveness, NewestBase, RecordPlace, Strategy};

/// The strategy; it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wisckey;

impl Strategy for Wisckey {
    fn name(&self) -> &'static str {
        "wisckey"
    }

    fn resolve(&self, handle: &[u8]) -> Result<Handle> {
        let handle = Handle::decode(handle)?;
        if handle.epoch != 0 {
            // Files are never rewritten here.
            let message = format!("a handle of epoch {} in a store without epochs", handle.epoch);
            return Err(Error::corruption(message));
        }
        Ok(handle)
    }

    fn collection(&self) -> Collects<'_> {
        Collects::Index(self)
    }

    fn victims(&self) -> VictimPolicy {
        VictimPolicy::plain(VictimOrder::OldestFirst)
    }
}

impl AsksIndex for Wisckey {
    fn liveness(&self, record: &RecordPlace<'_>, index: &dyn NewestBase) -> Result<Liveness> {
        let base = index.newest_base(record.keyspace, record.key)?;
        Ok(match base {
            Some(base) if base.seq == record.seq && base.handle == Some(record.handle) => {
                let is_merged = base.newest_seq > base.seq;
                Liveness::Live { newest_seq: base.newest_seq, is_merged }
            }
            _ => Liveness::Dead,
        })
    }
}

#[cfg(test)]
mod tests;
