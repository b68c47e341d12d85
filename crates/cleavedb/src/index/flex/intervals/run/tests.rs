//! Records and runs: round trips, tails, and bytes that no writer wrote.

use super::*;
use crate::base::error::ErrorKind;

fn record<'a>(key: &'a str, seq: Seq, kind: Kind, value: &'a str) -> Record<'a> {
    Record { key: key.as_bytes(), seq, kind, value: value.as_bytes() }
}

fn bytes_of(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

#[test]
fn records_round_trip() {
    let long = "k".repeat(KEY_BYTES_MAX);
    let all = [
        record("", 1, Kind::Put, ""),
        record("a", SEQ_MAX, Kind::PutSeparated, "handle"),
        record("a", 300, Kind::PutBare, ""),
        record("a", 299, Kind::Delete, ""),
        record("a", 298, Kind::Merge, "operand"),
        record(&long, 5, Kind::Put, &long),
    ];
    let bytes = bytes_of(&all);
    let run = Run::decode(bytes.clone()).unwrap();
    assert_eq!(run.iter().collect::<Vec<_>>(), all);
    assert!(run.is_sorted());
    let mut builder = RunBuilder::default();
    all.iter().for_each(|record| builder.add(record));
    assert_eq!((builder.encoded(), builder.len()), (bytes.as_slice(), 6));
    builder.remove_first(2);
    assert_eq!(builder.get(0), Some(all[2]));
    assert_eq!(builder.encoded(), bytes_of(&all[2..]));
}

/// Keys of one fingerprint are told apart by their bytes, wherever in a lot of fingerprints they
/// stand; other records are not looked at.
#[test]
fn fingerprints_decide_which_records_are_looked_at() {
    let print = |key: &str| fingerprint(key_hash(key.as_bytes()));
    let mut names: Vec<String> = (0..2000).map(|number| format!("{number:05}")).collect();
    names.sort_by_key(|name| (print(name), name.clone()));
    let twins = names.windows(2).position(|two| print(&two[0]) == print(&two[1])).unwrap();
    for count in [2, 15, 16, 17, 33, 50] {
        for shift in 0..count.min(20) {
            let from = twins.saturating_sub(shift);
            let mut some = names[from..from + count.max(shift + 2)].to_vec();
            some.sort();
            let records: Vec<_> = some.iter().map(|key| record(key, 7, Kind::Put, "v")).collect();
            let run = Run::decode(bytes_of(&records)).unwrap();
            for (number, key) in some.iter().enumerate() {
                assert_eq!(run.find(key.as_bytes(), print(key)), Some(number));
                assert_eq!(run.find(key.as_bytes(), print(key) ^ 1), None, "not looked at");
                assert_eq!(run.find(b"another", print(key)), None);
            }
        }
    }
}

#[test]
fn a_tail_is_sorted_in_and_nothing_is_there_twice() {
    let mut records = vec![
        record("b", 1, Kind::Put, "old"),
        record("c", 2, Kind::Put, "c"),
        record("a", 4, Kind::Put, "a"),
        record("b", 9, Kind::Put, "new"),
        record("b", 5, Kind::Delete, ""),
    ];
    let run = Run::decode(bytes_of(&records)).unwrap();
    assert!(!run.is_sorted());
    let order: Vec<_> = run.iter().map(|record| (record.key, record.seq)).collect();
    let wanted: Vec<(&[u8], Seq)> = vec![(b"a", 4), (b"b", 9), (b"b", 5), (b"b", 1), (b"c", 2)];
    assert_eq!(order, wanted);
    for (snapshot, wanted) in [(8, Kind::Delete), (9, Kind::Put), (4, Kind::Put)] {
        let mut lookup = Lookup::new(snapshot);
        assert!(run.offer(b"b", key_hash(b"b"), &mut lookup));
        assert_eq!(lookup.found.unwrap().kind, wanted);
    }
    assert!(!run.offer(b"d", key_hash(b"d"), &mut Lookup::new(SEQ_MAX)));
    records.push(record("c", 2, Kind::Put, "again"));
    assert_eq!(Run::decode(bytes_of(&records)).unwrap_err().kind(), ErrorKind::Corruption);
}

/// What is read at a glance is what is read number by number, whatever the lengths.
#[test]
fn short_headers_are_read_as_long_ones() {
    let edges = |bits: u32| (0..=bits / 7).flat_map(|n| [(1u64 << (7 * n)) - 1, 1 << (7 * n)]);
    for key_bytes in [0, 1, 27, 127, 128, 16_384] {
        for packed in edges(56).chain([u64::MAX >> 1]) {
            for value_bytes in edges(35) {
                let numbers = (key_bytes, packed, value_bytes);
                let mut bytes = Vec::new();
                for number in [key_bytes, packed, value_bytes] {
                    put_varint(&mut bytes, number);
                }
                let length = bytes.len();
                bytes.resize(length.max(16), 0xff);
                let short = short_numbers(bytes.first_chunk().unwrap());
                let is_short = key_bytes < 128 && packed < 1 << 56 && value_bytes < 16_384;
                assert_eq!(short, is_short.then_some((numbers, length)), "{numbers:?}");
            }
        }
    }
    // Numbers in more bytes than they need, or that do not end.
    for overlong in [[3u8, 0x80, 0, 1], [3, 0xb9, 0x80, 0], [3, 0x39, 0x85, 0]] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&overlong);
        assert_eq!(short_numbers(&bytes), None, "{overlong:?}");
        assert!(Record::decode(&mut Reader::new(&bytes)).is_err(), "{overlong:?}");
    }
    assert_eq!(short_numbers(&[0xff; 16]), None);
}

