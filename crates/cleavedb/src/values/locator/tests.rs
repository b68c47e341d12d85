//! The locator by its face: offers and refusals, swings, windows, chains, versions, bounds; and
//! against a map.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::base::checksum::KeyedHash;
use crate::base::entry::FileId;
use crate::io::seeded::Seeded;
use proptest::prelude::*;

fn settings() -> Settings {
    Settings { shard_bits: 1, ..Settings::for_budget(1 << 24) }
}

fn locator() -> Locator {
    Locator::new(settings(), Generation(0))
}

fn key(name: &[u8], hash: u64) -> LocatorKey<'_> {
    LocatorKey { keyspace: KeyspaceId(1), key: name, hash }
}

fn place(container: u64, number: u64) -> Place {
    Place::of(FileId(container), number * 1040, 1000).unwrap()
}

fn found(locator: &Locator, key: &LocatorKey<'_>) -> Vec<Place> {
    locator.lookup(key).iter().collect()
}

fn flush(locator: &Locator, touches: &[(LocatorKey<'_>, Option<Place>)]) -> Vec<Place> {
    let mut replaced = Vec::new();
    let mut flush = locator.begin_flush(None);
    for (key, place) in touches {
        flush.touch(key, *place, 1, &mut replaced);
    }
    flush.publish(Generation(1));
    replaced
}

fn refused(refusal: Refusal) -> Offer {
    Offer::Refused(refusal)
}

#[test]
fn a_flush_replaces_and_removes_and_says_what() {
    let (locator, a) = (locator(), key(b"a", 7 << 52));
    assert_eq!(flush(&locator, &[(a, Some(place(3, 1)))]), []);
    assert_eq!(found(&locator, &a), [place(3, 1)]);
    assert_eq!(flush(&locator, &[(a, Some(place(4, 0)))]), [place(3, 1)]);
    assert_eq!(found(&locator, &a), [place(4, 0)]);
    assert_eq!(flush(&locator, &[(a, None)]), [place(4, 0)]);
    assert_eq!(found(&locator, &a), []);
    assert_eq!(flush(&locator, &[(a, None)]), []);
}

#[test]
fn offers_count_only_while_no_flush_touches_the_shard() {
    let (locator, a, b) = (locator(), key(b"a", 1 << 52), key(b"b", 5 << 52));
    let elsewhere = key(b"c", 1 << 63);
    let before = locator.note(&a);
    let mut touches = locator.begin_flush(None);
    assert_eq!(locator.offer(&a, before, place(2, 0), &[]), Offer::Inserted, "nothing touched yet");
    touches.touch(&b, Some(place(3, 0)), 1, &mut Vec::new());
    let between = locator.note(&a);
    assert_eq!(locator.offer(&a, before, place(2, 1), &[]), refused(Refusal::Changed));
    assert_eq!(locator.offer(&a, between, place(2, 1), &[]), refused(Refusal::Odd));
    let other = locator.note(&elsewhere);
    assert_eq!(locator.offer(&elsewhere, other, place(2, 2), &[]), Offer::Inserted);
    // A second flush at the same time: even only after both.
    let mut second = locator.begin_flush(None);
    second.touch(&b, None, 1, &mut Vec::new());
    touches.publish(Generation(1));
    let between = locator.note(&a);
    assert_eq!(locator.offer(&a, between, place(2, 1), &[]), refused(Refusal::Odd));
    drop(second);
    assert_eq!(locator.offer(&a, between, place(2, 1), &[]), refused(Refusal::Odd));
    let after = locator.note(&b);
    assert_eq!(locator.offer(&b, after, place(2, 1), &[]), Offer::Inserted);
}

#[test]
fn what_collides_goes_to_the_side_map_only_if_it_was_read() {
    // The same page and fingerprint: the hashes differ behind them.
    let (locator, a, b) = (locator(), key(b"a", 9 << 52), key(b"b", 9 << 52 | 1));
    flush(&locator, &[(a, Some(place(3, 0)))]);
    let note = locator.note(&b);
    assert_eq!(locator.offer(&b, note, place(3, 1), &[]), refused(Refusal::Unverified));
    let wrong = [(place(3, 9), Verdict::OtherKey)];
    assert_eq!(locator.offer(&b, note, place(3, 1), &wrong), refused(Refusal::Unverified));
    let met = [(place(3, 0), Verdict::OtherKey)];
    assert_eq!(locator.offer(&b, note, place(3, 1), &met), Offer::Beside);
    assert_eq!(locator.offer(&b, note, place(3, 1), &met), refused(Refusal::HasHome));
    assert_eq!((found(&locator, &a), found(&locator, &b)), (vec![place(3, 0)], vec![place(3, 1)]));
    // Touches of one leave the other alone, from then on.
    assert_eq!(flush(&locator, &[(b, Some(place(4, 1)))]), [place(3, 1)]);
    assert_eq!(found(&locator, &a), [place(3, 0)]);
    assert!(locator.swing(&b, &place(4, 1), Some(place(5, 1))));
    assert_eq!(flush(&locator, &[(b, None)]), [place(5, 1)]);
    assert_eq!(found(&locator, &b), [place(3, 0)], "a candidate that will not prove itself");
    // Without a home beside, a touch of one takes what may be its own.
    assert_eq!(flush(&locator, &[(b, Some(place(6, 0)))]), [place(3, 0)]);
    assert_eq!(found(&locator, &a), [place(6, 0)]);
}

#[test]
fn what_is_gone_is_written_over_unless_it_is_newer() {
    let (locator, a) = (locator(), key(b"a", 9 << 52));
    flush(&locator, &[(a, Some(place(5, 0)))]);
    let (note, met) = (locator.note(&a), [(place(5, 0), Verdict::Gone)]);
    assert_eq!(locator.offer(&a, note, place(4, 0), &met), refused(Refusal::Newer));
    assert_eq!(found(&locator, &a), [place(5, 0)]);
    assert_eq!(locator.offer(&a, note, place(6, 0), &met), Offer::OverGone);
    assert_eq!(found(&locator, &a), [place(6, 0)]);
    assert_eq!(locator.offer(&a, note, place(6, 0), &met), refused(Refusal::Unverified));
    // In the side map likewise.
    let b = key(b"b", 9 << 52 | 1);
    let other = [(place(6, 0), Verdict::OtherKey)];
    assert_eq!(locator.offer(&b, note, place(6, 1), &other), Offer::Beside);
    let gone = [(place(6, 1), Verdict::Gone)];
    assert_eq!(locator.offer(&b, note, place(5, 1), &gone), refused(Refusal::Newer));
    assert_eq!(locator.offer(&b, note, place(7, 1), &gone), Offer::OverGone);
    assert_eq!(found(&locator, &b), [place(7, 1)]);
}

#[test]
fn a_swing_changes_exactly_the_place_it_names() {
    let (locator, a) = (locator(), key(b"a", 9 << 52));
    flush(&locator, &[(a, Some(place(5, 3)))]);
    assert!(!locator.swing(&a, &place(5, 2), Some(place(8, 0))));
    assert!(!locator.swing(&a, &place(4, 3), Some(place(8, 0))));
    assert_eq!(found(&locator, &a), [place(5, 3)]);
    assert!(locator.swing(&a, &place(5, 3), Some(place(8, 0))));
    assert_eq!(found(&locator, &a), [place(8, 0)]);
    assert!(locator.swing(&a, &place(8, 0), None));
    assert_eq!(found(&locator, &a), []);
}

#[test]
fn a_window_that_is_used_up_takes_its_entries_with_it() {
    let (locator, a, b) = (locator(), key(b"a", 9 << 52), key(b"b", 77 << 52));
    let elsewhere = key(b"c", 1 << 63);
    let far = 1 << WINDOW_BITS;
    flush(&locator, &[(a, Some(place(5, 0))), (elsewhere, Some(place(6, 0)))]);
    flush(&locator, &[(b, Some(place(far + 5, 1)))]);
    assert_eq!(found(&locator, &a), [], "no entry of the old window stays");
    assert_eq!(found(&locator, &b), [place(far + 5, 1)]);
    assert_eq!(found(&locator, &elsewhere), [place(6, 0)], "another shard has its own window");
    assert_eq!(locator.figures().rolls, 1);
    // Containers that are there already still have a number in the new one, but not all.
    let note = locator.note(&a);
    assert_eq!(locator.offer(&a, note, place(far, 2), &[]), Offer::Inserted);
    assert_eq!(
        locator.offer(&key(b"d", 3 << 50), note, place(9, 2), &[]),
        refused(Refusal::NoRoom)
    );
    flush(&locator, &[(a, Some(place(9, 3)))]);
    assert_eq!(found(&locator, &a), [], "a place that cannot be named is a removal");
}

#[test]
fn chains_are_made_for_older_snapshots_only() {
    let (locator, a) = (locator(), key(b"a", 9 << 52));
    let links = |snapshot| locator.links(&a, snapshot).iter().collect::<Vec<_>>();
    let touch = |oldest, superseding, to| {
        let mut touches = locator.begin_flush(oldest);
        touches.touch(&a, Some(to), superseding, &mut Vec::new());
        touches.publish(Generation(1));
    };
    touch(None, 5, place(1, 0));
    touch(Some(10), 10, place(2, 0));
    assert_eq!(links(7), [], "the oldest snapshot sees the new version");
    touch(Some(19), 20, place(3, 0));
    assert_eq!((links(19), links(20)), (vec![place(2, 0)], vec![]));
    touch(Some(19), 30, place(4, 0));
    assert_eq!((links(19), links(25)), (vec![place(2, 0), place(3, 0)], vec![place(3, 0)]));
    assert!(locator.swing(&a, &place(4, 0), Some(place(6, 0))));
    locator.swing(&a, &place(3, 0), Some(place(7, 0)));
    assert_eq!(links(25), [place(7, 0)]);
    locator.prune_chains(Some(25));
    assert_eq!(links(19), [place(7, 0)]);
    locator.prune_chains(None);
    assert_eq!((links(0), locator.figures().links), (vec![], 0));
}

#[test]
fn the_budget_holds_and_clearing_forgets_everything() {
    let budget = 200 << 10;
    let locator = Locator::new(Settings::for_budget(budget), Generation(0));
    let mut random = Seeded::new(3);
    let hashes: Vec<u64> = (0..50_000).map(|_| random.next()).collect();
    for (number, hash) in (0..).zip(&hashes) {
        flush(&locator, &[(key(b"", *hash), Some(place(number / 60 + 1, number % 60)))]);
    }
    let figures = locator.figures();
    assert!(figures.bytes <= budget, "{figures:?}");
    assert!(figures.entries > 15_000 && figures.evicted[0] > 25_000, "{figures:?}");
    let newest = hashes.iter().rev().take(5000);
    let kept = newest.filter(|hash| !found(&locator, &key(b"", **hash)).is_empty()).count();
    assert!(kept > 3500, "{kept} of the newest 5000");
    locator.clear();
    let figures = locator.figures();
    assert_eq!((figures.entries, figures.beside, figures.links), (0, 0, 0));
    assert!(hashes.iter().all(|hash| found(&locator, &key(b"", *hash)).is_empty()));
}

proptest! {
    /// With all bits, against a map: what proves to be a key's is its newest place, and hardly
    /// anything is missing.
    #[test]
    fn what_a_locator_finds_is_what_a_map_holds(
        operations in proptest::collection::vec((0..200u64, 0..10u8), 0..2000),
        seed: u64,
    ) {
        let hash = KeyedHash::new(&u128::from(seed).to_le_bytes());
        // Keys that share all bits an entry knows share an entry.
        let name_hash = |name: u64| hash.hash(KeyspaceId(1), &name.to_le_bytes());
        let known: HashSet<u64> = (0..200).map(|name| name_hash(name) >> 48).collect();
        let is_exact = known.len() == 200;
        let (locator, mut map) = (locator(), HashMap::new());
        for (number, (name, kind)) in (0..).zip(operations) {
            let name = name.to_le_bytes();
            let key = key(&name, hash.hash(KeyspaceId(1), &name));
            let at = place(number / 60 + 1, number % 60);
            let replaced = match kind {
                0..=1 => flush(&locator, &[(key, None)]),
                _ => flush(&locator, &[(key, Some(at))]),
            };
            let before = match kind {
                0..=1 => map.remove(&name),
                _ => map.insert(name, at),
            };
            prop_assert!(!is_exact || replaced == Vec::from_iter(before));
        }
        let keys = map.iter().map(|(name, at)| (key(name, hash.hash(KeyspaceId(1), name)), *at));
        let missing = keys.filter(|(key, at)| !found(&locator, key).contains(at)).count();
        prop_assert!(if is_exact { missing == 0 } else { missing < 5 }, "{missing}");
    }
}
