//! What is written is read back; failed appends are cut off or end the writer.

use super::*;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::{CrashMode, MemoryDisk};
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES};
use crate::log::reader::End;
use crate::log::testing::{
    append, batch, disk, io, io_over, options, path, read_all, read_bytes, spec,
};

fn frame(seq: Seq, payload: &[u8]) -> FrameRef<'_> {
    FrameRef { base_seq: seq, count: 1, payload }
}

fn create(io: &Io, preallocate_bytes: u64) -> SegmentWriter {
    SegmentWriter::create(io, &path(1), &spec(1, preallocate_bytes))
        .map_err(AppendError::into_error)
        .unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    for preallocate_bytes in [0, 512, 4096, 1 << 20] {
        let disk = disk();
        let io = io(&disk);
        let mut writer = create(&io, preallocate_bytes);
        let payloads: Vec<Vec<u8>> = (0..40).map(|i| vec![i as u8; i * 50]).collect();
        let mut seq = 1;
        for group in payloads.chunks(3) {
            let start = writer.bytes();
            let frames: Vec<_> = group.iter().zip(seq..).map(|(p, seq)| frame(seq, p)).collect();
            let range = writer.append_frames(&frames, seq - 1).unwrap();
            seq += group.len() as u64;
            let bytes: usize = group.iter().map(|p| p.len() + FRAME_OVERHEAD_BYTES).sum();
            assert_eq!(range, FrameRange { start, end: start + bytes as u64 });
            assert_eq!(range.end, writer.bytes());
        }
        writer.append_watermark(seq, seq - 1).unwrap();
        let wanted: Vec<_> = payloads.into_iter().zip(1..).map(|(p, seq)| (seq, 1, p)).collect();
        for sealed in [false, true] {
            let bytes = writer.bytes();
            let (mut frames, end) = read_all(&io, &path(1), options(1, None)).unwrap();
            assert_eq!(end, End::Clean { at: bytes });
            assert_eq!(frames.pop(), Some((seq, 0, Vec::new())));
            assert_eq!(frames, wanted);
            if !sealed {
                let length = disk.contents(path(1)).len() as u64;
                let step = preallocate_bytes.max(1);
                assert_eq!(length, bytes.next_multiple_of(step));
            }
        }
        let sealed = writer.seal().unwrap();
        assert_eq!(disk.contents(path(1)).len() as u64, sealed.bytes);
        let (frames, _) = read_all(&io, &path(1), options(1, Some(sealed))).unwrap();
        assert_eq!(frames.len(), wanted.len() + 1);
        // Everything is durable, without any further call.
        let after = disk.crash_image(CrashMode::NamesOnly, 1);
        assert_eq!(after.contents(path(1)), disk.contents(path(1)));
    }
}

#[test]
fn one_group_is_one_write() {
    let memory = disk();
    let faults = FaultDisk::over(&memory);
    let mut writer = create(&io_over(faults.clone()), 1 << 20);
    let before = faults.calls();
    let payloads: Vec<Vec<u8>> = (0..100).map(|i| vec![1; i]).collect();
    let frames: Vec<_> = payloads.iter().zip(1..).map(|(p, seq)| frame(seq, p)).collect();
    writer.append_frames(&frames, 0).unwrap();
    assert_eq!(faults.calls(), before + 1);
}

#[test]
fn a_group_too_large_for_a_frame_changes_nothing() {
    let disk = disk();
    let mut writer = create(&io(&disk), 0);
    let before = writer.bytes();
    let huge = vec![0; crate::log::format::PAYLOAD_BYTES_MAX + 1];
    let error = writer.append_frames(&[frame(1, &huge)], 0).unwrap_err();
    assert!(!error.is_fatal());
    assert_eq!(error.error().kind(), ErrorKind::InvalidArgument);
    assert_eq!(writer.bytes(), before);
}

