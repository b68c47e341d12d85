//! The table against a map of vectors: every entry is found by its key and no other one, sizes are
//! counted to the byte, and pages come and go.

use std::collections::BTreeMap;

use super::*;
use crate::base::entry::FileId;
use crate::values::map::place::{Place, Version};
use proptest::prelude::*;

type Name = (u32, Vec<u8>);

/// A table and what it should hold: versions of each key, in the order in which they came.
struct Twin {
    table: Table<Version>,
    versions: BTreeMap<Name, Vec<Version>>,
    made: u64,
}

fn hashing() -> Hashing {
    Hashing { keyed: KeyedHash::new(b"a table's tests."), shard_bits: 1 }
}

impl Twin {
    fn new(page_entries: usize, page_bytes: usize) -> Self {
        let shape = Shape { page_entries, page_bytes };
        Self { table: Table::new(shape, hashing()), versions: BTreeMap::new(), made: 0 }
    }

    fn key<'a>(&self, (keyspace, key): &'a Name) -> LocatorKey<'a> {
        let keyspace = KeyspaceId(*keyspace);
        LocatorKey { keyspace, key, hash: hashing().of(keyspace, key) }
    }

    /// A version unlike all others, of a length by chance.
    fn version(&mut self, length: u32) -> Version {
        self.made += 1;
        let offset = self.made << (length % 40);
        let container = FileId(self.made);
        let place = Place { container, file: container, offset, bytes: 1 << (length % 32) };
        Version { seq: self.made, place }
    }

    fn step(&mut self, name: &Name, kind: u8, length: u32) {
        let key = self.key(name);
        let version = self.version(length);
        let known = self.versions.entry(name.clone()).or_default();
        match kind {
            0..=3 => {
                let (before, room) = (self.table.bytes(), self.table.growth_max(key.key.len()));
                self.table.insert(&key, &version);
                known.push(version);
                assert!(self.table.bytes() <= before + room, "it grew by more than it said");
            }
            4 => {
                let changed = self.table.change(&key, |_| Some(version));
                assert_eq!(changed, known.len());
                known.iter_mut().for_each(|known| *known = version);
            }
            5 => {
                let wanted = known.last().map_or(0, |version| version.seq);
                let removed = self.table.remove(&key, |version| version.seq == wanted);
                assert_eq!(removed.is_some(), !known.is_empty());
                if let Some(at) = known.iter().position(|version| Some(*version) == removed) {
                    known.remove(at);
                }
            }
            6 => {
                let before = known.last().copied();
                let change =
                    |entry: &Entry<'_, Version>| (Some(entry.value) == before).then_some(version);
                assert_eq!(self.table.change_by_hash(key.hash, change), before);
                if let Some(last) = known.last_mut() {
                    *last = version;
                }
            }
            7 => {
                let odd = |_, version: &Version| !version.seq.is_multiple_of(7);
                self.table.retain(odd);
                for known in self.versions.values_mut() {
                    known.retain(|version| odd(KeyspaceId(1), version));
                }
            }
            _ => {
                self.table.retain(|keyspace, _| keyspace.0 != name.0);
                self.versions.retain(|(keyspace, _), _| *keyspace != name.0);
            }
        }
    }

    fn check(&self) {
        let Table { pages, depth, split, entries, key_bytes, page_bytes, .. } = &self.table;
        let count = self.versions.values().map(Vec::len).sum::<usize>();
        assert_eq!((*entries, self.table.iter().count()), (count, count));
        assert!(pages.is_empty() && *depth == 0 || pages.len() == (1 << depth) + split, "MT-1");
        let keys = self.versions.iter().map(|((_, key), known)| key.len() * known.len());
        assert_eq!(*key_bytes, keys.sum::<usize>());
        assert_eq!(*page_bytes, pages.iter().map(Vec::capacity).sum::<usize>(), "MT-4");
        for page in pages.iter().filter(|page| !page.is_empty()) {
            let ends: Vec<_> = (0..DRAWERS).map(|drawer| drawer_in(page, drawer).end).collect();
            assert!(ends.is_sorted() && ends[DRAWERS - 1] == page.len(), "MT-2: {ends:?}");
            assert!(page.len() > HEAD_BYTES && page.capacity() < page.len() + 2 * STEP_BYTES);
        }
        for (name, known) in &self.versions {
            let key = self.key(name);
            let mut found: Vec<_> = self.table.matches(&key).collect();
            let mut known = known.clone();
            found.sort_by_key(|version| version.seq);
            known.sort_by_key(|version| version.seq);
            assert_eq!(found, known, "MT-3: {name:?}");
        }
    }
}

/// Names of which many are the end of another one.
fn name(number: u64) -> Name {
    let (keyspace, number) = (1 + (number % 2) as u32, number / 2);
    (keyspace, number.to_be_bytes()[8 - (number as usize % 7)..].to_vec())
}

