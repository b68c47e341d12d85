//! The ordered structure over entries of one keyspace: trait, LSM-tree, Flex, and the naive twin.
//!
//! Invariants: X1 an index never publishes anything by itself: it prepares an edit, the engine
//! makes the edit durable and then calls [`OrderedIndex::install`], in manifest order. X2 a view
//! pins all it can read. X3 seqs of entries are never changed (S1). X4 versions are dropped by the
//! stripe rule only (S3): dead iff no live snapshot lies in [its seq, superseding seq).

use std::any::Any;
use std::time::Duration;

use crate::base::codec::Reader;
use crate::base::cursor::BoxCursor;
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::merging::MergingCursor;
use crate::base::names::FileKind;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::io::Purpose;

pub(crate) mod context;
pub(crate) mod flex;
pub(crate) mod lsm;
pub(crate) mod naive;
pub(crate) mod ordering;
mod outputs;
mod run_cursor;
pub(crate) mod stripes;
mod table_file;
#[cfg(test)]
pub(crate) mod testing;
mod verify;

pub(crate) use context::IndexContext;
pub(crate) use ordering::Passing;

/// Keys from `start` (inclusive) to `end` (exclusive); `None` is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// First key.
    pub(crate) start: Option<Vec<u8>>,
    /// First key beyond.
    pub(crate) end: Option<Vec<u8>>,
}

/// What a flush hands to an index: one keyspace's part of one or more frozen memtables.
pub(crate) struct FlushInput<'a> {
    /// Makes a cursor over the entries in order, range deletes left out, not positioned: one for
    /// each part that the index works on by itself.
    pub(crate) entries: Box<dyn Fn() -> BoxCursor + Sync + 'a>,
    /// About their bytes; at least these.
    pub(crate) bytes: u64,
    /// Whether writers wait for this flush: it may take what processors they leave.
    pub(crate) is_waited_for: bool,
    /// Range deletes, in any order.
    pub(crate) tombstones: Vec<RangeTombstone>,
    /// Live snapshots, ascending, read after the memtable was frozen (rule R4).
    pub(crate) stripes: &'a [Seq],
    /// Makes who is told of every entry that dies, for each part.
    pub(crate) listeners: Box<dyn Fn() -> Box<dyn Listener> + Sync + 'a>,
}

/// An entry that will not exist any more once the edit is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dead<'a> {
    /// Its key.
    pub(crate) key: &'a [u8],
    /// Its seq.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its value, operand or handle.
    pub(crate) value: &'a [u8],
    /// Seq of the entry or range delete that superseded it; its own seq for a tombstone that is
    /// no longer needed.
    pub(crate) superseded_by: Seq,
    /// Whether that is a range delete: nothing newer of its key need be in any index.
    pub(crate) is_covered: bool,
}

/// A version that was judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged<'a> {
    /// Its seq.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its value, operand or handle.
    pub(crate) value: &'a [u8],
    /// Whether something newer has superseded it for every snapshot.
    pub(crate) is_superseded: bool,
}

