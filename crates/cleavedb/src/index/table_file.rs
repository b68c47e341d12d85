//! A table file of an index: its keys and figures, and the pin that keeps it on disk.
//!
//! Shared by versions, views and cursors. Invariants: T1 a file that no durable edit names, or
//! that a durable edit dropped, is queued for removal when its last holder goes away (rule F7),
//! and no earlier. T2 a live file is never queued.

use std::cmp::Ordering as KeyOrder;

use crate::base::entry::{FileId, Seq};
use crate::base::names::FileKind;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::index::{FileRecord, KeyRange};
use crate::table::cache::AtHand;
use crate::table::meta::TableMeta;

/// The keys from `smallest` to `largest`, the latter left out if `exclusive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
    pub(crate) exclusive: bool,
}

impl Hull {
    /// Whether every key of this range lies below `key`.
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        if self.exclusive { &*self.largest <= key } else { &*self.largest < key }
    }

    /// Whether the two have keys in common.
    pub(crate) fn overlaps(&self, other: &Hull) -> bool {
        !self.ends_before(&other.smallest) && !other.ends_before(&self.smallest)
    }

    /// Whether the range has keys in common with [start, end).
    pub(crate) fn overlaps_range(&self, range: &KeyRange) -> bool {
        range.start.as_deref().is_none_or(|start| !self.ends_before(start))
            && range.end.as_deref().is_none_or(|end| &*self.smallest < end)
    }

    /// Grows to cover `other` as well.
    pub(crate) fn cover(&mut self, other: &Hull) {
        if other.smallest < self.smallest {
            self.smallest.clone_from(&other.smallest);
        }
        match other.largest.cmp(&self.largest) {
            KeyOrder::Less => {}
            KeyOrder::Equal => self.exclusive &= other.exclusive,
            KeyOrder::Greater => {
                self.largest.clone_from(&other.largest);
                self.exclusive = other.exclusive;
            }
        }
    }

    /// The range of all of these files; `None` for no file.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = &'a Arc<FileShape>>) -> Option<Hull> {
        let mut files = files.into_iter();
        let mut hull = files.next()?.hull.clone();
        files.for_each(|file| hull.cover(&file.hull));
        Some(hull)
    }
}

/// What decisions need to know of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileShape {
    pub(crate) id: FileId,
    pub(crate) bytes: u64,
    pub(crate) hull: Hull,
    pub(crate) entries: u64,
    /// Point deletes.
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) merges: u64,
    /// Entries that are not the newest of their key in this file.
    pub(crate) hidden: u64,
    pub(crate) smallest_seq: Seq,
    /// How many manual compactions had been asked for when the job that wrote it was chosen.
    pub(crate) tick: u64,
}

impl FileShape {
    /// Whether rewriting the file at the bottom could drop something.
    pub(crate) fn is_unclean(&self) -> bool {
        self.tombstones + self.range_tombstones + self.merges + self.hidden > 0
    }

    /// Whether the file holds mostly tombstones, or range deletes: it is worth pushing down.
    pub(crate) fn is_tombstone_heavy(&self) -> bool {
        self.range_tombstones > 0 || (self.tombstones > 0 && self.tombstones * 2 >= self.entries)
    }

    /// Bytes with a bonus for tombstones, which free more than they occupy.
    pub(crate) fn compensated_bytes(&self) -> u64 {
        let share =
            |part: u64| (self.bytes as f64 * part as f64 / self.entries.max(1) as f64) as u64;
        let ranges = if self.range_tombstones > 0 { 2 * self.bytes } else { 0 };
        self.bytes + 2 * share(self.tombstones.min(self.entries)) + ranges
    }
}

/// A table of an index. Starts out doomed: it goes away with its last holder unless a durable
/// edit names it.
pub(crate) struct TableFile {
    pub(crate) meta: TableMeta,
    pub(crate) shape: Arc<FileShape>,
    /// Its reader while it is open.
    pub(crate) at_hand: Arc<AtHand>,
    doomed: AtomicBool,
    obsolete: Arc<ObsoleteFiles>,
}

impl TableFile {
    /// A finished table that no edit names yet. `hidden` and `tick` as in [`FileShape`].
    pub(crate) fn new(
        meta: TableMeta,
        hidden: u64,
        tick: u64,
        obsolete: Arc<ObsoleteFiles>,
    ) -> Arc<Self> {
        let shape = FileShape {
            id: meta.file,
            bytes: meta.bytes,
            hull: Hull {
                smallest: meta.smallest.clone(),
                largest: meta.largest.clone(),
                exclusive: meta.largest_exclusive,
            },
            entries: meta.entries,
            tombstones: meta.tombstones,
            range_tombstones: meta.range_tombstones,
            merges: meta.merges,
            hidden,
            smallest_seq: meta.smallest_seq,
            tick,
        };
        let doomed = AtomicBool::new(true);
        let at_hand = Arc::new(AtHand::default());
        Arc::new(Self { meta, shape: Arc::new(shape), at_hand, doomed, obsolete })
    }

    /// A durable edit names the file.
    pub(crate) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// A durable edit dropped the file: it goes away with its last holder.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.meta.file
    }

    /// Its keys.
    pub(crate) fn hull(&self) -> &Hull {
        &self.shape.hull
    }

    /// What the database's list of files says of it.
    pub(crate) fn record(&self) -> FileRecord {
        FileRecord {
            kind: FileKind::Table,
            id: self.meta.file,
            bytes: self.meta.bytes,
            checksum: self.meta.checksum,
        }
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            self.obsolete.push(FileKind::Table, self.meta.file);
        }
    }
}