proptest! {
    #[test]
    fn a_table_holds_what_a_map_holds(
        steps in proptest::collection::vec((0..600u64, 0..60u8, 0..64u32), 0..1200),
        page_entries in 1..12usize,
        long in 0..400usize,
    ) {
        let mut twin = Twin::new(page_entries, 2000);
        for (number, (key, kind, length)) in steps.into_iter().enumerate() {
            let mut name = name(key);
            if key % 5 == 0 {
                name.1.resize(name.1.len() + long, b'x');
            }
            let kind = match kind {
                0..=35 => 0,
                36..=40 => 4,
                41..=52 => 5,
                53..=57 => 6,
                58 => 7,
                _ => 8,
            };
            // Keys of the map have one entry, those of the chains several.
            let is_there = twin.versions.get(&name).is_some_and(|known| known.len() > 2);
            twin.step(&name, if kind == 0 && is_there { 5 } else { kind }, length);
            if number % 100 == 0 {
                twin.check();
            }
        }
        twin.check();
    }
}

#[test]
fn it_grows_page_by_page_and_shrinks_again() {
    let mut twin = Twin::new(24, 1 << 20);
    for number in 0..20_000 {
        let pages = twin.table.pages();
        twin.step(&name(number), 0, 20);
        assert!(twin.table.pages() <= pages + 1, "one page at a time");
    }
    twin.check();
    let pages = twin.table.pages();
    assert!((800..900).contains(&pages), "{pages} pages");
    for number in 100..20_000 {
        twin.step(&name(number), 5, 0);
    }
    twin.check();
    assert!(twin.table.len() <= 100 && twin.table.pages() < 20, "pages are merged again");
    assert!(twin.table.bytes() < 10_000, "{}", twin.table.bytes());
}

#[test]
fn long_keys_split_pages_before_these_are_many_entries() {
    let mut twin = Twin::new(96, 32 << 10);
    for number in 0..200u64 {
        let mut key = vec![b'k'; 30_000];
        key.extend(number.to_be_bytes());
        twin.step(&(1, key), 0, 20);
    }
    twin.check();
    assert!(twin.table.pages() > 100, "{}", twin.table.pages());
}

#[test]
fn a_table_comes_back_from_its_pages_and_from_no_others() {
    let mut twin = Twin::new(6, 1 << 20);
    let (shape, shard) = (twin.table.shape, 1);
    let ours = |name: &Name| hashing().shard(hashing().of(KeyspaceId(name.0), &name.1)) == shard;
    for name in (0..400).map(name).filter(ours) {
        if !twin.versions.contains_key(&name) {
            twin.step(&name, 0, 9);
        }
    }
    twin.check();
    let raw: Vec<&[u8]> = twin.table.raw_pages().collect();
    let depth = twin.table.depth();
    let read = |shard, depth, pages: &[&[u8]]| {
        Table::<Version>::from_raw_pages(shape, hashing(), shard, depth, pages)
    };
    let table = read(shard, depth, &raw).unwrap();
    assert_eq!(table.raw_pages().collect::<Vec<_>>(), raw);
    let again = Twin { table, versions: twin.versions.clone(), made: 0 };
    again.check();
    assert!(read(0, depth, &raw).is_err(), "another shard's");
    assert!(read(shard, (depth.0, depth.1 + 1), &raw).is_err(), "a page too few");
    assert!(read(shard, (DEPTH_MAX + 1, 0), &raw).is_err() && read(shard, (0, 1), &[]).is_err());
    assert!(read(shard, (0, 0), &[]).is_ok_and(|table| table.is_empty()));
    let mut swapped = raw.clone();
    swapped.swap(0, 1);
    assert!(read(shard, depth, &swapped).is_err(), "pages at each other's places");
    let page = (0..raw.len()).max_by_key(|page| raw[*page].len()).unwrap();
    let entries: Vec<&[u8]> = Bodies::of(raw[page]).map(|(at, _)| &raw[page][at]).collect();
    assert!(entries.len() > 3);
    let with = |entries: &[&[u8]]| {
        let (new, mut pages) = (entries.concat(), raw.clone());
        pages[page] = &new;
        read(shard, depth, &pages).is_ok()
    };
    assert!(with(&entries) && with(&entries[1..]));
    assert!(!with(&[&entries[..1], &entries[..]].concat()), "an entry twice");
    assert!(!with(&[&entries[1..], &entries[..1]].concat()), "a drawer before another one");
    let mut unknown = Vec::new();
    let name = twin.versions.keys().next().unwrap();
    let version = Version { seq: 4, place: Place::UNKNOWN };
    unknown.extend(encode(KeyspaceId(name.0), &name.1, &version));
    assert!(!with(&[&unknown]) && !with(&[&entries[0][..3]]), "an entry that cannot be");
}
