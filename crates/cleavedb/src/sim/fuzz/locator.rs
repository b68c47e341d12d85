//! A shard's section of a locator checkpoint, on arbitrary bytes.

use crate::base::entry::{FileId, KeyspaceId};
use crate::values::locator::checkpoint::{Section, Site, seal};
use crate::values::locator::place::Place;
use crate::values::locator::{Generation, Locator, LocatorKey, Settings};

use super::seeds::Seed;
use super::{FILE, UUID};

/// Where the section stands.
const SITE: Site = Site { uuid: UUID, file: FILE, offset: 4096 };

/// The hash of the n-th key.
fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A section: as it is, and with a right checksum. What decodes has one encoding, and a locator
/// that takes it in looks keys up, is touched and grows as with one of its own.
pub fn locator(data: &[u8]) -> bool {
    let accepted = read(data);
    let mut mended = data.to_vec();
    seal(&mut mended, &SITE);
    read(&mended) || accepted
}

fn read(bytes: &[u8]) -> bool {
    let Ok((section, length)) = Section::decode(bytes, &SITE) else { return false };
    assert_eq!(bytes.get(..length), Some(&*section.encode(&SITE)), "one encoding only");
    let settings = Settings {
        shard_bits: section.shard_bits,
        shape: section.shape,
        ..Settings::for_budget(1 << 20)
    };
    let restored = Locator::restored(settings, section.image.generation);
    let taken = restored.load_section(section.shard as usize, bytes, &SITE);
    assert_eq!(taken.ok(), Some(true), "a section that decodes is taken");
    let mut touches = restored.begin_flush(None);
    let mut replaced = Vec::new();
    for number in 0..200 {
        let key = LocatorKey { keyspace: KeyspaceId(1), key: b"", hash: hash(number) };
        let place = Place::of(FileId(number), 120, 1000).filter(|_| number % 3 > 0);
        assert!(restored.lookup(&key).iter().count() <= 4);
        touches.touch(&key, place, number, &mut replaced);
    }
    true
}

/// Sections of a locator with some keys, and of one without any.
pub(super) fn seeds() -> Vec<Seed> {
    let settings = Settings { shard_bits: 1, ..Settings::for_budget(1 << 24) };
    let locator = Locator::new(settings, Generation(4));
    let empty = locator.encode_shard(0, &SITE);
    let mut touches = locator.begin_flush(None);
    for number in 0..500 {
        let key = LocatorKey { keyspace: KeyspaceId(1), key: b"", hash: hash(number) };
        let place = Place::of(FileId(1 + number / 60), 120 + number % 60 * 1040, 1058);
        touches.touch(&key, place, number, &mut Vec::new());
    }
    touches.publish(Generation(5));
    let sections = [("empty", empty), ("some_keys", locator.encode_shard(1, &SITE))];
    let seeds = sections.into_iter().filter_map(|(name, bytes)| Some(("locator", name, bytes?)));
    seeds.collect()
}
