//! Reading by place: what proves itself is handed out, whatever else is there is named or left.

use super::containers::{Mixed, mixed};
use super::*;
use crate::base::entry::SEQ_MAX;
use crate::values::locator::place::Place;
use crate::values::reader::located::{Located, Sought};

fn reader(mixed: &Mixed) -> ValueReader<'_> {
    ValueReader { context: &mixed.context, files: &mixed.files, tail: &mixed.tail }
}

fn place_of(mixed: &Mixed, number: usize) -> Option<Place> {
    reader(mixed).known_place(&mixed.now[number].0)
}

fn sought(key: &[u8], snapshot: Seq) -> Sought<'_> {
    Sought { keyspace: KEYSPACE, key, snapshot }
}

fn is_value(located: &Located, seq: Seq, value: &[u8]) -> bool {
    matches!(located, Located::Value(found, bytes) if *found == seq && **bytes == *value)
}

#[test]
fn a_place_brings_its_record_in_one_read_and_from_memory_afterwards() {
    let mixed = mixed();
    let reader = reader(&mixed);
    let meter = &mixed.context.io.meter;
    for number in 0..80 {
        let (place, seq) = (place_of(&mixed, number).unwrap(), mixed.now[number].1);
        let key = key(number);
        // Opening a file takes reads of its own.
        reader.read_at(&place, &sought(b"another", SEQ_MAX));
        let before = meter.read_calls(Purpose::Read);
        let first = reader.read_at(&place, &sought(&key, seq));
        assert!(is_value(&first, seq, &value(number)), "{number}: {first:?}");
        assert_eq!(meter.read_calls(Purpose::Read), before + 1, "{number}");
        let again = reader.read_at(&place, &sought(&key, SEQ_MAX));
        assert!(is_value(&again, seq, &value(number)), "{number}: {again:?}");
        let is_kept = value(number).len() < 4000;
        let calls = meter.read_calls(Purpose::Read);
        assert!(!is_kept || calls == before + 1, "{number}: {calls}");
    }
}

#[test]
fn what_is_not_the_keys_is_said_to_be_so() {
    let mixed = mixed();
    let reader = reader(&mixed);
    for number in 0..80 {
        let (place, seq) = (place_of(&mixed, number).unwrap(), mixed.now[number].1);
        let key = key(number);
        for _ in 0..2 {
            let other = reader.read_at(&place, &sought(b"another", SEQ_MAX));
            assert!(matches!(other, Located::OtherKey), "{number}: {other:?}");
            let elsewhere = Sought { keyspace: KeyspaceId(77), ..sought(&key, SEQ_MAX) };
            assert!(matches!(reader.read_at(&place, &elsewhere), Located::OtherKey));
            let older = reader.read_at(&place, &sought(&key, seq - 1));
            assert!(matches!(older, Located::Newer), "{number}: {older:?}");
            // Once more with the record in memory.
            reader.read_at(&place, &sought(&key, seq));
        }
    }
    let gone = Place::of(FileId(99), 4096, 100).unwrap();
    assert!(matches!(reader.read_at(&gone, &sought(b"key1", SEQ_MAX)), Located::Gone));
    let behind = Place::of(FileId(15), 60 << 20, 100).unwrap();
    assert!(matches!(reader.read_at(&behind, &sought(b"key1", SEQ_MAX)), Located::Unproven));
}

#[test]
fn many_at_once_come_as_one_by_one() {
    let mixed = mixed();
    let reader = reader(&mixed);
    let keys: Vec<Vec<u8>> = (0..80).map(key).collect();
    let mut places: Vec<(Place, Sought<'_>)> = (0..80)
        .map(|number| (place_of(&mixed, number).unwrap(), sought(&keys[number], SEQ_MAX)))
        .collect();
    places.push((Place::of(FileId(99), 4096, 100).unwrap(), sought(&keys[3], SEQ_MAX)));
    places.push((places[5].0, sought(&keys[6], SEQ_MAX)));
    for _ in 0..2 {
        let found = reader.read_many_at(&places);
        for (number, found) in found.iter().take(80).enumerate() {
            assert!(is_value(found, mixed.now[number].1, &value(number)), "{number}");
        }
        assert!(matches!(found[80..], [Located::Gone, Located::OtherKey]), "{:?}", &found[80..]);
    }
    assert!(reader.read_many_at(&[]).is_empty());
}

#[test]
fn a_flipped_bit_proves_nothing() {
    let mixed = mixed();
    for number in [0, 3, 6, 9, 12] {
        let (handle, seq) = mixed.now[number];
        let place = place_of(&mixed, number).unwrap();
        let key = key(number);
        let home = reader(&mixed).files.get_moved(handle.file).map(|moved| moved.container);
        let kind = if home.is_some() { FileKind::ValueTable } else { FileKind::Value };
        let name = file_name(kind, home.unwrap_or(handle.file));
        let path = std::path::Path::new(crate::log::testing::DIR).join(name);
        let whole = mixed.disk.contents(&path);
        for at in [0, 1, u64::from(handle.bytes) / 2, u64::from(handle.bytes) - 1] {
            let mut bytes = whole.clone();
            bytes[(handle.offset + at) as usize] ^= 4;
            mixed.disk.replace(&path, bytes).unwrap();
            let located = reader(&mixed).read_at(&place, &sought(&key, SEQ_MAX));
            assert!(matches!(located, Located::Unproven), "{number} at {at}: {located:?}");
        }
        mixed.disk.replace(&path, whole).unwrap();
        let located = reader(&mixed).read_at(&place, &sought(&key, SEQ_MAX));
        assert!(is_value(&located, seq, &value(number)));
    }
}
