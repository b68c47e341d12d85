//! The flexible address space: bytes that can be put in, taken out and replaced anywhere, on a disk
//! that only appends.
//!
//! Data goes to segments in the order of writing; the tree says where each byte of the space
//! stands; the logical log says what was done to the tree since its last checkpoint. Operations
//! make up a group, which [`Space::commit`] makes durable as a whole: first its data, then its
//! records, in one frame. A group counts once an edit names the state that the commit returned; so
//! groups of several spaces, and whatever else is in the edit, count together or not at all.
//! Opening reads the tree of the checkpoint and does the records again, none of the data.
//!
//! **Checksums** stand in the segments, one for each block of 4092 bytes of data, bound to file and
//! offset. Extents are cut anywhere by later operations, so that a checksum of what was written at
//! once would have to be read as a whole to prove a part of it; a block is what the device reads in
//! any case. That a byte is the one that was asked for, the address says: addresses are never used
//! twice, and the pages and records that name them are proved; of copies of a store, the birth of
//! the segment (`births`). What records in the space hold
//! (keys, seqs) their owner compares by itself.
//!
//! **Reclaim** needs to find what lives in a segment. Every write names its owner by a number; a
//! finished segment has the numbers of its owners at its end. Who asks for space back says where in
//! the space an owner lies now, and only there the tree is looked at; what is not found so, since
//! an owner has merged with another one or a crash took the numbers, is found by walking over all
//! of it.
//!
//! Owned by one writer; views are for any thread. Invariants: SP-1 no byte that was handed to the
//! disk is overwritten (rule F9). SP-2 a file goes when neither the published state nor a view
//! needs it. SP-3 what fails before its group is committed leaves the space as the last group did.
//! SP-4 nothing is committed while a state waits to be published.

pub(crate) mod births;
pub(crate) mod log;
mod making;
mod open;
mod pieces;
pub(crate) mod reclaim;
pub(crate) mod record;
pub(crate) mod segment;
mod table;
mod verify;
mod view;
mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::file_ids::FileIds;
use crate::base::names::FileKind;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::planted::planted;
use crate::base::sync::{Arc, Weak};
use crate::index::flex::pages::file::PageFile;
use crate::index::flex::pages::format::{Owner, PageAddress};
use crate::index::flex::pages::{Draft, PageContext, PageStore};
use crate::index::flex::space::log::{Log, LogEnd, LogFile, Position};
pub(crate) use crate::index::flex::space::making::Making;
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::{BLOCK_BYTES, DATA_BYTES, SPAN_BYTES};
use crate::index::flex::space::segment::writer::SegmentWriter;
use crate::index::flex::tree::{Tree, TreeWidths};
use crate::io::Io;
use crate::values::file::OpenFiles;

use table::SegmentTable;
pub(crate) use table::{SegmentState, Sums};
pub(crate) use view::View;
use view::missing;

/// Sizes of a space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceLimits {
    /// Blocks of a segment, at most 1024.
    pub(crate) segment_blocks: u64,
    /// Bytes of the log from which a checkpoint is due in any case: what an opening does again.
    pub(crate) log_bytes_max: u64,
    /// Garbage that is left alone, in percent of all data.
    pub(crate) garbage_percent_max: u64,
}

impl SpaceLimits {
    /// What a database uses: segments of 4 MiB; a log that is done again in a second or two, for an
    /// operation takes some 14 bytes of it, and the tree two microseconds or three.
    pub(crate) const USUAL: Self =
        Self { segment_blocks: 1023, log_bytes_max: 8 << 20, garbage_percent_max: 25 };

    /// The same beside a reserve of so many bytes, if there is one. To empty a segment on a full
    /// disk takes as much as lives in it, a header and a frame of the log, and gives all of it
    /// back; one at a time is enough to go on. No more than the reserve is left for that, whatever
    /// the disk holds, so that no segment may take but a part of it.
    pub(crate) fn beside(self, reserve_bytes: u64) -> Self {
        if reserve_bytes == 0 || planted!("flex_segments_beyond_reserve") {
            return self;
        }
        // One block is the header.
        let blocks = (reserve_bytes / SEGMENTS_IN_RESERVE / BLOCK_BYTES).saturating_sub(1);
        Self { segment_blocks: self.segment_blocks.min(blocks.max(SMALL_SEGMENT_BLOCKS)), ..self }
    }
}

/// Segments that the reserve has room for.
const SEGMENTS_IN_RESERVE: u64 = 16;
/// Blocks of a segment that a small reserve does not make smaller: what a header takes would be too
/// large a part of it.
const SMALL_SEGMENT_BLOCKS: u64 = 7;

