//! A value handed to the user: bytes that stay alive without a copy from the cache.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::base::recycled::Recycled;

/// Bytes of a value. Cheap to clone; dereferences to `[u8]`.
///
/// A value read from a table shares the cached block it came from, so holding many values for a
/// long time pins those blocks in memory; copy with `to_vec()` what must be kept. What is copied
/// and short, as keys of iterators are, stands in the value itself.
#[derive(Clone)]
pub struct Value(Bytes);

/// Longest copy that needs no buffer: what fits beside the tag into the 32 bytes that a share of
/// a buffer takes.
const INLINE_BYTES_MAX: usize = 30;

/// Where a value's bytes are. The variants of [`SharedBytes`] and its range, flat, so that short
/// values find room among them.
#[derive(Clone)]
enum Bytes {
    /// Here, the first so many.
    Inline(u8, [u8; INLINE_BYTES_MAX]),
    /// In a buffer that was made to be shared.
    Slice(Arc<[u8]>, Range<u32>),
    /// In one that was made to be filled.
    Vec(Arc<Vec<u8>>, Range<u32>),
    /// In one that was lent to be filled.
    Recycled(Arc<Recycled>, Range<u32>),
}

const _: () = assert!(size_of::<Value>() == 32, "a value is as long as a share of a buffer");

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
    #[inline]
    pub(crate) fn copy_from(bytes: &[u8]) -> Self {
        let mut inline = [0; INLINE_BYTES_MAX];
        match inline.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Self(Bytes::Inline(bytes.len() as u8, inline))
            }
            None => Self(Bytes::Slice(Arc::from(bytes), 0..bytes.len() as u32)),
        }
    }

    /// The part `range` of a shared buffer. A range outside the buffer yields an empty value.
    pub(crate) fn shared(owner: impl Into<SharedBytes>, range: Range<usize>) -> Self {
        let owner = owner.into();
        debug_assert!(range.end <= owner.len() && range.end <= u32::MAX as usize);
        let range = range.start as u32..range.end as u32;
        Self(match owner {
            SharedBytes::Slice(bytes) => Bytes::Slice(bytes, range),
            SharedBytes::Vec(bytes) => Bytes::Vec(bytes, range),
            SharedBytes::Recycled(bytes) => Bytes::Recycled(bytes, range),
        })
    }

    /// Bytes of the buffer that it keeps in memory, alone or with others; none where it has them
    /// in itself.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Inline(..) => 0,
            Bytes::Slice(bytes, _) => bytes.len(),
            Bytes::Vec(bytes, _) => bytes.capacity(),
            Bytes::Recycled(bytes, _) => bytes.capacity(),
        }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        let (owner, range): (&[u8], _) = match &self.0 {
            Bytes::Inline(len, bytes) => return bytes.get(..usize::from(*len)).unwrap_or(&[]),
            Bytes::Slice(bytes, range) => (bytes, range),
            Bytes::Vec(bytes, range) => (bytes, range),
            Bytes::Recycled(bytes, range) => (bytes, range),
        };
        owner.get(range.start as usize..range.end as usize).unwrap_or(&[])
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
        Self(Bytes::Vec(Arc::new(bytes), range))
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
