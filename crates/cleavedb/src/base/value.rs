//! A value handed to the user: bytes that stay alive without a copy from the cache.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::base::recycled::Recycled;

/// Bytes of a value. Cheap to clone; dereferences to `[u8]`.
///
/// A value read from a table shares the cached block it came from, so holding many values for a
/// long time pins those blocks in memory; copy with `to_vec()` what must be kept.
#[derive(Clone)]
pub struct Value {
    owner: SharedBytes,
    range: Range<u32>,
}

/// A buffer that several values may share, however it came to be.
#[derive(Clone, Debug)]
pub(crate) enum SharedBytes {
    /// Made to be shared.
    Slice(Arc<[u8]>),
    /// Made to be filled.
    Vec(Arc<Vec<u8>>),
    /// Lent to be filled.
    Recycled(Arc<Recycled>),
}

impl Deref for SharedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Vec(bytes) => bytes,
            Self::Recycled(bytes) => bytes,
        }
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Slice(bytes)
    }
}

impl From<Arc<Vec<u8>>> for SharedBytes {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        Self::Vec(bytes)
    }
}

impl From<Arc<Recycled>> for SharedBytes {
    fn from(bytes: Arc<Recycled>) -> Self {
        Self::Recycled(bytes)
    }
}

impl Value {
    /// A value that owns a copy of `bytes`.
    pub(crate) fn copy_from(bytes: &[u8]) -> Self {
        Self { owner: SharedBytes::Slice(Arc::from(bytes)), range: 0..bytes.len() as u32 }
    }

    /// The part `range` of a shared buffer. A range outside the buffer yields an empty value.
    pub(crate) fn shared(owner: impl Into<SharedBytes>, range: Range<usize>) -> Self {
        let owner = owner.into();
        debug_assert!(range.end <= owner.len() && range.end <= u32::MAX as usize);
        Self { owner, range: range.start as u32..range.end as u32 }
    }

    /// Bytes of the buffer that it keeps in memory, alone or with others.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.owner {
            SharedBytes::Slice(bytes) => bytes.len(),
            SharedBytes::Vec(bytes) => bytes.capacity(),
            SharedBytes::Recycled(bytes) => bytes.capacity(),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.owner.get(self.range.start as usize..self.range.end as usize).unwrap_or(&[])
    }
}

impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len() as u32;
        Self { owner: SharedBytes::Vec(Arc::new(bytes)), range }
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        self.as_bytes() == other.as_ref()
    }
}

impl Eq for Value {}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests;
