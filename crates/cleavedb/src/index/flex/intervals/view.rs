//! Reading a Flex index as of one change: gets, batched gets, cursors, figures.
//!
//! Plain values and pins that any thread may read. Invariant: V-1 whatever a view hands out holds
//! the files that it reads.

use std::sync::Arc as ValueArc;

use crate::base::cursor::BoxCursor;
use crate::base::entry::{FileId, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::base::tombstone::Fragments;
use crate::index::flex::intervals::anchors::{Anchors, Found};
use crate::index::flex::intervals::apply::check_keys;
use crate::index::flex::intervals::cache::IntervalCache;
use crate::index::flex::intervals::cursor::FlexCursor;
use crate::index::flex::intervals::gathering::{Gathering, may_have};
use crate::index::flex::intervals::run::{Run, check_first, offer_in_order};
use crate::index::flex::intervals::state::{FlexState, Totals};
use crate::index::flex::intervals::verify;
use crate::index::flex::space::{Pins, View};
use crate::index::{
    CursorOptions, FileRecord, IndexSpace, IndexView, KeyLookup, LevelSpace, VerifySink,
};
use crate::io::Purpose;

/// What intervals are read from.
pub(super) struct Source {
    pub(super) space: View,
    pub(super) cache: Arc<IntervalCache>,
    pub(super) gathering: Arc<Gathering>,
    pub(super) anchors: Arc<Anchors>,
}

/// A state of the index.
pub(super) struct FlexView {
    pub(super) source: Arc<Source>,
    pub(super) pins: Pins,
    pub(super) tombstones: Arc<Fragments>,
    pub(super) tombstone_bytes: u64,
    pub(super) state: FlexState,
}

impl Source {
    /// Reads an interval past the cache, its fragments at once.
    pub(super) fn read(&self, found: &Found<'_>, purpose: Purpose) -> Result<ValueArc<Run>> {
        let mut read = self.space.read_many(&[found.range()], purpose)?;
        self.decode(found, read.pop().unwrap_or_default())
    }

    /// Reads intervals past the cache, all their fragments at once.
    pub(super) fn read_many(
        &self,
        list: &[Found<'_>],
        purpose: Purpose,
    ) -> Result<Vec<ValueArc<Run>>> {
        let ranges: Vec<_> = list.iter().map(Found::range).collect();
        let read = self.space.read_many(&ranges, purpose)?;
        list.iter().zip(read).map(|(found, bytes)| self.decode(found, bytes)).collect()
    }

    /// Notes an interval that was fetched in many fragments, so that it is written in one piece.
    pub(super) fn note(&self, found: &Found<'_>) -> Result<()> {
        if self.gathering.may_be_wanted(found) {
            self.gathering.note(found, self.space.fragments(found.range())?);
        }
        Ok(())
    }

    /// Whether an interval stands in at least so many fragments and is worth being written anew.
    pub(super) fn is_in_fragments(&self, found: &Found<'_>, fragments_min: usize) -> Result<bool> {
        if !may_have(found, fragments_min) {
            return Ok(false);
        }
        let fragments = match found.interval.fragments {
            0 => self.space.fragments(found.range())?,
            known => known.into(),
        };
        Ok(self.gathering.is_wanted(found, fragments, fragments_min))
    }

    /// The bytes of an interval; its keys must be its own.
    fn decode(&self, found: &Found<'_>, bytes: Vec<u8>) -> Result<ValueArc<Run>> {
        let run = Run::decode(bytes)?;
        let next = self.anchors.get(found.group, found.number + 1);
        let end = next.map(|next| &*next.interval.anchor);
        let is_first = (found.group, found.number) == (0, 0);
        check_keys(&run, &found.interval.anchor, end, is_first)?;
        Ok(ValueArc::new(run))
    }

    /// Answers a get past the cache, out of an interval that is not in it: the records of its tail
    /// that may be of the key, then what stands before the tail; true when it is decided.
    fn look_up(
        &self,
        found: &Found<'_>,
        (key, hash): (&[u8], u64),
        lookup: &mut Lookup,
    ) -> Result<bool> {
        self.cache.count_miss();
        let Some(tail) = &found.interval.tail_index else {
            mark!("interval_read_past_cache");
            return self.look_up_in_order(found, found.interval.bytes, (key, hash), lookup);
        };
        mark!("interval_read_in_part");
        let start = found.range().start;
        let records = tail.records(found.interval.bytes, hash);
        let records: Vec<_> = records.map(|part| start + part.start..start + part.end).collect();
        if !records.is_empty() {
            let bytes = self.space.read_many(&records, Purpose::Read)?.concat();
            if self.decode(found, bytes)?.offer(key, hash, lookup) {
                return Ok(true);
            }
        }
        self.look_up_in_order(found, tail.start(), (key, hash), lookup)
    }

    /// Answers a get out of the first bytes of an interval, which are in order: reads what may be
    /// of its key.
    fn look_up_in_order(
        &self,
        found: &Found<'_>,
        bytes: u64,
        (key, hash): (&[u8], u64),
        lookup: &mut Lookup,
    ) -> Result<bool> {
        let (filter, start) = (&found.interval.filter, found.range().start);
        let mut places = filter.places(hash, bytes);
        places.iter_mut().for_each(|place| *place = start + place.start..start + place.end);
        for bytes in self.space.read_many(&places, Purpose::Read)? {
            if (found.group, found.number) != (0, 0) {
                check_first(&bytes, &found.interval.anchor)?;
            }
            let is_decided = offer_in_order(&bytes, key, lookup)?;
            if filter.can_learn(bytes.len()) {
                mark!("interval_filter_learned");
                filter.learn(Run::decode(bytes)?.filter());
            }
            if is_decided {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What an interval holds, through the cache.
    fn load(&self, found: &Found<'_>, purpose: Purpose) -> Result<ValueArc<Run>> {
        self.cache.get_or_load(found.interval.stamp, || {
            self.note(found)?;
            self.read(found, purpose)
        })
    }
}

impl FlexView {
    fn answer(&self, run: &Run, key: &[u8], hash: u64, lookup: &mut Lookup) {
        if !run.offer(key, hash, lookup) {
            lookup.end_source();
        }
    }

    fn begin(&self, key: &[u8], lookup: &mut Lookup) {
        if !self.tombstones.is_empty() {
            lookup.cover(self.tombstones.cover_seq(key, lookup.snapshot));
        }
    }

    /// Answers a get out of an interval that is not worth to be kept, and keeps what was found if
    /// later gets find the same (KR-1 of `kept`).
    fn get_past_cache(
        &self,
        found: &Found<'_>,
        (key, hash): (&[u8], u64),
        lookup: &mut Lookup,
    ) -> Result<()> {
        let operands = lookup.operands.len();
        if !self.source.look_up(found, (key, hash), lookup)? {
            lookup.end_source();
            return Ok(());
        }
        let is_newest = lookup.snapshot >= self.state.largest_seq;
        if let Some(version) = &lookup.found
            && is_newest
            && lookup.operands.len() == operands
        {
            self.source.cache.keep(found.interval, (key, hash), version);
        }
        Ok(())
    }
}

impl IndexView for FlexView {
    fn get(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        self.begin(key, lookup);
        let Some(found) = self.source.anchors.find(key) else {
            lookup.end_source();
            return Ok(());
        };
        let cache = &self.source.cache;
        if found.interval.known_tail().is_some() {
            if let Some(run) = cache.get(found.interval.stamp) {
                self.answer(&run, key, hash, lookup);
                return Ok(());
            }
            let record = cache.record(found.interval, hash);
            if let Some(version) =
                record.as_ref().and_then(|record| record.visible(key, lookup.snapshot))
            {
                mark!("kept_record_answered");
                cache.count_hit();
                lookup.offer(version.seq, version.kind, || version.value());
                return Ok(());
            }
            if found.interval.lacks(hash) {
                mark!("interval_filter_answered");
                lookup.end_source();
                return Ok(());
            }
            if !cache.is_wanted(&found.interval.anchor) {
                return self.get_past_cache(&found, (key, hash), lookup);
            }
        }
        let run = self.source.load(&found, Purpose::Read)?;
        self.answer(&run, key, hash, lookup);
        Ok(())
    }

    fn multi_get(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        let mut wanted: Vec<(u64, &mut KeyLookup<'_>, Option<Found<'_>>)> = Vec::new();
        for key in keys.iter_mut().filter(|key| key.lookup.found.is_none()) {
            let found = self.source.anchors.find(key.key);
            let found = found.filter(|found| !found.interval.lacks(key.hash));
            wanted.push((found.map_or(0, |found| found.offset), key, found));
        }
        wanted.sort_by_key(|(offset, _, _)| *offset);
        let mut missing: Vec<Found<'_>> = Vec::new();
        let mut runs: Vec<Option<ValueArc<Run>>> = Vec::with_capacity(wanted.len());
        for (_, _, found) in &wanted {
            let run = found.and_then(|found| self.source.cache.get(found.interval.stamp));
            let is_asked =
                missing.last().map(|last| last.offset) == found.map(|found| found.offset);
            if let Some(found) = found.filter(|_| run.is_none() && !is_asked) {
                missing.push(found);
            }
            runs.push(run);
        }
        // All fragments of all intervals that are missing, together.
        let mut read = Vec::with_capacity(missing.len());
        for (found, run) in missing.iter().zip(self.source.read_many(&missing, Purpose::Read)?) {
            self.source.note(found)?;
            self.source.cache.insert(found.interval.stamp, &run);
            read.push((found.offset, run));
        }
        for ((offset, key, found), run) in wanted.into_iter().zip(runs) {
            let KeyLookup { key, hash, lookup } = key;
            self.begin(key, lookup);
            let at = || read.binary_search_by_key(&offset, |(offset, _)| *offset).ok();
            let run = run.as_ref().or_else(|| read.get(at()?).map(|(_, run)| run));
            match run.filter(|_| found.is_some()) {
                Some(run) => self.answer(run, key, *hash, lookup),
                None => drop(lookup.end_source()),
            }
        }
        Ok(())
    }

    fn cursors(&self, options: &CursorOptions) -> Result<Vec<BoxCursor>> {
        Ok(vec![Box::new(FlexCursor::new(&self.source, options))])
    }

    fn tombstones(&self) -> Result<Arc<Fragments>> {
        Ok(Arc::clone(&self.tombstones))
    }

    fn cover(&self, key: &[u8], snapshot: Seq) -> Result<Seq> {
        Ok(self.tombstones.cover_seq(key, snapshot))
    }

    fn files(&self) -> Vec<FileRecord> {
        let record = |(kind, id, bytes): &(FileKind, FileId, u64)| {
            // Files grow, and their parts prove themselves: there is no checksum of a whole one.
            FileRecord { kind: *kind, id: *id, bytes: *bytes, checksum: 0 }
        };
        self.pins.files.iter().map(record).collect()
    }

    fn largest_seq(&self) -> Seq {
        self.state.largest_seq
    }

    fn space(&self) -> IndexSpace {
        let disk_bytes = self.pins.files.iter().map(|(_, _, bytes)| *bytes).sum();
        let Totals { entries, key_bytes, value_bytes, deletes } = self.state.totals;
        let level = LevelSpace {
            level: 0,
            files: self.pins.files.len(),
            bytes: disk_bytes,
            target_bytes: 0,
            entries,
        };
        let raw = key_bytes.saturating_add(value_bytes);
        let live = entries.saturating_sub(deletes);
        IndexSpace {
            levels: vec![level],
            disk_bytes,
            live_bytes: (raw as f64 * live as f64 / entries.max(1) as f64) as u64,
            entries,
            covered_entries: if self.tombstones.is_empty() { 0 } else { entries },
            ..IndexSpace::default()
        }
    }

    fn memory_bytes(&self) -> u64 {
        /// What an extent takes in the tree, with its share of the nodes.
        const EXTENT_BYTES: u64 = 8;
        let extents = self.source.space.tree().extents() * EXTENT_BYTES;
        extents + (self.source.anchors.memory_bytes() + self.pins.memory_bytes) as u64
    }

    fn verify(&self, sink: &mut dyn VerifySink) {
        verify::verify(self, sink);
    }
}
