//! Garbage that is in the index still: entries that newer ones supersede, until compaction meets
//! them and says so.
//!
//! With small entries in the index and large values outside of it, much may have died before the
//! index has a reason of its own to be compacted. How much at most, the number of entries above
//! the last level says: each of them supersedes one below it, or none; a range delete as many as it
//! reaches. How much of that came true the last times says the rest. So the index is compacted for
//! it where that is worth it, which costs some bytes an entry; nothing is asked of it.

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::commit::{Task, Work};
use crate::engine::gc::QUIET_PART;
use crate::engine::gc::estimate::{DANGLING_PART, DeadTail, is_much};
use crate::engine::superseding::share_in_memtables;
use crate::index::{IndexSpace, KeyRange};
use crate::values::file_table::ValueFiles;
use crate::values::strategy::Collects;
use crate::values::strategy::space::{Space, Urgency, is_due};

/// Bounds of the share of the entries above the last level that is taken to supersede others.
const RATE_MIN: f64 = 1.0 / 16.0;
/// Up to this share, a compaction that was asked for was in vain.
const RATE_IN_VAIN: f64 = 1.0 / 8.0;
/// What it is before anything is known.
const RATE_FIRST: f64 = 0.5;

/// What is expected of the indexes.
pub(super) struct Expected {
    /// Share of the entries above the last level that superseded others.
    rate: f64,
    /// What those entries might supersede at the last look, and bytes that had died by then.
    looked: (u64, u64),
    /// What a compaction that was asked for might have found, and did not: little is to be expected
    /// of as much again.
    in_vain_bytes: u64,
    /// A compaction that was asked for: tickets by keyspace, what it was to find at most, and what
    /// needs no finding.
    asked: Option<Arc<Asked>>,
    /// Newest seq visible when an index was last compacted because writing had ceased.
    quiet_seq: Seq,
    /// Index entries that named files which are gone, after the indexes were last compacted for
    /// them: what a snapshot holds stays, and is no reason to do so again.
    dangling_left: u64,
}

struct Asked {
    tickets: Vec<(KeyspaceId, u64)>,
    bytes_max: u64,
    /// Bytes that had died before, and those whose deaths were known of.
    dead_before: u64,
}

impl Default for Expected {
    fn default() -> Self {
        Self {
            rate: RATE_FIRST,
            looked: (0, 0),
            in_vain_bytes: 0,
            asked: None,
            quiet_seq: 0,
            dangling_left: 0,
        }
    }
}

impl Engine {
    /// Has the indexes compacted where that will tell of enough garbage; whether it did something.
    pub(super) fn expect_garbage(self: &Arc<Self>) -> Result<bool> {
        if !self.settle_asked() {
            return Ok(false);
        }
        // What waits for its flush tells of deaths then: the look comes after it.
        let is_flushed = self.view.load().frozen.is_empty();
        let is_quiet = {
            let mut known = self.gc.state.lock();
            let is_quiet = is_flushed && std::mem::take(&mut known.look);
            if is_quiet {
                known.rewrite_found_full = None;
                known.looked_seq = self.visible.load(Ordering::Acquire);
            }
            is_quiet
        };
        let bytes_max = self.unknown_garbage_max();
        let least = self.widths.value_segment_bytes / QUIET_PART;
        if is_quiet && self.end_quiet_tail(bytes_max, least)? {
            return Ok(true);
        }
        let (figures, limits) = (self.value_file_figures(), self.space_limits());
        let rate = self.learn_rate(bytes_max, least);
        let (expected, space) = ((bytes_max as f64 * rate) as u64, Space::of(&figures));
        let is_worth_it = (expected >= least && is_due(&space, expected, &limits))
            || self.might_pass_bound(bytes_max, &space);
        let visible = self.visible.load(Ordering::Acquire);
        let is_new = self.gc.state.lock().expected.quiet_seq != visible;
        let is_asked_for =
            is_quiet && is_new && (bytes_max >= least || self.are_bare_entries_dead());
        if !is_worth_it && !is_asked_for && !self.dangle_many() {
            return Ok(false);
        }
        mark!("gc_index_compacted_for_facts");
        self.ask_for_facts(bytes_max);
        Ok(true)
    }

    /// Whether flushes tell of what they supersede.
    fn is_told_by_flushes(&self) -> bool {
        self.locating.is_some() || self.mapping.is_some()
    }

