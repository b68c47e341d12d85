//! Opening a Flex index: the space that its section names, the directories that stand in it, and
//! its range tombstones. No interval is read: how long they are, and what tail they have, the tags
//! of the tree say.

use std::collections::VecDeque;
use std::ops::Range;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::section::{Section, SectionTag};
use crate::base::sync::{Arc, Condvar, Mutex, RwLock};
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::base::widths::Widths;
use crate::index::context::IndexContext;
use crate::index::flex::intervals::anchors::{Anchors, Directory, Group, Interval, Mark, Sealed};
use crate::index::flex::intervals::cache::IntervalCache;
use crate::index::flex::intervals::filter::KeyFilter;
use crate::index::flex::intervals::gathering::Gathering;
use crate::index::flex::intervals::jobs::{Figures, Plans};
use crate::index::flex::intervals::state::{FlexState, decode_tombstones};
use crate::index::flex::intervals::view::{FlexView, Source};
use crate::index::flex::intervals::{FlexIndex, FlexLimits, Shared, Writer};
use crate::index::flex::pages::PageContext;
use crate::index::flex::pages::files::FileLimits;
use crate::index::flex::pages::format::Owner;
use crate::index::flex::space::{Space, SpaceContext, SpaceLimits, View, births};
use crate::index::flex::tree::TreeWidths;
use crate::io::Purpose;

/// Blocks of tables as a database has them.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// Sizes of all that a Flex index is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlexSizes {
    /// Intervals.
    pub(crate) intervals: FlexLimits,
    /// Segments and logs.
    pub(crate) space: SpaceLimits,
    /// Nodes of the tree.
    pub(crate) tree: TreeWidths,
    /// Files of its pages.
    pub(crate) pages: FileLimits,
}

impl FlexSizes {
    /// What a database uses.
    pub(crate) const USUAL: Self = Self {
        intervals: FlexLimits::USUAL,
        space: SpaceLimits::USUAL,
        tree: TreeWidths::USUAL,
        pages: FileLimits::USUAL,
    };

    /// The same beside a reserve of so many bytes.
    pub(crate) fn beside(self, reserve_bytes: u64) -> Self {
        Self { space: self.space.beside(reserve_bytes), ..self }
    }

    /// Those of a database with these widths: where blocks of tables are tiny, so is everything
    /// here. Nodes of the tree have to stay what they were when it was made, so that all tiny ones
    /// are alike.
    pub(crate) fn of(widths: &Widths) -> Self {
        let block_bytes = widths.block_bytes as u64;
        if block_bytes >= USUAL_BLOCK_BYTES {
            return Self::USUAL;
        }
        Self {
            intervals: FlexLimits {
                interval_bytes_max: block_bytes.max(64) * 3 / 2,
                tail_records_max: 9,
                fragments_max: 6,
                gathered_fragments_min: 3,
                gathered_paid_min: 3,
                gathered_bytes_min: 0,
                ahead_intervals_max: 5,
                together_intervals_max: 5,
                part_bytes_min: 64,
                part_groups_min: 1,
                part_threads: 1,
                group_intervals_max: 4,
                job_bytes_max: widths.table_bytes,
                // Mostly what fills up blocks is garbage there.
                rewrite_garbage_percent_max: 1000,
            },
            space: SpaceLimits {
                segment_blocks: (widths.table_bytes / 1024).clamp(2, 1023),
                log_bytes_max: widths.table_bytes * 2,
                garbage_percent_max: SpaceLimits::USUAL.garbage_percent_max,
            },
            tree: TreeWidths { leaf_extents_max: 6, children_max: 4, ..TreeWidths::USUAL },
            pages: FileLimits { bytes_min: widths.table_bytes, bytes_max: 4 * widths.table_bytes },
        }
    }
}

/// What stands in a space.
struct Contents {
    tombstones: Vec<RangeTombstone>,
    tombstone_bytes: u64,
    anchors: Anchors,
    last_stamp: u64,
}

