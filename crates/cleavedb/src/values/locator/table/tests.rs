//! The table against a map that knows every hash: what is found is a superset of what should be,
//! and what is missing was evicted or dropped, and counted.

use std::collections::BTreeMap;

use super::*;
use crate::io::seeded::Seeded;
use proptest::prelude::*;

/// A table and what it should hold: payloads, each once, with their hashes.
struct Twin {
    table: Table,
    hashes: BTreeMap<u64, u64>,
    payloads: u64,
}

impl Twin {
    fn new(shape: Shape) -> Self {
        Self { table: Table::new(shape), hashes: BTreeMap::new(), payloads: 0 }
    }

    fn remove(&mut self, hash: u64) {
        let hashes = &mut self.hashes;
        self.table.remove(hash, |entry| {
            hashes.remove(&(entry & PAYLOAD_MASK)).expect("an entry that nobody put in");
            true
        });
        // What is left and matches is another hash's: a merge may have made it look the same.
        assert!(self.hashes.values().all(|other| *other != hash), "not every match was removed");
    }

    fn put(&mut self, hash: u64) {
        self.remove(hash);
        self.payloads += 1;
        assert!(!self.table.insert(hash, self.payloads, usize::MAX));
        self.hashes.insert(self.payloads, hash);
        self.forget_dropped();
    }

    /// Entries may be dropped with a split; the twin learns which ones.
    fn forget_dropped(&mut self) {
        if self.table.len() < self.hashes.len() {
            let all: Vec<u64> = self.entries().map(|entry| entry & PAYLOAD_MASK).collect();
            self.hashes.retain(|payload, _| all.contains(payload));
        }
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        self.table.pages.iter().flat_map(|page| entries_of(page)).copied()
    }

    fn check(&self) {
        let Table { pages, depth, split, entries, shape, .. } = &self.table;
        assert_eq!(*entries, self.hashes.len());
        assert!(pages.is_empty() && *depth == 0 || pages.len() == (1 << depth) + split, "LT-1");
        for page in pages {
            assert!(ends_of(page).is_sorted(), "LT-2");
            assert_eq!(usize::from(ends_of(page)[DRAWERS - 1]), entries_of(page).len(), "LT-2");
            assert!(page.capacity() < page.len() + 2 * STEP_ENTRIES);
            for entry in entries_of(page) {
                let known = known_bits(fingerprint(*entry));
                assert!((shape.floor_bits..=shape.fingerprint_bits).contains(&known), "LT-4");
            }
        }
        for (payload, hash) in &self.hashes {
            let found = self.table.matches(*hash).any(|entry| entry & PAYLOAD_MASK == *payload);
            assert!(found, "LT-3: {payload} is not found by its hash");
        }
        let again = Table::from_pages(*shape, *depth, *split, pages.clone()).unwrap();
        assert_eq!(again.len(), self.table.len());
    }
}

const TINY: Shape = Shape { fingerprint_bits: 2, floor_bits: 1, page_entries: 3 };

#[test]
fn it_grows_and_shrinks_and_nothing_is_lost_but_what_is_counted() {
    let mut random = Seeded::new(7);
    let mut twin = Twin::new(Shape { page_entries: 12, ..Shape::USUAL });
    let hashes: Vec<u64> = (0..20_000).map(|_| random.next()).collect();
    for (number, hash) in hashes.iter().enumerate() {
        twin.put(*hash);
        if number % 4999 == 0 {
            twin.check();
        }
    }
    twin.check();
    let (pages, dropped) = (twin.table.pages(), twin.table.dropped());
    assert!((1500..1800).contains(&pages), "{pages} pages");
    assert!(dropped > 0, "entries of the first pages are known too badly by now");
    let missing = hashes.len() - twin.hashes.len();
    let touched = missing as u64 - dropped;
    assert!(touched < 200, "{touched} went as matches of others");
    for hash in &hashes[100..] {
        twin.remove(*hash);
    }
    twin.check();
    assert!(twin.table.len() <= 100 && twin.table.pages() < 40, "pages are merged again");
}

