//! Flush of merge operands: into buckets, beside what the index gets of the same memtable.
//!
//! An operand that a bucket does not take well stays in the index: one that is long, or one of a
//! key that has many bytes of them. Reads put both in order, and a fold takes them away.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::cursor::{BoxCursor, Cursor};
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::deltas::collect::survivors::{OwnedRecord, Rule};
use crate::deltas::directory::Directory;
use crate::deltas::ranges::RangeAnchor;
use crate::deltas::record::{Bound, DeltaKind, OPERAND_BYTES_MAX, OwnedBound, Record};
use crate::deltas::route::Router;
use crate::engine::Engine;
use crate::engine::deltas::DeltaStore;
use crate::engine::deltas::work::{Done, Verdicts, Work};
use crate::io::Purpose;
use crate::memory::memtable::{Memtable, MemtableCursor};

/// A bucket of so many times its capacity, which is one key's, takes no more of it.
const CAPACITIES_MAX: u64 = 4;

/// Operands of a keyspace that stay in the index, by key and seq: few, if any.
type Staying = Arc<BTreeSet<(Box<[u8]>, Seq)>>;

/// The deltas of a flush, on disk, and how the index's part of it is told from them.
#[derive(Default)]
pub(crate) struct FlushedDeltas {
    done: Done,
    staying: BTreeMap<KeyspaceId, Staying>,
}

impl FlushedDeltas {
    /// What the index of a keyspace gets of a memtable.
    pub(crate) fn rest(&self, keyspace: KeyspaceId, entries: MemtableCursor) -> BoxCursor {
        match self.staying.get(&keyspace) {
            Some(staying) => {
                Box::new(WithoutDeltas { entries, staying: Arc::clone(staying), forward: true })
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
        if keyspaces.is_empty() {
            return Ok(FlushedDeltas::default());
        }
        let (store, directory) = (&self.deltas, self.deltas.directory());
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
        let mut to_fold = Vec::new();
        for &keyspace in &keyspaces {
            let mut walk = Walk { store, directory: &directory, table, keyspace };
            let staying = walk.run(&mut router)?;
            let long = staying.iter().map(|(key, _)| OwnedBound { keyspace, key: key.clone() });
            to_fold.extend(long);
            flushed.staying.insert(keyspace, Arc::new(staying));
        }
        let (ids, purpose) = (&*self.file_ids, Purpose::Flush);
        let mut work = Work::new(store, &directory, &verdicts, ids, purpose);
        for (position, batch) in router.finish() {
            if !batch.is_empty() {
                work.add(position, &batch)?;
            }
        }
        flushed.done = work.finish()?;
        flushed.done.to_fold.append(&mut to_fold);
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

/// A walk over one keyspace of a memtable.
struct Walk<'a> {
    store: &'a DeltaStore,
    directory: &'a Directory,
    table: &'a Arc<Memtable>,
    keyspace: KeyspaceId,
}

impl Walk<'_> {
    /// Routes what buckets get; returns the operands that they do not.
    fn run(&mut self, router: &mut Router<'_>) -> Result<BTreeSet<(Box<[u8]>, Seq)>> {
        let mut staying = BTreeSet::new();
        let mut entries = self.table.cursor(self.keyspace);
        entries.seek_first()?;
        let mut key: Vec<u8> = Vec::new();
        let mut records: Vec<OwnedRecord> = Vec::new();
        while entries.valid() {
            key.clear();
            key.extend_from_slice(entries.key());
            records.clear();
            while entries.valid() && entries.key() == key {
                let seq = entries.seq();
                let (kind, operand) = match entries.kind() {
                    Kind::Merge => (DeltaKind::Delta, entries.value().to_vec()),
                    _ => (DeltaKind::Anchor, Vec::new()),
                };
                records.push(OwnedRecord { seq, kind, operand });
                entries.next()?;
            }
            if planted!("put_leaves_no_anchor") {
                records.retain(|record| record.kind == DeltaKind::Delta);
            }
            self.leave_out(&key, &mut records, &mut staying);
            self.load_for_anchor(&key, &records)?;
            if !records.is_empty() {
                let records: Vec<Record<'_>> = records.iter().map(OwnedRecord::as_ref).collect();
                router.add(Bound { keyspace: self.keyspace, key: &key }, &records);
            }
        }
        Ok(staying)
    }

    /// Takes out the operands that stay in the index, and leaves a mark for each: the oldest go
    /// into the bucket, as far as there is room for the key's.
    fn leave_out(
        &self,
        key: &[u8],
        records: &mut [OwnedRecord],
        staying: &mut BTreeSet<(Box<[u8]>, Seq)>,
    ) {
        let bucket = self.directory.find(Bound { keyspace: self.keyspace, key });
        let limits = &self.store.limits;
        let full_bytes = limits.capacity_bytes * CAPACITIES_MAX;
        let is_full = bucket.is_some_and(|bucket| u64::from(bucket.info().bytes) > full_bytes);
        let mut room = if is_full { 0 } else { limits.key_bytes_max() };
        let mut left_out = Vec::new();
        for record in records.iter().rev().filter(|record| record.kind == DeltaKind::Delta) {
            let bytes = record.operand.len() as u64;
            match room.checked_sub(bytes).filter(|_| record.operand.len() <= OPERAND_BYTES_MAX) {
                Some(rest) if !is_full => room = rest,
                _ => left_out.push(record.seq),
            }
        }
        if left_out.is_empty() {
            return;
        }
        mark!("operand_left_in_index");
        for record in records.iter_mut().filter(|record| left_out.contains(&record.seq)) {
            // What is below and above it in the bucket stays apart.
            record.kind = DeltaKind::Elsewhere;
            record.operand = Vec::new();
        }
        staying.extend(left_out.into_iter().map(|seq| (key.into(), seq)));
    }

    /// Filters tell whether a bucket needs an anchor; they are worth a read, since an anchor that
    /// nothing needs is a write.
    fn load_for_anchor(&self, key: &[u8], records: &[OwnedRecord]) -> Result<()> {
        if !records.iter().any(|record| record.kind == DeltaKind::Anchor) {
            return Ok(());
        }
        match self.directory.find(Bound { keyspace: self.keyspace, key }) {
            Some(bucket) => bucket.load(Purpose::Flush).map(drop),
            None => Ok(()),
        }
    }
}

/// The entries of a memtable that an index gets.
struct WithoutDeltas {
    entries: MemtableCursor,
    staying: Staying,
    forward: bool,
}

impl WithoutDeltas {
    fn is_delta(&self) -> bool {
        self.entries.kind() == Kind::Merge
            && !planted!("operand_in_bucket_and_index")
            && (self.staying.is_empty()
                || !self.staying.contains(&(self.entries.key().into(), self.entries.seq())))
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
        self.entries.kind()
    }

    fn value(&self) -> &[u8] {
        self.entries.value()
    }

    fn value_owned(&self) -> Value {
        self.entries.value_owned()
    }
}
