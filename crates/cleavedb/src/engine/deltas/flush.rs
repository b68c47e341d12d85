//! Flush of merge operands: into buckets, beside what the index gets of the same memtable.
//!
//! Operands upon a put or a delete of the same memtable are applied to it; the others are combined
//! by snapshot stripe. An operand that a bucket does not take well stays in the index: one that is
//! long, or one of a key that has many bytes of them. Reads put both in order, and a fold takes
//! them away.

use std::collections::BTreeMap;

use crate::base::cursor::{BoxCursor, Cursor};
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::merge_operator::SharedOperator;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::tombstone::Fragments;
use crate::base::value::Value;
use crate::deltas::collect::survivors::Rule;
use crate::deltas::directory::Directory;
use crate::deltas::ranges::RangeAnchor;
use crate::deltas::record::{Bound, DeltaKind, OwnedBound};
use crate::deltas::route::Router;
use crate::engine::Engine;
use crate::engine::deltas::DeltaStore;
use crate::engine::deltas::gather::{self, Kept, Version};
use crate::engine::deltas::long::is_long;
use crate::engine::deltas::work::{Done, Verdicts, Work};
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::memory::memtable::{Memtable, MemtableCursor};

/// Keys between two looks at the memory that a flush's copies take.
const HELD_INTERVAL: u64 = 1024;

/// What an index gets in place of operands, by key, newest first: those that stay, and puts that
/// operands were applied to.
type Kepts = BTreeMap<Box<[u8]>, Vec<(Seq, Kept)>>;

/// The deltas of a flush, on disk, and how the index's part of it is told from them.
#[derive(Default)]
pub(crate) struct FlushedDeltas {
    done: Done,
    kept: BTreeMap<KeyspaceId, Arc<Kepts>>,
    /// Memory of what is kept.
    held: Option<HeldMemory>,
}

impl FlushedDeltas {
    /// What the index of a keyspace gets of a memtable.
    pub(crate) fn rest(&self, keyspace: KeyspaceId, entries: MemtableCursor) -> BoxCursor {
        match self.kept.get(&keyspace) {
            Some(kept) => {
                let kept = Arc::clone(kept);
                Box::new(WithoutDeltas { entries, kept, forward: true })
            }
            None => Box::new(entries),
        }
    }

    /// What goes into the flush's edit.
    pub(crate) fn section(&self) -> Option<Section> {
        self.done.section()
    }

    /// Whether any bucket changes.
    pub(crate) fn changes_buckets(&self) -> bool {
        self.done.changes_buckets()
    }
}

impl Engine {
    /// Writes the operands of a memtable into buckets; nothing is in force yet.
    pub(crate) fn flush_deltas(
        &self,
        table: &Arc<Memtable>,
        snapshots: &[Seq],
    ) -> Result<FlushedDeltas> {
        let keyspaces: Vec<KeyspaceId> = {
            let catalogue = self.catalogue.lock();
            let there = table.keyspaces().into_iter().filter_map(|id| catalogue.numbered(id));
            there.filter(|keyspace| keyspace.has_buckets()).map(|keyspace| keyspace.id).collect()
        };
        let (store, directory) = (&self.deltas, self.deltas.directory());
        let is_idle = directory.len() == 0 && !table.has_operands();
        if keyspaces.is_empty() || is_idle {
            return Ok(FlushedDeltas::default());
        }
        let verdicts = Verdicts { snapshots, keyspaces: self.living_keyspaces() };
        let fate_of = |keyspace| verdicts.fate(keyspace);
        let rule = Rule { snapshots, fate_of: &fate_of };
        let tombstones = keyspaces.iter().flat_map(|&keyspace| {
            let anchor = move |range| RangeAnchor { keyspace, range };
            table.tombstones(keyspace).into_iter().map(anchor)
        });
        let hash = store.context.hash;
        let mut router = Router::new(&directory, hash, &rule, tombstones.collect());
        let mut flushed = FlushedDeltas::default();
        let mut held = HeldMemory::new(&self.io.meter, Purpose::Flush);
        let (mut to_fold, mut kept_bytes) = (Vec::new(), 0);
        for &keyspace in &keyspaces {
            let operator = verdicts.operator(keyspace);
            let (fragments, kept) = (table.fragments(keyspace), Kepts::new());
            let mut walk = Walk {
                store,
                directory: &directory,
                fragments,
                keyspace,
                snapshots,
                operator,
                kept,
            };
            walk.run(table, &mut router, &mut |bytes| held.set(kept_bytes + bytes))?;
            let kept = walk.kept;
            let stays =
                |kept: &[(Seq, Kept)]| kept.iter().any(|(_, kept)| kept.kind == Kind::Merge);
            let long = kept.iter().filter(|(_, kept)| stays(kept));
            to_fold.extend(long.map(|(key, _)| OwnedBound { keyspace, key: key.clone() }));
            kept_bytes += memory_of(&kept);
            flushed.kept.insert(keyspace, Arc::new(kept));
        }
        let (ids, purpose) = (&*self.file_ids, Purpose::Flush);
        let mut work = Work::new(store, &directory, &verdicts, ids, purpose);
        for (position, batch) in router.finish() {
            if !batch.is_empty() {
                work.add(position, batch);
            }
        }
        flushed.done = work.finish()?;
        flushed.done.to_fold.append(&mut to_fold);
        held.set(kept_bytes);
        flushed.held = Some(held);
        Ok(flushed)
    }

