//! The newest entries of all keyspaces, in memory: a skip list, and range tombstones beside it.
//!
//! Any thread may call anything at any time; nothing is ever removed, and cursors keep the
//! memtable alive by `Arc`. Invariants: B1 a read that starts after an insertion returned sees it.
//! B2 reads take no lock as long as no range delete was inserted, and only a shared one after the
//! fragments have been brought up to date. B3 once full and frozen (nobody inserts any more), all
//! answers stay the same for ever.

use std::ptr::NonNull;

use crate::base::cursor::{Cursor, Head};
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::base::value::Value;
use crate::memory::memtable::filter::Filter;
use crate::memory::memtable::range_deletes::RangeDeletes;
use crate::memory::skip_list::{Header, Inserted, Node, SkipList, Target};

#[cfg(all(test, not(shuttle)))]
mod costs;
mod filter;
mod range_deletes;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(shuttle)))]
mod tests;

/// One memtable.
pub(crate) struct Memtable {
    id: u64,
    list: SkipList,
    filter: Filter,
    range_deletes: RangeDeletes,
    counts: crossbeam_utils::CachePadded<Counts>,
}

/// Figures over all insertions.
struct Counts {
    /// Entries, range deletes included.
    entries: AtomicU64,
    /// Bytes of keys and values as the user gave them.
    user_bytes: AtomicU64,
    /// Smallest seq inserted; `u64::MAX` while there is none.
    first_seq: AtomicU64,
    /// Largest seq inserted.
    last_seq: AtomicU64,
    /// Puts of separated values, and how many of them a newer entry here supersedes.
    separated: AtomicU64,
    superseded: AtomicU64,
    /// Whether there is a merge operand.
    has_operands: AtomicBool,
}

impl Counts {
    fn note(&self, seq: Seq, user_bytes: usize) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.user_bytes.fetch_add(user_bytes as u64, Ordering::Relaxed);
        if seq < self.first_seq.load(Ordering::Relaxed) {
            self.first_seq.fetch_min(seq, Ordering::Relaxed);
        }
        if seq > self.last_seq.load(Ordering::Relaxed) {
            self.last_seq.fetch_max(seq, Ordering::Relaxed);
        }
    }
}

