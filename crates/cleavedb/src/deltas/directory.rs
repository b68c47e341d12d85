//! The directory of buckets: from a key to the bucket of its range. An immutable snapshot: the
//! engine makes the next one from an edit, makes the edit durable, then publishes it; a view pins
//! one, and a clone costs nothing.
//!
//! A sorted list in leaves of up to 64 buckets, with the first bytes of each start beside it: a
//! look-up compares integers and rarely a key, and an edit copies the leaves it changes and
//! the list of leaves. Invariants: DD-1 starts ascend strictly, and the first one is the lowest
//! bound. DD-2 a bucket's range ends where the next one begins: so every key has exactly one
//! bucket, once there is any. DD-3 an edit that contradicts the directory is refused as a whole.
//! DD-4 no leaf is empty.

use std::cmp::Ordering;

use crate::base::entry::{FileId, KeyspaceId, key_prefix};
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::deltas::bucket::file::{BucketFile, DeltaContext};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::edit::{Appended, DeltasEdit, RemovedBucket};
use crate::deltas::record::{Bound, OwnedBound};

/// Most buckets of a leaf.
const LEAF_BUCKETS_MAX: usize = 64;

/// A bucket, and how its start begins.
#[derive(Clone)]
struct Entry {
    keyspace: KeyspaceId,
    prefix: u64,
    bucket: Arc<Bucket>,
}

impl Entry {
    fn new(bucket: Arc<Bucket>) -> Self {
        let start = &bucket.info().start;
        Self { keyspace: start.keyspace, prefix: key_prefix(&start.key), bucket }
    }

    /// Compares the start with a bound whose prefix is known.
    fn compare(&self, bound: Bound<'_>, prefix: u64) -> Ordering {
        (self.keyspace.cmp(&bound.keyspace))
            .then_with(|| self.prefix.cmp(&prefix))
            .then_with(|| self.bucket.info().start.as_ref().cmp(&bound))
    }
}

/// Some neighbours; the first one's start decides, so it stands outside.
#[derive(Clone)]
struct Leaf {
    first: Entry,
    entries: Arc<Vec<Entry>>,
}

/// All buckets. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Directory {
    leaves: Arc<Vec<Leaf>>,
    buckets: usize,
    bytes: u64,
}

/// Where in a directory a bucket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    leaf: usize,
    slot: usize,
}

/// A directory after edits that are not durable yet.
pub(crate) struct Changed {
    directory: Directory,
    added: Vec<Arc<BucketFile>>,
    removed: Vec<Arc<BucketFile>>,
}

impl Changed {
    /// The directory.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The edits are durable: files that they name stay on disk, those that they dropped go away
    /// with their last holder.
    pub(crate) fn settle(self) -> Directory {
        self.added.iter().for_each(|file| file.keep());
        self.removed.iter().for_each(|file| file.doom());
        self.directory
    }
}

impl Directory {
    /// Number of buckets.
    pub(crate) fn len(&self) -> usize {
        self.buckets
    }

