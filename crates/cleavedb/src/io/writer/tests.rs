//! Files written in pieces of any size, buffered and direct, in memory and native.

use std::path::Path;

use super::*;
use crate::io::disk::{Disk, OpenMode};
use crate::io::memory_disk::{CrashMode, MemoryDisk};
use crate::io::native::NativeDisk;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn write_in_pieces(io: &Io, path: &Path, direct: bool, bytes: &[u8], piece: usize) {
    let mode = OpenMode { direct, random: false };
    let file = io.disk.create(path, mode).unwrap();
    let mut writer = FileWriter::new(io, file, Purpose::Flush, false);
    let mut position = 0;
    for part in bytes.chunks(piece) {
        assert_eq!(writer.position(), position);
        writer.append(part).unwrap();
        position += part.len() as u64;
    }
    writer.finish().unwrap();
}

fn read_back(io: &Io, path: &Path) -> Vec<u8> {
    let file = io.disk.open(path, OpenMode::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_is_finished_is_durable_and_whole_for_any_piece_size() {
    let bytes = pattern(700_001);
    for piece in [1_000, 4_096, 262_144, 300_000, 700_001] {
        let disk = MemoryDisk::new();
        let io = Io::simulated(Arc::new(disk.clone()));
        write_in_pieces(&io, Path::new("a"), false, &bytes, piece);
        disk.sync_dir(Path::new("/")).unwrap();
        assert_eq!(disk.crash_image(CrashMode::None, 0).contents("a"), bytes, "{piece}");
        assert_eq!(io.meter.bytes_written(Purpose::Flush), bytes.len() as u64);
    }
}

#[test]
#[cfg_attr(miri, ignore = "system calls")]
fn native_files_hold_the_same_bytes_buffered_and_direct() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let io = Io::simulated(NativeDisk::new());
    for len in [0, 1, 4_096, 4_097, 1 << 20, (2 << 20) + 12_345] {
        let bytes = pattern(len);
        for direct in [false, true] {
            let path = directory.path().join(format!("{len}-{direct}"));
            write_in_pieces(&io, &path, direct, &bytes, 10_007);
            assert!(read_back(&io, &path) == bytes, "{len} {direct}");
        }
    }
}

#[test]
fn background_writes_wait_for_the_limiter() {
    let io = Io::simulated(Arc::new(MemoryDisk::new()));
    let io = Io::new(io.disk, io.clock, io.executor, 1 << 20);
    let file = io.disk.create(Path::new("a"), OpenMode::default()).unwrap();
    let mut writer = FileWriter::new(&io, file, Purpose::Compaction, true);
    writer.append(&pattern(4 << 20)).unwrap();
    writer.finish().unwrap();
    let waited = io.clock.now().as_secs_f64();
    assert!((3.5..4.5).contains(&waited), "{waited}");
}