impl FlexIndex {
    /// The index that these sections describe; the last one counts, none: an empty index.
    ///
    /// # Errors
    /// `Corruption` where the space is not what the section says, or holds what an index does not.
    pub(crate) fn recover(
        context: IndexContext,
        sizes: &FlexSizes,
        sections: &[Section],
    ) -> Result<Arc<Self>> {
        let mut state = FlexState::default();
        for section in sections.iter().filter(|section| section.tag == SectionTag::FLEX) {
            let (keyspace, named) = FlexState::decode(section)?;
            if keyspace != context.keyspace {
                return Err(Error::corruption("a section of another keyspace"));
            }
            state = named;
        }
        let space = Space::open(&space_context(&context, sizes), state.space)?;
        let last_file = space.files().into_iter().max().unwrap_or(FileId(0));
        context.file_ids.at_least(FileId(last_file.0.saturating_add(1)));
        let contents = Contents::read(&space)?;
        let is_known = |group: &Arc<Sealed>| group.id <= state.last_group;
        if !contents.anchors.groups().iter().all(is_known) {
            return Err(Error::corruption("a Flex section names too few groups"));
        }
        let numbers = (context.file_ids.next(), context.file_ids.next());
        let cache = Arc::new(IntervalCache::new(context.tables.blocks(), numbers));
        let limits = sizes.intervals.where_reads_are(context.direct_reads);
        let gathering = Arc::new(Gathering::new(limits));
        let view = FlexView {
            source: Arc::new(Source {
                space: space.view(),
                cache: Arc::clone(&cache),
                gathering: Arc::clone(&gathering),
                anchors: Arc::new(contents.anchors),
            }),
            pins: space.pins(),
            tombstones: Arc::new(Fragments::build(contents.tombstones)),
            tombstone_bytes: contents.tombstone_bytes,
            state,
        };
        let plans = Plans::new(Figures::of(&space), sizes.space.garbage_percent_max);
        let last_stamp = contents.last_stamp;
        Ok(Arc::new(Self {
            shared: Arc::new(Shared {
                context,
                limits,
                cache,
                gathering,
                writer: Mutex::new(Writer { space, is_taken: false, last_stamp }),
                released: Condvar::new(),
                current: RwLock::new(Arc::new(view)),
                plans: Mutex::new(plans),
            }),
        }))
    }
}

fn space_context(context: &IndexContext, sizes: &FlexSizes) -> Arc<SpaceContext> {
    let owner = Owner { uuid: context.uuid, keyspace: context.keyspace };
    let pages = PageContext {
        io: context.io.clone(),
        dir: context.dir.clone(),
        owner,
        obsolete: Arc::clone(&context.obsolete),
        ids: Arc::clone(&context.file_ids),
        limits: sizes.pages,
    };
    Arc::new(SpaceContext {
        io: context.io.clone(),
        dir: context.dir.clone(),
        owner,
        obsolete: Arc::clone(&context.obsolete),
        ids: Arc::clone(&context.file_ids),
        open_files: Arc::clone(&context.open_files),
        widths: sizes.tree,
        limits: sizes.space,
        direct_reads: context.direct_reads,
        direct_writes: context.direct_writes,
        birth: births::draw(&*context.io.clock),
        pages: Arc::new(pages),
    })
}

impl Contents {
    /// Reads what says where things are.
    fn read(space: &Space) -> Result<Self> {
        let mut contents = Self {
            tombstones: vec![],
            tombstone_bytes: 0,
            anchors: Anchors::default(),
            last_stamp: 0,
        };
        let mut groups: Vec<Arc<Sealed>> = Vec::new();
        let mut open: Option<(Group, std::vec::IntoIter<Box<[u8]>>)> = None;
        let marks = marks(space)?;
        let mut descriptions = Descriptions::new(space, &marks);
        let mut marks = marks.into_iter().peekable();
        while let Some((offset, mark)) = marks.next() {
            let end = marks.peek().map_or(space.tree().length(), |(next, _)| *next);
            match mark {
                Mark::Tombstones if offset == 0 => {
                    contents.tombstones = decode_tombstones(&descriptions.next()?)?;
                    contents.tombstone_bytes = end;
                }
                Mark::Tombstones => {
                    return Err(Error::corruption("range tombstones in the middle of a space"));
                }
                Mark::Directory => {
                    groups.extend(finished(open.take())?);
                    open = Some(group(&descriptions.next()?, end - offset)?);
                }
                Mark::Interval(tail) => {
                    let entry = open.as_mut().and_then(|(group, rest)| Some((group, rest.next()?)));
                    let Some((group, anchor)) = entry else {
                        return Err(Error::corruption("an interval that is in no directory"));
                    };
                    contents.last_stamp += 1;
                    let (bytes, stamp) = (end - offset, contents.last_stamp);
                    let anchor = anchor.into();
                    group.intervals.push(Interval {
                        anchor,
                        bytes,
                        tail,
                        tail_index: None,
                        filter: KeyFilter::default(),
                        fragments: 0,
                        stamp,
                        born: stamp,
                    });
                }
            }
        }
        groups.extend(finished(open)?);
        let anchors = Anchors::new(groups, contents.tombstone_bytes);
        let is_rising = anchors.iter().zip(anchors.iter().skip(1));
        if is_rising.into_iter().any(|(a, b)| a.interval.anchor >= b.interval.anchor) {
            return Err(Error::corruption("anchors of two groups are not in order"));
        }
        contents.anchors = anchors;
        Ok(contents)
    }
}