/// Age of a log's oldest group from which a checkpoint is due, however short the log is: what a
/// store that is hardly written to leaves to its next open is little then. A checkpoint writes all
/// leaves of the tree at worst, some 3 % of the data, so that it is not to come much more often.
pub(crate) const LOG_AGE_MAX: Duration = Duration::from_mins(10);

/// Files of a log from which a checkpoint is due: each open begins one, however short they are.
const LOG_FILES_MAX: usize = 8;

/// What a space is given to work with.
pub(crate) struct SpaceContext {
    /// Disk, limiter and meter.
    pub(crate) io: Io,
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Whose space it is.
    pub(crate) owner: Owner,
    /// Where files go that nobody needs any more.
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// Where file numbers come from.
    pub(crate) ids: Arc<FileIds>,
    /// Which segments are open.
    pub(crate) open_files: Arc<OpenFiles>,
    /// Sizes of the tree's nodes.
    pub(crate) widths: TreeWidths,
    /// Sizes of files.
    pub(crate) limits: SpaceLimits,
    /// Whether segments are read past the page cache.
    pub(crate) direct_reads: bool,
    /// Whether segments are written past the page cache.
    pub(crate) direct_writes: bool,
    /// Birth of the segments that are made from now on.
    pub(crate) birth: u64,
    /// Pages of the tree.
    pub(crate) pages: Arc<PageContext>,
}

#[cfg(any(test, feature = "sim"))]
impl SpaceContext {
    /// A space by itself, without a database around it: buffered, and few files open at once.
    pub(crate) fn alone(
        io: Io,
        dir: PathBuf,
        (owner, next): (Owner, FileId),
        (widths, limits, page_limits): (
            TreeWidths,
            SpaceLimits,
            crate::index::flex::pages::files::FileLimits,
        ),
    ) -> Arc<Self> {
        let (obsolete, ids) = (Arc::new(ObsoleteFiles::default()), Arc::new(FileIds::new(next)));
        let pages = Arc::new(PageContext {
            io: io.clone(),
            dir: dir.clone(),
            owner,
            obsolete: Arc::clone(&obsolete),
            ids: Arc::clone(&ids),
            limits: page_limits,
        });
        let open_files = Arc::new(OpenFiles::new(3));
        let (direct_reads, direct_writes) = (false, false);
        let birth = births::draw(&*io.clock);
        Arc::new(Self {
            io,
            dir,
            owner,
            obsolete,
            ids,
            open_files,
            widths,
            limits,
            direct_reads,
            direct_writes,
            birth,
            pages,
        })
    }
}

/// What an edit names of a space: all that opening it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct SpaceState {
    /// The last checkpoint of the tree.
    pub(crate) root: Option<PageAddress>,
    /// How far the log counts since then.
    pub(crate) log: Option<LogEnd>,
}

impl SpaceState {
    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.root.is_some()) | u8::from(self.log.is_some()) << 1);
        self.root.iter().for_each(|root| root.encode(out));
        self.log.iter().for_each(|log| log.encode(out));
    }

    /// Reads one.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let parts = reader.u8()?;
        if parts > 3 {
            return Err(Error::corruption("a state of a space has parts that are unknown"));
        }
        let root = (parts & 1 > 0).then(|| PageAddress::decode(reader)).transpose()?;
        let log = (parts & 2 > 0).then(|| LogEnd::decode(reader)).transpose()?;
        Ok(Self { root, log })
    }
}

/// Files that stay while this lives.
pub(crate) struct Pins {
    /// Kind, number and bytes of each.
    pub(crate) files: Vec<(FileKind, FileId, u64)>,
    /// Bytes of memory for what the writer knows of the pages.
    pub(crate) memory_bytes: usize,
    context: Arc<SpaceContext>,
    /// What the writer counts as live in each segment.
    live_bytes: Vec<(FileId, u64)>,
    _pages: Vec<Arc<PageFile>>,
    /// Oldest first.
    logs: Vec<Arc<LogFile>>,
}

/// A state that is durable and that nothing names yet.
pub(crate) struct Prepared {
    state: SpaceState,
    draft: Option<Draft>,
}

impl Prepared {
    /// Bytes of pages that were written for it.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.draft.as_ref().map_or(0, Draft::written_bytes)
    }

    /// What the edit is to name.
    pub(crate) fn state(&self) -> SpaceState {
        self.state
    }
}

/// What a group found, until it is published.
struct Before {
    tree: Tree,
    changes: BTreeMap<FileId, i64>,
    state: SpaceState,
    log: Position,
    /// Segments that it named.
    born: Vec<FileId>,
}

/// Segments by number.
type Segments = BTreeMap<FileId, Arc<Segment>>;

