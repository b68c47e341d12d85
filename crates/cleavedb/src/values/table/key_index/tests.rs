//! The index against a walk over all groups; refusals; what it costs.

use super::*;
use crate::io::seeded::Seeded;
use crate::values::table::testing::{Bench, Item, item, noise};

/// An index over groups that end with these records; each is 64 bytes long.
fn index_of(groups: &[Vec<Item>]) -> KeyIndex {
    let mut builder = KeyIndexBuilder::default();
    for (number, group) in groups.iter().enumerate() {
        let next = groups.get(number + 1).map(|next| next[0].rank());
        builder.add(&group[group.len() - 1].rank(), next.as_ref(), 64);
    }
    KeyIndex::decode(builder.finish(), 128 + 64 * groups.len() as u64).unwrap()
}

/// Records in order, of few keys and many versions, in groups of one to four.
fn random_groups(random: &mut Seeded) -> Vec<Vec<Item>> {
    let mut items: Vec<Item> = (0..random.below(200))
        .map(|_| {
            let length = random.index(4);
            let key: Vec<u8> =
                (0..length).map(|_| [0, b'a', b'b', 0xff][random.index(4)]).collect();
            item(1 + random.below(3) as u32, &key, 1 + random.below(6), 1 + random.below(3), b"")
        })
        .collect();
    items.sort_by(|a, b| a.rank().cmp(&b.rank()));
    items.dedup();
    let mut groups = Vec::new();
    while !items.is_empty() {
        let count = 1 + random.index(items.len().min(4));
        groups.push(items.drain(..count).collect());
    }
    groups
}

#[test]
fn a_search_finds_the_group_that_a_walk_finds() {
    for seed in 0..200 {
        let mut random = Seeded::new(seed);
        let groups = random_groups(&mut random);
        let index = index_of(&groups);
        let mut places = Vec::new();
        let mut walk = index.groups();
        while let Some((place, _)) = walk.next_group().unwrap() {
            places.push(place);
        }
        assert_eq!(places.len(), groups.len());
        for (group, place) in groups.iter().zip(&places) {
            for item in group {
                let found = index.find(&item.rank()).unwrap();
                assert_eq!(found.as_ref(), Some(place), "seed {seed}, {item:?}");
            }
        }
        // What is not there is looked for where it would be, or nowhere.
        for absent in random_groups(&mut random).concat() {
            let rank = absent.rank();
            let last_before = groups.iter().rposition(|group| group[0].rank() <= rank);
            let first_behind = groups.iter().position(|g| g[g.len() - 1].rank() >= rank);
            if let Some(found) = index.find(&rank).unwrap() {
                let at = places.iter().position(|place| *place == found).unwrap();
                assert!(last_before.is_none_or(|before| at >= before), "seed {seed}, {absent:?}");
                assert!(first_behind.is_none_or(|behind| at <= behind), "seed {seed}, {absent:?}");
            } else {
                assert_eq!(first_behind, None, "seed {seed}, {absent:?}");
            }
        }
    }
}

#[test]
fn an_empty_index_leads_nowhere() {
    let index = KeyIndex::decode(KeyIndexBuilder::default().finish(), 128).unwrap();
    assert_eq!(index.find(&item(1, b"a", 1, 1, b"").rank()).unwrap(), None);
    assert!(KeyIndex::decode(KeyIndexBuilder::default().finish(), 144).is_err());
}

/// (keyspace, shared, rest, split, file, places).
type Entry<'a> = (u32, u64, &'a [u8], u64, u64, u64);

/// The bytes of some entries.
fn entries(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, entries.len() as u64);
    for &(keyspace, shared, rest, split, file, places) in entries {
        put_varint(&mut out, u64::from(keyspace));
        put_varint(&mut out, shared);
        put_bytes(&mut out, rest);
        put_varint(&mut out, split);
        if split > 0 {
            put_varint(&mut out, file);
        }
        put_varint(&mut out, places);
    }
    out
}

