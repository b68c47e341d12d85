//! Where a version's record stands, and what a shard keeps of a version. Pure values, any thread.
//!
//! A number is a varint, so a place of a usual store takes eight or nine bytes. Invariants:
//! MP-1 (container, offset) names one record for ever: numbers of containers are never reused.
//! MP-2 container 0 is no container: an entry with it waits for its record ([`Rebuild`]).
//!
//! [`Rebuild`]: crate::values::map::rebuild::Rebuild

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::names::FILE_ID_MAX;
use crate::values::map::page::Stored;

/// Where a record stands: exactly, so that one read of it brings all of it and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// The physical file.
    pub(crate) container: FileId,
    /// The file that the record belongs to, whatever container that is in: of a segment, its own.
    pub(crate) file: FileId,
    /// Its first byte there; 0: the file holds this one large value.
    pub(crate) offset: u64,
    /// Bytes of the record; of a large value, its own.
    pub(crate) bytes: u32,
}

impl Place {
    /// The place of a record that nobody has found yet (MP-2).
    pub(crate) const UNKNOWN: Self =
        Self { container: FileId(0), file: FileId(0), offset: 0, bytes: 0 };
}

/// A flushed version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Its seq.
    pub(crate) seq: Seq,
    /// Where its record stands.
    pub(crate) place: Place,
}

impl Stored for Version {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.seq);
        put_varint(out, self.place.container.0);
        // A container is younger than the files in it.
        put_varint(out, self.place.container.0.saturating_sub(self.place.file.0));
        put_varint(out, self.place.offset);
        put_varint(out, u64::from(self.place.bytes));
    }

    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let (seq, container) = (reader.varint()?, FileId(reader.varint()?));
        let file = FileId(container.0.saturating_sub(reader.varint()?));
        let (offset, bytes) = (reader.varint()?, reader.varint_u32()?);
        let place = Place { container, file, offset, bytes };
        Ok(Self { seq, place })
    }

    fn is_sound(&self) -> bool {
        let Place { container, file, offset, bytes } = self.place;
        (1..=SEQ_MAX).contains(&self.seq)
            && (1..=FILE_ID_MAX).contains(&container.0)
            && file.0 > 0
            && bytes > 0
            && offset.checked_add(u64::from(bytes)).is_some()
    }
}

/// A version that was superseded while a snapshot needed it: what snapshots from its seq on see
/// that are older than `until` (rule R16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The version.
    pub(crate) version: Version,
    /// The seq that superseded it.
    pub(crate) until: Seq,
}

impl Stored for Link {
    fn put(&self, out: &mut Vec<u8>) {
        self.version.put(out);
        put_varint(out, self.until);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { version: Version::take(reader)?, until: reader.varint()? })
    }

    fn is_sound(&self) -> bool {
        self.version.is_sound() && self.version.seq < self.until
    }
}

/// From which seq on a shard knows a key, although it waits for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(pub(crate) Seq);

impl Stored for Since {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        reader.varint().map(Self)
    }

    fn is_sound(&self) -> bool {
        self.0 > 0
    }
}

/// The seqs of live snapshots, reads among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshots(Vec<Seq>);

impl Snapshots {
    /// Of these, in any order.
    pub(crate) fn new(mut seqs: Vec<Seq>) -> Self {
        seqs.sort_unstable();
        seqs.dedup();
        Self(seqs)
    }

    /// Whether one lies between a version and what superseded it (the stripe rule).
    pub(crate) fn need(&self, seq: Seq, until: Seq) -> bool {
        let first = self.0.partition_point(|snapshot| *snapshot < seq);
        self.0.get(first).is_some_and(|snapshot| *snapshot < until)
    }
}
