//! Replay of the journal at open.
//!
//! Invariants: P1 frames are contiguous from the flushed seq on, over all segments. P2 a frame at
//! or below the flushed seq is never replayed (rule S2). P3 memory stays within a memtable's size:
//! what is full is flushed at once.

use crate::base::checksum::file_seed;
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::commit::insert_batch;
use crate::engine::recover::frame_end;
use crate::io::Purpose;
use crate::log::chain::{ChainSpec, Link, check_chain};
use crate::log::reader::{End, ReadOptions, SegmentReader};
use crate::log::writer::cut_tail;

impl Engine {
    /// Replays what is not in the indexes yet and cuts a torn tail.
    pub(crate) fn replay_journal(self: &Arc<Self>) -> Result<()> {
        let segments = self.journal.segments();
        let Some(first) = segments.first() else { return Ok(()) };
        let found: Vec<FileId> = segments.iter().map(|segment| segment.id).collect();
        let sealed: Vec<_> = segments.iter().filter_map(|segment| segment.sealed).collect();
        let spec = ChainSpec {
            kind: FileKind::Journal,
            uuid: self.uuid,
            found: &found,
            floor: first.id,
            sealed: &sealed,
            purpose: Purpose::Recovery,
        };
        let links = check_chain(&self.io, &self.dir, &spec)?;
        for link in &links {
            if link.header.is_none() {
                let message = "journal segment without header, though the manifest names it";
                return Err(Error::corruption(message).in_file(&link.path).at_offset(0));
            }
            self.replay_segment(link)?;
        }
        Ok(())
    }

    fn replay_segment(self: &Arc<Self>, link: &Link) -> Result<()> {
        let options = ReadOptions {
            kind: FileKind::Journal,
            id: link.id,
            uuid: self.uuid,
            sealed: link.sealed,
            contiguous: true,
            purpose: Purpose::Recovery,
        };
        let mut reader = SegmentReader::open(&self.io, &link.path, options)?;
        let expected = self.commits.allocated.load(Ordering::Relaxed) + 1;
        if reader.next_seq().is_some_and(|first| first > expected) {
            let message = format!("the journal begins after seq {expected}: a gap");
            return Err(Error::corruption(message).in_file(&link.path));
        }
        while let Some(frame) = reader.next_frame()? {
            if frame.header.count == 0 {
                continue;
            }
            let last_seq = frame_end(frame.header.base_seq, frame.header.count);
            let allocated = self.commits.allocated.load(Ordering::Relaxed);
            if last_seq <= allocated {
                mark!("replay_skipped_flushed_frame");
                continue;
            }
            let view = self.view.load_full();
            insert_batch(&view.active, frame.payload, frame.header.count, frame.header.base_seq)
                .map_err(|error| error.in_file(&link.path).at_offset(frame.offset))?;
            self.commits.allocated.store(last_seq, Ordering::Relaxed);
            self.visible.store(last_seq, Ordering::Release);
            let full = view.active.memory_bytes() >= self.widths.memtable_bytes;
            if full && !self.settings.read_only {
                mark!("flush_during_replay");
                self.flush_replayed()?;
            }
        }
        self.end_segment(link, &reader)
    }

    /// Seals in memory what was read, and on disk cuts what a crash left behind it.
    fn end_segment(&self, link: &Link, reader: &SegmentReader) -> Result<()> {
        let last_seq = self.commits.allocated.load(Ordering::Relaxed);
        let good = reader.good_part().sealed;
        if link.sealed.is_none() && !self.settings.read_only {
            if let Some(End::Torn { at, reason }) = reader.end() {
                mark!("torn_tail_cut");
                tracing::warn!(file = %link.path.display(), at, reason, "torn tail cut");
            }
            cut_tail(&self.io, &link.path, file_seed(&self.uuid, link.id.0), &good)?;
        }
        self.journal.replayed(link.id, last_seq, good);
        Ok(())
    }

    /// Writes a full memtable out while replaying. Where the journal's tail is not durable yet, the
    /// tables become durable ahead of it: what a crash then leaves is still a prefix.
    fn flush_replayed(self: &Arc<Self>) -> Result<()> {
        self.freeze_memtable();
        self.flush_oldest()?;
        Ok(())
    }
}