/// Fails each call of an append in every way, and checks what is left, also after a crash.
#[test]
fn a_failed_append_is_cut_off_or_ends_the_writer() {
    let first = batch(1, 1, 700);
    let second = batch(2, 1, 1500);
    let mut recovered = 0;
    let mut fatal = 0;
    for preallocate_bytes in [0, 1024] {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite, Fault::Eintr] {
            for (at, persistent) in (1..=6).flat_map(|at| [(at, false), (at, true)]) {
                let memory = disk();
                let faults = FaultDisk::over(&memory);
                let io = io_over(faults.clone());
                let mut writer = create(&io, preallocate_bytes);
                memory.sync_dir_for_test();
                append(&mut writer, 1, 1, &first, 0);
                writer.sync().unwrap();
                faults.set_plan(Some(FaultPlan { kind: None, at, fault, persistent }));
                let outcome = writer.append_frames(&[frame(2, &second)], 1);
                faults.set_plan(None);
                let (frames, _) = read_all(&io, &path(1), options(1, None)).unwrap_or_else(|e| {
                    // Bytes of an append that could not be cut off may be anything.
                    assert!(matches!(outcome, Err(AppendError::Fatal(_))), "{e}");
                    (Vec::new(), End::Clean { at: 0 })
                });
                match outcome {
                    Ok(_) => assert_eq!(frames.len(), 2),
                    Err(AppendError::Recoverable(_)) => {
                        recovered += 1;
                        assert_eq!(frames.len(), 1);
                        // The next append stands where the failed one was, and holds.
                        append(&mut writer, 2, 1, &second, 1);
                        writer.sync().unwrap();
                        let after = memory.crash_image(CrashMode::NamesOnly, 3);
                        let bytes = after.contents(path(1));
                        assert_eq!(read_bytes(&bytes, options(1, None)).unwrap().0.len(), 2);
                    }
                    Err(AppendError::Fatal(_)) => {
                        fatal += 1;
                        let again = writer.append_frames(&[frame(2, &second)], 1).unwrap_err();
                        assert!(again.is_fatal());
                        assert_eq!(again.error().kind(), ErrorKind::Stopped);
                        assert!(writer.seal().is_err());
                    }
                }
            }
        }
    }
    assert!(recovered >= 6 && fatal >= 4, "recovered {recovered}, fatal {fatal}");
}

/// A crash after a failed append that was cut off and tried again never shows a mix.
#[test]
fn a_retried_append_never_mixes_with_the_failed_one() {
    let (first, second) = (batch(1, 1, 3000), batch(1, 1, 2500));
    for preallocate_bytes in [0, 4096] {
        let memory = disk();
        let faults = FaultDisk::over(&memory);
        let mut writer = create(&io_over(faults.clone()), preallocate_bytes);
        memory.sync_dir_for_test();
        let kind = Some(CallKind::Write);
        faults.set_plan(Some(FaultPlan { kind, at: 1, fault: Fault::Eio, persistent: false }));
        assert!(!writer.append_frames(&[frame(1, &first)], 0).unwrap_err().is_fatal());
        faults.set_plan(None);
        append(&mut writer, 1, 1, &second, 0);
        for mode in CrashMode::ALL {
            for seed in 0..50 {
                let bytes = memory.crash_image(mode, seed).contents(path(1));
                let (frames, _) = read_bytes(&bytes, options(1, None))
                    .unwrap_or_else(|e| panic!("{mode:?} {seed}: {e}"));
                assert!(frames.is_empty() || frames == [(1, 1, second.clone())]);
            }
        }
    }
}

/// A header that meets two sectors: the first as a short write left it, the second as the rest did,
/// would look like damage.
#[test]
fn a_short_write_leaves_no_frame_of_two_pieces() {
    let (first, second) = (batch(1, 1, 375), batch(2, 1, 200));
    for preallocate_bytes in [0, 4096] {
        let memory = disk();
        let faults = FaultDisk::over(&memory);
        let mut writer = create(&io_over(faults.clone()), preallocate_bytes);
        memory.sync_dir_for_test();
        append(&mut writer, 1, 1, &first, 0);
        let room = 512 - writer.bytes() % 512;
        assert!(room < FRAME_HEADER_BYTES as u64, "the next header meets two sectors: {room}");
        let kind = Some(CallKind::Write);
        let fault = Fault::ShortWrite;
        faults.set_plan(Some(FaultPlan { kind, at: 1, fault, persistent: false }));
        append(&mut writer, 2, 1, &second, 0);
        faults.set_plan(Some(FaultPlan { kind, at: 1, fault, persistent: true }));
        assert!(!writer.append_frames(&[frame(3, &second)], 0).unwrap_err().is_fatal());
        faults.set_plan(None);
        for mode in CrashMode::ALL {
            for seed in 0..200 {
                let bytes = memory.crash_image(mode, seed).contents(path(1));
                let (frames, _) = read_bytes(&bytes, options(1, None))
                    .unwrap_or_else(|e| panic!("{mode:?} {seed}: {e}"));
                let all = [(1, 1, first.clone()), (2, 1, second.clone())];
                assert!(all.starts_with(&frames), "{mode:?} {seed}");
            }
        }
    }
}