/// Watches one flush or (sub-)compaction: the seam through which value strategies learn what died
/// and mend what survives. Its sections go into the same manifest edit.
pub(crate) trait Listener: Send {
    /// An entry dies.
    fn dead(&mut self, dead: Dead<'_>);
    /// A separated entry survives; returns what to store instead, if that is something else.
    fn survivor(&mut self, key: &[u8], seq: Seq, handle: &[u8]) -> Option<Mended>;
    /// Whether a bottom-level tombstone must stay, because older deltas may exist (rule S4).
    fn keeps_tombstone(&mut self, key: &[u8], seq: Seq) -> bool;
    /// Whether it wants to hear of every version that is judged, and where a key ends.
    fn wants_versions(&self) -> bool {
        false
    }
    /// The next version of a key, from newest to oldest, lives or dies. Comes before what
    /// [`Listener::dead`] or [`Listener::survivor`] say of it.
    fn version(&mut self, _version: &Judged<'_>) {}
    /// All versions of a key that there are have been judged.
    fn key_ended(&mut self, _key: &[u8]) {}
    /// An operand survives that nothing newer decides, in an index that combines none.
    fn operand(&mut self, _key: &[u8], _seq: Seq) {}
    /// Whether survivors are to come through [`Listener::order`] before they are written.
    fn orders(&self) -> bool {
        false
    }
    /// Survivors, in their order, whose separated values may be put in the same order: what is to
    /// be stored instead takes the place of the handle. Only for the last level, where all
    /// versions of a key meet.
    fn order(&mut self, _entries: &mut [Passing]) -> Result<()> {
        Ok(())
    }
    /// Facts to commit with the edit, and files the listener wrote.
    fn finish(&mut self) -> Result<Vec<Section>>;
}

/// What is stored in the place of a separated entry that survives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mended {
    /// The handle of where its record has moved.
    Handle(Vec<u8>),
    /// The key alone: a map knows the rest.
    Bare,
}

impl Mended {
    /// Kind and value of the entry.
    pub(crate) fn entry(self) -> (Kind, Vec<u8>) {
        match self {
            Self::Handle(handle) => (Kind::PutSeparated, handle),
            Self::Bare => (Kind::PutBare, Vec::new()),
        }
    }
}

/// Makes a listener for each flush and each part of a compaction.
pub(crate) trait ListenerFactory: Send + Sync {
    /// A fresh listener.
    fn listener(&self, keyspace: KeyspaceId) -> Box<dyn Listener>;
}

/// A change that is ready on disk but visible to nobody. Dropping it uninstalled must leave only
/// files that the index itself queues for removal.
pub(crate) struct Prepared {
    /// What goes into the manifest edit.
    pub(crate) sections: Vec<Section>,
    /// The index's own description of the change.
    pub(crate) change: Box<dyn Any + Send>,
    /// Figures for events and statistics.
    pub(crate) report: WorkReport,
}

/// What a flush or compaction did.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkReport {
    /// "flush", "compaction", "trivial move".
    pub(crate) kind: &'static str,
    /// Why it was chosen.
    pub(crate) reason: String,
    /// Level read from and written to.
    pub(crate) levels: (usize, usize),
    /// Parts that ran side by side.
    pub(crate) parts: usize,
    /// Bytes read.
    pub(crate) bytes_read: u64,
    /// Bytes written.
    pub(crate) bytes_written: u64,
    /// Entries read.
    pub(crate) entries_in: u64,
    /// Entries written.
    pub(crate) entries_out: u64,
}

/// What background work needs to know at the moment it starts.
pub(crate) struct JobContext {
    /// Live snapshots, ascending, read after the inputs were chosen.
    pub(crate) stripes: Vec<Seq>,
    /// Makes the listeners.
    pub(crate) listeners: Arc<dyn ListenerFactory>,
    /// Set when the database closes: stop early with an error of kind `Closed`.
    pub(crate) cancelled: Arc<crate::base::sync::atomic::AtomicBool>,
}

/// A chosen piece of background work. Its inputs are reserved until it is dropped.
pub(crate) trait IndexJob: Send {
    /// How urgent: 1.0 is "due"; the engine runs the highest first.
    fn score(&self) -> f64;
    /// Whether it hands survivors to [`Listener::order`], where the listener wants them.
    fn orders(&self) -> bool {
        false
    }
    /// Whether reads gain by it at once what it takes, so that it need not stand back for them.
    fn is_awaited(&self) -> bool {
        false
    }
    /// Does it, off to the side. Calls `fork_join` of the executor for parts that can run side by
    /// side.
    fn run(&mut self, context: &JobContext) -> Result<Prepared>;
}

/// How far background work lags behind: drives pacing of writers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Backlog {
    /// Sorted runs in level 0.
    pub(crate) level0_runs: usize,
    /// Bytes that compaction must rewrite to be back in shape.
    pub(crate) pending_bytes: u64,
}

/// Shape of one level, for statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelSpace {
    /// Number of the level.
    pub(crate) level: usize,
    /// Files in it.
    pub(crate) files: usize,
    /// Their bytes on disk.
    pub(crate) bytes: u64,
    /// The level's target, 0 where there is none.
    pub(crate) target_bytes: u64,
    /// Entries.
    pub(crate) entries: u64,
}