    /// The edit of a flush or a collection is durable: its buckets are in force. Under the manifest
    /// lock, before the indexes' changes are installed.
    pub(crate) fn install_deltas(&self, flushed: FlushedDeltas) {
        self.install_buckets(flushed.done);
    }

    pub(super) fn install_buckets(&self, done: Done) {
        let has_changed = done.changes_buckets();
        done.install(&self.deltas);
        if has_changed {
            for keyspace in self.catalogue.lock().all() {
                keyspace.index.buckets_changed();
            }
        }
    }
}

/// Memory of what an index gets in place of operands.
fn memory_of(kept: &Kepts) -> u64 {
    let mut bytes = 0;
    for (key, kept) in kept {
        let values = kept.iter().filter_map(|(_, kept)| kept.value.as_ref());
        bytes += key.len() + values.map(Value::held_bytes).sum::<usize>() + (kept.len() + 1) * 64;
    }
    bytes as u64
}

/// A walk over one keyspace of a memtable.
struct Walk<'a> {
    store: &'a DeltaStore,
    directory: &'a Directory,
    fragments: Arc<Fragments>,
    keyspace: KeyspaceId,
    snapshots: &'a [Seq],
    operator: Option<SharedOperator>,
    kept: Kepts,
}

impl Walk<'_> {
    /// Routes what buckets get, keeps what the index gets instead, and tells of its memory.
    fn run(
        &mut self,
        table: &Arc<Memtable>,
        router: &mut Router<'_>,
        held: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut entries = table.cursor(self.keyspace);
        entries.seek_first()?;
        let (mut key, mut versions): (Vec<u8>, Vec<Version>) = (Vec::new(), Vec::new());
        let mut keys = 0_u64;
        while entries.valid() {
            key.clear();
            key.extend_from_slice(entries.key());
            while entries.valid() && entries.key() == key {
                let (seq, kind) = (entries.seq(), entries.kind());
                let value = match gather::needs_value(versions.last(), kind) {
                    true => entries.value().to_vec(),
                    false => Vec::new(),
                };
                versions.push(Version { seq, kind, value, is_combined: false, stays: false });
                entries.next()?;
            }
            if self.has_nothing_for_buckets(&key, &versions)? {
                versions.clear();
                continue;
            }
            self.gather(&key, &mut versions)?;
            let mut records = gather::records_of(&mut versions);
            if planted!("put_leaves_no_anchor") {
                records.retain(|record| record.kind == DeltaKind::Delta);
            }
            if !records.is_empty() {
                router.add(Bound { keyspace: self.keyspace, key: &key }, records);
            }
            keys += 1;
            if keys.is_multiple_of(HELD_INTERVAL) {
                held(router.memory_bytes() + memory_of(&self.kept));
            }
        }
        held(router.memory_bytes() + memory_of(&self.kept));
        Ok(())
    }

    /// Decides what of a key's operands goes where.
    fn gather(&mut self, key: &[u8], versions: &mut Vec<Version>) -> Result<()> {
        if versions.iter().all(|version| version.kind != Kind::Merge) {
            return Ok(());
        }
        let mut kept = Vec::new();
        if let Some(operator) = self.operator.as_deref().filter(|_| versions.len() > 1) {
            let cover = |seq| self.fragments.cover_seq(key, seq);
            kept = gather::apply_to_bases(key, versions, self.snapshots, cover, operator);
            gather::combine(key, versions, self.snapshots, cover, operator);
        }
        let room = if self.has_too_much(key)? { 0 } else { self.store.limits.key_bytes_max() };
        kept.append(&mut gather::leave_out(versions, room));
        if !kept.is_empty() {
            self.kept.insert(key.into(), kept);
        }
        Ok(())
    }

    /// Whether a key fills more than a bucket already: that takes no more of it. So a bucket has at
    /// most a capacity and a half, and an operand: what it had, and the room of a flush.
    fn has_too_much(&self, key: &[u8]) -> Result<bool> {
        let bound = Bound { keyspace: self.keyspace, key };
        let bucket = self.directory.find(bound);
        let Some(bucket) = bucket.filter(|bucket| is_long(bucket.info(), &self.store.limits))
        else {
            return Ok(false);
        };
        // Others of its range find room beside it.
        let _ = bucket.load(Purpose::Flush)?;
        let hash = self.store.context.hash.hash(self.keyspace, key);
        Ok(bucket.may_hold(bound, hash) != Some(false))
    }

    /// Whether a key has no operands, and needs no anchor. Filters tell; they are worth a read,
    /// since an anchor that nothing needs is a write.
    fn has_nothing_for_buckets(&self, key: &[u8], versions: &[Version]) -> Result<bool> {
        let is_base = |version: &Version| version.kind != Kind::Merge;
        if !versions.iter().any(is_base) {
            return Ok(false);
        }
        let bound = Bound { keyspace: self.keyspace, key };
        let has_operands = !versions.iter().all(is_base);
        let Some(bucket) = self.directory.find(bound) else { return Ok(!has_operands) };
        let _ = bucket.load(Purpose::Flush)?;
        let hash = self.store.context.hash.hash(self.keyspace, key);
        Ok(!has_operands && bucket.may_hold(bound, hash) == Some(false))
    }
}

