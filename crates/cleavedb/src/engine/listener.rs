//! What the engine listens for in every flush and compaction: what dies is counted, how many index
//! entries name each value file is kept exact (rules R6 and R8), and where garbage collection goes
//! by facts, what superseded a record is stated of its file.
//!
//! Invariants: L1 an entry is *born* when it comes into an index and *dies* when it leaves one.
//! What a flush meets above the flushed seq was in no index yet; everything else was. L2 a fact
//! goes into the edit with which its entry leaves the index, or does not come into it (rules R5 and
//! R6): nobody will report it again.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::deltas::record::Bound;
use crate::engine::Engine;
use crate::engine::deltas::DeltaStore;
use crate::engine::locate::touching::FlushedKey;
use crate::engine::metrics::Metrics;
use crate::engine::relocate::{Account, Relocation, Relocations};
use crate::engine::touching::Touching;
use crate::index::{Dead, Judged, Listener, ListenerFactory, Mended, Passing};
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::drops::batch::FactBatch;
use crate::values::file::ValueContext;
use crate::values::handle::Handle;
use crate::values::locator::place::Place;
use crate::values::ref_changes::RefChanges;
use crate::values::strategy::{Collects, Strategy};

/// Makes the listeners of one flush or compaction.
pub(crate) struct EntryListeners {
    metrics: Arc<Metrics>,
    strategy: Arc<dyn Strategy>,
    context: Arc<ValueContext>,
    /// Hash of keys, where facts are wanted.
    hash: Option<KeyedHash>,
    /// Bytes of facts that the database keeps in memory.
    facts_bytes_max: u64,
    /// Entries up to this seq are in the index.
    indexed: Seq,
    /// What the locator or the map is told, where there is one.
    touching: Option<Touching>,
    /// Puts values in order, where that is wanted.
    relocations: Option<Arc<Relocations>>,
    /// What is told of operands that stand in an index beside it.
    deltas: Arc<DeltaStore>,
}

impl EntryListeners {
    /// A fresh listener for entries of a keyspace.
    pub(crate) fn make(&self, keyspace: KeyspaceId) -> EntryListener {
        EntryListener {
            keyspace,
            repairs: self.hash.map(|_| Arc::clone(&self.context)),
            facts: self.hash.map(FactBatch::new),
            unpacked_bytes_max: self.facts_bytes_max,
            held: HeldMemory::new(&self.context.io.meter, Purpose::Compaction),
            metrics: Arc::clone(&self.metrics),
            strategy: Arc::clone(&self.strategy),
            indexed: self.indexed,
            touching: self.touching.clone(),
            relocation: self.relocations.as_ref().map(|all| all.part(keyspace)),
            deltas: Arc::clone(&self.deltas),
            met: None,
            entries: 0,
            bytes: 0,
            changes: RefChanges::default(),
            bytes_died: 0,
            separated_died: 0,
            bare_died: 0,
            failed: None,
        }
    }
}

impl ListenerFactory for EntryListeners {
    fn listener(&self, keyspace: KeyspaceId) -> Box<dyn Listener> {
        Box::new(self.make(keyspace))
    }
}

/// Listens to one flush or one part of a compaction.
pub(crate) struct EntryListener {
    keyspace: KeyspaceId,
    /// What knows of handles of earlier epochs, where there are epochs.
    repairs: Option<Arc<ValueContext>>,
    /// What is to be known of records that nothing names any more.
    facts: Option<FactBatch>,
    /// Bytes of it that may wait to be packed.
    unpacked_bytes_max: u64,
    /// Memory of that.
    held: HeldMemory,
    metrics: Arc<Metrics>,
    strategy: Arc<dyn Strategy>,
    indexed: Seq,
    touching: Option<Touching>,
    relocation: Option<Relocation>,
    deltas: Arc<DeltaStore>,
    /// What the flush has of the key that is being judged.
    met: Option<FlushedKey>,
    entries: u64,
    bytes: u64,
    changes: RefChanges,
    /// Bytes of the records whose entries died.
    bytes_died: u64,
    /// Separated entries of the index that died.
    separated_died: u64,
    /// Bare entries that died.
    bare_died: u64,
    /// A handle that says nothing.
    failed: Option<Error>,
}