/// What an index occupies.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexSpace {
    /// Level by level.
    pub(crate) levels: Vec<LevelSpace>,
    /// Bytes of all files.
    pub(crate) disk_bytes: u64,
    /// Estimate of key and value bytes of the newest versions (entries of the bottom run plus
    /// what lies above, dead versions and tombstones taken off).
    pub(crate) live_bytes: u64,
    /// Entries in all files.
    pub(crate) entries: u64,
    /// Entries that range deletes in newer files may cover, at most.
    pub(crate) covered_entries: u64,
    /// Parts of compactions that ran side by side with another part.
    pub(crate) parallel_parts: u64,
    /// Files moved down without rewriting.
    pub(crate) trivial_moves: u64,
}

/// A file that the database is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRecord {
    /// Kind of the file.
    pub(crate) kind: FileKind,
    /// Its number.
    pub(crate) id: FileId,
    /// Exact length (rule F4).
    pub(crate) bytes: u64,
    /// Checksum of the whole file (rule F4).
    pub(crate) checksum: u32,
}

/// Told what `verify` finds.
pub(crate) trait VerifySink {
    /// Bytes of a file that were read and proved in this step.
    fn checked(&mut self, file: FileId, bytes: u64);
    /// So many files and entries were read.
    fn read(&mut self, files: u64, entries: u64);
    /// A finding; verification goes on.
    fn problem(&mut self, error: crate::base::error::Error);
}

/// How a cursor reads.
#[derive(Clone, Debug)]
pub(crate) struct CursorOptions {
    /// Bounds known in advance: limits which files are opened and read ahead.
    pub(crate) range: KeyRange,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
    /// Whether blocks read go into the cache.
    pub(crate) fill_cache: bool,
}

/// One key of a `multi_get`.
pub(crate) struct KeyLookup<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// Its hash.
    pub(crate) hash: u64,
    /// Where the outcome is collected; decided lookups are skipped.
    pub(crate) lookup: Lookup,
}

/// What is kept of a key's operands apart from its index, on its way to memory.
pub(crate) trait ApartUnderWay {
    /// Waits for it, and adds it to the lookup that met the key's base, which had so many operands
    /// before the index was asked.
    fn finish(self: Box<Self>, operands_before: usize, lookup: &mut Lookup) -> Result<()>;
}

/// The same, boxed.
pub(crate) type BoxApart<'k> = Box<dyn ApartUnderWay + 'k>;

/// The same for many keys.
pub(crate) trait ManyApartUnderWay {
    /// Waits for it, and adds it to the lookups, which come in the order in which their keys were
    /// asked for, each with how many operands it had before the index was asked.
    fn finish(
        self: Box<Self>,
        lookups: &mut dyn Iterator<Item = (usize, &mut Lookup)>,
    ) -> Result<()>;
}

/// The same, boxed.
pub(crate) type BoxManyApart<'k> = Box<dyn ManyApartUnderWay + 'k>;