/// What the tags of a space say; the first byte must have one.
fn marks(space: &Space) -> Result<Vec<(u64, Mark)>> {
    let tree = space.tree();
    let mut marks = Vec::new();
    for piece in tree.walk(0..tree.length())? {
        if let Some(tag) = piece.extent.tag {
            marks.push((piece.offset, Mark::of(tag)?));
        } else if piece.offset == 0 {
            return Err(Error::corruption("a space that begins with nothing"));
        }
    }
    Ok(marks)
}

/// What stands in a space beside intervals, in order: read many at once, for a device reads some
/// tens of blocks in little more time than one.
struct Descriptions {
    space: View,
    wanted: VecDeque<Range<u64>>,
    read: VecDeque<Vec<u8>>,
}

impl Descriptions {
    /// Those of a space with these marks; nothing is read so far.
    fn new(space: &Space, marks: &[(u64, Mark)]) -> Self {
        let next = marks.iter().skip(1).map(|(offset, _)| *offset).chain([space.tree().length()]);
        let is_description = |mark: &Mark| matches!(mark, Mark::Tombstones | Mark::Directory);
        let wanted = marks.iter().zip(next).filter(|((_, mark), _)| is_description(mark));
        let wanted = wanted.map(|((offset, _), end)| *offset..end).collect();
        Self { space: space.view(), wanted, read: VecDeque::new() }
    }

    /// The bytes of the next one.
    fn next(&mut self) -> Result<Vec<u8>> {
        /// Longest directory or list of tombstones: what is held in memory as a whole.
        const BYTES_MAX: u64 = 1 << 30;
        /// What is read at once: enough to keep a device busy, little to hold.
        const AT_ONCE: (usize, u64) = (128, 1 << 20);
        if self.read.is_empty() {
            let (mut ranges, mut bytes) = (Vec::new(), 0);
            while let Some(range) = self.wanted.front() {
                let length = range.end - range.start;
                if length > BYTES_MAX {
                    return Err(Error::corruption("a directory that is too long"));
                }
                if !ranges.is_empty() && (ranges.len() >= AT_ONCE.0 || bytes + length > AT_ONCE.1) {
                    break;
                }
                bytes += length;
                ranges.extend(self.wanted.pop_front());
            }
            self.read = self.space.read_many(&ranges, Purpose::Recovery)?.into();
        }
        let read = self.read.pop_front();
        read.ok_or_else(|| Error::corruption("a space with more directories than it has marks"))
    }
}

fn group(bytes: &[u8], directory_bytes: u64) -> Result<(Group, std::vec::IntoIter<Box<[u8]>>)> {
    let Directory { id, parent, edits, anchors } = Directory::decode(bytes)?;
    let intervals = Vec::with_capacity(anchors.len());
    Ok((Group { id, parent, directory_bytes, edits, intervals }, anchors.into_iter()))
}

/// A group, when all its intervals have been met.
fn finished(open: Option<(Group, std::vec::IntoIter<Box<[u8]>>)>) -> Result<Option<Arc<Sealed>>> {
    let Some((group, mut rest)) = open else { return Ok(None) };
    match rest.next() {
        Some(_) => Err(Error::corruption("a directory names an interval that is missing")),
        None => Ok(Some(group.sealed())),
    }
}
