//! Round trips, hostile sections, the golden file, and when a checkpoint is written.

use super::*;
use crate::base::entry::{FileId, KeyspaceId};
use crate::log::dump::Annotator;
use crate::log::testing::{check_golden, check_page};
use crate::values::locator::LocatorKey;
use crate::values::map::place::{Place, Snapshots};
use crate::values::map::{Answer, Flushed, Settings, Touched};

const SITE: Site = Site { uuid: *b"0123456789abcdef", file: FileId(21), offset: 4096 };

const SHAPE: Shape = Shape::USUAL;

fn settings() -> Settings {
    Settings { shard_bits: 1, ..Settings::for_budget(1 << 26) }
}

fn place(number: u64) -> Place {
    let container = FileId(100 + number % 7);
    let file = FileId(container.0 - number % 3);
    Place { container, file, offset: number * 1040 + 120, bytes: 1058 }
}

fn with_key<T>(number: u64, run: impl FnOnce(&LocatorKey<'_>) -> T) -> T {
    let (keyspace, name) = (KeyspaceId(1), number.to_be_bytes());
    let hash = KeyedHash::new(&SITE.uuid).hash(keyspace, &name);
    run(&LocatorKey { keyspace, key: &name, hash })
}

fn filled() -> Map {
    let map = Map::new(settings(), KeyedHash::new(&SITE.uuid), Generation(4));
    let mut touches = map.begin_flush(Snapshots::default());
    for number in 0..3000 {
        let version = Flushed { seq: number + 1, place: Some(place(number)) };
        let touched = with_key(number, |key| touches.touch(key, &[version], &mut Vec::new()));
        assert_eq!(touched, Touched::Taken);
    }
    touches.publish(Generation(5));
    map
}

#[test]
fn every_shard_comes_back_as_it_was() {
    let before = filled();
    let after = Map::restored(settings(), KeyedHash::new(&SITE.uuid), Generation(5));
    for shard in 0..2 {
        let bytes = before.encode_shard(shard, &SITE).unwrap();
        let (section, length) = Section::decode(&bytes, &SITE, SHAPE).unwrap();
        assert_eq!((section.shard as usize, length), (shard, bytes.len()));
        assert_eq!(section.encode(&SITE), bytes, "one encoding only");
        assert!(after.load_section(1 - shard, &bytes, &SITE).is_err(), "another shard's");
        assert!(after.load_section(shard, &bytes, &SITE).unwrap());
    }
    for number in 0..3000 {
        let found = with_key(number, |key| after.lookup(key, 3000));
        let Answer::Found(version) = found else { panic!("{number} is missing") };
        assert_eq!((version.seq, version.place), (number + 1, place(number)));
    }
    let (before, after) = (before.figures(), after.figures());
    assert_eq!((before.keys, before.key_bytes), (after.keys, after.key_bytes));
    assert!(before.bytes.abs_diff(after.bytes) < before.bytes / 50, "{before:?} {after:?}");
}

#[test]
fn a_stale_or_damaged_checkpoint_leaves_the_shard_waiting() {
    let good = filled().encode_shard(0, &SITE).unwrap();
    for (generation, flipped) in [(6, None), (4, None), (5, Some(200))] {
        let map = Map::restored(settings(), KeyedHash::new(&SITE.uuid), Generation(generation));
        let mut bytes = good.clone();
        flipped.into_iter().for_each(|at: usize| bytes[at] ^= 1);
        match map.load_section(0, &bytes, &SITE) {
            Err(error) => assert_eq!((error.offset(), flipped), (Some(SITE.offset), Some(200))),
            Ok(taken) => assert!(!taken && flipped.is_none()),
        }
        assert_eq!(map.figures().waiting, 2);
    }
    let other = Settings { shard_bits: 2, ..settings() };
    let map = Map::restored(other, KeyedHash::new(&SITE.uuid), Generation(5));
    assert!(map.load_section(0, &good, &SITE).is_err(), "of other sizes");
}

#[test]
fn no_checkpoint_is_written_under_a_flush_or_a_move() {
    let map = filled();
    let generation =
        |bytes: &[u8]| Section::decode(bytes, &SITE, SHAPE).unwrap().0.image.generation;
    let mut touches = map.begin_flush(Snapshots::default());
    let removal = [Flushed { seq: 9000, place: None }];
    let touched = with_key(0, |key| {
        let _ = touches.touch(key, &removal, &mut Vec::new());
        map.hashing.shard(key.hash)
    });
    assert!(map.encode_shard(touched, &SITE).is_none());
    let other = map.encode_shard(1 - touched, &SITE).unwrap();
    assert_eq!(generation(&other), Generation(5));
    touches.again(Snapshots::default());
    assert!(map.encode_shard(touched, &SITE).is_none());
    touches.publish(Generation(6));
    assert_eq!(generation(&map.encode_shard(touched, &SITE).unwrap()), Generation(6));
    let moves = [map.begin_moves().unwrap(), map.begin_moves().unwrap()];
    for (moves, number) in moves.into_iter().zip(7..) {
        assert!((0..2).all(|shard| map.encode_shard(shard, &SITE).is_none()));
        moves.publish(Generation(number));
    }
    assert_eq!(generation(&map.encode_shard(0, &SITE).unwrap()), Generation(8));
    assert!(map.encode_shard(2, &SITE).is_none(), "there is no such shard");
    // A flush that is given up leaves what is in no index.
    let mut touches = map.begin_flush(Snapshots::default());
    let _ = with_key(0, |key| touches.touch(key, &removal, &mut Vec::new()));
    drop(touches);
    assert!(map.encode_shard(touched, &SITE).is_none());
    let _ = map.begin_moves();
    assert!((0..2).all(|shard| map.encode_shard(shard, &SITE).is_none()));
}

/// A small section: 3 keys of shard 1, two of which share a page.
fn small() -> Section {
    let hashing = Hashing { keyed: KeyedHash::new(&SITE.uuid), shard_bits: 1 };
    let mut table = Table::new(Shape { page_entries: 1, page_bytes: 1 << 20 }, hashing);
    let names = (0..).map(|number: u32| format!("key {number}"));
    let ours = names.filter(|name| hashing.shard(hashing.of(KeyspaceId(1), name.as_bytes())) == 1);
    for (number, name) in (0..3).zip(ours) {
        let (keyspace, key) = (KeyspaceId(1), name.as_bytes());
        let key = LocatorKey { keyspace, key, hash: hashing.of(keyspace, key) };
        let (container, file) = (FileId(300 + number), FileId(300));
        let place = Place { container, file, offset: 4711, bytes: 1058 };
        table.insert(&key, &Version { seq: 1000 + number, place });
    }
    Section { shard: 1, shard_bits: 1, image: Image { generation: Generation(77), table } }
}

#[test]
fn golden_map() {
    let bytes = small().encode(&SITE);
    let mut dump = String::new();
    let mut lines = Annotator::new(&bytes, &mut dump);
    lines.field(8, "magic");
    lines.field(4, "checksum");
    lines.field(4, "format version 1");
    lines.field(8, format!("{} bytes", bytes.len()));
    lines.field(16, "database uuid");
    lines.field(8, "file 21");
    lines.field(8, "generation 77");
    lines.field(8, "3 entries");
    lines.field(4, "shard 1");
    lines.field(4, "1 page split");
    lines.field(4, "of 2^1 shards, depth 1");
    lines.field(4, "3 pages");
    for (number, page) in small().image.table.raw_pages().enumerate() {
        lines.field(4, format!("page {number}: {} bytes", page.len()));
        let mut rest = page;
        while !rest.is_empty() {
            let (entry, length) = crate::values::map::page::decode_entry::<Version>(rest).unwrap();
            let (key, Version { seq, place }) = (entry.key.escape_ascii(), entry.value);
            let Place { container, file, offset, bytes } = place;
            lines.field(1, format!("{} bytes of an entry", length - 1));
            lines.field(1, format!("keyspace {}", entry.keyspace.0));
            lines.field(2, format!("seq {seq}"));
            lines.field(2, format!("container {}", container.0));
            lines.field(1, format!("less its file: {}", container.0 - file.0));
            lines.field(2, format!("offset {offset}"));
            lines.field(2, format!("{bytes} bytes"));
            lines.field(entry.key.len(), format!("key \"{key}\""));
            rest = &rest[length..];
        }
    }
    assert!(lines.rest().is_empty());
    check_golden("map", VERSION, &bytes, &dump);
    assert_eq!(HEADER_BYTES, 76 + 4);
    let rows = [(8, 4, "checksum"), (48, 8, "generation"), (64, 4, "number of the shard")];
    check_page("map", &rows);
    check_page("map", &[(72, 1, "bits of the shard's"), (76, 4, "pages: 2^D + P")]);
}

#[test]
fn any_flip_and_any_cut_is_noticed() {
    let bytes = small().encode(&SITE);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let error = Section::decode(&flipped, &SITE, SHAPE).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(SITE.offset)));
        }
        assert!(Section::decode(&bytes[..at], &SITE, SHAPE).is_err());
    }
    for site in [
        Site { offset: SITE.offset + 1, ..SITE },
        Site { file: FileId(22), ..SITE },
        Site { uuid: [0; 16], ..SITE },
    ] {
        assert!(Section::decode(&bytes, &site, SHAPE).is_err(), "it holds elsewhere");
    }
}