/// A frozen state of an index. Everything it names stays readable while it lives.
pub(crate) trait IndexView: Send + Sync {
    /// Offers the versions of `key` to the lookup, from newest to oldest, until it is decided.
    fn get(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()>;
    /// The same for many keys, all block reads of a round submitted together.
    fn multi_get(&self, keys: &mut [KeyLookup<'_>]) -> Result<()>;
    /// The same as [`IndexView::get`] without what is kept apart.
    fn get_base(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        self.get(key, hash, lookup)
    }
    /// Begins to read what is kept of a key's operands apart from the index, so that it comes to
    /// memory together with the key's base; none where nothing is kept.
    fn begin_apart<'k>(&'k self, _key: &'k [u8], _snapshot: Seq) -> Result<Option<BoxApart<'k>>> {
        Ok(None)
    }
    /// The same as [`IndexView::multi_get`] without what is kept apart.
    fn multi_get_base(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        self.multi_get(keys)
    }
    /// [`IndexView::begin_apart`] for many keys, each at its snapshot, with one submission.
    fn begin_many_apart<'k>(
        &'k self,
        _keys: &mut dyn Iterator<Item = (&'k [u8], Seq)>,
    ) -> Result<Option<BoxManyApart<'k>>> {
        Ok(None)
    }
    /// Cursors that together walk all versions of all keys (range deletes left out). Not
    /// positioned. For who merges them with others: one merge costs less than one of another.
    fn cursors(&self, options: &CursorOptions) -> Result<Vec<BoxCursor>>;
    /// The same as one cursor.
    fn cursor(&self, options: &CursorOptions) -> Result<BoxCursor> {
        let mut cursors = self.cursors(options)?;
        match cursors.pop() {
            Some(only) if cursors.is_empty() => Ok(only),
            last => {
                cursors.extend(last);
                Ok(Box::new(MergingCursor::new(cursors)))
            }
        }
    }
    /// All range tombstones that may touch the range; cached per view, empty in the usual case.
    fn tombstones(&self) -> Result<Arc<Fragments>>;
    /// Seq of the newest range tombstone over `key` that `snapshot` sees; 0 for none. For whoever
    /// knows of an entry without having asked for it.
    fn cover(&self, key: &[u8], snapshot: Seq) -> Result<Seq>;
    /// Files of this view.
    fn files(&self) -> Vec<FileRecord>;
    /// Largest seq in any of its files; 0 for no files.
    fn largest_seq(&self) -> Seq;
    /// Shape and size.
    fn space(&self) -> IndexSpace;
    /// About the bytes of memory that it holds for good, what tables and blocks take left out.
    fn memory_bytes(&self) -> u64 {
        0
    }
    /// Checks every byte and every invariant of this view.
    fn verify(&self, sink: &mut dyn VerifySink);
}

/// An ordered index of one keyspace.
pub(crate) trait OrderedIndex: Send + Sync {
    /// The state in force.
    fn view(&self) -> Arc<dyn IndexView>;
    /// The same without what stands beside its entries: the same one while these do not change.
    fn view_of_entries(&self) -> Arc<dyn IndexView> {
        self.view()
    }
    /// Writes a flush's files. Flushes of one index are prepared and installed one at a time.
    fn apply_flush(&self, input: FlushInput<'_>) -> Result<Prepared>;
    /// Chooses due background work, reserving its inputs; `None` when the index is in shape.
    fn pick_job(&self) -> Option<Box<dyn IndexJob>>;
    /// The job among them that gives room on the disk back and takes little of it: what is done
    /// first while the disk is full.
    fn pick_reclaim(&self) -> Option<Box<dyn IndexJob>> {
        None
    }
    /// Publishes a durable change. Called once per prepared change, in manifest order.
    fn install(&self, change: Box<dyn Any + Send>) -> Result<()>;
    /// The buckets beside the index have changed, durably.
    fn buckets_changed(&self) {}
    /// Asks that everything in the range be compacted to the bottom, and, if `orders`, that what
    /// the entries there name be put in their order; returns a ticket.
    fn request_compaction(&self, range: KeyRange, orders: bool) -> u64;
    /// Whether the request is fulfilled.
    fn compaction_done(&self, ticket: u64) -> bool;
    /// How far behind background work is.
    fn backlog(&self) -> Backlog;
    /// Whether reads have left work that is worth a job, which nobody else tells of.
    fn reads_want_work(&self) -> bool {
        false
    }
    /// Nobody has written for a while, or somebody waits until nothing is due: time for what makes
    /// reads cheaper. Whether there is some of that to do.
    fn note_quiet(&self) -> bool {
        false
    }
    /// The clock says so; whether the time that has passed makes work due. Told now and then.
    fn note_time(&self, _now: Duration) -> bool {
        false
    }
    /// The whole state as sections, for a fresh manifest.
    fn snapshot_sections(&self) -> Vec<Section>;
    /// Lowest seq that must be replayed from the log although it is flushed; 0 for none. (The LSM
    /// has nothing of its own to replay; Flex has a logical log.)
    fn replay_floor(&self) -> Seq;
    /// The keyspace was dropped, durably: all its files go away with their last holder. Call again
    /// after a change that was installed later.
    fn retire(&self);
}

/// The keyspace that a section of an index (LSM, Flex or naive) belongs to.
pub(crate) fn section_keyspace(section: &Section) -> Result<KeyspaceId> {
    Reader::new(&section.payload).u32().map(KeyspaceId)
}