    /// Committed bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory of the directory and of what its buckets hold without index and filters: what the
    /// number of buckets costs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.len() * size_of::<Leaf>();
        let entries = self.buckets * size_of::<Entry>();
        let buckets: u64 = self.iter().map(|bucket| bucket.bare_bytes()).sum();
        (leaves + entries) as u64 + buckets
    }

    /// All buckets, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Bucket>> {
        self.leaves.iter().flat_map(|leaf| leaf.entries.iter().map(|entry| &entry.bucket))
    }

    /// Where the bucket of a key stands; none if there is no bucket at all.
    pub(crate) fn position(&self, bound: Bound<'_>) -> Option<Position> {
        let prefix = key_prefix(bound.key);
        let above = |entry: &Entry| entry.compare(bound, prefix).is_gt();
        let leaf = self.leaves.partition_point(|leaf| !above(&leaf.first)).saturating_sub(1);
        let entries = &self.leaves.get(leaf)?.entries;
        let slot = entries.partition_point(|entry| !above(entry)).saturating_sub(1);
        Some(Position { leaf, slot })
    }

    /// The bucket at a position.
    pub(crate) fn at(&self, position: Position) -> Option<&Arc<Bucket>> {
        let entry = self.leaves.get(position.leaf)?.entries.get(position.slot)?;
        Some(&entry.bucket)
    }

    /// The bucket of a key.
    pub(crate) fn find(&self, bound: Bound<'_>) -> Option<&Arc<Bucket>> {
        self.position(bound).and_then(|position| self.at(position))
    }

    /// The first position.
    pub(crate) fn first(&self) -> Option<Position> {
        (!self.leaves.is_empty()).then_some(Position { leaf: 0, slot: 0 })
    }

    /// The last position.
    pub(crate) fn last(&self) -> Option<Position> {
        let leaf = self.leaves.len().checked_sub(1)?;
        let slot = self.leaves.get(leaf)?.entries.len().checked_sub(1)?;
        Some(Position { leaf, slot })
    }

    /// The position behind.
    pub(crate) fn next(&self, Position { leaf, slot }: Position) -> Option<Position> {
        if slot + 1 < self.leaves.get(leaf)?.entries.len() {
            return Some(Position { leaf, slot: slot + 1 });
        }
        (leaf + 1 < self.leaves.len()).then_some(Position { leaf: leaf + 1, slot: 0 })
    }

    /// The position before.
    pub(crate) fn previous(&self, Position { leaf, slot }: Position) -> Option<Position> {
        if let Some(slot) = slot.checked_sub(1) {
            return Some(Position { leaf, slot });
        }
        let leaf = leaf.checked_sub(1)?;
        Some(Position { leaf, slot: self.leaves.get(leaf)?.entries.len().checked_sub(1)? })
    }

    /// Where the range of the bucket at a position ends; none for the last one.
    pub(crate) fn end_of(&self, position: Position) -> Option<&OwnedBound> {
        let next = self.next(position)?;
        Some(&self.at(next)?.info().start)
    }

    /// The edits that make this directory out of an empty one.
    pub(crate) fn snapshot(&self) -> Vec<DeltasEdit> {
        let added: Vec<BucketInfo> = self.iter().map(|bucket| bucket.info().clone()).collect();
        let Some(start) = added.first().map(|first| first.start.clone()) else { return Vec::new() };
        vec![DeltasEdit::Replaced { start, removed: Vec::new(), added }]
    }

    /// The directory after some edits, in their order. `made` are the buckets that whoever made
    /// the edits has in memory; of others only the manifest's facts are known.
    pub(crate) fn apply(
        &self,
        context: &Arc<DeltaContext>,
        edits: &[DeltasEdit],
        made: &[Arc<Bucket>],
    ) -> Result<Changed> {
        let directory = self.clone();
        let mut changed = Changed { directory, added: Vec::new(), removed: Vec::new() };
        for edit in edits {
            match edit {
                DeltasEdit::Appended(appended) => changed.directory.append(appended, made)?,
                DeltasEdit::Replaced { start, removed, added } => {
                    let bucket_of = |info: &BucketInfo| {
                        let is_it = |bucket: &&Arc<Bucket>| bucket.info() == info;
                        made.iter().find(is_it).cloned().unwrap_or_else(|| {
                            Arc::new(Bucket::new(info.clone(), BucketFile::new(context, info.id)))
                        })
                    };
                    let buckets: Vec<_> = added.iter().map(bucket_of).collect();
                    changed.replace(start, removed, buckets)?;
                }
            }
        }
        Ok(changed)
    }

    /// Refuses two buckets in one file: what no edit alone can show, and an open asks once.
    pub(crate) fn check(&self) -> Result<()> {
        let mut ids: Vec<FileId> = self.iter().map(|bucket| bucket.info().id).collect();
        ids.sort_unstable();
        match ids.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first())) {
            Some(Some(id)) => Err(Error::corruption(format!("bucket {id} is there twice"))),
            _ => Ok(()),
        }
    }

    /// The bucket that begins exactly here.
    fn starting_at(&self, start: &OwnedBound) -> Option<(Position, &Arc<Bucket>)> {
        let position = self.position(start.as_ref())?;
        let bucket = self.at(position)?;
        (bucket.info().start == *start).then_some((position, bucket))
    }

    fn append(&mut self, appended: &Appended, made: &[Arc<Bucket>]) -> Result<()> {
        let Some((position, bucket)) = self.starting_at(&appended.start) else {
            return Err(refused(appended.id, "grows and is not there"));
        };
        let info = bucket.info();
        let follows = info.id == appended.id
            && info.bytes == appended.bytes_before
            && info.applied_seq < appended.applied_seq;
        if !follows {
            return Err(refused(appended.id, "grows from what it is not"));
        }
        let info = BucketInfo {
            bytes: info.bytes + appended.bytes,
            checksum: appended.checksum,
            applied_seq: appended.applied_seq,
            records: info.records.saturating_add(appended.records),
            ..info.clone()
        };
        let is_it = |other: &&Arc<Bucket>| *other.info() == info;
        let next = made.iter().find(is_it).filter(|other| Arc::ptr_eq(other.file(), bucket.file()));
        let next = next
            .cloned()
            .unwrap_or_else(|| Arc::new(Bucket::new(info.clone(), Arc::clone(bucket.file()))));
        self.bytes += u64::from(appended.bytes);
        let leaf = Arc::make_mut(&mut self.leaves).get_mut(position.leaf);
        if let Some(leaf) = leaf {
            let entries = Arc::make_mut(&mut leaf.entries);
            if let Some(entry) = entries.get_mut(position.slot) {
                entry.bucket = next;
            }
            leaf.first = entries.first().cloned().unwrap_or_else(|| leaf.first.clone());
        }
        Ok(())
    }

    /// Takes out `removed` entries from a position on and puts others there.
    fn splice(&mut self, at: Position, removed: usize, added: Vec<Arc<Bucket>>) {
        self.buckets = self.buckets + added.len() - removed;
        let leaves = Arc::make_mut(&mut self.leaves);
        let mut entries: Vec<Entry> = Vec::new();
        // The leaves that hold what goes, all in one, and the next one to fill what is left thin.
        let mut end = at.leaf;
        while let Some(leaf) = leaves.get(end) {
            entries.extend(leaf.entries.iter().cloned());
            end += 1;
            if entries.len() >= at.slot + removed && entries.len() - removed >= LEAF_BUCKETS_MAX / 4
            {
                break;
            }
        }
        let from = at.slot.min(entries.len());
        let to = (at.slot + removed).min(entries.len());
        entries.splice(from..to, added.into_iter().map(Entry::new));
        let pieces = entries.len().div_ceil(LEAF_BUCKETS_MAX).max(1);
        let length = entries.len().div_ceil(pieces).max(1);
        let made = entries.chunks(length).filter_map(|piece| {
            let first = piece.first()?.clone();
            Some(Leaf { first, entries: Arc::new(piece.to_vec()) })
        });
        leaves.splice(at.leaf.min(leaves.len())..end.min(leaves.len()), made.collect::<Vec<_>>());
    }
}