impl EntryListener {
    fn handle(&mut self, bytes: &[u8]) -> Option<Handle> {
        match self.strategy.resolve(bytes) {
            Ok(handle) => Some(handle),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }
}

impl EntryListener {
    /// States what superseded a record (L2). Large values have a file each, which needs no facts.
    fn state_fact(&mut self, dead: &Dead<'_>, handle: &Handle, is_hidden: bool) {
        let Some(facts) = self.facts.as_mut().filter(|_| !handle.is_large()) else { return };
        debug_assert!(dead.seq < dead.superseded_by, "a put dies of a newer version");
        if is_hidden && planted!("hidden_fact_not_stated") {
            return;
        }
        let by = match planted!("fact_is_not_newer") {
            true => dead.superseded_by + 1,
            false => dead.superseded_by,
        };
        facts.add(handle.file, self.keyspace, dead.key, by);
        facts.pack_beyond(self.unpacked_bytes_max);
        if let Some(touching) = self.touching.as_ref().filter(|_| is_hidden) {
            touching.hidden(handle.file);
        }
        self.held.set(facts.memory_bytes() as u64);
    }
}

impl Listener for EntryListener {
    fn dead(&mut self, dead: Dead<'_>) {
        debug_assert!(dead.seq <= dead.superseded_by, "{:?} dies of an older entry", dead.kind);
        self.entries += 1;
        self.bytes += (dead.key.len() + dead.value.len()) as u64;
        if dead.kind == Kind::PutBare {
            self.bare_died += 1;
            // What something newer superseded was told of when that was flushed.
            if let Some(touching) = self.touching.as_ref().filter(|_| dead.is_covered) {
                touching.take_out(self.keyspace, &dead);
            }
            return;
        }
        if dead.kind != Kind::PutSeparated {
            return;
        }
        let Some(handle) = self.handle(dead.value) else { return };
        let is_hidden = dead.seq > self.indexed;
        self.state_fact(&dead, &handle, is_hidden);
        if is_hidden {
            mark!("separated_entry_hidden");
            return;
        }
        mark!("separated_entry_died");
        if let Some(touching) = self.touching.as_ref().filter(|_| dead.is_covered)
            && !planted!("locator_keeps_range_deleted")
        {
            touching.take_out(self.keyspace, &dead);
        }
        self.bytes_died += u64::from(handle.bytes);
        self.separated_died += 1;
        if !planted!("dead_handle_not_counted") {
            self.strategy.died(&handle, &mut self.changes);
        }
    }

    fn survivor(&mut self, key: &[u8], seq: Seq, handle: &[u8]) -> Option<Mended> {
        if seq > self.indexed {
            let handle = self.handle(handle)?;
            let touching = self.touching.as_ref();
            if touching.is_some_and(|touching| touching.is_bare(self.keyspace, key, &handle)) {
                mark!("bare_entry_flushed");
                return Some(Mended::Bare);
            }
            self.strategy.born(&handle, &mut self.changes);
            return None;
        }
        // The entry is written anew in any case.
        let context = Arc::clone(self.repairs.as_ref()?);
        let before = self.handle(handle).filter(|handle| !handle.is_large())?;
        let now = context.repairs.get(&before)?;
        mark!("repaired_handle_written");
        self.strategy.died(&before, &mut self.changes);
        self.strategy.born(&now, &mut self.changes);
        Some(Mended::Handle(now.encode().to_vec()))
    }

    fn keeps_tombstone(&mut self, _key: &[u8], _seq: Seq) -> bool {
        false
    }