#[test]
fn sections_that_no_map_writes_are_refused() {
    let good = small().encode(&SITE);
    let decode = |at: usize, new: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        seal(&mut bytes, &SITE);
        Section::decode(&bytes, &SITE, SHAPE).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(decode(12, &[1]), Ok(()));
    assert_eq!(decode(12, &[2]), Err(ErrorKind::Unsupported));
    // Behind the lengths of pages without entries.
    let empty = small().image.table.raw_pages().take_while(|page| page.is_empty()).count();
    let page = HEADER_BYTES + (empty + 1) * PAGE_HEADER_BYTES;
    let changes: [(usize, &[u8]); 22] = [
        (16, &[79]),
        (24, &[9]),
        (40, &[9]),
        (56, &[2]),
        (64, &[0]),
        (64, &[2]),
        (68, &[0]),
        (68, &[2]),
        (72, &[0]),
        (72, &[2]),
        (72, &[7]),
        (73, &[2]),
        (73, &[33]),
        (74, &[1]),
        (75, &[1]),
        (76, &[2]),
        (76, &[0xff; 4]),
        (80, &[0xff; 4]),
        (page, &[3]),
        (page + 1, &[0]),
        (page + 2, &[0, 0]),
        (page + 12, b"z"),
    ];
    for (at, new) in changes {
        assert_eq!(decode(at, new), Err(ErrorKind::Corruption), "{new:?} at {at}");
    }
}
