//! A shard's section of a map checkpoint, on arbitrary bytes.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::values::locator::checkpoint::Site;
use crate::values::locator::{Generation, LocatorKey};
use crate::values::map::checkpoint::{Section, seal};
use crate::values::map::place::{Place, Snapshots};
use crate::values::map::table::Shape;
use crate::values::map::{Answer, Flushed, Map, Settings, Touched};

use super::seeds::Seed;
use super::{FILE, UUID};

/// Where the section stands.
const SITE: Site = Site { uuid: UUID, file: FILE, offset: 4096 };

/// Seq of the keys that are put in afterwards: above any that a section can have.
const NEW_SEQ: Seq = 1 << 57;

fn with_key<T>(number: u64, run: impl FnOnce(&LocatorKey<'_>) -> T) -> T {
    let (keyspace, name) = (KeyspaceId(1), number.to_be_bytes());
    run(&LocatorKey { keyspace, key: &name, hash: KeyedHash::new(&UUID).hash(keyspace, &name) })
}

/// A section: as it is, and with a right checksum. What decodes has one encoding, and a map that
/// takes it in finds each of its keys, is touched and grows as with one of its own.
pub fn map(data: &[u8]) -> bool {
    let accepted = read(data);
    let mut mended = data.to_vec();
    seal(&mut mended, &SITE);
    read(&mended) || accepted
}

fn read(bytes: &[u8]) -> bool {
    let Ok((section, length)) = Section::decode(bytes, &SITE, Shape::USUAL) else { return false };
    assert_eq!(bytes.get(..length), Some(&*section.encode(&SITE)), "one encoding only");
    let settings = Settings { shard_bits: section.shard_bits, ..Settings::for_budget(1 << 30) };
    let hash = KeyedHash::new(&UUID);
    let restored = Map::restored(settings, hash, section.image.generation);
    let taken = restored.load_section(section.shard as usize, bytes, &SITE);
    assert_eq!(taken.ok(), Some(true), "a section that decodes is taken");
    let table = &section.image.table;
    for entry in table.iter() {
        let found = restored.lookup(&table.key_of(&entry), entry.value.seq);
        assert_eq!(found, Answer::Found(entry.value), "every key of it is found");
    }
    let mut touches = restored.begin_flush(Snapshots::default());
    for number in 0..200 {
        let (container, file) = (FileId(number + 1), FileId(1 + number / 2));
        let place = Place { container, file, offset: 120, bytes: 1000 };
        let place = Some(place).filter(|_| number % 3 > 0);
        let touched = with_key(number, |key| {
            touches.touch(key, &[Flushed { seq: NEW_SEQ, place }], &mut Vec::new())
        });
        assert_eq!(touched, Touched::Taken, "there is room");
        let found = with_key(number, |key| restored.lookup(key, NEW_SEQ));
        assert_eq!(place.is_some(), matches!(found, Answer::Found(_)), "it is newer");
    }
    true
}

/// Sections of a map with some keys, and of one without any.
pub(super) fn seeds() -> Vec<Seed> {
    let settings = Settings { shard_bits: 1, ..Settings::for_budget(1 << 24) };
    let map = Map::new(settings, KeyedHash::new(&UUID), Generation(4));
    let empty = map.encode_shard(0, &SITE);
    let mut touches = map.begin_flush(Snapshots::default());
    for number in 0..400 {
        let container = FileId(1 + number / 60);
        let place = Place { container, file: container, offset: 999, bytes: 1058 };
        let version = Flushed { seq: number + 1, place: Some(place) };
        let touched = with_key(number, |key| touches.touch(key, &[version], &mut Vec::new()));
        debug_assert_eq!(touched, Touched::Taken);
    }
    touches.publish(Generation(5));
    let sections = [("empty", empty), ("some_keys", map.encode_shard(1, &SITE))];
    sections.into_iter().filter_map(|(name, bytes)| Some(("map", name, bytes?))).collect()
}
