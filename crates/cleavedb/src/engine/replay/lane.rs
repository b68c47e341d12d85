//! One lane as it is read back: frame by frame over its segments, with what was read of each.

use std::collections::VecDeque;
use std::path::Path;

use crate::base::checksum::{KeyedHash, file_seed};
use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::engine::Engine;
use crate::engine::lane::LaneId;
use crate::io::{Io, Purpose};
use crate::log::chain::{ChainSpec, Link, check_chain};
use crate::log::footer::{FooterBuilder, Totals};
#[cfg(test)]
use crate::log::format::FrameKind;
use crate::log::format::{FrameHeader, Sealed};
use crate::log::reader::{End, Frame, ReadOptions, SegmentReader};
use crate::values::segment::collect_frame;

/// A frame that was read but not applied yet.
pub(super) struct Pending {
    /// Where its header begins.
    pub(super) offset: u64,
    /// Its header.
    pub(super) header: FrameHeader,
    /// Its payload.
    pub(super) payload: Vec<u8>,
    /// The segment's part in front of it.
    before: Sealed,
}

#[cfg(test)]
impl Pending {
    /// One at the beginning of a segment.
    pub(super) fn for_test(base_seq: Seq, count: u32, payload: Vec<u8>) -> Self {
        let header = FrameHeader {
            kind: FrameKind::Data,
            payload_bytes: payload.len() as u32,
            count,
            base_seq,
            durable_seq: 0,
            payload_crc: 0,
            zero_sectors: 0,
        };
        let before = Sealed { id: FileId(1), bytes: 0, checksum: 0 };
        Self { offset: 0, header, payload, before }
    }
}

/// A segment of which nothing more is read.
pub(super) struct Ended {
    /// Its lane.
    pub(super) lane: LaneId,
    /// Where it is.
    pub(super) link: Link,
    /// Seed of its checksums.
    pub(super) seed: u32,
    /// The part that stays.
    pub(super) good: Sealed,
    /// Last seq in it, or in one before it.
    pub(super) last_seq: Seq,
    /// What its separated records come to, of a value segment.
    pub(super) totals: Totals,
    /// Where and why its end was taken for a torn write.
    pub(super) torn: Option<(u64, &'static str)>,
    /// Whether frames behind the good part were cut off.
    pub(super) is_cut: bool,
}

/// The segment being read.
struct Current {
    link: Link,
    reader: SegmentReader,
    seed: u32,
    footer: FooterBuilder,
}

/// A lane being read.
pub(super) struct LaneReplay {
    id: LaneId,
    io: Io,
    uuid: [u8; 16],
    links: VecDeque<Link>,
    current: Option<Current>,
    pending: Option<Pending>,
    ended: Vec<Ended>,
    last_seq: Seq,
    durable_seq: Seq,
    /// Last seq met beyond the end of the log; zero where nothing is beyond it.
    cut_seq: Seq,
}

impl LaneReplay {
    /// The lane's segments, checked to be one chain.
    pub(super) fn new(engine: &Engine, id: LaneId) -> Result<Self> {
        let segments = engine.lane(id).segments();
        let found: Vec<FileId> = segments.iter().map(|segment| segment.id).collect();
        let sealed: Vec<_> = segments.iter().filter_map(|segment| segment.sealed).collect();
        let spec = ChainSpec {
            kind: id.file_kind(),
            uuid: engine.uuid,
            found: &found,
            floor: found.first().copied().unwrap_or(FileId(0)),
            sealed: &sealed,
            purpose: Purpose::Recovery,
        };
        let links = check_chain(&engine.io, &engine.dir, &spec)?;
        let known = segments.iter().filter(|segment| segment.sealed.is_some());
        let durable_seq = known.map(|segment| segment.last_seq).max().unwrap_or(0);
        Ok(Self {
            id,
            io: engine.io.clone(),
            uuid: engine.uuid,
            links: links.into(),
            current: None,
            pending: None,
            ended: Vec::new(),
            last_seq: 0,
            // What is sealed was synced before.
            durable_seq,
            cut_seq: 0,
        })
    }

    /// Which lane.
    pub(super) fn id(&self) -> LaneId {
        self.id
    }

    /// The segment being read.
    pub(super) fn file(&self) -> FileId {
        self.current.as_ref().map_or(FileId(0), |current| current.link.id)
    }

    /// The next frame.
    pub(super) fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    /// First seq of the next frame.
    pub(super) fn next_base(&self) -> Option<Seq> {
        self.pending.as_ref().map(|pending| pending.header.base_seq)
    }

    /// Everything up to here was durable, as far as this lane says.
    pub(super) fn durable_seq(&self) -> Seq {
        self.durable_seq
    }

    /// Whether the last segment ends in a torn write.
    pub(super) fn is_torn(&self) -> bool {
        self.ended.last().is_some_and(|ended| ended.torn.is_some())
    }

    /// Last seq of its frames beyond the end of the log; zero where there are none.
    pub(super) fn cut_seq(&self) -> Seq {
        self.cut_seq
    }

    /// The part of an unsealed segment that has been applied, and the seed of its checksums.
    pub(super) fn unsealed_part(&self) -> Option<(&Link, u32, Sealed)> {
        let current = self.current.as_ref().filter(|current| current.link.sealed.is_none());
        match (current, &self.pending) {
            (Some(current), pending) => {
                let read = || current.reader.good_part().sealed;
                let good = pending.as_ref().map_or_else(read, |pending| pending.before);
                Some((&current.link, current.seed, good))
            }
            // Read to its end, which may have been applied a moment ago.
            (None, _) => {
                let ended = self.ended.last().filter(|ended| ended.link.sealed.is_none());
                ended.map(|ended| (&ended.link, ended.seed, ended.good))
            }
        }
    }

