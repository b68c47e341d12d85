//! A get by way of the locator.
//!
//! Invariants: SE-1 the note is taken before the view, and what is offered afterwards is the newest
//! flushed version of that view (rule R15). SE-2 what is found is checked against the range
//! deletes of the view's index: those in its memtables have been met before. SE-3 an answer comes
//! only with a record that proved itself; everything else is left to the index. SE-4 the locator
//! may be ahead of the view: what was flushed after it is none of its state, whatever the seq, or
//! keys that are read together would be of two moments.

use crate::base::checksum::key_hash;
use crate::base::entry::{Kind, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::value::Value;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::locate::Locating;
use crate::engine::view::View;
use crate::index::KeyLookup;
use crate::values::locator::place::Place;
use crate::values::locator::{LocatorKey, Note, Offer, Verdict};
use crate::values::reader::located::{Located, Sought};

/// The search for one key.
pub(crate) struct Search<'a> {
    locating: &'a Locating,
    key: LocatorKey<'a>,
    note: Note,
    /// Candidates that are not the key's.
    met: Vec<(Place, Verdict)>,
}

impl<'a> Search<'a> {
    /// Begins a search, where there is a locator, and it is any use to gets like this one. Before
    /// the view is taken (SE-1).
    pub(crate) fn begin(
        engine: &'a Engine,
        keyspace: &KeyspaceState,
        key: &'a [u8],
    ) -> Option<Self> {
        let locating = engine.locating.as_deref().filter(|locating| locating.has_values())?;
        if keyspace.unlocated.leaves_out(|| key_hash(key)) {
            return None;
        }
        Some(Self::of(locating, keyspace, key))
    }

    fn of(locating: &'a Locating, keyspace: &KeyspaceState, key: &'a [u8]) -> Self {
        let key = locating.key(keyspace.id, key);
        Self { locating, key, note: locating.locator.note(&key), met: Vec::new() }
    }

    /// Decides the lookup, if the locator leads to its value. The memtables have been asked, and
    /// have not decided.
    pub(crate) fn find(
        &mut self,
        engine: &Engine,
        view: &View,
        lookup: &mut Lookup,
    ) -> Result<bool> {
        let sought = self.sought(view, lookup);
        let reader = engine.value_reader(&view.values);
        for place in self.locating.locator.lookup(&self.key).iter() {
            match reader.read_at(&place, &sought) {
                Located::Value(seq, value) => return self.accept(view, lookup, seq, value),
                Located::Newer => {
                    for link in self.locating.locator.links(&self.key, sought.snapshot).iter() {
                        if let Located::Value(seq, value) = reader.read_at(&link, &sought) {
                            mark!("locator_chain_hit");
                            return self.accept(view, lookup, seq, value);
                        }
                        mark!("locator_chain_miss");
                    }
                    return Ok(false);
                }
                other => self.note_met(place, &other),
            }
        }
        Ok(false)
    }

    /// What to look for at a candidate's place (SE-4).
    fn sought(&self, view: &View, lookup: &Lookup) -> Sought<'a> {
        let LocatorKey { keyspace, key, .. } = self.key;
        Sought { keyspace, key, snapshot: lookup.snapshot.min(view.flushed) }
    }

    /// A candidate is not the key's.
    fn note_met(&mut self, place: Place, located: &Located) {
        match located {
            Located::OtherKey => self.met.push((place, Verdict::OtherKey)),
            Located::Gone => self.met.push((place, Verdict::Gone)),
            Located::Value(..) | Located::Newer | Located::Unproven => {}
        }
    }

    /// SE-2. The lookup goes on from here as if the value stood in the entry; what is kept apart
    /// from the index, whoever asked adds.
    fn accept(&self, view: &View, lookup: &mut Lookup, seq: Seq, value: Value) -> Result<bool> {
        let Some(index) = view.indexes.get(&self.key.keyspace) else { return Ok(false) };
        let cover = index.cover(self.key.key, lookup.snapshot)?;
        if cover > seq && !planted!("locator_ignores_range_deletes") {
            mark!("locator_hit_under_range_delete");
            return Ok(false);
        }
        mark!("locator_hit");
        self.locating.hits.add(1);
        Ok(lookup.offer(seq, Kind::Put, || value))
    }

    /// The index has answered, `is_bare` if without operands: it is right to go by its answer from
    /// here on, if that is a record of a place that is known, and nothing came between (SE-1). What
    /// an old snapshot sees need not be the newest version.
    pub(crate) fn offer(
        self,
        engine: &Engine,
        view: &View,
        lookup: &Lookup,
        is_bare: bool,
        is_newest: bool,
    ) {
        self.locating.misses.add(1);
        let Some(found) = lookup.found.as_ref().filter(|found| found.kind == Kind::PutSeparated)
        else {
            return;
        };
        let is_newest = is_newest || planted!("locator_offered_what_a_snapshot_sees");
        // Where operands of the index stand above the value, it is not its key's newest version.
        if !is_newest || !(is_bare || planted!("locator_offered_below_operands")) {
            return;
        }
        let Ok(handle) = engine.strategy.resolve(&found.value) else { return };
        let Some(place) = engine.value_reader(&view.values).known_place(&handle) else { return };
        match self.locating.locator.offer(&self.key, self.note, place, &self.met) {
            Offer::Inserted => mark!("locator_offer_taken"),
            Offer::OverGone => mark!("locator_offer_over_gone"),
            Offer::Beside => mark!("locator_offer_beside"),
            Offer::Refused(_) => {}
        }
    }
}