    /// The share of what might be superseded that is. Compactions that nobody asked for tell of it,
    /// too: what was above the last level and is no more has been met.
    fn learn_rate(&self, bytes_max: u64, least: u64) -> f64 {
        let died = self.metrics.collection.bytes_died.load(Ordering::Relaxed);
        let expected = &mut self.gc.state.lock().expected;
        let (max_before, died_before) = std::mem::replace(&mut expected.looked, (bytes_max, died));
        let met = max_before.saturating_sub(bytes_max);
        if met >= least && !self.is_told_by_flushes() {
            let now = died.saturating_sub(died_before) as f64 / met as f64;
            expected.rate = now.clamp(RATE_MIN, 1.0);
        }
        expected.rate
    }

    /// Whether the bound on space might be passed with nobody knowing of it, little as there is to
    /// be expected: new keys may have come in until now, and the same ones from here on. Only where
    /// flushes do not tell; and after a compaction in vain, only for twice as much, or half of what
    /// lives then, so that a load of new keys has few of them.
    fn might_pass_bound(&self, bytes_max: u64, space: &Space) -> bool {
        let in_vain = self.gc.state.lock().expected.in_vain_bytes;
        let worst = space.expecting(bytes_max);
        // What a compaction leaves where it is, is no reason for another one.
        let half = (worst.live_bytes / 2).max(in_vain.saturating_add(in_vain / 4));
        let least = in_vain.saturating_mul(2).min(half);
        !self.is_told_by_flushes()
            && bytes_max >= least
            && bytes_max > 0
            && worst.urgency(&self.space_limits()) == Urgency::Paced
    }

    /// Has all indexes compacted, so that every superseded entry is told of.
    pub(super) fn ask_for_facts(self: &Arc<Self>, bytes_max: u64) {
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        let request = |keyspace: &Arc<KeyspaceState>| {
            (keyspace.id, keyspace.index.request_compaction(KeyRange::default(), false))
        };
        let tickets = keyspaces.iter().map(request).collect();
        let figures = &self.metrics.collection;
        figures.compactions_asked.fetch_add(1, Ordering::Relaxed);
        // Deaths that are known of will be met, too.
        let values = Arc::clone(&self.view.load().values);
        let (refs, ref_bytes) = self.named_records(&values);
        let mean_bytes = ref_bytes.checked_div(refs).unwrap_or(0);
        let known = self.stale_entries(&values).saturating_mul(mean_bytes);
        let dead_before = figures.bytes_died.load(Ordering::Relaxed).saturating_add(known);
        let mut known = self.gc.state.lock();
        known.expected.asked = Some(Arc::new(Asked { tickets, bytes_max, dead_before }));
        known.expected.quiet_seq = self.visible.load(Ordering::Acquire);
    }

    /// Whether no compaction that was asked for is still under way; learns from the last one.
    pub(super) fn settle_asked(&self) -> bool {
        let asked = self.gc.state.lock().expected.asked.clone();
        let Some(asked) = asked else { return true };
        let is_done = |&(id, ticket): &(KeyspaceId, u64)| {
            let keyspace = self.catalogue.lock().numbered(id);
            keyspace.is_none_or(|keyspace| keyspace.index.compaction_done(ticket))
        };
        if !asked.tickets.iter().all(is_done) {
            return false;
        }
        let died = self.metrics.collection.bytes_died.load(Ordering::Relaxed);
        let died = died.saturating_sub(asked.dead_before);
        let mut known = self.gc.state.lock();
        if asked.bytes_max > 0 {
            let rate = died as f64 / asked.bytes_max as f64;
            known.expected.rate = rate.clamp(RATE_MIN, 1.0);
            known.expected.in_vain_bytes = if rate <= RATE_IN_VAIN { asked.bytes_max } else { 0 };
            known.expected.looked = (0, 0);
        }
        known.expected.dangling_left = self.locating.as_ref().map_or(0, |l| l.dangling());
        known.expected.asked.take_if(|now| Arc::ptr_eq(now, &asked));
        true
    }

    /// Whether half of the indexes' entries are bare ones that flushes have superseded: they take
    /// room, and nothing is collected by meeting them.
    fn are_bare_entries_dead(&self) -> bool {
        let dead = self.mapping.as_ref().map_or(0, |mapping| mapping.dead_entries());
        let view = self.view.load();
        let entries: u64 = view.indexes.values().map(|index| index.space().entries).sum();
        dead > 0 && dead.saturating_mul(2) >= entries
    }

