//! The frames of a group of the value lane as bytes, encoded for the place where they are to stand:
//! by whoever knows that place, which may be before the writer has got there.
//!
//! Invariant: G-1 encoded bytes are right at their own spot only (F-1), so the writer takes them
//! only if it stands there.

use crate::base::entry::{FileId, Seq};
use crate::base::error::Result;
use crate::log::format::{FrameKind, FrameRef, encode_frame_with};
use crate::log::separated::{self, Binding, Slot};

/// One frame of the value lane to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueFrame<'a> {
    /// The frame; its separated records have neither seq nor place yet.
    pub(crate) frame: FrameRef<'a>,
    /// These records.
    pub(crate) slots: &'a [Slot],
}

/// Where frames are to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The segment.
    pub(crate) file: FileId,
    /// Seed of every checksum in it.
    pub(crate) seed: u32,
    /// Offset of the first frame.
    pub(crate) start: u64,
}

impl Spot {
    /// The one behind so many bytes.
    pub(crate) fn behind(self, bytes: u64) -> Self {
        Self { start: self.start + bytes, ..self }
    }
}

/// Encodes frames behind those in `bytes`, the first of which is to stand at `spot`; their
/// separated records learn seq and place on the way. `durable_seq`: every operation up to this seq,
/// in every lane, is known to be on the device.
pub(crate) fn encode_values<'a>(
    frames: impl IntoIterator<Item = ValueFrame<'a>>,
    durable_seq: Seq,
    spot: Spot,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let Spot { seed, start, .. } = spot;
    for ValueFrame { frame, slots } in frames {
        let offset = start + bytes.len() as u64;
        let bind = |payload: &mut [u8], payload_offset| {
            let place = Binding { seed, payload_offset, base_seq: frame.base_seq };
            separated::bind(payload, slots, place)
        };
        encode_frame_with(FrameKind::Data, frame, durable_seq, seed, offset, bytes, bind)?;
    }
    Ok(())
}
