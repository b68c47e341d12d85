//! Round trips, hostile sections, the golden file, and when a checkpoint counts.

use super::*;
use crate::base::entry::KeyspaceId;
use crate::values::locator::place::Place;
use crate::values::locator::{LocatorKey, Settings};

const SITE: Site = Site { uuid: *b"0123456789abcdef", file: FileId(21), offset: 4096 };

fn settings() -> Settings {
    Settings { shard_bits: 1, ..Settings::for_budget(1 << 26) }
}

fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn place(number: u64) -> Place {
    Place::of(FileId(100 + number % 7), number % 1000 * 1040 + 120, 1058).unwrap()
}

fn touch(locator: &Locator, numbers: impl Iterator<Item = u64>, has_place: bool, generation: u64) {
    let mut touches = locator.begin_flush(None);
    for number in numbers {
        let key = LocatorKey { keyspace: KeyspaceId(1), key: b"", hash: hash(number) };
        touches.touch(&key, has_place.then(|| place(number)), 1, &mut Vec::new());
    }
    touches.publish(Generation(generation));
}

fn finds(locator: &Locator, number: u64) -> bool {
    let key = LocatorKey { keyspace: KeyspaceId(1), key: b"", hash: hash(number) };
    locator.lookup(&key).iter().any(|found| found == place(number))
}

fn filled() -> Locator {
    let locator = Locator::new(settings(), Generation(4));
    touch(&locator, 0..3000, true, 5);
    locator
}

#[test]
fn every_shard_comes_back_as_it_was() {
    let before = filled();
    let after = Locator::restored(settings(), Generation(5));
    for shard in 0..2 {
        let bytes = before.encode_shard(shard, &SITE).unwrap();
        let (section, length) = Section::decode(&bytes, &SITE).unwrap();
        assert_eq!((section.shard as usize, length), (shard, bytes.len()));
        assert_eq!(section.encode(&SITE), bytes, "one encoding only");
        assert!(after.load_section(shard, &bytes, &SITE).unwrap());
        assert!(!after.load_section(shard, &bytes, &SITE).unwrap(), "it waits no more");
    }
    assert!((0..3000).all(|number| finds(&after, number) == finds(&before, number)));
    assert_eq!(after.figures().entries, before.figures().entries);
}

#[test]
fn a_shard_that_waits_misses_and_takes_what_is_touched_meanwhile() {
    let before = filled();
    let sections = [0, 1].map(|shard| before.encode_shard(shard, &SITE).unwrap());
    let after = Locator::restored(settings(), Generation(5));
    assert!((0..3000).all(|number| !finds(&after, number)));
    assert!(after.encode_shard(0, &SITE).is_none(), "what waits is not written");
    touch(&after, 100..200, false, 6);
    touch(&after, 5000..5100, true, 7);
    assert!(!finds(&after, 5000));
    for (shard, bytes) in sections.iter().enumerate() {
        assert!(after.load_section(shard, bytes, &SITE).unwrap());
    }
    assert!((100..200).all(|number| !finds(&after, number)), "a removal came back");
    assert!((5000..5100).all(|number| finds(&after, number)));
    assert!(finds(&after, 99) && finds(&after, 200));
}

#[test]
fn a_stale_or_damaged_checkpoint_leaves_an_empty_shard() {
    let bytes = filled().encode_shard(0, &SITE).unwrap();
    for (generation, damaged) in [(6, false), (4, false), (5, true)] {
        let after = Locator::restored(settings(), Generation(generation));
        touch(&after, 7000..7100, true, generation + 1);
        let mut bytes = bytes.clone();
        if damaged {
            bytes[200] ^= 1;
        }
        let outcome = after.load_section(0, &bytes, &SITE);
        match damaged {
            true => assert_eq!(outcome.unwrap_err().offset(), Some(SITE.offset)),
            false => assert!(!outcome.unwrap()),
        }
        assert_eq!(after.figures().waiting, 1);
        assert!((0..3000).all(|number| !finds(&after, number)));
        let found = (7000..7100).filter(|number| finds(&after, *number)).count();
        assert!(found > 20, "what was touched since is there: {found}");
    }
    let after = Locator::restored(settings(), Generation(5));
    assert!(after.load_section(1, &bytes, &SITE).is_err(), "another shard's");
}

#[test]
fn no_checkpoint_is_written_under_a_flush() {
    let locator = filled();
    let mut touches = locator.begin_flush(None);
    let key = LocatorKey { keyspace: KeyspaceId(1), key: b"", hash: 0 };
    touches.touch(&key, None, 1, &mut Vec::new());
    assert!(locator.encode_shard(0, &SITE).is_none());
    let other = locator.encode_shard(1, &SITE).unwrap();
    let generation = |bytes: &[u8]| Section::decode(bytes, &SITE).unwrap().0.image.generation;
    assert_eq!(generation(&other), Generation(5));
    touches.publish(Generation(6));
    assert_eq!(generation(&locator.encode_shard(0, &SITE).unwrap()), Generation(6));
    assert!(locator.encode_shard(2, &SITE).is_none(), "there is no such shard");
}

