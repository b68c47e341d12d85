//! An operator that appends: it counts what it is asked to do, and can be told to combine nothing,
//! or to fail for keys that begin with "bad".

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::MergeOperator;

/// The name that it has for keyspaces.
pub(super) const NAME: &str = "appending";

pub(super) const WORKS: u8 = 0;
pub(super) const FAILS: u8 = 1;
pub(super) const PANICS: u8 = 2;

/// The operator.
#[derive(Default)]
pub(super) struct Appending {
    /// Whether it combines nothing.
    pub(super) only_applies: bool,
    /// What becomes of keys that begin with "bad".
    pub(super) mood: AtomicU8,
    /// Operands that were applied to a value.
    pub(super) applied: AtomicU64,
    /// Bytes that came of combining operands.
    pub(super) combined_bytes: AtomicU64,
}

impl Appending {
    fn is_off(&self, key: &[u8]) -> bool {
        match self.mood.load(Ordering::Relaxed) {
            PANICS if key.starts_with(b"bad") => panic!("as it was told"),
            mood => mood != WORKS && key.starts_with(b"bad"),
        }
    }
}

impl MergeOperator for Appending {
    fn name(&self) -> &'static str {
        NAME
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        if self.is_off(key) {
            return Err("as it was told".to_owned());
        }
        self.applied.fetch_add(operands.len() as u64, Ordering::Relaxed);
        let parts: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
        Ok(parts.concat())
    }

    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        if self.only_applies || self.is_off(key) {
            return None;
        }
        self.combined_bytes.fetch_add((older.len() + newer.len()) as u64, Ordering::Relaxed);
        Some([older, newer].concat())
    }
}
