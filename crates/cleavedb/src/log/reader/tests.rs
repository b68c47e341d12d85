//! Torn tail or damage: flips, cuts, lost sectors, crash states of a writer.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::memory_disk::CrashMode;
use crate::io::seeded::Seeded;
use crate::log::format::{SECTOR_BYTES, frame_offset};
use crate::log::testing::{
    DIR, Seen, append, batch, disk, io, options, path, read_all, read_bytes, spec,
};
use crate::log::writer::SegmentWriter;
use proptest::prelude::*;

/// A segment of `frames` with a sync after each of the first `synced`, and a header that says so
/// in each that follows. Returns its bytes, the frames, where each ends, and what it seals to.
fn sample(value_bytes: &[usize], synced: u64) -> (Vec<u8>, Vec<Seen>, Vec<u64>, Sealed) {
    let disk = disk();
    let mut writer = SegmentWriter::create(&io(&disk), &path(1), &spec(1, 0))
        .map_err(crate::log::writer::AppendError::into_error)
        .unwrap();
    let mut frames = Vec::new();
    let mut ends = Vec::new();
    for (&bytes, seq) in value_bytes.iter().zip(1..) {
        let payload = batch(seq, 1, bytes);
        append(&mut writer, seq, 1, &payload, (seq - 1).min(synced));
        frames.push((seq, 1, payload));
        ends.push(writer.bytes());
    }
    let sealed = writer.seal().unwrap();
    (disk.contents(path(1)), frames, ends, sealed)
}

fn assert_corrupt(result: Result<(Vec<Seen>, End)>, what: impl std::fmt::Display) {
    match result {
        Ok((frames, end)) => panic!("{what}: {} frames, {end:?}", frames.len()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
            assert!(error.file().is_some() && error.offset().is_some(), "{what}: {error:?}");
        }
    }
}

const SIZES: [usize; 5] = [10, 0, 600, 3, 1200];

#[test]
fn any_flip_in_a_sealed_segment_is_corruption() {
    let (bytes, _, _, sealed) = sample(&SIZES, 0);
    for at in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            let read = read_bytes(&bad, options(1, Some(sealed)));
            assert_corrupt(read, format_args!("byte {at} ^ {mask}"));
        }
    }
}

#[test]
fn any_cut_growth_or_zeroed_sector_of_a_sealed_segment_is_corruption() {
    let (bytes, _, _, sealed) = sample(&SIZES, 0);
    for length in 0..bytes.len() {
        assert_corrupt(read_bytes(&bytes[..length], options(1, Some(sealed))), length);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_corrupt(read_bytes(&longer, options(1, Some(sealed))), "one zero more");
    for sector in (0..bytes.len()).step_by(SECTOR_BYTES) {
        let mut bad = bytes.clone();
        let end = (sector + SECTOR_BYTES).min(bad.len());
        bad[sector..end].fill(0);
        assert_corrupt(read_bytes(&bad, options(1, Some(sealed))), sector);
    }
    // Whole good frames from the same file under another checksum.
    let other = Sealed { checksum: sealed.checksum ^ 1, ..sealed };
    assert_corrupt(read_bytes(&bytes, options(1, Some(other))), "checksum");
}

/// A single flipped bit is never taken for a tear: not even in the last frame, about which no
/// later frame says anything.
#[test]
fn any_flip_in_an_unsealed_segment_is_corruption() {
    for padding in [0, 2000] {
        let (mut bytes, _, ends, _) = sample(&SIZES, 0);
        let good = *ends.last().unwrap() as usize;
        bytes.resize(good + padding, 0);
        for at in 0..good {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let what = format_args!("byte {at} bit {bit} padding {padding}").to_string();
                assert_corrupt(read_bytes(&bad, options(1, None)), what);
            }
        }
    }
}