#[test]
fn preallocation_that_is_unsupported_is_given_up() {
    let memory = disk();
    let mut writer = create(&io(&memory), 4096);
    assert!(!is_unsupported(&std::io::ErrorKind::StorageFull.into()));
    assert!(is_unsupported(&std::io::ErrorKind::Unsupported.into()));
    assert_eq!(memory.contents(path(1)).len(), 4096);
    append(&mut writer, 1, 1, &[1; 5000], 0);
    assert_eq!(memory.contents(path(1)).len(), 8192);
}

#[test]
fn creation_leaves_no_file_behind_where_it_fails() {
    for fault in [Fault::Eio, Fault::Enospc] {
        for at in 2..=4 {
            let memory = disk();
            let faults = FaultDisk::over(&memory);
            let io = io_over(faults.clone());
            faults.set_plan(Some(FaultPlan { kind: None, at, fault, persistent: false }));
            let outcome = SegmentWriter::create(&io, &path(1), &spec(1, 4096)).map(drop);
            let left = memory.files();
            match outcome {
                Ok(()) => assert_eq!(left.len(), 1),
                Err(error) => {
                    assert!(left.is_empty(), "{fault:?} at call {at}: {left:?}");
                    assert_eq!(error.is_fatal(), at == 4, "only a failed sync is fatal");
                }
            }
        }
    }
}

#[test]
fn a_blank_file_whose_header_did_not_go_in_or_was_not_synced_goes_away() {
    for kind in [CallKind::Write, CallKind::Sync] {
        let memory = disk();
        let faults = FaultDisk::over(&memory);
        let io = io_over(faults.clone());
        let blank = BlankSegment::create(&io, &path(1), FileId(1), 4096).unwrap();
        faults.set_plan(Some(FaultPlan {
            kind: Some(kind),
            at: 1,
            fault: Fault::Eio,
            persistent: false,
        }));
        let begun = SegmentWriter::begin_unsynced(&io, blank, &spec(1, 4096));
        let error = match begun.map_err(AppendError::into_error) {
            Ok(writer) => writer.with_header_synced(&io).map(drop).unwrap_err(),
            Err(error) => error,
        };
        assert_eq!((error.kind(), faults.triggered()), (ErrorKind::Io, 1));
        assert!(memory.files().is_empty(), "{kind:?}: {:?}", memory.files());
    }
}

#[test]
fn resume_goes_on_behind_the_last_good_frame() {
    let disk = disk();
    let io = io(&disk);
    let mut writer = create(&io, 4096);
    append(&mut writer, 1, 1, b"one", 0);
    append(&mut writer, 2, 1, b"two", 0);
    let bytes = disk.contents(path(1));
    let torn_at = writer.bytes() as usize - 2;
    disk.replace(path(1), &bytes[..torn_at]).unwrap();
    let mut reader =
        crate::log::reader::SegmentReader::open(&io, &path(1), options(1, None)).unwrap();
    while reader.next_frame().unwrap().is_some() {}
    assert!(matches!(reader.end(), Some(End::Torn { .. })));
    let mut writer =
        SegmentWriter::resume(&io, &path(1), &spec(1, 4096), reader.good_part()).unwrap();
    append(&mut writer, 2, 1, b"another", 1);
    let sealed = writer.seal().unwrap();
    let (frames, _) = read_all(&io, &path(1), options(1, Some(sealed))).unwrap();
    assert_eq!(frames, [(1, 1, b"one".to_vec()), (2, 1, b"another".to_vec())]);
}

trait SyncNames {
    fn sync_dir_for_test(&self);
}

impl SyncNames for MemoryDisk {
    /// Makes the names durable, as the writer's caller does.
    fn sync_dir_for_test(&self) {
        use crate::io::disk::Disk;
        self.sync_dir(Path::new(crate::log::testing::DIR)).unwrap();
    }
}
