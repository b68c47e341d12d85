//! Frames of the value lane: their records prove themselves where they stand, and are the same
//! after a failed attempt; the footer ends the segment.

use crate::base::compress::Compression;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::log::batch::BatchReader;
use crate::log::footer::Footer;
use crate::log::format::{FRAME_HEADER_BYTES, FrameKind, FrameRef};
use crate::log::group::ValueFrame;
use crate::log::reader::SegmentReader;
use crate::log::separated::{Binding, SeparatedRecord};
use crate::log::testing::values::{ValueBatch, ValueLog, options, path, spec};
use crate::log::testing::{disk, io, io_over};
use crate::log::writer::{AppendError, SegmentWriter};

fn batches() -> [ValueBatch; 3] {
    [
        ValueBatch::of(b"a", &[1; 2000], Compression::None).inline(b"b", b"small"),
        ValueBatch::of(b"c", &[3; 2000], Compression::Lz4),
        ValueBatch::default().inline(b"d", b"").separated(b"e", b"short", Compression::Zstd),
    ]
}

#[test]
fn records_hold_where_they_stand() {
    let disk = disk();
    let io = io(&disk);
    let mut log = ValueLog::create(&io, 15);
    let (first, _) = log.append(&[ValueBatch::of(b"z", &[9; 100], Compression::None)]);
    let (range, written) = log.append(&batches());
    assert_eq!(range.start, first.end);
    let bytes = disk.contents(path(15));
    assert_eq!(&bytes[range.start as usize..range.end as usize], &log.buffer[..]);
    let seed = log.writer.seed();
    let seqs: Vec<_> = written.iter().map(|w| w.seq).collect();
    assert_eq!(seqs, [2, 4, 6]);
    for (record, key) in written.iter().zip([b"a", b"c", b"e"]) {
        let end = record.offset as usize + record.bytes as usize;
        let found = SeparatedRecord::decode(&bytes[record.offset as usize..end]).unwrap();
        assert_eq!((found.key, found.seq), (&key[..], record.seq));
        assert!(found.holds_at(seed, record.offset));
    }
    let sealed = log.seal();
    let mut reader = SegmentReader::open(&io, &path(15), options(15, Some(sealed))).unwrap();
    let mut records = 0;
    while let Some(frame) = reader.next_frame().unwrap() {
        if frame.header.kind == FrameKind::Footer {
            let footer = Footer::decode(frame.payload).unwrap();
            assert_eq!((footer.totals.records, footer.lines.len()), (4, 4));
            continue;
        }
        let place = Binding {
            seed,
            payload_offset: frame.offset + FRAME_HEADER_BYTES as u64,
            base_seq: frame.header.base_seq,
        };
        let count = frame.header.count;
        for record in BatchReader::of_values(frame.payload, count, Some(place)) {
            records += usize::from(record.unwrap().separated.is_some());
        }
    }
    assert_eq!(records, 4);
    assert!(reader.has_footer());
}

#[test]
fn a_failed_append_leaves_the_batch_as_it_was() {
    let disk = disk();
    let faults = FaultDisk::over(&disk);
    let mut log = ValueLog::create(&io_over(faults.clone()), 15);
    let (kind, fault) = (Some(CallKind::Write), Fault::Enospc);
    faults.set_plan(Some(FaultPlan { kind, at: 1, fault, persistent: false }));
    let batch = ValueBatch::of(b"a", &[1; 2000], Compression::None);
    let frame = FrameRef { base_seq: 1, count: 1, payload: &batch.payload };
    let frames = [ValueFrame { frame, slots: &batch.slots }];
    let error = log.writer.append_values(&frames, 0, &mut log.buffer).unwrap_err();
    assert!(!error.is_fatal(), "{error:?}");
    // The same batch, now with another seq and behind another one.
    let (_, written) = log.append(&[ValueBatch::of(b"z", b"9", Compression::None), batch]);
    let bytes = disk.contents(path(15));
    let at = written[1].offset as usize;
    let record = SeparatedRecord::decode(&bytes[at..at + written[1].bytes as usize]).unwrap();
    assert_eq!((record.key, record.seq), (&b"a"[..], 2));
    assert!(record.holds_at(log.writer.seed(), at as u64));
}

#[test]
fn a_footer_ends_a_value_segment_and_no_other_log() {
    let disk = disk();
    let io = io(&disk);
    let mut log = ValueLog::create(&io, 15);
    log.append(&batches());
    let payload = log.footer.encode().unwrap();
    log.writer.append_footer(6, 5, &payload).unwrap();
    let whole = log.writer.bytes();
    log.writer.append_watermark(6, 5).unwrap();
    let mut reader = SegmentReader::open(&io, &path(15), options(15, None)).unwrap();
    for _ in 0..4 {
        reader.next_frame().unwrap().unwrap();
    }
    let error = reader.next_frame().unwrap_err();
    assert_eq!(error.offset(), Some(whole), "{error}");
    // A journal that says it has one.
    let journal = crate::log::testing::path(16);
    let spec = crate::log::testing::spec(16, 0);
    let mut writer =
        SegmentWriter::create(&io, &journal, &spec).map_err(AppendError::into_error).unwrap();
    writer.append_footer(1, 0, &payload).unwrap();
    let options = crate::log::testing::options(16, None);
    let mut reader = SegmentReader::open(&io, &journal, options).unwrap();
    assert!(reader.next_frame().unwrap_err().message().contains("footer"));
}

/// Seqs may leave gaps, which are the other lane's, but never go back.
#[test]
fn frames_that_go_back_are_refused() {
    let disk = disk();
    let io = io(&disk);
    let mut log = ValueLog::create(&io, 15);
    for seq in [5, 9, 12, 10] {
        let batch = ValueBatch::default().inline(b"a", b"1").inline(b"b", b"2");
        log.next_seq = seq;
        log.append(&[batch]);
    }
    let mut reader = SegmentReader::open(&io, &path(15), options(15, None)).unwrap();
    for seq in [5, 9, 12] {
        assert_eq!(reader.next_frame().unwrap().unwrap().header.base_seq, seq);
    }
    assert!(reader.next_frame().unwrap_err().message().contains("goes back to seq 10"));
}

#[test]
fn a_segment_of_another_kind_is_not_taken_for_values() {
    let disk = disk();
    let io = io(&disk);
    drop(ValueLog::create(&io, 15));
    let wrong = crate::log::testing::options(15, None);
    assert!(SegmentReader::open(&io, &path(15), wrong).is_err());
    assert_eq!(spec(15).kind, options(15, None).kind);
}