impl Changed {
    fn replace(
        &mut self,
        start: &OwnedBound,
        removed: &[RemovedBucket],
        added: Vec<Arc<Bucket>>,
    ) -> Result<()> {
        let directory = &mut self.directory;
        let id = removed.first().map(|bucket| bucket.id);
        let id = id.or_else(|| added.first().map(|bucket| bucket.info().id)).unwrap_or(FileId(0));
        let at = match removed {
            [] if directory.buckets == 0 && *start == OwnedBound::lowest() => {
                Position { leaf: 0, slot: 0 }
            }
            [] => return Err(refused(id, "is added where others are")),
            _ => match directory.starting_at(start) {
                Some((position, _)) => position,
                None => return Err(refused(id, "is replaced and is not there")),
            },
        };
        let (mut position, mut gone) = (Some(at), Vec::new());
        for wanted in removed {
            let bucket = position.and_then(|position| directory.at(position));
            let found = bucket.filter(|bucket| {
                (bucket.info().id, bucket.info().bytes) == (wanted.id, wanted.bytes)
            });
            let Some(bucket) = found else {
                return Err(refused(wanted.id, "is replaced as what it is not"));
            };
            gone.push(Arc::clone(bucket.file()));
            directory.bytes -= u64::from(wanted.bytes);
            position = position.and_then(|position| directory.next(position));
        }
        let end = if removed.is_empty() { None } else { position };
        let end = end.and_then(|end| directory.at(end)).map(|bucket| &bucket.info().start);
        // Nobody would be left whose range reaches down to the lowest key (DD-1).
        let leaves_a_gap = added.is_empty() && end.is_some() && *start == OwnedBound::lowest();
        let mut starts = added.iter().map(|bucket| &bucket.info().start);
        let fits = !leaves_a_gap
            && starts.clone().next().is_none_or(|first| first == start)
            && starts.clone().is_sorted_by(|a, b| a < b)
            && starts.next_back().is_none_or(|last| end.is_none_or(|end| last < end));
        if !fits {
            return Err(refused(id, "is replaced by what lies elsewhere"));
        }
        directory.bytes += added.iter().map(|new| u64::from(new.info().bytes)).sum::<u64>();
        self.added.extend(added.iter().map(|bucket| Arc::clone(bucket.file())));
        self.removed.append(&mut gone);
        self.directory.splice(at, removed.len(), added);
        Ok(())
    }
}

fn refused(id: FileId, what: &str) -> Error {
    Error::corruption(format!("bucket {id} {what}"))
}

#[cfg(test)]
mod tests;
