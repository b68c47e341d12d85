//! Proving what a tree leads to of a segment: its header, and each block with a live byte.
//!
//! Whose data a segment holds is a hint that is derived, and that a crash may have torn: what does
//! not hold of it is no damage (`docs/format/flex-segment.md`), and so it is not looked at.

use crate::base::recycled::{self, Recycled};
use crate::index::VerifySink;
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::{
    BLOCK_BYTES, BLOCKS_MAX, DATA_BYTES, HEADER_BYTES, block_offset,
};
use crate::io::Purpose;

/// Blocks of one read.
const RUN_BLOCKS_MAX: u64 = 64;

/// What a tree leads to of a segment.
#[derive(Clone, Debug, Default)]
pub(in crate::index::flex::space) struct Used {
    /// A bit for each block.
    blocks: [u64; BLOCKS_MAX as usize / 64],
    /// Bytes.
    pub(in crate::index::flex::space) live_bytes: u64,
}

impl Used {
    /// These bytes are live, too.
    pub(in crate::index::flex::space) fn add(&mut self, position: u64, bytes: u64) {
        self.live_bytes += bytes;
        let end = position.saturating_add(bytes);
        for number in position / DATA_BYTES..end.div_ceil(DATA_BYTES) {
            if let Some(word) = self.blocks.get_mut(number as usize / 64) {
                *word |= 1 << (number % 64);
            }
        }
    }

    fn has(&self, number: u64) -> bool {
        let word = self.blocks.get(number as usize / 64).copied().unwrap_or_default();
        word >> (number % 64) & 1 == 1
    }

    /// The blocks in use from one on, as many as are read at once: the first and how many.
    fn run_from(&self, number: u64) -> Option<(u64, u64)> {
        let first = (number..BLOCKS_MAX).find(|number| self.has(*number))?;
        let end = (first..BLOCKS_MAX.min(first + RUN_BLOCKS_MAX)).take_while(|it| self.has(*it));
        Some((first, end.count() as u64))
    }
}

impl Segment {
    /// Reads the header and the blocks in use, from the disk, and tells the sink of each that is
    /// not what was written. Returns whether all are.
    pub(in crate::index::flex::space) fn verify(
        &self,
        used: &Used,
        sink: &mut dyn VerifySink,
    ) -> bool {
        let mut is_whole = true;
        let mut bytes = HEADER_BYTES as u64;
        // A file that is open has been proved before, and is again.
        let opened = self.disk_file(Purpose::Verify);
        let file = match opened
            .and_then(|file| self.prove_header(&*file, Purpose::Verify).map(|()| file))
        {
            Ok(file) => file,
            Err(error) => {
                sink.problem(error);
                return false;
            }
        };
        let mut next = 0;
        while let Some((first, count)) = used.run_from(next) {
            next = first + count;
            let offset = block_offset(first * DATA_BYTES);
            let mut buffer = recycled::take((count * BLOCK_BYTES) as usize);
            let read = file.read_exact_at(&mut buffer, offset);
            self.context.io.meter.read(Purpose::Verify, buffer.len() as u64);
            let buffer = Recycled::new(buffer);
            if let Err(error) = read.map_err(|e| self.unread(e, offset)) {
                is_whole = false;
                sink.problem(error);
                continue;
            }
            for number in 0..count {
                match self.proved_block(&buffer, offset, offset + number * BLOCK_BYTES) {
                    Ok(_) => bytes += BLOCK_BYTES,
                    Err(error) => {
                        is_whole = false;
                        sink.problem(error);
                    }
                }
            }
        }
        sink.read(1, 0);
        sink.checked(self.id, bytes);
        is_whole
    }
}