/// A space and its one writer.
pub(crate) struct Space {
    context: Arc<SpaceContext>,
    making: Making,
    segments: SegmentTable,
    /// The same for views.
    table: Arc<Segments>,
    /// What parts of groups write through when there is one.
    spares: Vec<SegmentWriter>,
    /// What a reclaim writes through: what has lived until then stands apart from what is new.
    survivors: Option<SegmentWriter>,
    /// Segments that were let go, each for as long as somebody holds it.
    leaving: Vec<Weak<Segment>>,
    /// Since something was published last, a reclaim on a full disk was tried.
    has_lacked_room: bool,
    log: Log,
    pages: PageStore,
    state: SpaceState,
    /// A prepared state has not been published.
    is_waiting: bool,
    /// What taking back a prepared group needs.
    before: Option<Before>,
}

impl Space {
    /// An empty space.
    pub(crate) fn new(context: &Arc<SpaceContext>) -> Result<Self> {
        let tree = Tree::new(context.widths)?;
        if !SPAN_BYTES.is_multiple_of(context.widths.window_bytes.into()) {
            return Err(Error::invalid("a segment's addresses are no whole windows"));
        }
        Ok(Self {
            context: Arc::clone(context),
            making: Making::new(context, tree, Arc::default()),
            segments: SegmentTable::default(),
            table: Arc::default(),
            spares: Vec::new(),
            survivors: None,
            leaving: Vec::new(),
            has_lacked_room: false,
            log: Log::new(context, 0),
            pages: PageStore::new(&context.pages),
            state: SpaceState::default(),
            is_waiting: false,
            before: None,
        })
    }

    /// The tree with the operations of the group in the making.
    pub(crate) fn tree(&self) -> &Tree {
        self.making.tree()
    }

    /// The last state that was prepared.
    #[cfg(test)]
    pub(crate) fn state(&self) -> SpaceState {
        self.state
    }

    /// The segments, and what is live in them as of the last group.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (FileId, &SegmentState)> {
        self.segments.iter().map(|(id, state)| (*id, state))
    }

    /// Whether the log is so long that a checkpoint is due: an opening does again what it holds.
    /// Where the tree is small, so that to write all of it costs little, half of the longest log is
    /// enough.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let log_bytes_max = self.context.limits.log_bytes_max;
        let page_bytes: u64 = self.pages.files().iter().map(|(_, state)| state.bytes).sum();
        let due_bytes = (2 * page_bytes).clamp(log_bytes_max / 2, log_bytes_max);
        self.log.bytes() >= due_bytes || self.log.files().len() > LOG_FILES_MAX
    }

    /// When the oldest group came that a checkpoint would take out of the log.
    pub(crate) fn log_since(&self) -> Option<Duration> {
        self.log.since()
    }

    /// Files that the published state needs; others of these kinds are of no use after an open.
    pub(crate) fn files(&self) -> Vec<FileId> {
        let segments = self.segments.keys().copied();
        let pages = self.pages.files().iter().map(|(id, _)| id);
        segments.chain(pages).chain(self.log.files().iter().map(|file| file.id())).collect()
    }

    /// The files of the published state with the bytes that they had, and what keeps them, beside
    /// the segments, which a view keeps.
    pub(crate) fn pins(&self) -> Pins {
        let segment = |(id, state): (&FileId, &SegmentState)| {
            let bytes = (state.bytes.div_ceil(DATA_BYTES) + 1) * BLOCK_BYTES;
            (FileKind::FlexSegment, *id, bytes)
        };
        let mut files: Vec<_> = self.segments.iter().map(segment).collect();
        let pages = self.pages.files().iter();
        files.extend(pages.map(|(id, state)| (FileKind::FlexPages, id, state.bytes)));
        // The log is short: its bytes count as those of its newest file.
        let logs = self.log.files();
        let last = logs.len().saturating_sub(1);
        let bytes = |number: usize| if number == last { self.log.bytes() } else { 0 };
        let log =
            |(number, file): (usize, &Arc<LogFile>)| (FileKind::FlexLog, file.id(), bytes(number));
        files.extend(logs.iter().enumerate().map(log));
        let live = self.segments.iter().map(|(id, state)| (*id, state.live_bytes));
        Pins {
            files,
            memory_bytes: self.pages.memory_bytes(),
            context: Arc::clone(&self.context),
            live_bytes: live.collect(),
            _pages: self.pages.pins(),
            logs: logs.to_vec(),
        }
    }

    /// What the space is as of the last group, for readers.
    pub(crate) fn view(&self) -> View {
        View::new(self.making.before.clone(), Arc::clone(&self.table))
    }
}

#[cfg(test)]
mod tests;
