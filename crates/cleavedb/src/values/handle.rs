//! A handle: where a separated value's record stands. Memtable, tables and indexes carry it as
//! opaque bytes in the place of the value. No state, any thread.
//!
//! Varints: file, epoch, offset of the record's first byte, bytes of the whole record; so one read
//! brings everything. A large value has a file of its own, and its handle an offset that no record
//! can have, 0, and the bytes of the value itself.

use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::FILE_ID_MAX;
use crate::log::format::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use crate::log::separated::{SEPARATED_BYTES_MAX, SEPARATED_BYTES_MIN};
use crate::values::large::format::LARGE_BYTES_MIN;

/// Most bytes of an encoded handle: four varints of 62, 32, 64 and 32 bits.
pub(crate) const HANDLE_BYTES_MAX: usize = 9 + 5 + 10 + 5;

/// First offset at which a record can stand.
const OFFSET_MIN: u64 = (SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES) as u64;

/// Where a separated value's record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    /// The file it was written to.
    pub(crate) file: FileId,
    /// How often that file had been rewritten when the handle was made.
    pub(crate) epoch: u32,
    /// Where in the file the record begins; 0: the file holds this one large value.
    pub(crate) offset: u64,
    /// Bytes of the whole record; of a large value, its own.
    pub(crate) bytes: u32,
}

/// An encoded handle, without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandleBytes {
    bytes: [u8; HANDLE_BYTES_MAX],
    length: u8,
}

impl Handle {
    /// The handle's bytes.
    pub(crate) fn encode(&self) -> HandleBytes {
        debug_assert!((1..=FILE_ID_MAX).contains(&self.file.0));
        debug_assert!(self.offset >= OFFSET_MIN || self.is_large());
        let mut out = HandleBytes { bytes: [0; HANDLE_BYTES_MAX], length: 0 };
        out.put_varint(self.file.0);
        out.put_varint(u64::from(self.epoch));
        out.put_varint(self.offset);
        out.put_varint(u64::from(self.bytes));
        out
    }

    /// Decodes a handle; every byte must have a meaning, and every number be one that a record can
    /// have.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let handle = Self {
            file: FileId(reader.varint()?),
            epoch: reader.varint_u32()?,
            offset: reader.varint()?,
            bytes: reader.varint_u32()?,
        };
        let is_place = if handle.is_large() {
            u64::from(handle.bytes) >= LARGE_BYTES_MIN && handle.epoch == 0
        } else {
            handle.offset >= OFFSET_MIN
                && handle.offset.checked_add(u64::from(handle.bytes)).is_some()
                && (SEPARATED_BYTES_MIN..=SEPARATED_BYTES_MAX).contains(&(handle.bytes as usize))
        };
        if !reader.is_empty() || !(1..=FILE_ID_MAX).contains(&handle.file.0) || !is_place {
            return Err(Error::corruption("a handle that names no value's record"));
        }
        Ok(handle)
    }

    /// The handle of a large value in this file.
    pub(crate) fn of_large(file: FileId, value_bytes: u32) -> Self {
        Self { file, epoch: 0, offset: 0, bytes: value_bytes }
    }

    /// Whether it names the file of a large value.
    pub(crate) fn is_large(&self) -> bool {
        self.offset == 0
    }

    /// Offset just behind the record.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

impl HandleBytes {
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put((value as u8) | 0x80);
            value >>= 7;
        }
        self.put(value as u8);
    }

    fn put(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
            self.length += 1;
        }
    }
}

impl std::ops::Deref for HandleBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
