//! Looks behind a bad frame: for anything but zeros, and for later frames that say how far the
//! log was durable.

use crate::base::entry::Seq;
use crate::base::error::Result;
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, is_zero};
use crate::log::reader::{READ_BYTES, SegmentReader};

/// What the valid frame headers behind a bad frame say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Later {
    /// Largest watermark.
    pub(super) durable_seq_max: Option<Seq>,
    /// Smallest first seq.
    pub(super) base_seq_min: Option<Seq>,
}

impl SegmentReader {
    /// Whether the file holds nothing but zeros from `offset` on. The buffer moves.
    pub(super) fn is_zero_from(&mut self, mut offset: u64) -> Result<bool> {
        while offset < self.file_bytes {
            let bytes = self.fetch(offset, READ_BYTES)?;
            if !is_zero(bytes) {
                return Ok(false);
            }
            offset += bytes.len() as u64;
        }
        Ok(true)
    }

    /// Collects what valid frame headers from `offset` on say. A header proves itself by magic
    /// and by a checksum over database, file and place, so a payload cannot pass for one.
    pub(super) fn scan_later(&mut self, mut offset: u64) -> Result<Later> {
        let mut later = Later::default();
        let seed = self.seed;
        while offset + (FRAME_HEADER_BYTES as u64) <= self.file_bytes {
            let bytes = self.fetch(offset, READ_BYTES)?;
            for (at, window) in bytes.windows(FRAME_HEADER_BYTES).enumerate() {
                if window.starts_with(&FRAME_MAGIC)
                    && let Ok(header) = FrameHeader::decode(window, seed, offset + at as u64)
                {
                    later.note(&header);
                }
            }
            offset += (bytes.len() - FRAME_HEADER_BYTES) as u64 + 1;
        }
        Ok(later)
    }
}

impl Later {
    fn note(&mut self, header: &FrameHeader) {
        self.durable_seq_max = self.durable_seq_max.max(Some(header.durable_seq));
        let base = self.base_seq_min.map_or(header.base_seq, |min| min.min(header.base_seq));
        self.base_seq_min = Some(base);
    }
}
