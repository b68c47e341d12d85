//! The segment that a lane appends to, with what a value segment knows of its records besides.
//! Owned by the lane's writer lock.

use crate::base::entry::{FileId, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::io::Purpose;
use crate::log::footer::{Footer, FooterBuilder, Line};
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameRef, Sealed};
use crate::log::group::{Spot, ValueFrame};
use crate::log::separated::{Binding, Slot};
use crate::log::writer::{AppendError, BUFFER_BYTES_KEPT, FrameRange, SegmentWriter};
use crate::values::edit::SealedValues;
use crate::values::file::ValueFile;
use crate::values::tail_buffer::TailBuffer;

/// One group to append.
pub(crate) struct Group<'a> {
    /// A frame for each batch.
    pub(crate) frames: &'a [FrameRef<'a>],
    /// In the value lane, the separated puts of each of them.
    pub(crate) slots: &'a [&'a [Slot]],
    /// Seq of the last operation.
    pub(crate) last_seq: Seq,
    /// What the bytes count as; `None`: as the lane's.
    pub(crate) purpose: Option<Purpose>,
}

impl<'a> Group<'a> {
    /// Its frames, in the value lane.
    pub(crate) fn value_frames(&self) -> impl Iterator<Item = ValueFrame<'a>> {
        debug_assert_eq!(self.frames.len(), self.slots.len());
        let pairs = self.frames.iter().zip(self.slots);
        pairs.map(|(&frame, &slots)| ValueFrame { frame, slots })
    }
}

/// Where a group stands in the value lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPlace {
    /// The segment.
    pub(crate) file: FileId,
    /// Offset of the first frame.
    pub(crate) start: u64,
}

/// What a value segment is besides a log.
struct Values {
    file: Arc<ValueFile>,
    footer: FooterBuilder,
}

/// The segment in use.
pub(super) struct OpenSegment {
    pub(super) writer: SegmentWriter,
    values: Option<Values>,
}

impl OpenSegment {
    /// A segment without frames; `file` is given where it is a value file.
    pub(super) fn new(writer: SegmentWriter, file: Option<Arc<ValueFile>>) -> Self {
        let values = file.map(|file| {
            file.raise_readable(writer.bytes());
            file.lend(writer.sync_handle());
            Values { file, footer: FooterBuilder::default() }
        });
        Self { writer, values }
    }

    /// The records of a value segment so far.
    pub(super) fn lines(&self) -> Option<(FileId, Vec<Line>)> {
        let Values { file, footer, .. } = self.values.as_ref()?;
        let footer = footer.encode().and_then(|payload| Footer::decode(&payload).ok())?;
        Some((file.id(), footer.lines))
    }

    /// Where the next group goes.
    pub(super) fn spot(&self) -> Spot {
        self.writer.spot()
    }

    /// Memory held.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.values.as_ref().map_or(0, |values| values.footer.memory_bytes()) as u64
    }

    /// Appends a group with one write. In the value lane `encoded` is what its frames are at
    /// [`OpenSegment::spot`]; once they are written it is empty, with memory for another group.
    pub(super) fn append(
        &mut self,
        group: &Group<'_>,
        encoded: &mut Vec<u8>,
        durable: Seq,
        tail: &TailBuffer,
    ) -> Result<Option<GroupPlace>, AppendError> {
        self.writer.count_as(group.purpose);
        let Some(values) = &mut self.values else {
            return self.writer.append_frames(group.frames, durable).map(|_| None);
        };
        values.append(&mut self.writer, group, encoded, tail).map(Some)
    }

    /// Ends the segment, but for its sync. The other lane is synced.
    pub(super) fn end(mut self, next_seq: Seq, durable: Seq, last_seq: Seq) -> Result<Ended> {
        let Some(Values { file, footer, .. }) = self.values else {
            let sealed = self.writer.end()?;
            return Ok(Ended { writer: self.writer, sealed, values: None });
        };
        if let Some(payload) = footer.encode() {
            match self.writer.append_footer(next_seq, durable, &payload) {
                Ok(_) => {}
                // What it would say can be had from a scan.
                Err(AppendError::Recoverable(_)) => {
                    mark!("value_segment_without_footer");
                }
                Err(AppendError::Fatal(error)) => return Err(error),
            }
        }
        let sealed = self.writer.end()?;
        let totals = footer.totals();
        let last_seq = last_seq.max(totals.largest_seq);
        let values = Some((file, SealedValues { sealed, last_seq, totals }));
        Ok(Ended { writer: self.writer, sealed, values })
    }
}

/// A segment that has its last byte and is to be synced.
pub(super) struct Ended {
    writer: SegmentWriter,
    pub(super) sealed: Sealed,
    values: Option<(Arc<ValueFile>, SealedValues)>,
}

impl Ended {
    pub(super) fn sync(&mut self) -> Result<()> {
        self.writer.sync()
    }

    /// Says of a value segment what it holds, once it is synced.
    pub(super) fn into_values(self) -> Option<SealedValues> {
        let (file, values) = self.values?;
        file.raise_readable(self.sealed.bytes);
        file.close();
        Some(values)
    }
}

impl Values {
    fn append(
        &mut self,
        writer: &mut SegmentWriter,
        group: &Group<'_>,
        encoded: &mut Vec<u8>,
        tail: &TailBuffer,
    ) -> Result<GroupPlace, AppendError> {
        let FrameRange { start, end } = writer.append_encoded(encoded)?;
        let mut at = start;
        for ValueFrame { frame, slots } in group.value_frames() {
            let payload_offset = at + FRAME_HEADER_BYTES as u64;
            let binding =
                Binding { seed: self.file.seed(), payload_offset, base_seq: frame.base_seq };
            self.footer.add_frame(slots, binding);
            at += (frame.payload.len() + FRAME_OVERHEAD_BYTES) as u64;
        }
        debug_assert_eq!(at, end);
        // Before anybody can come to know of a handle into it.
        self.file.raise_readable(end);
        *encoded = tail.push(self.file.id(), start, std::mem::take(encoded));
        // What one long batch took is not kept for short ones.
        if encoded.capacity() > BUFFER_BYTES_KEPT {
            *encoded = Vec::new();
        }
        Ok(GroupPlace { file: self.file.id(), start })
    }
}