/// Nor is any other damage short of zeros, and never is a frame handed out that was not written.
#[test]
fn larger_damage_never_gives_a_wrong_frame() {
    let (bytes, frames, ..) = sample(&SIZES, 4);
    let mut seeded = Seeded::new(5);
    let mut torn = 0;
    for round in 0..3000 {
        let mut bad = bytes.clone();
        let from = seeded.index(bad.len());
        let to = (from + 1 + seeded.index(700)).min(bad.len());
        match round % 3 {
            0 => bad[from..to].iter_mut().for_each(|b| *b = seeded.below(256) as u8),
            1 => bad[from..to].fill(0),
            _ => bad.copy_within(from..to, seeded.index(bytes.len() - (to - from))),
        }
        match read_bytes(&bad, options(1, None)) {
            Ok((read, end)) => {
                assert!(frames.starts_with(&read), "round {round}");
                // Frames 1 to 4 were durable when frame 5 was written.
                let last_header_gone = matches!(end, End::Torn { .. } | End::Clean { .. });
                assert!(read.len() >= 4 || (last_header_gone && round % 3 != 0), "{round} {end:?}");
                torn += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
        }
    }
    assert!(torn > 10, "some of it looks like a tear");
}

#[test]
fn every_cut_length_is_a_torn_tail() {
    let (bytes, frames, ends, _) = sample(&SIZES, 0);
    for length in 0..bytes.len() {
        for zeros in [0, 1, 700] {
            let mut cut = bytes[..length].to_vec();
            cut.resize(length + zeros, 0);
            let (read, end) = read_bytes(&cut, options(1, None))
                .unwrap_or_else(|e| panic!("cut at {length}, {zeros} zeros: {e}"));
            let whole = ends.iter().filter(|&&end| end as usize <= length).count();
            assert_eq!(read[..], frames[..whole], "cut at {length}");
            let header = SEGMENT_HEADER_BYTES as u64;
            let at = if (length as u64) < header {
                0
            } else {
                whole.checked_sub(1).map_or(header, |last| ends[last])
            };
            assert_eq!(end.at(), at, "cut at {length}");
            let clean = at == length as u64 && at > 0;
            assert_eq!(matches!(end, End::Clean { .. }), clean, "cut at {length}: {end:?}");
        }
    }
}

/// Unsynced sectors may be missing in any combination; what was synced may not.
#[test]
fn lost_sectors_are_tears_unless_they_were_durable() {
    let sizes = [100, 700, 30, 1500, 10, 10, 900];
    let (bytes, frames, ends, _) = sample(&sizes, 2);
    let durable = ends[1] as usize;
    let mut seeded = Seeded::new(1);
    for round in 0..2000 {
        let mut image = bytes.clone();
        image.resize(8192, 0);
        let mut lost_durable = false;
        for sector in (0..image.len()).step_by(SECTOR_BYTES) {
            if seeded.chance(30) {
                let from = if round % 2 == 0 { sector.max(durable) } else { sector };
                let end = sector + SECTOR_BYTES;
                if from < end {
                    lost_durable |= from < durable;
                    image[from..end].fill(0);
                }
            }
        }
        match read_bytes(&image, options(1, None)) {
            Ok((read, _)) => {
                assert!(frames.starts_with(&read), "round {round}");
                assert!(lost_durable || read.len() >= 2, "round {round}");
            }
            Err(error) => {
                assert!(lost_durable, "round {round}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
}

#[test]
fn a_tear_below_a_watermark_is_corruption() {
    // Frame 1 loses a sector; frame 3 says that 1 (and only 1) was durable.
    let (bytes, _, ends, _) = sample(&[1500, 10, 10], 1);
    let mut torn = bytes.clone();
    torn[512..1024].fill(0);
    assert_corrupt(read_bytes(&torn, options(1, None)), "durable frame torn");
    // The same without the frame that says so.
    let cut = &torn[..ends[0] as usize];
    let (frames, end) = read_bytes(cut, options(1, None)).unwrap();
    assert!(frames.is_empty() && matches!(end, End::Torn { at: 80, .. }));
    // A watermark alone says so, too.
    let disk = disk();
    let io = io(&disk);
    let mut writer = SegmentWriter::create(&io, &path(1), &spec(1, 0))
        .map_err(crate::log::writer::AppendError::into_error)
        .unwrap();
    append(&mut writer, 1, 1, &batch(1, 1, 1500), 0);
    let before = disk.contents(path(1));
    writer.append_watermark(2, 1).unwrap();
    let after = disk.contents(path(1));
    for (bytes, corrupt) in [(before, false), (after, true)] {
        let mut torn = bytes;
        torn[512..1024].fill(0);
        assert_eq!(read_bytes(&torn, options(1, None)).is_err(), corrupt);
        // A header that is gone is judged by the seq that was expected there.
        torn[80..120].fill(0);
        torn[120..512].fill(0);
        assert_eq!(read_bytes(&torn, options(1, None)).is_err(), corrupt);
    }
}

/// Where other lanes share the seqs, a header that is gone is judged by the frames behind it.
#[test]
fn without_contiguity_a_gone_header_is_judged_by_later_frames() {
    for (durable, corrupt) in [(9, false), (10, true)] {
        let disk = disk();
        let mut writer = SegmentWriter::create(&io(&disk), &path(1), &spec(1, 0))
            .map_err(crate::log::writer::AppendError::into_error)
            .unwrap();
        append(&mut writer, 3, 1, &[7; 392], 0); // 80 + 433 = 513
        append(&mut writer, 10, 1, &[7; 100], durable);
        let mut bytes = disk.contents(path(1));
        bytes[80..512].fill(0);
        let options = ReadOptions { contiguous: false, ..options(1, None) };
        assert_eq!(read_bytes(&bytes, options).is_err(), corrupt, "durable {durable}");
    }
}

#[test]
fn a_gap_in_the_seqs_is_corruption_where_asked() {
    let disk = disk();
    let io = io(&disk);
    let mut writer = SegmentWriter::create(&io, &path(1), &spec(1, 0))
        .map_err(crate::log::writer::AppendError::into_error)
        .unwrap();
    append(&mut writer, 1, 2, b"x", 0);
    append(&mut writer, 4, 1, b"y", 0);
    assert_corrupt(read_all(&io, &path(1), options(1, None)), "gap");
    let lax = ReadOptions { contiguous: false, ..options(1, None) };
    assert_eq!(read_all(&io, &path(1), lax).unwrap().0.len(), 2);
}

#[test]
fn frames_larger_than_a_read_and_many_small_ones() {
    let disk = disk();
    let io = io(&disk);
    let mut writer = SegmentWriter::create(&io, &path(1), &spec(1, 1 << 20))
        .map_err(crate::log::writer::AppendError::into_error)
        .unwrap();
    let mut wanted = Vec::new();
    for (number, bytes) in [10, 3 * READ_BYTES, 0, READ_BYTES - 41, 77].into_iter().enumerate() {
        let payload = vec![number as u8 + 1; bytes];
        append(&mut writer, number as u64 + 1, 1, &payload, 0);
        wanted.push((number as u64 + 1, 1, payload));
    }
    for seq in 6..2000 {
        let payload = batch(seq, 1, 300);
        append(&mut writer, seq, 1, &payload, 0);
        wanted.push((seq, 1, payload));
    }
    let (frames, _) = read_all(&io, &path(1), options(1, None)).unwrap();
    assert!(frames == wanted);
    let sealed = writer.seal().unwrap();
    let mut reader = SegmentReader::open(&io, &path(1), options(1, Some(sealed))).unwrap();
    while reader.next_frame().unwrap().is_some() {}
    assert!(reader.buffer.capacity() <= 4 * READ_BYTES, "{}", reader.buffer.capacity());
}

#[test]
fn a_length_beyond_the_file_allocates_nothing() {
    let (bytes, _, ends, _) = sample(&[10, 10], 0);
    let seed = crate::base::checksum::file_seed(&crate::log::testing::UUID, 1);
    let mut bad = bytes.clone();
    let at = ends[0] as usize;
    bad[at + frame_offset::PAYLOAD_BYTES..][..4].copy_from_slice(&(1u32 << 30).to_le_bytes());
    let covered = &bad[at + frame_offset::PAYLOAD_BYTES..at + FRAME_HEADER_BYTES];
    let offset = (at + frame_offset::PAYLOAD_BYTES) as u64;
    let crc = crate::base::checksum::crc_at(seed, offset, covered);
    bad[at + frame_offset::CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    let disk = disk();
    disk.replace(path(1), bad).unwrap();
    let mut reader = SegmentReader::open(&io(&disk), &path(1), options(1, None)).unwrap();
    while reader.next_frame().unwrap().is_some() {}
    assert!(matches!(reader.end(), Some(End::Torn { .. })));
    assert!(reader.buffer.capacity() <= READ_BYTES);
}

#[test]
fn a_segment_of_another_file_or_place_gives_nothing() {
    let (bytes, ..) = sample(&SIZES, 0);
    assert_corrupt(read_bytes(&bytes, options(2, None)), "another number");
    let mut moved = bytes.clone();
    moved.insert(SEGMENT_HEADER_BYTES, 0);
    assert_corrupt(read_bytes(&moved, options(1, None)), "moved by one");
    let missing = SegmentReader::open(&io(&disk()), &path(1), options(1, None));
    let error = missing.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(path(1).as_path()));
}

/// Every crash state of a writer that appends, syncs now and then, and keeps its watermark,
/// reads back as a prefix that holds everything synced.
#[test]
fn every_crash_state_of_a_writer_is_a_prefix() {
    use crate::base::sync::{Arc, Mutex};
    use crate::io::disk::Disk;
    for preallocate_bytes in [0, 2048] {
        let disk = disk();
        let io = io(&disk);
        let durable = Arc::new(Mutex::new((0usize, 0usize)));
        let frames: Vec<Seen> =
            (1..=12).map(|seq| (seq, 1, batch(seq, 1, (seq as usize * 131) % 900))).collect();
        let states = Arc::new(Mutex::new(0));
        let (bounds, wanted, counted) = (durable.clone(), frames.clone(), states.clone());
        disk.set_observer(Some(Arc::new(move |call, disk| {
            let (synced, issued) = *bounds.lock();
            for mode in CrashMode::ALL {
                for seed in 0..8 {
                    let image = disk.crash_image(mode, seed + call * 100);
                    if !image.exists(&path(1)).unwrap() {
                        assert_eq!(synced, 0);
                        continue;
                    }
                    let (read, _) =
                        read_all(&crate::log::testing::io(&image), &path(1), options(1, None))
                            .unwrap_or_else(|e| panic!("{mode:?} {seed} before {call}: {e}"));
                    assert!(wanted.starts_with(&read), "{mode:?} {seed} before {call}");
                    assert!(read.len() >= synced && read.len() <= issued);
                    *counted.lock() += 1;
                }
            }
        })));
        let mut writer = SegmentWriter::create(&io, &path(1), &spec(1, preallocate_bytes))
            .map_err(crate::log::writer::AppendError::into_error)
            .unwrap();
        disk.sync_dir(Path::new(DIR)).unwrap();
        for (seq, count, payload) in &frames {
            durable.lock().1 += 1;
            let synced = durable.lock().0 as u64;
            append(&mut writer, *seq, *count, payload, synced);
            if seq % 3 == 0 {
                writer.sync().unwrap();
                durable.lock().0 = *seq as usize;
            }
        }
        writer.seal().unwrap();
        disk.set_observer(None);
        assert!(*states.lock() > 1000, "{} states", *states.lock());
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(mut tail in proptest::collection::vec(any::<u8>(), 0..3000)) {
        drop(read_bytes(&tail, options(1, None)));
        let (bytes, frames, ends, _) = sample(&[20, 30], 0);
        let mut grown = bytes[..*ends.last().unwrap() as usize].to_vec();
        grown.append(&mut tail);
        match read_bytes(&grown, options(1, None)) {
            Ok((read, _)) => prop_assert_eq!(read, frames),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corruption),
        }
    }
}