impl Memtable {
    /// An empty memtable; `id` is for its owner's use. It may grow beyond `bytes`, but finds out
    /// less quickly then what it does not hold.
    pub(crate) fn new(id: u64, bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            list: SkipList::new(),
            filter: Filter::new(bytes),
            range_deletes: RangeDeletes::new(),
            counts: crossbeam_utils::CachePadded::new(Counts {
                entries: AtomicU64::new(0),
                user_bytes: AtomicU64::new(0),
                first_seq: AtomicU64::new(u64::MAX),
                last_seq: AtomicU64::new(0),
                separated: AtomicU64::new(0),
                superseded: AtomicU64::new(0),
                has_operands: AtomicBool::new(false),
            }),
        })
    }

    /// The number given by the owner.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Adds an entry; an entry of the same (keyspace, key, seq) that is there already stays as it
    /// is. Key at most 64 KiB less one byte, value below 4 GiB. Range deletes go to
    /// [`Memtable::insert_range_delete`].
    pub(crate) fn insert(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: Seq,
        kind: Kind,
        value: &[u8],
    ) {
        self.insert_over(keyspace, key, seq, kind, value);
    }

    /// As [`Memtable::insert`]; says what kind of entry and what value the next older version of
    /// the key has here, if there is one.
    pub(crate) fn insert_over(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: Seq,
        kind: Kind,
        value: &[u8],
    ) -> Option<(Kind, &[u8])> {
        debug_assert!(kind != Kind::RangeDelete, "range deletes are not entries of the list");
        if kind == Kind::Merge && !self.counts.has_operands.load(Ordering::Relaxed) {
            self.counts.has_operands.store(true, Ordering::Relaxed);
        }
        self.filter.add(keyspace, key);
        let Inserted::Before(after) = self.list.insert(keyspace, key, seq, kind, value) else {
            return None;
        };
        self.counts.note(seq, key.len() + value.len());
        if kind == Kind::PutSeparated {
            self.counts.separated.fetch_add(1, Ordering::Relaxed);
        }
        let older = after.filter(|node| node.keyspace() == keyspace.0 && node.key() == key)?;
        if older.kind() == Kind::PutSeparated {
            self.counts.superseded.fetch_add(1, Ordering::Relaxed);
        }
        Some((older.kind(), older.value()))
    }

    /// Deletes all keys in [`start`, `end`) with a seq below `seq`. An empty range deletes
    /// nothing, but its seq counts as inserted.
    pub(crate) fn insert_range_delete(
        &self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        seq: Seq,
    ) {
        if start < end {
            self.range_deletes.insert(keyspace, start, end, seq);
        }
        self.counts.note(seq, start.len() + end.len());
    }

    /// Offers all visible versions of a key to the lookup; true when it is decided.
    pub(crate) fn get(&self, keyspace: KeyspaceId, key: &[u8], lookup: &mut Lookup) -> bool {
        let at = match self.filter.may_hold(keyspace, key) {
            true => self.list.seek(&Target::new(keyspace, key, lookup.snapshot)),
            false => None,
        };
        self.offer_from(at, keyspace, key, lookup)
    }

    /// As [`Memtable::get`], for many keys of a keyspace; decided lookups are skipped.
    pub(crate) fn get_many(
        &self,
        keyspace: KeyspaceId,
        keys: &mut dyn Iterator<Item = (&[u8], &mut Lookup)>,
    ) {
        let mut open: Vec<_> = keys.filter(|(_, lookup)| lookup.found.is_none()).collect();
        let may_hold = self.filter.may_hold_each(keyspace, open.iter().map(|(key, _)| *key));
        let mut may_hold = may_hold.into_iter();
        open.retain_mut(|(key, lookup)| {
            let may_hold = may_hold.next().unwrap_or(true);
            if !may_hold {
                self.offer_from(None, keyspace, key, lookup);
            }
            may_hold
        });
        let targets: Vec<_> =
            open.iter().map(|(key, lookup)| Target::new(keyspace, key, lookup.snapshot)).collect();
        let mut lookups = open.iter_mut();
        self.list.seek_many(targets.into_iter(), &mut |at| {
            if let Some((key, lookup)) = lookups.next() {
                self.offer_from(at, keyspace, key, lookup);
            }
        });
    }

    /// Offers the versions of a key from a place on.
    fn offer_from<'a>(
        &'a self,
        mut at: Option<Node<'a>>,
        keyspace: KeyspaceId,
        key: &[u8],
        lookup: &mut Lookup,
    ) -> bool {
        lookup.cover(self.range_deletes.cover_seq(keyspace, key, lookup.snapshot));
        while let Some(node) = at
            && node.keyspace() == keyspace.0
            && node.key() == key
        {
            if lookup.offer(node.seq(), node.kind(), || Value::copy_from(node.value())) {
                return true;
            }
            at = self.list.next(node);
        }
        lookup.end_source()
    }

    /// Has the processor's caches fetch what insertions at these keys will look at, all together.
    pub(crate) fn fetch_places<'k>(&self, keys: impl Iterator<Item = (KeyspaceId, &'k [u8])>) {
        let targets = keys.map(|(keyspace, key)| {
            self.filter.fetch(keyspace, key);
            Target::new(keyspace, key, SEQ_MAX)
        });
        self.list.seek_many(targets, &mut |_| {});
    }

    /// The newest seq of any version of a key, range deletes over it included; 0 for none.
    pub(crate) fn newest_seq(&self, keyspace: KeyspaceId, key: &[u8]) -> Seq {
        let cover = self.range_deletes.cover_seq(keyspace, key, SEQ_MAX);
        if !self.filter.may_hold(keyspace, key) {
            return cover;
        }
        match self.list.seek(&Target::new(keyspace, key, SEQ_MAX)) {
            Some(node) if node.keyspace() == keyspace.0 && node.key() == key => {
                cover.max(node.seq())
            }
            _ => cover,
        }
    }

    /// Whether any keyspace has a merge operand.
    pub(crate) fn has_operands(&self) -> bool {
        self.counts.has_operands.load(Ordering::Relaxed)
    }

    /// A cursor over the entries of one keyspace, range deletes left out. It sees entries that
    /// are inserted while it walks, where it has not been yet.
    pub(crate) fn cursor(self: &Arc<Self>, keyspace: KeyspaceId) -> MemtableCursor {
        MemtableCursor { memtable: Arc::clone(self), keyspace, at: None }
    }

    /// Keyspaces with entries or range deletes, ascending.
    pub(crate) fn keyspaces(&self) -> Vec<KeyspaceId> {
        let mut found = self.range_deletes.keyspaces();
        let mut at = self.list.seek(&Target::new(KeyspaceId(0), &[], SEQ_MAX));
        while let Some(node) = at {
            found.push(KeyspaceId(node.keyspace()));
            at = node
                .keyspace()
                .checked_add(1)
                .and_then(|next| self.list.seek(&Target::new(KeyspaceId(next), &[], SEQ_MAX)));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Fragments of all range deletes of a keyspace; shared, and empty in the usual case.
    pub(crate) fn fragments(&self, keyspace: KeyspaceId) -> Arc<Fragments> {
        self.range_deletes.fragments(keyspace)
    }

    /// All range deletes of a keyspace, ordered by (start, seq descending).
    pub(crate) fn tombstones(&self, keyspace: KeyspaceId) -> Vec<RangeTombstone> {
        self.range_deletes.fragments(keyspace).tombstones()
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let bytes =
            size_of::<Self>() + self.list.memory_bytes() + self.range_deletes.memory_bytes();
        (bytes + self.filter.memory_bytes()) as u64
    }

    /// Number of entries, range deletes included.
    pub(crate) fn entries(&self) -> u64 {
        self.counts.entries.load(Ordering::Relaxed)
    }

    /// Puts of separated values, and how many of them a newer entry of the key, no range delete,
    /// supersedes here, but for those that came in after the newer one.
    pub(crate) fn separated(&self) -> (u64, u64) {
        let counts = &self.counts;
        (counts.separated.load(Ordering::Relaxed), counts.superseded.load(Ordering::Relaxed))
    }

    /// Whether there are range deletes in it.
    pub(crate) fn has_range_deletes(&self) -> bool {
        self.range_deletes.count() > 0
    }

    /// Whether nothing was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Bytes of keys and values inserted.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.counts.user_bytes.load(Ordering::Relaxed)
    }

    /// Smallest seq inserted; `u64::MAX` while there is none.
    pub(crate) fn first_seq(&self) -> Seq {
        self.counts.first_seq.load(Ordering::Relaxed)
    }

    /// Largest seq inserted; 0 while there is none.
    pub(crate) fn last_seq(&self) -> Seq {
        self.counts.last_seq.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable")
            .field("id", &self.id)
            .field("entries", &self.entries())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

/// A position in one keyspace of a memtable, which it keeps alive.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    keyspace: KeyspaceId,
    /// The current node: one of this memtable's list.
    at: Option<NonNull<Header>>,
}

// SAFETY: the cursor reads a node of a memtable that it holds; both may be used from any thread.
#[expect(unsafe_code, reason = "the node's pointer carries no thread affinity")]
unsafe impl Send for MemtableCursor {}

impl MemtableCursor {
    /// The current node.
    #[expect(unsafe_code, reason = "ties the stored node to the borrow of the cursor")]
    #[inline]
    fn node(&self) -> Option<Node<'_>> {
        // SAFETY: `at` was taken from a node of `self.memtable`'s list, whose arena lives as long
        // as the cursor holds the memtable (N1).
        self.at.map(|at| unsafe { Node::from_non_null(at) })
    }

    /// The current node; C1 says that there is one.
    #[expect(clippy::expect_used, reason = "C1: accessors are called on valid cursors only")]
    #[inline]
    fn current(&self) -> Node<'_> {
        self.node().expect("C1: accessors need a valid cursor")
    }

    /// Where to stand: on a node of this keyspace, or nowhere.
    fn place(&self, node: Option<Node<'_>>) -> Option<NonNull<Header>> {
        node.filter(|node| node.keyspace() == self.keyspace.0).map(Node::as_non_null)
    }
}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.seek(&[], SEQ_MAX)
    }

    fn seek_last(&mut self) -> Result<()> {
        let list = &self.memtable.list;
        let last = match self.keyspace.0.checked_add(1) {
            Some(next) => list.seek_before(&Target::new(KeyspaceId(next), &[], SEQ_MAX)),
            None => list.last(),
        };
        self.at = self.place(last);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let seq = if planted!("memtable_cursor_seek_ignores_seq") { SEQ_MAX } else { seq };
        let target = Target::new(self.keyspace, key, seq);
        self.at = self.place(self.memtable.list.seek(&target));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let target = Target::new(self.keyspace, key, seq);
        self.at = self.place(self.memtable.list.seek_before(&target));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let next = self.node().and_then(|node| self.memtable.list.next(node));
        self.at = self.place(next);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let previous = self.node().and_then(|node| self.memtable.list.prev(node));
        self.at = self.place(previous);
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        self.current().key()
    }

    fn seq(&self) -> Seq {
        self.current().seq()
    }

    fn kind(&self) -> Kind {
        self.current().kind()
    }

    fn head(&self) -> Option<Head<'_>> {
        let node = self.node()?;
        Some(Head { key: node.key(), seq: node.seq(), kind: node.kind() })
    }

    fn value(&self) -> &[u8] {
        self.current().value()
    }
}
