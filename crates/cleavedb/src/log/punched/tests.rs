//! What was given back of a segment, encoded; and segments that are read around it.

use super::*;
use crate::base::compress::Compression;
use crate::base::error::ErrorKind;
use crate::io::Io;
use crate::io::memory_disk::MemoryDisk;
use crate::log::format::Sealed;
use crate::log::reader::SegmentReader;
use crate::log::testing::values::{ValueBatch, ValueLog, options, path};
use crate::log::testing::{disk, io};
use proptest::prelude::*;

pub(crate) fn any_punched() -> impl Strategy<Value = Punched> {
    let runs = proptest::collection::vec((1..5000u64, 41..90_000u64), 1..6);
    (runs, any::<u32>()).prop_map(|(lengths, checksum)| {
        let mut end = SEGMENT_HEADER_BYTES as u64 - 1;
        let runs: Arc<[Run]> = lengths
            .into_iter()
            .map(|(gap, bytes)| {
                let start = end + gap;
                end = start + bytes;
                Run { start, end }
            })
            .collect();
        let records = runs.len() as u64;
        Punched { runs, records, record_bytes: 41 * records, checksum }
    })
}

fn encoded(punched: &Punched) -> Vec<u8> {
    let mut bytes = Vec::new();
    punched.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(punched in any_punched()) {
        let bytes = encoded(&punched);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(Punched::decode(&mut reader).unwrap(), punched);
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn hostile_bytes_have_one_encoding_or_none(bytes: Vec<u8>) {
        let mut reader = Reader::new(&bytes);
        if let Ok(punched) = Punched::decode(&mut reader) {
            let used = bytes.len() - reader.rest().len();
            prop_assert_eq!(&encoded(&punched)[..], &bytes[..used]);
        }
    }
}

#[test]
fn runs_that_no_segment_has_are_refused() {
    let refused = |runs: &[(u64, u64)], records, record_bytes| {
        let runs = runs.iter().map(|&(start, end)| Run { start, end }).collect();
        let punched = Punched { runs, records, record_bytes, checksum: 1 };
        Punched::decode(&mut Reader::new(&encoded(&punched))).is_err()
    };
    assert!(!refused(&[(80, 121), (122, 200)], 2, 60));
    assert!(refused(&[], 0, 0), "none");
    assert!(refused(&[(79, 200)], 1, 60), "in the segment's header");
    assert!(refused(&[(80, 120)], 1, 30), "shorter than a frame");
    assert!(refused(&[(80, 140), (140, 200)], 2, 60), "two that are one");
    assert!(refused(&[(200, 300), (100, 150)], 2, 60), "out of order");
    assert!(refused(&[(80, 200)], 1, 121), "more records than bytes");
    assert!(refused(&[(80, 200)], 4, 60), "records that are too short");
    let many = [vec![0, 0, 0], vec![0xff; 9], vec![1]].concat();
    assert!(Punched::decode(&mut Reader::new(&many)).is_err(), "more runs than bytes");
}

#[test]
fn what_is_gone_stays_gone() {
    let of = |runs: &[(u64, u64)], records| Punched {
        runs: runs.iter().map(|&(start, end)| Run { start, end }).collect(),
        records,
        record_bytes: records * 100,
        checksum: 0,
    };
    let totals = Totals { records: 5, record_bytes: 500, ..Totals::default() };
    let before = of(&[(100, 300)], 2);
    assert!(before.follows(None, 300, &totals) && !before.follows(None, 299, &totals));
    assert!(of(&[(80, 310)], 3).follows(Some(&before), 400, &totals));
    assert!(!of(&[(101, 310)], 3).follows(Some(&before), 400, &totals), "one comes back");
    assert!(!of(&[(80, 310)], 1).follows(Some(&before), 400, &totals));
    assert!(!of(&[(80, 310)], 6).follows(Some(&before), 400, &totals), "more than there are");
}

/// A sealed segment of records of some 900 bytes in frames of their own, and where these are.
fn segment(io: &Io) -> (Sealed, Vec<Run>) {
    let mut log = ValueLog::create(io, 15);
    let frames = (0..6u8)
        .map(|number| {
            let batch = ValueBatch::of(&[number], &[number; 900], Compression::None);
            let range = log.append(&[batch]).0;
            Run { start: range.start, end: range.end }
        })
        .collect();
    (log.seal(), frames)
}

/// What is known of the segment without these of its frames.
fn punched_of(disk: &MemoryDisk, seed: u32, frames: &[Run], gone: &[usize]) -> Punched {
    let bytes = disk.contents(path(15));
    let mut sum = HeaderSum::new(seed);
    sum.add_segment(&bytes);
    for (number, frame) in frames.iter().enumerate() {
        if !gone.contains(&number) {
            sum.add_frame(&bytes[frame.start as usize..]);
        }
    }
    sum.add_frame(&bytes[frames[frames.len() - 1].end as usize..]);
    let mut runs: Vec<Run> = Vec::new();
    for &number in gone {
        match runs.last_mut() {
            Some(last) if last.end == frames[number].start => last.end = frames[number].end,
            _ => runs.push(frames[number]),
        }
    }
    let records = gone.len() as u64;
    Punched { runs: runs.into(), records, record_bytes: records * 900, checksum: sum.value() }
}

fn read(io: &Io, sealed: Sealed, punched: &Punched) -> Result<Vec<u64>> {
    let punched = Some(Arc::new(punched.clone()));
    let mut reader =
        SegmentReader::open_punched(io, &path(15), options(15, Some(sealed)), punched)?;
    let mut seqs = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        if frame.header.count > 0 {
            assert_eq!(frame.payload.len(), frame.header.payload_bytes as usize);
            assert!(frame.payload.ends_with(&[frame.header.base_seq as u8 - 1; 900]));
            seqs.push(frame.header.base_seq);
        }
    }
    Ok(seqs)
}