    fn wants_versions(&self) -> bool {
        // Compaction meets nothing that is new.
        self.touching.as_ref().is_some_and(Touching::wants_versions) && self.indexed < SEQ_MAX
    }

    fn version(&mut self, version: &Judged<'_>) {
        // What is in the index already was touched when it came in.
        if version.seq <= self.indexed {
            return;
        }
        let supersedes = version.kind.is_base() || planted!("merge_states_fact_of_its_base");
        let superseding = supersedes.then_some(version.seq);
        if let Some(met) = &mut self.met {
            met.smallest = version.seq;
            met.superseding = superseding.or(met.superseding);
            return;
        }
        let is_there = version.kind == Kind::PutSeparated && !version.is_superseded;
        let handle = is_there.then(|| self.handle(version.value)).flatten();
        let handle = handle.filter(|handle| !handle.is_large());
        let place = handle.and_then(|at| Place::of(at.file, at.offset, at.bytes));
        self.met = Some(FlushedKey { place, smallest: version.seq, superseding });
    }

    fn key_ended(&mut self, key: &[u8]) {
        if let Some((met, touching)) = self.met.take().zip(self.touching.as_ref()) {
            touching.touch(self.keyspace, key, &met);
        }
    }

    fn operand(&mut self, key: &[u8], seq: Seq) {
        // A flush asks for what it leaves there once that is in force.
        if seq <= self.indexed {
            let keyspace = self.keyspace;
            self.deltas.ask_to_fold([Bound { keyspace, key }.to_owned()]);
        }
    }

    fn orders(&self) -> bool {
        self.relocation.is_some()
    }

    fn order(&mut self, entries: &mut [Passing]) -> Result<()> {
        let Some(relocation) = self.relocation.as_mut() else { return Ok(()) };
        let mut account = Account { changes: &mut self.changes, facts: self.facts.as_mut() };
        relocation.order(entries, &mut account)?;
        if let Some(facts) = &mut self.facts {
            facts.pack_beyond(self.unpacked_bytes_max);
            self.held.set(facts.memory_bytes() as u64);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Section>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.metrics.entries_dropped.fetch_add(self.entries, Ordering::Relaxed);
        self.metrics.bytes_dropped.fetch_add(self.bytes, Ordering::Relaxed);
        if let Some(touching) = &self.touching {
            touching.met_dead(self.separated_died, self.bare_died);
            self.bytes_died += touching.take_bytes_died();
        }
        let figures = &self.metrics.collection;
        figures.bytes_died.fetch_add(self.bytes_died, Ordering::Relaxed);
        // First the new containers, then what is counted of their files.
        let relocated = self.relocation.take().map(Relocation::finish).transpose()?.flatten();
        let mut sections: Vec<Section> =
            relocated.into_iter().chain(self.changes.encode()).collect();
        if let Some(facts) = self.facts.take() {
            figures.facts.fetch_add(facts.facts(), Ordering::Relaxed);
            sections.extend(facts.encode());
        }
        Ok(sections)
    }
}

impl Engine {
    /// Listeners for work on entries of which those up to `indexed` are in the index already.
    pub(crate) fn entry_listeners(
        &self,
        indexed: Seq,
        touching: Option<Touching>,
    ) -> EntryListeners {
        let goes_by_facts = matches!(self.strategy.collection(), Collects::Facts);
        EntryListeners {
            metrics: Arc::clone(&self.metrics),
            strategy: Arc::clone(&self.strategy),
            context: Arc::clone(&self.value_context),
            hash: goes_by_facts.then(|| KeyedHash::new(&self.uuid)),
            facts_bytes_max: self.widths.facts_bytes_max,
            indexed,
            touching,
            relocations: None,
            deltas: Arc::clone(&self.deltas),
        }
    }
}

impl EntryListeners {
    /// The same, for a compaction that may put values in order.
    pub(crate) fn relocating(self, relocations: Option<Arc<Relocations>>) -> Self {
        Self { relocations, ..self }
    }
}