    /// Whether many of the indexes' entries name files that were removed: flushes have told of
    /// their deaths, so that collection does not need a compaction; but they take room.
    fn dangle_many(&self) -> bool {
        let Some(locating) = &self.locating else { return false };
        let view = self.view.load();
        let entries: u64 = view.indexes.values().map(|index| index.space().entries).sum();
        let mut known = self.gc.state.lock();
        let dangling = locating.dangling();
        known.expected.dangling_left = known.expected.dangling_left.min(dangling);
        let new = dangling - known.expected.dangling_left;
        new > 0 && new.saturating_mul(DANGLING_PART) >= entries
    }

    /// Bytes of records that entries above the last levels of the indexes may supersede.
    fn unknown_garbage_max(&self) -> u64 {
        let view = self.view.load();
        let (mut above, mut covered, mut entries) = (0_u64, 0_u64, 0_u64);
        for index in view.indexes.values() {
            let space = index.space();
            above += above_last_level(&space);
            covered += space.covered_entries;
            entries += space.entries;
        }
        let (refs, _) = view.values.all_refs();
        // Flushes have told of what the map has. Keys for which it had no room stand in the index
        // with their handles.
        let above = if self.mapping.is_some() { above.min(refs) } else { above };
        let named = self.named_records(&view.values);
        if named.0 == 0 {
            return 0;
        }
        let mean_bytes = named.1 / named.0;
        let known = self.stale_entries(&view.values);
        let unknown = above.saturating_add(covered).min(entries).saturating_sub(known);
        unknown.saturating_mul(mean_bytes).min(named.1)
    }

    /// Index entries that name records which flushes are known to have superseded: each of them has
    /// its superseder above the last level, of which no compaction needs to tell.
    fn stale_entries(&self, values: &ValueFiles) -> u64 {
        let Some(locating) = &self.locating else { return 0 };
        let stale = |records: u64, refs: u64, superseded: u64| {
            refs.saturating_sub(records.saturating_sub(superseded))
        };
        let segments = values.iter().filter_map(|entry| {
            let records = entry.state.sealed?.totals.records;
            let superseded = locating.superseded_in(entry.file.id());
            Some(stale(records, entry.state.refs, superseded))
        });
        let containers = values.containers().map(|entry| {
            let id = entry.container.id();
            let files = values.files_in(id);
            let superseded = files.map(|file| locating.superseded_in(file.id)).sum();
            stale(entry.totals.records, values.refs_in(id).0, superseded)
        });
        segments.chain(containers).sum::<u64>().saturating_add(locating.dangling())
    }

    /// Bytes of records that versions in the same memtable may supersede: what was written since
    /// the last flush, of which no index knows yet. However few entries name records, these may be
    /// many, where the same keys are written over and over.
    fn hidden_max(&self, values: &ValueFiles) -> u64 {
        let segments = self.unsettled_segment_bytes(values);
        segments.saturating_add(self.unsettled_large_bytes(values))
    }

    /// Bytes of segments with records that are not flushed.
    fn unsettled_segment_bytes(&self, values: &ValueFiles) -> u64 {
        let flushed = self.flushed();
        let segments = values.iter().filter(|entry| !entry.state.is_settled(flushed));
        segments.map(|entry| entry.file.readable()).fold(0, u64::saturating_add)
    }

    /// Bytes of large values that are not flushed.
    fn unsettled_large_bytes(&self, values: &ValueFiles) -> u64 {
        let flushed = self.flushed();
        let large = values.large().filter(|entry| !entry.is_settled(flushed));
        large.map(|entry| entry.file.readable()).fold(0, u64::saturating_add)
    }

    /// Bytes of records that die with the next flush, as far as the last ones tell: nothing can be
    /// collected before it, but room has to be made for what will be garbage then.
    pub(super) fn unflushed_garbage(&self) -> u64 {
        // Elsewhere no flush tells of it.
        if !self.is_told_by_flushes() {
            return 0;
        }
        let share = self.superseding_share().unwrap_or(0.0);
        let view = self.view.load();
        // Most of the segment that was written when the last flush began is flushed. Large values
        // are in no log.
        let segments = self.unsettled_segment_bytes(&view.values).min(self.logs.unflushed_bytes());
        let unflushed = segments.saturating_add(self.unsettled_large_bytes(&view.values));
        (unflushed as f64 * share) as u64
    }