#[test]
fn a_split_keeps_every_entry_of_few_doublings() {
    let mut random = Seeded::new(8);
    let mut table = Table::new(Shape { page_entries: 16, ..Shape::USUAL });
    let hashes: Vec<u64> = (0..16 << 7).map(|_| random.next()).collect();
    for (payload, hash) in hashes.iter().enumerate() {
        table.insert(*hash, payload as u64, usize::MAX);
    }
    assert_eq!((table.dropped(), table.len()), (0, hashes.len()));
    for (payload, hash) in hashes.iter().enumerate() {
        assert!(table.matches(*hash).any(|entry| entry & PAYLOAD_MASK == payload as u64));
    }
}

#[test]
fn a_full_table_lets_one_go_for_each_that_comes() {
    let mut random = Seeded::new(9);
    let mut table = Table::new(Shape { page_entries: 8, ..Shape::USUAL });
    let mut evicted = 0;
    for payload in 0..5000 {
        evicted += u64::from(table.insert(random.next(), payload, 1000));
        assert!(table.len() <= 1000);
    }
    assert!(evicted >= 3990, "{evicted}");
    let all = table.pages.iter().flat_map(|page| entries_of(page));
    let newest = all.filter(|entry| **entry & PAYLOAD_MASK > 4000).count();
    assert!(newest > 500, "what came last is mostly there");
}

#[test]
fn a_change_is_of_the_payload_alone() {
    let mut table = Table::new(TINY);
    table.insert(5 << 60, 11, usize::MAX);
    table.insert(5 << 60, 12, usize::MAX);
    assert!(!table.change(5 << 60, |_| None));
    let twelve = |entry: u64| (entry & PAYLOAD_MASK == 12).then_some(u64::MAX);
    assert!(table.change(5 << 60, twelve));
    assert!(!table.change(13 << 60, twelve), "another fingerprint");
    let mut found: Vec<u64> = table.matches(5 << 60).map(|entry| entry & PAYLOAD_MASK).collect();
    found.sort_unstable();
    assert_eq!(found, [11, PAYLOAD_MASK]);
}

#[test]
fn pages_that_make_no_table_are_refused() {
    let entry = |fingerprint: u64| fingerprint << PAYLOAD_BITS | 1 << 28;
    let make = |depth, split, pages: &[Vec<u64>]| {
        Table::from_pages(Shape::USUAL, depth, split, pages.to_vec()).is_some()
    };
    let page = |counts: &[u8], entries: &[u64]| {
        let mut ends = [counts.last().copied().unwrap_or_default(); DRAWERS];
        ends[..counts.len()].copy_from_slice(counts);
        let mut page: Vec<u64> = head_of(ends).collect();
        page.extend(entries);
        page
    };
    let three = page(&[0, 1, 3], &[entry(1), entry(3), entry(0x8080)]);
    assert!(make(0, 0, &[]));
    assert!(make(0, 0, std::slice::from_ref(&three)));
    assert!(make(1, 1, &[three, vec![], vec![]]));
    assert!(!make(1, 0, &[]), "no pages at all");
    assert!(!make(1, 2, &[const { vec![] }; 4]), "more split than there are");
    assert!(!make(1, 1, &[vec![], vec![]]), "a page too few");
    assert!(!make(DEPTH_MAX + 1, 0, &[vec![]]));
    assert!(!make(0, 0, &[page(&[2, 1], &[entry(1)])]), "ends that descend");
    assert!(!make(0, 0, &[page(&[1], &[entry(1), entry(1)])]), "an entry in no drawer");
    assert!(!make(0, 0, &[page(&[2], &[entry(1)])]), "a drawer without its entry");
    assert!(!make(0, 0, &[vec![0]]), "half a head");
    assert!(make(0, 0, &[page(&[1], &[entry(0x0100)])]), "seven bits known");
    assert!(!make(0, 0, &[page(&[1], &[entry(0x0200)])]), "too few bits known");
    assert!(!make(0, 0, &[page(&[1], &[entry(0)])]), "no fingerprint");
}

proptest! {
    #[test]
    fn any_operations_leave_what_they_should(
        operations in proptest::collection::vec((0..4u8, any::<u64>()), 0..300),
        bits in 1..=15u32,
        page_entries in 1..6usize,
    ) {
        let shape = Shape { fingerprint_bits: bits, floor_bits: bits.div_ceil(2), page_entries };
        let mut twin = Twin::new(shape);
        for (operation, hash) in operations {
            // Few hashes, so that most are met again.
            let hash = (hash % 61).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if operation == 0 { twin.remove(hash) } else { twin.put(hash) }
            twin.check();
        }
    }
}