/// The searches of a batch, one for each key.
pub(crate) struct Searches<'a> {
    searches: Vec<Search<'a>>,
    /// Operands that the memtables had of each key.
    operands: Vec<usize>,
    /// Keys that the locator decided, or the memtables before.
    are_decided: Vec<bool>,
    /// Keys of which the index had no operands.
    are_bare: Vec<bool>,
}

impl<'a> Searches<'a> {
    /// Begins them, where there is a locator. Before the view is taken (SE-1).
    pub(crate) fn begin(
        engine: &'a Engine,
        keyspace: &KeyspaceState,
        keys: &[&'a [u8]],
    ) -> Option<Self> {
        let locating = engine.locating.as_deref().filter(|locating| locating.has_values())?;
        let searches = keys.iter().map(|key| Search::of(locating, keyspace, key)).collect();
        Some(Self { searches, operands: Vec::new(), are_decided: Vec::new(), are_bare: Vec::new() })
    }

    /// Decides those lookups whose values the first candidates are, all device reads under way
    /// together. The memtables have been asked.
    pub(crate) fn find(
        &mut self,
        engine: &Engine,
        view: &View,
        keys: &mut [KeyLookup<'_>],
    ) -> Result<()> {
        let mut asked = Vec::with_capacity(keys.len());
        let mut places = Vec::with_capacity(keys.len());
        for (number, (search, key)) in self.searches.iter().zip(&*keys).enumerate() {
            self.operands.push(key.lookup.operands.len());
            if key.lookup.found.is_some() {
                continue;
            }
            if let Some(place) = search.locating.locator.lookup(&search.key).iter().next() {
                places.push((place, search.sought(view, &key.lookup)));
                asked.push(number);
            }
        }
        let located = engine.value_reader(&view.values).read_many_at(&places);
        for ((number, (place, _)), located) in asked.into_iter().zip(places).zip(located) {
            let search = self.searches.get_mut(number).zip(keys.get_mut(number));
            let Some((search, key)) = search else { continue };
            match located {
                Located::Value(seq, value) => {
                    search.accept(view, &mut key.lookup, seq, value)?;
                }
                other => search.note_met(place, &other),
            }
        }
        self.are_decided = keys.iter().map(|key| key.lookup.found.is_some()).collect();
        Ok(())
    }

    /// The index has answered the rest.
    pub(crate) fn note_answers(&mut self, keys: &[KeyLookup<'_>]) {
        let are_bare = self.operands.iter().zip(keys);
        self.are_bare =
            are_bare.map(|(operands, key)| key.lookup.operands.len() == *operands).collect();
    }

    /// All that is known of the rest is there.
    pub(crate) fn offer(
        self,
        engine: &Engine,
        view: &View,
        keys: &[KeyLookup<'_>],
        is_newest: bool,
    ) {
        let before = self.are_bare.into_iter().zip(self.are_decided);
        for ((search, key), (is_bare, is_decided)) in
            self.searches.into_iter().zip(keys).zip(before)
        {
            if !is_decided {
                search.offer(engine, view, &key.lookup, is_bare, is_newest);
            }
        }
    }
}