/// The entries of a memtable that an index gets.
struct WithoutDeltas {
    entries: MemtableCursor,
    kept: Arc<Kepts>,
    forward: bool,
}

impl WithoutDeltas {
    /// What the index gets in place of the current entry; `None` if it is no operand.
    fn kept(&self) -> Option<&Kept> {
        if self.entries.kind() != Kind::Merge || self.kept.is_empty() {
            return None;
        }
        let kept = self.kept.get(self.entries.key())?;
        let seq = self.entries.seq();
        kept.iter().find(|(kept, _)| *kept == seq).map(|(_, kept)| kept)
    }

    fn is_delta(&self) -> bool {
        self.entries.kind() == Kind::Merge
            && !planted!("operand_in_bucket_and_index")
            && self.kept().is_none()
    }

    fn skip(&mut self) -> Result<()> {
        while self.entries.valid() && self.is_delta() {
            match self.forward {
                true => self.entries.next()?,
                false => self.entries.prev()?,
            }
        }
        Ok(())
    }
}

impl Cursor for WithoutDeltas {
    fn seek_first(&mut self) -> Result<()> {
        self.forward = true;
        self.entries.seek_first()?;
        self.skip()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.forward = false;
        self.entries.seek_last()?;
        self.skip()
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.forward = true;
        self.entries.seek(key, seq)?;
        self.skip()
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.forward = false;
        self.entries.seek_before(key, seq)?;
        self.skip()
    }

    fn next(&mut self) -> Result<()> {
        self.forward = true;
        self.entries.next()?;
        self.skip()
    }

    fn prev(&mut self) -> Result<()> {
        self.forward = false;
        self.entries.prev()?;
        self.skip()
    }

    fn valid(&self) -> bool {
        self.entries.valid()
    }

    fn key(&self) -> &[u8] {
        self.entries.key()
    }

    fn seq(&self) -> Seq {
        self.entries.seq()
    }

    fn kind(&self) -> Kind {
        self.kept().map_or_else(|| self.entries.kind(), |kept| kept.kind)
    }

    fn value(&self) -> &[u8] {
        let kept = self.kept().and_then(|kept| kept.value.as_deref());
        kept.unwrap_or_else(|| self.entries.value())
    }

    fn value_owned(&self) -> Value {
        let kept = self.kept().and_then(|kept| kept.value.clone());
        kept.unwrap_or_else(|| self.entries.value_owned())
    }
}
