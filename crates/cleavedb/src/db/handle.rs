//! What every public handle shares: the engine, closed when the last handle goes away.

use std::ops::{Bound, RangeBounds};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::Arc;
use crate::engine::Engine;
use crate::engine::settings::Durability;
use crate::index::KeyRange;

/// Closes the engine when the last public handle is dropped.
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    /// Durability of operations that name none.
    pub(crate) durability: Durability,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>, durability: Durability) -> Arc<Self> {
        Arc::new(Self { engine, durability })
    }

    /// `Closed` after close, `ReadOnly` where nothing may be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.engine.health.check_open()?;
        if self.engine.settings.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the database was opened read-only"));
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Whoever wants the errors calls `Db::close`.
        let _ = self.engine.close();
    }
}

/// Bounds as the engine wants them: inclusive start, exclusive end.
pub(crate) fn key_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    let after = |key: &K| {
        let mut key = key.as_ref().to_vec();
        key.push(0);
        key
    };
    let start = match range.start_bound() {
        Bound::Included(key) => Some(key.as_ref().to_vec()),
        Bound::Excluded(key) => Some(after(key)),
        Bound::Unbounded => None,
    };
    let end = match range.end_bound() {
        Bound::Included(key) => Some(after(key)),
        Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        Bound::Unbounded => None,
    };
    KeyRange { start, end }
}

/// All keys that begin with `prefix`.
pub(crate) fn prefix_range(prefix: &[u8]) -> KeyRange {
    let mut end = prefix.to_vec();
    while end.last() == Some(&0xff) {
        end.pop();
    }
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Some(end)
        }
        None => None,
    };
    KeyRange { start: (!prefix.is_empty()).then(|| prefix.to_vec()), end }
}

/// Refuses a range whose end lies before its start.
pub(crate) fn check_range(range: &KeyRange) -> Result<()> {
    match (&range.start, &range.end) {
        (Some(start), Some(end)) if start > end => {
            Err(Error::invalid("the range's end lies before its start"))
        }
        _ => Ok(()),
    }
}

/// Whether a range can hold no key at all.
pub(crate) fn is_empty_range(range: &KeyRange) -> bool {
    match (&range.start, &range.end) {
        (_, Some(end)) if end.is_empty() => true,
        (Some(start), Some(end)) => start >= end,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
