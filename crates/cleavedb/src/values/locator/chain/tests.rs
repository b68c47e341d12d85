//! Intervals, order, cap and pruning of chains.

use super::*;
use crate::base::entry::FileId;

fn place(number: u64) -> Place {
    Place::of(FileId(number), 64, 100).unwrap()
}

fn key(hash: u64) -> LocatorKey<'static> {
    LocatorKey { keyspace: KeyspaceId(1), key: b"key", hash }
}

fn at(chains: &Chains, hash: u64, snapshot: Seq) -> Vec<Place> {
    chains.at(&key(hash), snapshot, Guards::default()).collect()
}

#[test]
fn a_link_serves_snapshots_before_its_seq() {
    let mut chains = Chains::default();
    chains.push(&key(5), 20, place(2), 8);
    chains.push(&key(5), 10, place(1), 8);
    chains.push(&key(6), 15, place(3), 8);
    assert_eq!(at(&chains, 5, 9), [place(1), place(2)]);
    assert_eq!(at(&chains, 5, 10), [place(2)]);
    assert_eq!(at(&chains, 5, 20), []);
    assert_eq!(at(&chains, 5, Seq::MAX), []);
    assert_eq!(at(&chains, 4, 0), []);
    chains.swing(&key(5), &place(2), Some(place(7)));
    assert_eq!(at(&chains, 5, 12), [place(7)]);
    chains.swing(&key(5), &place(2), Some(place(8)));
    assert_eq!(at(&chains, 5, 12), [place(7)], "it is not there any more");
    chains.swing(&key(6), &place(3), None);
    assert_eq!(at(&chains, 6, 0), []);
}

#[test]
fn a_link_serves_no_other_key_of_the_same_hash() {
    let mut chains = Chains::default();
    chains.push(&key(5), 20, place(2), 8);
    for other in
        [LocatorKey { keyspace: KeyspaceId(2), ..key(5) }, LocatorKey { key: b"kez", ..key(5) }]
    {
        assert_eq!(chains.at(&other, 3, Guards::default()).count(), 0);
    }
    assert_eq!(at(&chains, 5, 3), [place(2)]);
}

#[test]
fn what_no_snapshot_needs_goes_and_the_cap_holds() {
    let mut chains = Chains::default();
    for number in 1..20 {
        chains.push(&key(number % 3), number * 10, place(number), 6);
    }
    assert_eq!((chains.len(), chains.evicted()), (6, 13));
    chains.prune(Some(150));
    assert_eq!(chains.len(), 4, "those superseded after 150 stay");
    assert_eq!(chains.order.len(), 4);
    chains.prune(None);
    assert_eq!((chains.len(), chains.bytes()), (0, 0));
    chains.push(&key(1), 1, place(1), 0);
    assert_eq!(chains.len(), 0, "no link where none may be");
}
