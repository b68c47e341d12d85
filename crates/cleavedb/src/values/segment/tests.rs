//! Footer and scan say the same; damage is told from absence.

use super::*;
use crate::base::compress::Compression;
use crate::base::error::ErrorKind;
use crate::io::disk::OpenMode;
use crate::io::memory_disk::MemoryDisk;
use crate::log::testing::values::{ValueBatch, ValueLog, options, path};
use crate::log::testing::{UUID, disk, io};
use proptest::prelude::*;

/// One batch: a value of this length, and small records before and behind it.
fn batch(number: usize, value_bytes: usize, small: usize) -> ValueBatch {
    let key = format!("key{number}");
    let mut batch = ValueBatch::default();
    for other in 0..small {
        batch = batch.inline(format!("small{other}").as_bytes(), b"1");
    }
    let value: Vec<u8> = (0..value_bytes).map(|at| (at / 7 + number) as u8).collect();
    let how = [Compression::None, Compression::Lz4, Compression::Zstd][number % 3];
    batch.separated(key.as_bytes(), &value, how).inline(b"last", b"")
}

/// A segment of groups of batches, sealed with its footer.
fn segment(disk: &MemoryDisk, groups: &[Vec<(usize, usize)>]) -> (Sealed, FooterBuilder) {
    let mut log = ValueLog::create(&io(disk), 15);
    let mut number = 0;
    for group in groups {
        let batches: Vec<_> = group
            .iter()
            .map(|&(value_bytes, small)| {
                number += 1;
                batch(number, value_bytes, small)
            })
            .collect();
        log.append(&batches);
        // Seqs of the other lane.
        log.next_seq += number as u64 % 4;
    }
    let footer = log.footer.clone();
    (log.seal(), footer)
}

fn footer_of(disk: &MemoryDisk, sealed: &Sealed) -> Result<Option<Footer>> {
    let file = io(disk);
    let open = file.disk.open(&path(15), OpenMode::default()).unwrap();
    let seed = crate::base::checksum::file_seed(&UUID, 15);
    read_footer(&file, &*open, &path(15), seed, sealed, Purpose::Recovery)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_scan_rebuilds_the_footer(
        groups in proptest::collection::vec(
            proptest::collection::vec((0..3000usize, 0..3usize), 1..5), 0..8),
    ) {
        let disk = disk();
        let (sealed, collected) = segment(&disk, &groups);
        let found = footer_of(&disk, &sealed).unwrap().expect("there is a footer");
        prop_assert_eq!(found.totals, collected.totals());
        prop_assert_eq!(found.totals.records as usize, groups.iter().map(Vec::len).sum::<usize>());
        for known in [Some(sealed), None] {
            let scanned = scan(&io(&disk), &path(15), options(15, known)).unwrap();
            prop_assert_eq!(scanned.encode(), collected.encode());
            let decoded = Footer::decode(&scanned.encode().unwrap()).unwrap();
            prop_assert_eq!(&decoded, &found);
        }
    }
}

#[test]
fn a_segment_without_footer_has_none() {
    let disk = disk();
    let mut log = ValueLog::create(&io(&disk), 15);
    let sealed_bytes = |log: &ValueLog| Sealed {
        id: crate::base::entry::FileId(15),
        bytes: log.writer.bytes(),
        checksum: 0,
    };
    assert_eq!(footer_of(&disk, &sealed_bytes(&log)).unwrap(), None, "no frame at all");
    log.append(&[batch(1, 500, 0)]);
    assert_eq!(footer_of(&disk, &sealed_bytes(&log)).unwrap(), None, "cut off by a crash");
    let scanned = scan(&io(&disk), &path(15), options(15, None)).unwrap();
    assert_eq!(scanned.totals().records, 1);
}

#[test]
fn a_damaged_footer_is_none_and_a_scan_says_where() {
    let disk = disk();
    let (sealed, _) = segment(&disk, &[vec![(500, 1), (90, 0)]]);
    let good = disk.contents(path(15));
    let footer_at = good.windows(4).rposition(|window| window == b"CLVF").unwrap();
    for at in footer_at..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        disk.replace(path(15), bad).unwrap();
        assert_eq!(footer_of(&disk, &sealed).unwrap(), None, "byte {at}");
        let error = scan(&io(&disk), &path(15), options(15, Some(sealed))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.offset().is_some_and(|at| at >= footer_at as u64), "{error}");
    }
}

/// Frames that prove themselves and records that do, but whose seqs do not ascend.
#[test]
fn a_segment_that_goes_back_is_refused() {
    let disk = disk();
    let mut log = ValueLog::create(&io(&disk), 15);
    log.append(&[batch(1, 500, 0)]);
    log.next_seq = 1;
    log.footer = FooterBuilder::default();
    log.append(&[batch(2, 500, 0)]);
    let error = scan(&io(&disk), &path(15), options(15, None)).unwrap_err();
    assert!(error.message().contains("goes back"), "{error}");
}

/// A footer that proves itself and lies.
#[test]
fn a_footer_of_other_records_is_damage() {
    let disk = disk();
    let mut log = ValueLog::create(&io(&disk), 15);
    let (range, _) = log.append(&[batch(1, 500, 0)]);
    let line = Line { hash: 7, seq: 1, offset: range.start + 40, bytes: 60 };
    log.footer = FooterBuilder::default();
    log.footer.add(line, 3, 10);
    let sealed = log.seal();
    assert!(footer_of(&disk, &sealed).unwrap().is_some());
    let error = scan(&io(&disk), &path(15), options(15, Some(sealed))).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(range.end)));
}

/// Seq zero means "before everything": no operation has it.
#[test]
fn a_record_of_seq_zero_is_damage() {
    use crate::log::format::FrameRef;
    use crate::log::group::ValueFrame;
    use crate::log::testing::values::spec;
    use crate::log::writer::{SegmentSpec, SegmentWriter};
    let disk = disk();
    let spec = SegmentSpec { first_seq: 0, ..spec(15) };
    let mut writer = SegmentWriter::create(&io(&disk), &path(15), &spec).unwrap();
    let ValueBatch { payload, slots, count } = batch(1, 500, 0);
    let frame = FrameRef { base_seq: 0, count, payload: &payload };
    writer.append_values(&[ValueFrame { frame, slots: &slots }], 0, &mut Vec::new()).unwrap();
    let error = scan(&io(&disk), &path(15), options(15, None)).map(|_| ()).unwrap_err();
    assert!(error.message().contains("goes back to seq 0"), "{error}");
}
