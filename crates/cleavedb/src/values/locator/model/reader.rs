//! A reader in sub-steps: note, view, candidates, records, answer, offer.

use std::sync::Arc;

use crate::base::entry::Seq;
use crate::values::locator::place::Place;
use crate::values::locator::{Note, Offer, Refusal, Verdict};

use super::Lapse;
use super::world::{View, World};

/// Where a read is.
enum Stage {
    Noted,
    Viewed(View, Seq),
    LookedUp(View, Seq, Vec<Place>),
    Answered(Place, Vec<(Place, Verdict)>),
}

/// A read of one key.
pub(super) struct Reader {
    key: u8,
    note: Note,
    stage: Stage,
}

impl Reader {
    pub(super) fn new(world: &mut World, key: u8) -> Self {
        let note = world.with_key(key, |key| world.locator.note(key));
        Self { key, note, stage: Stage::Noted }
    }

    /// One step; `None` when it is done, an error when the answer is wrong.
    pub(super) fn step(self, world: &mut World) -> Result<Option<Self>, String> {
        let Self { key, note, stage } = self;
        let next = match stage {
            Stage::Noted => {
                if world.flushes.iter().flatten().any(|flush| flush.is_between()) {
                    world.mark("view_between_touch_and_publication");
                }
                let old = world.random.chance(50).then_some(&world.snapshots);
                let old = old.filter(|snapshots| !snapshots.is_empty());
                let at = old.map(|snapshots| snapshots.len()).unwrap_or_default();
                let newest = world.next_seq - 1;
                let snapshot = match at {
                    0 => newest,
                    count => world.snapshots[world.random.index(count)],
                };
                Stage::Viewed(world.view(), snapshot)
            }
            Stage::Viewed(view, snapshot) => {
                let found = world.with_key(key, |key| world.locator.lookup(key));
                let found = found.iter().collect();
                Stage::LookedUp(view, snapshot, found)
            }
            Stage::LookedUp(view, snapshot, found) => {
                match answer(world, key, &view, snapshot, &found)? {
                    Some((place, met)) => Stage::Answered(place, met),
                    None => return Ok(None),
                }
            }
            Stage::Answered(place, met) => {
                let locator = Arc::clone(&world.locator);
                let offer = world.with_key(key, |key| locator.offer(key, note, place, &met));
                world.mark(match offer {
                    Offer::Inserted => "offer_inserted",
                    Offer::OverGone => "offer_over_gone",
                    Offer::Beside => "offer_beside",
                    Offer::Refused(Refusal::Odd) => "offer_refused_odd",
                    Offer::Refused(Refusal::Changed) => "offer_refused_changed",
                    Offer::Refused(Refusal::Waiting) => "offer_refused_waiting",
                    Offer::Refused(Refusal::Unverified) => "offer_refused_unverified",
                    Offer::Refused(Refusal::Newer) => "offer_refused_newer",
                    Offer::Refused(Refusal::HasHome) => "offer_refused_has_home",
                    Offer::Refused(Refusal::NoRoom) => "offer_refused_no_room",
                });
                return Ok(None);
            }
        };
        Ok(Some(Self { key, note, stage: next }))
    }
}

/// What a read may offer: a place, and what it met.
type Offered = Option<(Place, Vec<(Place, Verdict)>)>;

/// Answers from memtables, candidates, chains or index, and holds that against the truth.
fn answer(
    world: &mut World,
    key: u8,
    view: &View,
    snapshot: Seq,
    found: &[Place],
) -> Result<Offered, String> {
    let check = |world: &World, from: &str, seq: Option<Seq>| {
        let truth = world.truth(key, snapshot);
        if seq == truth {
            return Ok(());
        }
        Err(format!("key {key} at {snapshot}: {from} says {seq:?}, the truth is {truth:?}"))
    };
    let recent = view.recent.iter().filter(|op| op.key == key && op.seq <= snapshot);
    let is_recent = recent.max_by_key(|op| op.seq).is_some();
    let (mut met, mut is_newer, mut is_answered) = (Vec::new(), false, is_recent);
    for place in found {
        match world.read(view, place) {
            None => {
                world.mark("candidate_gone");
                met.push((*place, Verdict::Gone));
            }
            Some(Some(record)) if record.key == key || world.has(Lapse::NoKeyCheck) => {
                if record.seq > snapshot && !world.has(Lapse::NoSeqCheck) {
                    world.mark("candidate_newer_than_snapshot");
                    is_newer = true;
                } else if !is_answered {
                    world.mark("answered_by_locator");
                    check(world, "the locator", Some(record.seq))?;
                    is_answered = true;
                }
            }
            Some(_) => {
                world.mark("candidate_of_another_key");
                met.push((*place, Verdict::OtherKey));
            }
        }
    }
    if is_newer && !is_answered {
        is_answered = follow_chain(world, key, view, snapshot, &check)?;
    }
    let versions = view.manifest.index.get(&key).map(Vec::as_slice).unwrap_or_default();
    let seen = versions.iter().rev().find(|(seq, ..)| *seq <= snapshot);
    if !is_answered {
        let seq = seen.filter(|(_, is_value, _)| *is_value).map(|(seq, ..)| *seq);
        check(world, "the index", seq)?;
    }
    // The newest flushed version of the view, not the one at the snapshot.
    let newest = if world.has(Lapse::OfferAtSnapshot) { seen } else { versions.last() };
    let Some((seq, _, true)) = newest else { return Ok(None) };
    let Some(place) = view.manifest.places.get(seq) else {
        return Err(format!("version {seq} of key {key} has no place"));
    };
    Ok(Some((*place, met)))
}

fn follow_chain(
    world: &mut World,
    key: u8,
    view: &View,
    snapshot: Seq,
    check: &impl Fn(&World, &str, Option<Seq>) -> Result<(), String>,
) -> Result<bool, String> {
    let links = world.with_key(key, |key| world.locator.links(key, snapshot));
    for place in links.iter() {
        match world.read(view, &place) {
            Some(Some(record)) if record.key == key && record.seq <= snapshot => {
                world.mark("chain_hit");
                check(world, "a chain", Some(record.seq))?;
                return Ok(true);
            }
            _ => world.mark("chain_miss"),
        }
    }
    Ok(false)
}