    /// The share of what is not flushed that is taken to supersede others, as memtables, the last
    /// flushes or compactions told; `None` where garbage is known by asking, not by being told.
    pub(super) fn superseding_share(&self) -> Option<f64> {
        let is_told = !matches!(self.strategy.collection(), Collects::Index(_));
        let of_flushes = (self.locating.as_ref().map(|locating| locating.superseding.get()))
            .or_else(|| self.mapping.as_ref().map(|mapping| mapping.superseding.get()));
        let learned = || of_flushes.unwrap_or_else(|| self.gc.state.lock().expected.rate);
        is_told.then(|| self.superseding_share_at_first().unwrap_or_else(learned))
    }

    /// That share where the indexes are empty yet: it is in the memtables that a first load is of
    /// new keys.
    fn superseding_share_at_first(&self) -> Option<f64> {
        let view = self.view.load();
        let is_first = view.indexes.values().all(|index| index.space().entries == 0);
        if !is_first || view.memtables().any(|memtable| memtable.has_range_deletes()) {
            return None;
        }
        Some(share_in_memtables(view.memtables().map(|memtable| memtable.separated())))
    }

    /// Log bytes that are not flushed at which a memtable is frozen.
    pub(crate) fn unflushed_bytes_max(&self) -> u64 {
        self.widths.replay_bytes_max.min(self.gc.unflushed_bytes_max())
    }

    /// Once nothing is written any more: what was written last is flushed where it may supersede
    /// much, and a segment that is mostly dead is ended, so that it can be collected.
    fn end_quiet_tail(self: &Arc<Self>, above: u64, least: u64) -> Result<bool> {
        let view = self.view.load_full();
        let (refs, ref_bytes) = self.named_records(&view.values);
        let unflushed: u64 = view.memtables().map(|table| table.entries()).sum();
        let mean_bytes = ref_bytes.checked_div(refs).unwrap_or(0);
        let mut of_memtables = unflushed.saturating_mul(mean_bytes).min(ref_bytes);
        if view.memtables().any(|table| table.has_range_deletes()) {
            of_memtables = ref_bytes;
        }
        let of_memtables = of_memtables.saturating_add(self.hidden_max(&view.values));
        let is_unfrozen = self.visible.load(Ordering::Acquire) > self.last_frozen();
        let is_much = of_memtables.saturating_add(above) >= least;
        if is_unfrozen && unflushed > 0 && of_memtables > 0 && is_much {
            mark!("gc_flush_asked_for_facts");
            self.commit(Work::control(Task::Freeze))?;
            self.gc.look_anew();
            return Ok(true);
        }
        if is_unfrozen || !self.end_named_little(DeadTail { percent: 50, bytes_min: least })? {
            return Ok(false);
        }
        self.gc.look_anew();
        Ok(true)
    }

    /// Seals the open segment where entries name so little of it, all of it being flushed.
    pub(super) fn end_named_little(self: &Arc<Self>, limit: DeadTail) -> Result<bool> {
        let Some((id, lines)) = self.value_lane.open_lines() else { return Ok(false) };
        let bytes: u64 = lines.iter().map(|line| u64::from(line.bytes)).sum();
        let named = self.view.load().values.get(id).map_or(0, |entry| entry.state.ref_bytes);
        let mapped = self.mapping.as_ref().map_or(0, |mapping| mapping.live_in(id).bytes.max(0));
        let named = named + mapped as u64;
        if self.reserve.is_given_up() || !is_much(bytes, bytes.saturating_sub(named), limit) {
            return Ok(false);
        }
        mark!("gc_open_segment_ended_for_facts");
        self.commit(Work::control(Task::RollValues))?;
        Ok(true)
    }
}

/// Entries of an index that may supersede one below them.
fn above_last_level(space: &IndexSpace) -> u64 {
    let last = space.levels.iter().rposition(|level| level.entries > 0);
    let above = space.levels.iter().take(last.unwrap_or(0)).map(|level| level.entries).sum();
    // Runs of level 0 may supersede each other; the oldest one supersedes nothing.
    match space.levels.first() {
        Some(level) if level.files > 1 && last == Some(0) => {
            space.entries - space.entries / level.files as u64
        }
        _ => above,
    }
}
