//! The journal's segments, seen from outside.

use std::path::Path;

use super::*;
use crate::Durability;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::memory_disk::CrashMode;

/// Segments of 4 KiB: a few dozen writes fill one.
fn open(io: &Io) -> Db {
    let widths = Widths { journal_segment_bytes: 1 << 12, ..Widths::for_budget(1 << 20) };
    let settings = small().into_settings();
    let engine = Engine::open(io.clone(), Path::new("/db"), settings, widths).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

fn journals(disk: &MemoryDisk) -> Vec<(String, u64)> {
    let all = disk.files().into_iter();
    let all = all.map(|(path, bytes)| (path.to_string_lossy().into_owned(), bytes));
    all.filter(|(path, _)| path.ends_with(".log")).collect()
}

/// Writes more than half a segment, but not a whole one, and runs what is due in the background.
fn fill_half(db: &Db, io: &Io, from: u64) {
    for i in from..from + 25 {
        plain(db).put(i.to_be_bytes(), [7; 60]).unwrap();
    }
    while io.executor.help() {}
}

#[test]
fn a_blank_segment_is_ready_before_it_is_needed() {
    let disk = MemoryDisk::new();
    let io = world(&disk);
    let db = open(&io);
    assert_eq!(journals(&disk).len(), 1);
    fill_half(&db, &io, 0);
    let ready = journals(&disk);
    assert_eq!(ready.len(), 2, "{ready:?}");
    let (blank, bytes) = ready.last().unwrap().clone();
    assert_eq!(bytes, (1 << 12) + (1 << 6));
    assert!(disk.contents(&blank).iter().all(|byte| *byte == 0));
    let stats = db.stats();
    assert!(stats.set_aside_bytes >= bytes, "blank room is set aside: {stats:?}");
    assert_eq!(stats.stalls["journal_roll"].count, 0);
    fill_half(&db, &io, 25);
    assert_eq!(db.stats().stalls["journal_roll"].count, 1, "writers waited once");
    assert!(
        disk.contents(&blank).starts_with(b"CLVSEGMT"),
        "the next segment is in the blank file"
    );
    assert_eq!(plain(&db).iter().count(), 50);
    fill_half(&db, &io, 50);
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
    db.close().unwrap();
    let zeros = |(path, _): &(String, u64)| disk.contents(path).iter().all(|byte| *byte == 0);
    assert!(!journals(&disk).iter().any(zeros), "closing leaves no blank file");
    assert_eq!(plain(&open(&world(&disk))).iter().count(), 75);
}

#[test]
fn a_crash_beside_a_blank_segment_loses_nothing() {
    let disk = MemoryDisk::new();
    let io = world(&disk);
    let db = open(&io);
    fill_half(&db, &io, 0);
    let before = journals(&disk);
    assert_eq!(before.len(), 2, "{before:?}");
    let blank = before.last().unwrap().0.clone();
    for mode in [CrashMode::None, CrashMode::NamesOnly, CrashMode::All] {
        let crashed = disk.crash_image(mode, 1);
        let reader = small().read_only(true).open_in(world(&crashed), Path::new("/db")).unwrap();
        assert_eq!(plain(&reader).iter().count(), 25, "all synced when the blank file was made");
        drop(reader);
        let there = journals(&crashed).iter().any(|(path, _)| *path == blank);
        assert!(there, "a reader removes nothing");
        let writer = open(&world(&crashed));
        assert_eq!(plain(&writer).iter().count(), 25);
        assert!(!journals(&crashed).iter().any(|(path, _)| *path == blank));
    }
}

/// Whoever writes starts it only where the background is far behind.
#[test]
fn write_back_is_left_to_the_background_until_it_falls_behind() {
    let disk = MemoryDisk::new();
    let io = world(&disk);
    let settings = Options::new().memory_budget(256 << 20).reserve_bytes(0).into_settings();
    let widths = Widths::for_budget(256 << 20);
    let engine = Engine::open(io.clone(), Path::new("/db"), settings, widths).unwrap();
    let db = Db::new(Handle::new(Arc::clone(&engine), Durability::Buffered));
    let lag = || engine.value_lane.write_back_lag();
    let put = |number: u64| plain(&db).put(number.to_be_bytes(), [7; 100 << 10]).unwrap();
    (0..12).for_each(put);
    assert!(lag() >= 1 << 20, "{}", lag());
    while io.executor.help() {}
    assert_eq!(lag(), 0);
    let lags: Vec<u64> = (12..72).map(|number| (put(number), lag()).1).collect();
    assert!(lags.iter().all(|&lag| lag < 4 << 20), "{lags:?}");
    assert!(lags.iter().any(|&lag| lag > 3 << 20) && lags[59] < lags[30], "{lags:?}");
}
