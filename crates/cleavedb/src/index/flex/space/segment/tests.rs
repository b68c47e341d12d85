//! Reading what is written, what is not written yet, and what is damaged.

use super::*;
use crate::base::error::ErrorKind;
use crate::index::flex::space::segment::writer::SegmentWriter;
use crate::index::flex::space::tests::{SMALL, context, context_over};
use crate::io::context::native_io;
use crate::log::testing::disk;

fn bytes_of(number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u64 * 31 + number) as u8).collect()
}

fn part(segment: &Arc<Segment>, position: u64, bytes: u64) -> Part<'_> {
    Part { segment, position, bytes, place: (0, 0) }
}

fn read(segment: &Arc<Segment>, position: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut out = vec![vec![0; bytes as usize]];
    Segment::read_part(part(segment, position, bytes), Purpose::Read, &mut out)?;
    Ok(out.remove(0))
}

#[test]
fn what_was_appended_is_read_written_or_not() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut writer = SegmentWriter::create(&context, Purpose::Flush).unwrap();
    let mut all: Vec<u8> = Vec::new();
    for (number, length) in (0u64..).zip([10, 5000, 1, 4092, 700, 0, 2000]) {
        let bytes = bytes_of(number, length);
        let (physical, count) = writer.append(&bytes, number, Purpose::Flush).unwrap();
        assert_eq!((count, physical % format::SPAN_BYTES), (length, all.len() as u64));
        all.extend_from_slice(&bytes);
        if number % 3 == 1 {
            writer.sync(Purpose::Flush).unwrap();
            all.resize(all.len().next_multiple_of(DATA_BYTES as usize), 0);
        }
        let segment = writer.segment();
        for (from, to) in [(0, all.len()), (3, all.len()), (4000, 4200), (all.len() - 1, all.len())]
        {
            if from < to && to <= all.len() {
                let found = read(segment, from as u64, (to - from) as u64).unwrap();
                assert!(found == all[from..to], "{from}..{to}");
            }
        }
        assert!(read(segment, all.len() as u64, 1).is_err(), "never written");
    }
    let room = writer.room();
    let (_, count) = writer.append(&vec![1; room as usize + 5], 77, Purpose::Flush).unwrap();
    assert_eq!((count as u64, writer.room()), (room, 0));
    let segment = writer.finish(Purpose::Flush).unwrap();
    segment.keep();
    let again = Segment::new(&context, segment.id(), segment.birth());
    again.keep();
    assert!(read(&again, 0, all.len() as u64).unwrap() == all);
    let owners = again.owners(Purpose::Read).unwrap().unwrap();
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 6, 77]);
    assert_eq!(again.data_bytes(Purpose::Read).unwrap(), SMALL.segment_blocks * DATA_BYTES);
}

/// Where the file system can, and it is asked for. What reads leave in the page cache is not looked
/// at: to look once makes the kernel read ahead.
#[test]
fn segments_pass_by_the_page_cache_where_asked_for() {
    for direct in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let io = native_io(1, 0).unwrap();
        let context = context_over(io.clone(), SMALL, 1);
        let context = Arc::new(SpaceContext {
            dir: dir.path().to_owned(),
            direct_reads: direct,
            direct_writes: direct,
            ..Arc::into_inner(context).unwrap()
        });
        let mut writer = SegmentWriter::create(&context, Purpose::Flush).unwrap();
        let bytes = bytes_of(5, 9000);
        writer.append(&bytes, 1, Purpose::Flush).unwrap();
        writer.sync(Purpose::Flush).unwrap();
        let segment = Arc::clone(writer.segment());
        let mode = OpenMode { direct: true, random: true };
        let is_able = io.disk.open(segment.path(), mode).unwrap().is_direct();
        let is_direct = direct && is_able;
        // Not whether the bytes are in the page cache: a probe that may not wait begins to read
        // ahead, and finds on a busy machine what it has brought in by itself.
        assert_eq!(writer.is_direct(), is_direct);
        assert!(read(&segment, 10, 8000).unwrap() == bytes[10..8010]);
        let mut batch = [segment.batched(0, 9000, Purpose::Read).unwrap().unwrap()];
        io.disk.read_batch(&mut batch);
        let mut out = vec![vec![0; 9000]];
        for read in batch {
            let parts = [part(&segment, 0, 9000)];
            segment.take_parts(read, &parts, Purpose::Read, &mut out).unwrap();
        }
        assert!(out == [bytes]);
        assert_eq!(segment.disk_file(Purpose::Read).unwrap().is_direct(), is_direct);
        let segment = writer.finish(Purpose::Flush).unwrap();
        assert!(segment.owners(Purpose::Read).unwrap().unwrap().into_iter().eq([1]));
    }
}

#[test]
fn any_flip_is_found_by_whoever_reads_the_byte() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut writer = SegmentWriter::create(&context, Purpose::Flush).unwrap();
    let bytes = bytes_of(5, 9000);
    writer.append(&bytes, 1, Purpose::Flush).unwrap();
    let segment = writer.finish(Purpose::Flush).unwrap();
    segment.keep();
    let good = disk.contents(segment.path());
    for at in (0..good.len()).step_by(7) {
        let mut damaged = good.clone();
        damaged[at] ^= 1 << (at % 8);
        disk.replace(segment.path(), damaged).unwrap();
        let reopened = Segment::new(&context, segment.id(), segment.birth());
        reopened.keep();
        let found = read(&reopened, 0, 9000);
        let in_header_or_data =
            at < HEADER_BYTES || (BLOCK_BYTES as usize..4 * BLOCK_BYTES as usize).contains(&at);
        match found {
            Ok(found) => assert!(!in_header_or_data && found == bytes, "byte {at}"),
            Err(error) => {
                assert!(in_header_or_data, "byte {at}: {error}");
                assert!(error.file().is_some() && error.offset().is_some(), "{error}");
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            }
        }
        let owners = reopened.owners(Purpose::Read).ok().flatten();
        assert!(owners.is_none_or(|owners| owners.into_iter().eq([1])), "byte {at}");
    }
    for end in (0..4 * BLOCK_BYTES as usize).step_by(1000) {
        disk.replace(segment.path(), &good[..end]).unwrap();
        let reopened = Segment::new(&context, segment.id(), segment.birth());
        reopened.keep();
        assert_eq!(read(&reopened, 0, 9000).unwrap_err().kind(), ErrorKind::Corruption);
    }
    disk.remove(segment.path()).unwrap();
    let missing = Segment::new(&context, segment.id(), segment.birth());
    assert_eq!(read(&missing, 0, 1).unwrap_err().kind(), ErrorKind::Corruption);
}
