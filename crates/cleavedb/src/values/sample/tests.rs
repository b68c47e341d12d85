//! What is drawn, and what becomes of it.

use std::collections::BTreeSet;

use super::*;
use crate::base::compress::Compression;
use crate::log::testing::values::{ValueBatch, ValueLog, path};
use crate::log::testing::{disk, io};
use crate::values::testing::{context, growing};

fn line(number: u64) -> Line {
    Line {
        hash: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        seq: number,
        offset: number,
        bytes: 30,
    }
}

#[test]
fn few_records_are_all_drawn_and_many_evenly() {
    for count in [0, 1, 63, 64] {
        let lines: Vec<Line> = (0..count).map(line).collect();
        assert_eq!(chosen(&lines).count() as u64, count);
    }
    for count in [65, 100, 1000, 65_000] {
        let lines: Vec<Line> = (0..count).map(line).collect();
        let drawn: Vec<u64> = chosen(&lines).map(|line| line.seq).collect();
        assert!((33..=RECORDS).contains(&drawn.len()), "{}", drawn.len());
        assert!(drawn.is_sorted() && drawn.last().unwrap() + count / 20 + 3 > count, "{drawn:?}");
        let odd = drawn.iter().filter(|seq| *seq % 2 == 1).count();
        assert!(odd > drawn.len() / 5 && odd < drawn.len() * 4 / 5, "no pattern: {drawn:?}");
    }
}

#[test]
fn the_dead_are_not_asked_about_again() {
    let disk = disk();
    let io = io(&disk);
    let mut log = ValueLog::create(&io, 15);
    for number in 0..40 {
        let key = if number == 7 { "k".repeat(900) } else { format!("key{number}") };
        log.append(&[ValueBatch::of(key.as_bytes(), &[1; 50], Compression::None)]);
    }
    let payload = log.footer.clone().encode().unwrap();
    let lines = crate::log::footer::Footer::decode(&payload).unwrap().lines;
    let bytes = disk.contents(path(15)).len() as u64;
    let context = context(&io, false);
    let files = growing(&context, &[(15, bytes)]);
    let file = &files.get(FileId(15)).unwrap().file;
    let mut sample = Sample::draw(&context, file, &lines).unwrap();
    assert_eq!(sample.live_share(), Some(1.0));
    let mut asked = BTreeSet::new();
    let mut ask = |is_live: &dyn Fn(u64) -> bool| {
        asked.clear();
        sample
            .refresh(&mut |place| {
                asked.insert(place.seq);
                assert!(place.key.starts_with(b"key") && place.handle.file == FileId(15));
                Ok(is_live(place.seq))
            })
            .unwrap();
        (asked.len(), sample.live_share().unwrap())
    };
    let (count, share) = ask(&|seq| seq > 10);
    assert_eq!(count, 39, "a key that is too long is left out");
    assert!((share - 30.0 / 39.0).abs() < 0.02, "{share}");
    let (count, share) = ask(&|_| true);
    assert_eq!(count, 30);
    assert!((share - 30.0 / 39.0).abs() < 0.02, "{share}");
    assert_eq!(ask(&|_| false), (30, 0.0));
    assert_eq!(Sample::draw(&context, file, &[]).unwrap().live_share(), None);
}
