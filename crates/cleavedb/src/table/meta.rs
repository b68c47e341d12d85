//! What the manifest knows about a table: enough to check the file and to decide whether to open
//! it at all.
//!
//! A plain value. Encoded as varints and length-prefixed bytes, see [`TableMeta::encode`].

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};

/// Facts about a finished table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMeta {
    /// Number of the file.
    pub(crate) file: FileId,
    /// Exact length of the file (rule F4).
    pub(crate) bytes: u64,
    /// Checksum of the whole file (rule F4).
    pub(crate) checksum: u32,
    /// Entries, point deletes and merges included, range tombstones left out.
    pub(crate) entries: u64,
    /// Entries that are point deletes.
    pub(crate) tombstones: u64,
    /// Range tombstones.
    pub(crate) range_tombstones: u64,
    /// Entries that are merge operands.
    pub(crate) merges: u64,
    /// Smallest key, starts of range tombstones included.
    pub(crate) smallest: Box<[u8]>,
    /// Largest key, ends of range tombstones included.
    pub(crate) largest: Box<[u8]>,
    /// Whether `largest` is the end of a range tombstone, so that no entry reaches it.
    pub(crate) largest_exclusive: bool,
    /// Smallest seq of entries and range tombstones.
    pub(crate) smallest_seq: Seq,
    /// Largest seq of entries and range tombstones.
    pub(crate) largest_seq: Seq,
    /// Bytes of all keys as given.
    pub(crate) raw_key_bytes: u64,
    /// Bytes of all values as given.
    pub(crate) raw_value_bytes: u64,
}

impl TableMeta {
    /// Appends the encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.bytes);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        for number in [self.entries, self.tombstones, self.range_tombstones, self.merges] {
            put_varint(out, number);
        }
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        out.push(u8::from(self.largest_exclusive));
        let rest = [self.smallest_seq, self.largest_seq, self.raw_key_bytes, self.raw_value_bytes];
        for number in rest {
            put_varint(out, number);
        }
    }

    /// Decodes one off the front.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let meta = Self {
            file: FileId(reader.varint()?),
            bytes: reader.varint()?,
            checksum: reader.u32()?,
            entries: reader.varint()?,
            tombstones: reader.varint()?,
            range_tombstones: reader.varint()?,
            merges: reader.varint()?,
            smallest: reader.bytes()?.into(),
            largest: reader.bytes()?.into(),
            largest_exclusive: match reader.u8()? {
                0 => false,
                1 => true,
                other => {
                    return Err(Error::corruption(format!("flag of a table is {other}")));
                }
            },
            smallest_seq: reader.varint()?,
            largest_seq: reader.varint()?,
            raw_key_bytes: reader.varint()?,
            raw_value_bytes: reader.varint()?,
        };
        let in_order = meta.smallest <= meta.largest && meta.smallest_seq <= meta.largest_seq;
        if meta.file.0 == 0 || !in_order || meta.largest_seq > SEQ_MAX {
            return Err(Error::corruption("a table's bounds are reversed or it has no number"));
        }
        Ok(meta)
    }

    /// Whether `key` lies within the table's bounds.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let below =
            if self.largest_exclusive { key < &*self.largest } else { key <= &*self.largest };
        below && key >= &*self.smallest
    }
}
