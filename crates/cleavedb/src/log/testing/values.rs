//! What the tests of value segments share.

use std::path::{Path, PathBuf};

use crate::base::checksum::KeyedHash;
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::names::{FileKind, file_name};
use crate::io::{Io, Purpose};
use crate::log::batch::encode_record;
use crate::log::footer::FooterBuilder;
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameRef, Sealed};
use crate::log::group::ValueFrame;
use crate::log::reader::ReadOptions;
use crate::log::separated::{Binding, SeparatedPut, Slot, encode_separated};
use crate::log::testing::{DIR, UUID};
use crate::log::writer::{AppendError, FrameRange, SegmentSpec, SegmentWriter};

/// Keyspace of the tests' records.
pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Path of value segment `id`.
pub(crate) fn path(id: u64) -> PathBuf {
    Path::new(DIR).join(file_name(FileKind::Value, FileId(id)))
}

/// A value segment.
pub(crate) fn spec(id: u64) -> SegmentSpec {
    SegmentSpec {
        kind: FileKind::Value,
        id: FileId(id),
        uuid: UUID,
        predecessor: None,
        first_seq: 1,
        purpose: Purpose::Journal,
        preallocate_bytes: 0,
    }
}

/// How the tests read value segment `id`.
pub(crate) fn options(id: u64, sealed: Option<Sealed>) -> ReadOptions {
    ReadOptions {
        kind: FileKind::Value,
        id: FileId(id),
        uuid: UUID,
        sealed,
        contiguous: false,
        purpose: Purpose::Recovery,
    }
}

/// A batch for the value lane.
#[derive(Default)]
pub(crate) struct ValueBatch {
    pub(crate) payload: Vec<u8>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) count: u32,
}

impl ValueBatch {
    /// One separated put alone.
    pub(crate) fn of(key: &[u8], value: &[u8], compression: Compression) -> Self {
        Self::default().separated(key, value, compression)
    }

    pub(crate) fn separated(mut self, key: &[u8], value: &[u8], compression: Compression) -> Self {
        let hash = KeyedHash::new(&UUID).hash(KEYSPACE, key);
        let put = SeparatedPut { keyspace: KEYSPACE, key, value, compression, hash };
        let slot = encode_separated(&mut self.payload, self.count, &put, &mut Vec::new());
        self.slots.push(slot);
        self.count += 1;
        self
    }

    pub(crate) fn inline(mut self, key: &[u8], value: &[u8]) -> Self {
        encode_record(&mut self.payload, Kind::Put, KEYSPACE, key, value);
        self.count += 1;
        self
    }

    fn frame(&self, base_seq: Seq) -> ValueFrame<'_> {
        let frame = FrameRef { base_seq, count: self.count, payload: &self.payload };
        ValueFrame { frame, slots: &self.slots }
    }
}

/// A record that a test wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) seq: Seq,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// A value segment being written, with the footer that belongs to it.
pub(crate) struct ValueLog {
    pub(crate) writer: SegmentWriter,
    pub(crate) footer: FooterBuilder,
    pub(crate) next_seq: Seq,
    /// What the last append wrote.
    pub(crate) buffer: Vec<u8>,
}

impl ValueLog {
    pub(crate) fn create(io: &Io, id: u64) -> Self {
        let writer = SegmentWriter::create(io, &path(id), &spec(id))
            .map_err(AppendError::into_error)
            .unwrap();
        Self { writer, footer: FooterBuilder::default(), next_seq: 1, buffer: Vec::new() }
    }

    /// Appends the batches as one group; returns where it stands, and its separated records.
    pub(crate) fn append(&mut self, batches: &[ValueBatch]) -> (FrameRange, Vec<Written>) {
        let mut seq = self.next_seq;
        let mut frames = Vec::new();
        for batch in batches {
            frames.push(batch.frame(seq));
            seq += u64::from(batch.count);
        }
        let durable = self.next_seq - 1;
        let range = self.writer.append_values(&frames, durable, &mut self.buffer).unwrap();
        let mut offset = range.start + FRAME_HEADER_BYTES as u64;
        let mut written = Vec::new();
        for batch in batches {
            let place = Binding {
                seed: self.writer.seed(),
                payload_offset: offset,
                base_seq: self.next_seq,
            };
            self.footer.add_frame(&batch.slots, place);
            written.extend(batch.slots.iter().map(|slot| Written {
                seq: self.next_seq + u64::from(slot.operation),
                offset: offset + u64::from(slot.start),
                bytes: slot.bytes,
            }));
            self.next_seq += u64::from(batch.count);
            offset += (batch.payload.len() + FRAME_OVERHEAD_BYTES) as u64;
        }
        (range, written)
    }

    /// Ends the segment with its footer.
    pub(crate) fn seal(mut self) -> Sealed {
        let payload = self.footer.encode().unwrap();
        self.writer.append_footer(self.next_seq, self.next_seq - 1, &payload).unwrap();
        self.writer.seal().unwrap()
    }
}