    /// Takes the next frame, of which this lane then knows all that is to be known.
    pub(super) fn take(&mut self) -> Result<Option<Pending>> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        self.note(&pending)?;
        Ok(Some(pending))
    }

    /// Passes frames that are wholly in the indexes.
    pub(super) fn skip_through(&mut self, flushed: Seq) -> Result<()> {
        while let Some(pending) = &self.pending
            && pending.header.next_seq() <= flushed + 1
        {
            mark!("replay_skipped_flushed_frame");
            self.take()?;
            self.advance()?;
        }
        Ok(())
    }

    /// Reads on to the next frame with operations, unless one waits already.
    pub(super) fn advance(&mut self) -> Result<()> {
        while self.pending.is_none() {
            let Some(current) = &mut self.current else {
                let Some(link) = self.links.pop_front() else { return Ok(()) };
                self.current = Some(self.open(link)?);
                continue;
            };
            let before = current.reader.good_part().sealed;
            match current.reader.next_frame()? {
                Some(frame) => {
                    self.durable_seq = self.durable_seq.max(frame.header.durable_seq);
                    if frame.header.count > 0 {
                        let Frame { offset, header, payload } = frame;
                        let payload = payload.to_vec();
                        self.pending = Some(Pending { offset, header, payload, before });
                    }
                }
                None => self.end_current(before, false),
            }
        }
        Ok(())
    }

    /// Ends the lane in front of the frame that waits, if any: what follows is read for what it
    /// says of durability only.
    pub(super) fn cut_here(&mut self) -> Result<()> {
        if self.pending.is_none() {
            return Ok(());
        }
        let sealed = self.current.as_ref().is_some_and(|current| current.link.sealed.is_some());
        if sealed || !self.links.is_empty() {
            // Both lanes were synced before anything was sealed.
            mark!("sealed_segment_beyond_gap");
            return Err(self.damaged("a sealed segment lies beyond a gap".to_owned()));
        }
        let Some(pending) = self.pending.take() else { return Ok(()) };
        self.cut_seq = pending.header.next_seq() - 1;
        let mut good = pending.before;
        if let Some(current) = &mut self.current {
            while let Some(frame) = current.reader.next_frame()? {
                self.durable_seq = self.durable_seq.max(frame.header.durable_seq);
                self.cut_seq = frame.header.next_seq() - 1;
            }
            if planted!("frames_beyond_gap_stay") {
                good = current.reader.good_part().sealed;
            }
        }
        self.end_current(good, true);
        Ok(())
    }

    /// What was read of each segment.
    pub(super) fn into_ended(self) -> Vec<Ended> {
        self.ended
    }

    /// Corruption of the segment where the lane stands, or ends.
    pub(super) fn damaged(&self, message: String) -> Error {
        let error = Error::corruption(message);
        match (&self.pending, self.ended.last()) {
            (Some(pending), _) => self.at(error, pending.offset),
            (None, Some(ended)) => error.in_file(&ended.link.path).at_offset(ended.good.bytes),
            (None, None) => error,
        }
    }

    /// Where a segment of the lane is that was or is being read.
    pub(super) fn path_of(&self, file: FileId) -> Option<&Path> {
        let ended = self.ended.iter().rev().map(|ended| &ended.link);
        let links = self.current.iter().map(|current| &current.link).chain(ended);
        links.into_iter().find(|link| link.id == file).map(|link| link.path.as_path())
    }

    /// The error with file and offset.
    pub(super) fn at(&self, error: Error, offset: u64) -> Error {
        match &self.current {
            Some(current) => error.in_file(&current.link.path).at_offset(offset),
            None => error,
        }
    }

    fn open(&mut self, link: Link) -> Result<Current> {
        let Some(header) = link.header else {
            let message = "log segment without header, though the manifest names it";
            return Err(Error::corruption(message).in_file(&link.path).at_offset(0));
        };
        // Both lanes are synced before a segment is begun.
        self.durable_seq = self.durable_seq.max(header.first_seq.saturating_sub(1));
        let options = ReadOptions {
            kind: self.id.file_kind(),
            id: link.id,
            uuid: self.uuid,
            sealed: link.sealed,
            contiguous: false,
            purpose: Purpose::Recovery,
        };
        let reader = SegmentReader::open(&self.io, &link.path, options)?;
        let seed = file_seed(&self.uuid, link.id.0);
        Ok(Current { link, reader, seed, footer: FooterBuilder::default() })
    }

    /// Notes a frame that belongs to the log; the records of a value frame must hold.
    fn note(&mut self, pending: &Pending) -> Result<()> {
        self.last_seq = pending.header.next_seq() - 1;
        let Some(current) = &mut self.current else { return Ok(()) };
        if self.id == LaneId::Values {
            let Pending { offset, header, ref payload, .. } = *pending;
            let frame = Frame { offset, header, payload };
            let hash = KeyedHash::new(&self.uuid);
            collect_frame(&mut current.footer, &frame, current.seed, hash)
                .map_err(|error| error.in_file(&current.link.path).at_offset(offset))?;
        }
        Ok(())
    }

    fn end_current(&mut self, good: Sealed, is_cut: bool) {
        let Some(Current { link, reader, seed, footer }) = self.current.take() else { return };
        self.durable_seq = self.durable_seq.max(reader.durable_seq());
        let torn = match reader.end() {
            Some(End::Torn { at, reason }) => Some((*at, *reason)),
            _ => None,
        };
        let (lane, last_seq, totals) = (self.id, self.last_seq, footer.totals());
        self.ended.push(Ended { lane, link, seed, good, last_seq, totals, torn, is_cut });
    }
}
