//! What is applied, combined and left out, by cases; the harness runs all of it at random.

use super::*;
use crate::base::merge_operator::operators;

fn merge(seq: Seq, value: &str) -> Version {
    version(seq, Kind::Merge, value)
}

fn version(seq: Seq, kind: Kind, value: &str) -> Version {
    let value = value.as_bytes().to_vec();
    Version { seq, kind, value, is_combined: false, stays: false }
}

/// What the index gets, and what the bucket gets: `|` for an anchor, `?` for what is elsewhere.
fn gathered(mut versions: Vec<Version>, snapshots: &[Seq], cover: Seq) -> (String, String) {
    let operator = operators::by_name("append:,").unwrap();
    let cover = |seq| if cover <= seq { cover } else { 0 };
    let mut kept = apply_to_bases(b"k", &mut versions, snapshots, cover, &*operator);
    combine(b"k", &mut versions, snapshots, cover, &*operator);
    kept.extend(leave_out(&mut versions, 12));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let kept = kept.iter().map(|(seq, kept)| {
        let value = kept.value.as_ref().map_or("as it is".to_owned(), |value| text(value));
        format!("{seq} {:?} {value}", kept.kind)
    });
    let kept: Vec<String> = kept.collect();
    let records = records_of(&mut versions);
    let records = records.iter().map(|record| match record.kind {
        DeltaKind::Anchor => format!("{}|", record.seq),
        DeltaKind::Elsewhere => format!("{}?", record.seq),
        DeltaKind::Delta => format!("{} {}", record.seq, text(&record.operand)),
    });
    (kept.join("; "), records.collect::<Vec<_>>().join("; "))
}

fn pair(index: &str, bucket: &str) -> (String, String) {
    (index.to_owned(), bucket.to_owned())
}

#[test]
fn operands_upon_a_base_of_the_memtable_are_applied_to_it() {
    let versions = || vec![merge(9, "c"), merge(8, "b"), version(7, Kind::Put, "a"), merge(3, "x")];
    assert_eq!(gathered(versions(), &[], 0), pair("9 Put a,b,c", "9|; 3 x"));
    assert_eq!(gathered(versions(), &[9], 0), pair("9 Put a,b,c", "9|; 3 x"), "none between");
    assert_eq!(gathered(versions(), &[8], 0), pair("8 Put a,b", "9 c; 8|; 3 x"));
    assert_eq!(gathered(versions(), &[7], 0), pair("", "9 b,c; 7|; 3 x"), "a snapshot sees it");
    let cover = |of| gathered(vec![merge(9, "c"), merge(7, "b"), merge(6, "a")], &[], of).1;
    assert_eq!([cover(8), cover(5), cover(10)], ["9 c; 7 a,b", "9 a,b,c", "9 a,b,c"]);
    let between = vec![merge(9, "c"), merge(8, "b"), version(5, Kind::Put, "a")];
    assert_eq!(gathered(between, &[], 7), pair("", "9 b,c; 5|"), "deleted between");
    assert_eq!(gathered(versions(), &[], 5), pair("9 Put a,b,c", "9|; 3 x"), "deleted below");
    let deleted = vec![merge(9, "c"), version(7, Kind::Delete, ""), version(5, Kind::Put, "")];
    assert_eq!(gathered(deleted, &[], 0), pair("9 Put c", "9|; 5|"), "a delete is a base, too");
    let separated = vec![merge(9, "c"), version(7, Kind::PutSeparated, "")];
    assert_eq!(gathered(separated, &[], 0), pair("", "9 c; 7|"), "its value is not here");
    let two =
        vec![merge(9, "d"), version(8, Kind::Put, "c"), merge(6, "b"), version(5, Kind::Put, "a")];
    assert_eq!(gathered(two.clone(), &[], 0), pair("9 Put c,d; 6 Put a,b", "9|; 6|"));
    assert_eq!(gathered(two, &[7], 0), pair("9 Put c,d; 6 Put a,b", "9|; 6|"));
}

#[test]
fn what_is_long_or_much_stays_in_the_index_as_few_pieces() {
    let long = "l".repeat(APPLIED_BYTES_MAX);
    let versions = vec![merge(9, &long), version(8, Kind::Put, "a")];
    assert_eq!(gathered(versions, &[], 0), pair("9 Merge as it is", "9?; 8|"));
    let many = (1..=20).rev().map(|seq| merge(seq, "x")).collect();
    let (index, bucket) = gathered(many, &[4, 12], 0);
    let x = |count: usize| vec!["x"; count].join(",");
    assert_eq!(index, format!("12 Merge {}; 20 Merge {}", x(8), x(8)));
    assert_eq!(bucket, format!("12?; 4 {}", x(4)), "one mark keeps all of them from what is below");
}

#[test]
fn a_failing_operator_leaves_all_as_it_is() {
    let operator = operators::by_name(operators::U64_ADD).unwrap();
    let mut versions =
        vec![merge(3, "no number"), merge(2, "none"), version(1, Kind::Put, "no number either")];
    let before = versions.clone();
    assert!(apply_to_bases(b"k", &mut versions, &[], |_| 0, &*operator).is_empty());
    combine(b"k", &mut versions, &[], |_| 0, &*operator);
    assert_eq!(versions, before);
}