#[test]
fn what_no_writer_makes_is_refused() {
    let good = [(1, 0, &b"abc"[..], 0, 0, 4), (1, 2, b"d", 8, 5, 4), (1, 3, b"", 8, 6, 4)];
    let end = 128 + 3 * 64;
    KeyIndex::decode(entries(&good), end).unwrap();
    assert!(KeyIndex::decode(entries(&good), end + 16).is_err());
    let long = vec![b'x'; KEY_BYTES_MAX];
    let changes: [(usize, Entry<'_>); 14] = [
        (0, (0, 0, b"abc", 0, 0, 4)),
        (0, (1, 1, b"abc", 0, 0, 4)),
        (0, (1, 0, b"abd", 0, 0, 4)),
        (0, (2, 0, b"abc", 0, 0, 4)),
        (1, (1, 4, b"", 8, 5, 4)),
        (1, (1, 3, b"", 8, 5, 4)),
        (1, (1, 2, &long, 8, 5, 4)),
        (1, (1, 2, b"d", 8, 0, 4)),
        (1, (1, 2, b"d", 1, 5, 4)),
        (1, (1, 2, b"d", SEQ_MAX + 2, 5, 4)),
        (1, (1, 2, b"d", 8, 5, 1)),
        (1, (1, 2, b"d", 8, 5, u64::MAX)),
        (2, (1, 3, b"", 8, 5, 4)),
        (2, (1, 3, b"", 9, 6, 4)),
    ];
    for (at, entry) in changes {
        let mut wrong = good;
        wrong[at] = entry;
        assert!(KeyIndex::decode(entries(&wrong), end).is_err(), "{at}: {:?}", &entry.3);
    }
    let bytes = entries(&good);
    for length in 0..bytes.len() {
        assert!(KeyIndex::decode(bytes[..length].to_vec(), end).is_err(), "{length} bytes");
    }
    // The seventeenth entry must have its key whole.
    let mut many: Vec<_> = (0..17).map(|n| (1, 0, &KEYS[n..=n], 0, 0, 4)).collect();
    KeyIndex::decode(entries(&many), 128 + 17 * 64).unwrap();
    many[15].2 = b"o";
    many[16] = (1, 1, b"x", 0, 0, 4);
    assert!(KeyIndex::decode(entries(&many), 128 + 17 * 64).is_err());
}

const KEYS: &[u8] = b"abcdefghijklmnopqrst";

#[test]
fn a_count_of_groups_justifies_no_allocation() {
    for count in [u64::MAX, 1 << 40, 3] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, count);
        bytes.extend_from_slice(&[1; 10]);
        assert!(KeyIndex::decode(bytes, 128).is_err());
    }
}

/// What the index costs in memory, for each key: the figures of the page.
#[test]
fn bytes_a_key() {
    for (value_bytes, records, hundredths_max) in [
        (100, 20_000, 34),
        (400, 8000, 110),
        (1 << 10, 4000, 300),
        (4 << 10, 1000, 900),
        (16 << 10, 300, 900),
        (64 << 10, 100, 900),
    ] {
        let mut random = Seeded::new(1);
        let mut keys: Vec<_> = (0..records).map(|_| noise(&mut random, 16)).collect();
        keys.sort();
        let value = vec![b'v'; value_bytes];
        let items: Vec<_> =
            keys.iter().zip(1..).map(|(key, seq)| item(1, key, seq, 5, &value)).collect();
        let bench = Bench::new();
        let options = Bench::options(&[5], crate::values::table::writer::GROUP_BYTES);
        let (written, places) = bench.write(&options, &items).unwrap();
        let table = bench.open_sealed(&written).unwrap();
        let wanted = items[0].wanted(places[0]);
        table.find(&wanted, crate::io::Purpose::Read).unwrap().unwrap();
        let hundredths = 100 * table.index_memory_bytes() / records as u64;
        println!("values of {value_bytes}: {hundredths} hundredths of a byte a key");
        assert!(hundredths <= hundredths_max, "{value_bytes}: {hundredths}");
        // Far less than a hundredth of what is on disk.
        assert!(table.index_memory_bytes() * 100 < written.sealed.bytes);
    }
}