#[test]
fn bytes_that_no_writer_wrote_are_refused() {
    let good = bytes_of(&[record("key", 7, Kind::Put, "value")]);
    for end in 1..good.len() {
        assert!(Run::decode(good[..end].to_vec()).is_err(), "{end} bytes");
    }
    let refused = |key_bytes: u64, packed: u64, value_bytes: u64| {
        let mut bytes = Vec::new();
        [key_bytes, packed, value_bytes].iter().for_each(|number| put_varint(&mut bytes, *number));
        bytes.extend([0; 20]);
        let read = Record::decode(&mut Reader::new(&bytes)).map(drop);
        read.is_err_and(|error| error.kind() == ErrorKind::Corruption)
    };
    assert!(!refused(3, 7 << 3 | 1, 5));
    assert!(refused(3, 1, 5), "no seq");
    assert!(refused(3, (SEQ_MAX + 1) << 3 | 1, 5), "a seq too large");
    for kind in [0, 6, 7] {
        assert!(refused(3, 7 << 3 | kind, 5), "kind {kind}");
    }
    assert!(refused(3, 7 << 3 | 4, 5), "a delete with a value");
    assert!(refused(KEY_BYTES_MAX as u64 + 1, 7 << 3 | 1, 5));
    assert!(refused(3, 7 << 3 | 1, VALUE_BYTES_MAX as u64 + 1));
    assert!(refused(u64::MAX, 7 << 3 | 1, 5));
}

#[test]
fn what_is_searched_in_order_must_be_in_order() {
    let look = |records: &[Record<'_>], key: &str, snapshot: Seq| {
        let mut lookup = Lookup::new(snapshot);
        let decided = offer_in_order(&bytes_of(records), key.as_bytes(), &mut lookup)?;
        Ok::<_, Error>((decided, lookup.found.map(|found| (found.seq, found.value.to_vec()))))
    };
    let all = [
        record("a", 9, Kind::Put, "a9"),
        record("b", 8, Kind::Merge, "+"),
        record("b", 7, Kind::Put, "b7"),
        record("b", 3, Kind::Put, "b3"),
        record("d", 5, Kind::Delete, ""),
    ];
    assert_eq!(look(&all, "b", SEQ_MAX).unwrap(), (true, Some((7, b"b7".to_vec()))));
    assert_eq!(look(&all, "b", 6).unwrap(), (true, Some((3, b"b3".to_vec()))));
    assert_eq!(look(&all, "b", 2).unwrap(), (false, None));
    assert_eq!(look(&all, "d", SEQ_MAX).unwrap(), (true, Some((5, Vec::new()))));
    for missing in ["", "aa", "c", "e"] {
        assert_eq!(look(&all, missing, SEQ_MAX).unwrap(), (false, None), "{missing}");
    }
    // The same for every key and snapshot as a search of all.
    let run = Run::decode(bytes_of(&all)).unwrap();
    for (key, snapshot) in
        ["a", "b", "c", "d"].into_iter().flat_map(|k| (1..10).map(move |s| (k, s)))
    {
        let mut lookup = Lookup::new(snapshot);
        let decided = run.offer(key.as_bytes(), key_hash(key.as_bytes()), &mut lookup);
        let found = lookup.found.map(|found| (found.seq, found.value.to_vec()));
        assert_eq!(look(&all, key, snapshot).unwrap(), (decided, found), "{key} at {snapshot}");
    }
    let turned = [all[0], all[2], all[1], all[4]];
    let error = look(&turned, "d", SEQ_MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(check_first(&bytes_of(&all), b"a").is_ok() && check_first(b"", b"z").is_ok());
    assert!(check_first(&bytes_of(&all), b"b").is_err());
}