#[test]
fn too_many_touches_before_the_load_cost_the_checkpoint() {
    let bytes = filled().encode_shard(0, &SITE).unwrap();
    let settings = Settings { late_touches_max: 10, ..settings() };
    let after = Locator::restored(settings, Generation(5));
    touch(&after, 0..100, false, 6);
    assert_eq!(after.figures().waiting, 0);
    assert!(!after.load_section(0, &bytes, &SITE).unwrap());
    assert!((0..3000).all(|number| !finds(&after, number)));
}

/// A small section: an empty page, one of two entries, one of one.
fn small() -> Section {
    let entry = |fingerprint: u64, place: u64| fingerprint << 48 | place;
    let place = |container, offset| {
        Place::of(FileId(1000 + container), offset, 1058).unwrap().pack(container)
    };
    let page = |ends: [u8; DRAWERS], entries: &[u64]| {
        head_of(ends).chain(entries.iter().copied()).collect::<Vec<u64>>()
    };
    let mut two = [2; DRAWERS];
    two[..5].copy_from_slice(&[0, 0, 0, 1, 1]);
    let pages = vec![
        vec![],
        page(two, &[entry(0x1235, place(3, 120)), entry(0x8100, place(4, 2048))]),
        page([1; DRAWERS], &[entry(0x4c02, place(3, 4711))]),
    ];
    let shape = Shape::USUAL;
    let table = Table::from_pages(shape, 1, 1, pages).unwrap();
    let image = Image { generation: Generation(77), window_base: 1000, table };
    Section { shard: 5, shard_bits: 6, shape, image }
}

#[test]
fn golden_locator() {
    use crate::log::dump::Annotator;
    use crate::log::testing::{check_golden, check_page};
    let section = small();
    let bytes = section.encode(&SITE);
    let mut dump = String::new();
    let mut lines = Annotator::new(&bytes, &mut dump);
    lines.field(8, "magic");
    lines.field(4, "checksum");
    lines.field(4, "format version 1");
    lines.field(8, "160 bytes");
    lines.field(16, "database uuid");
    lines.field(8, "file 21");
    lines.field(8, "generation 77");
    lines.field(8, "window from container 1000 on");
    lines.field(4, "shard 5");
    lines.field(4, "1 page split");
    lines.field(8, "3 entries");
    lines.field(4, "of 2^6 shards, depth 1, fingerprints of 15 to 7 bits");
    lines.field(4, "3 pages");
    lines.field(16, "page 0: no entry");
    lines.field(16, "page 1: 2 entries, in drawers 3 and 5");
    lines.field(8, "15 bits 000100100011010: container 1003, offset 112, 1280 bytes");
    lines.field(8, "7 bits 1000000: container 1004, offset 2048, 1280 bytes");
    lines.field(16, "page 2: 1 entry, in drawer 0");
    lines.field(8, "14 bits 01001100000000: container 1003, offset 4704, 1280 bytes");
    assert!(lines.rest().is_empty());
    let (again, _) = Section::decode(&bytes, &SITE).unwrap();
    assert_eq!(again.encode(&SITE), bytes);
    check_golden("locator", VERSION, &bytes, &dump);
    assert_eq!(HEADER_BYTES, 84 + 4);
    let rows = [(8, 4, "checksum"), (48, 8, "generation"), (64, 4, "number of the shard")];
    check_page("locator", &rows);
    check_page("locator", &[(80, 1, "bits of the shard's"), (84, 4, "pages: 2^D + P")]);
}

#[test]
fn any_flip_and_any_cut_is_noticed() {
    let bytes = small().encode(&SITE);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let error = Section::decode(&flipped, &SITE).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(SITE.offset)));
        }
        assert!(Section::decode(&bytes[..at], &SITE).is_err());
    }
    for site in [
        Site { offset: SITE.offset + 1, ..SITE },
        Site { file: FileId(22), ..SITE },
        Site { uuid: [0; 16], ..SITE },
    ] {
        assert!(Section::decode(&bytes, &site).is_err(), "it holds elsewhere");
    }
}

#[test]
fn sections_that_no_locator_writes_are_refused() {
    let good = small().encode(&SITE);
    let decode = |at: usize, new: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        seal(&mut bytes, &SITE);
        Section::decode(&bytes, &SITE).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(decode(12, &[1]), Ok(()));
    assert_eq!(decode(12, &[2]), Err(ErrorKind::Unsupported));
    for (at, new) in [
        (24, &[9][..]),
        (40, &[9]),
        (56, &[0xff; 8]),
        (64, &[64]),
        (68, &[0]),
        (68, &[2]),
        (72, &[2]),
        (80, &[0]),
        (80, &[7]),
        (81, &[2]),
        (81, &[27]),
        (82, &[16]),
        (82, &[14]),
        (83, &[0]),
        (83, &[8]),
        (84, &[2]),
        (84, &[0xff; 4]),
        (88, &[1]),
        (103, &[1]),
        (106, &[1, 0]),
        (119, &[1]),
        (119, &[0xff]),
        (123, &[0]),
        (126, &[0, 0]),
    ] {
        assert_eq!(decode(at, new), Err(ErrorKind::Corruption), "{new:?} at {at}");
    }
}