#[test]
fn a_segment_is_read_around_its_holes() {
    let disk = disk();
    let io = io(&disk);
    let (sealed, frames) = segment(&io);
    let seed = crate::base::checksum::file_seed(&crate::log::testing::UUID, 15);
    for (gone, left) in [
        (vec![0], vec![2, 3, 4, 5, 6]),
        (vec![1, 2, 4], vec![1, 4, 6]),
        (vec![5], vec![1, 2, 3, 4, 5]),
        (vec![0, 1, 2, 3, 4, 5], vec![]),
    ] {
        let punched = punched_of(&disk, seed, &frames, &gone);
        assert_eq!(read(&io, sealed, &punched).unwrap(), left, "before it is given back");
        let copy = disk.deep_clone();
        let mut bytes = copy.contents(path(15));
        for run in punched.runs.iter() {
            bytes[run.start as usize..run.end as usize].fill(0xee);
        }
        copy.replace(path(15), bytes).unwrap();
        let around = crate::log::testing::io(&copy);
        assert_eq!(read(&around, sealed, &punched).unwrap(), left, "whatever is in the holes");
        let wrong = Punched { checksum: punched.checksum ^ 1, ..punched.clone() };
        let error = read(&around, sealed, &wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn runs_that_are_not_whole_frames_are_corruption() {
    let disk = disk();
    let io = io(&disk);
    let (sealed, frames) = segment(&io);
    let seed = crate::base::checksum::file_seed(&crate::log::testing::UUID, 15);
    let right = punched_of(&disk, seed, &frames, &[2]);
    for (start, end) in [(-1i64, 0i64), (1, 0), (0, -1), (0, 1)] {
        let mut run = right.runs[0];
        run.start = run.start.checked_add_signed(start).unwrap();
        run.end = run.end.checked_add_signed(end).unwrap();
        let wrong = Punched { runs: [run].into(), ..right.clone() };
        let error = read(&io, sealed, &wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{start} {end}");
    }
}

#[test]
fn every_byte_outside_of_holes_counts() {
    let disk = disk();
    let io = io(&disk);
    let (sealed, frames) = segment(&io);
    let seed = crate::base::checksum::file_seed(&crate::log::testing::UUID, 15);
    let punched = punched_of(&disk, seed, &frames, &[0, 3, 4]);
    let bytes = disk.contents(path(15));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        disk.replace(path(15), changed).unwrap();
        let is_in_hole = crate::base::runs::run_at(&punched.runs, at as u64).is_some();
        assert_eq!(read(&io, sealed, &punched).is_ok(), is_in_hole, "byte {at}");
    }
}
