//! Every fault at every call of a small round trip, and what plans count.

use super::*;
use crate::io::context::Io;
use crate::io::memory_disk::CrashMode;
use crate::io::meter::Purpose;
use crate::io::writer::FileWriter;

fn plan(kind: Option<CallKind>, at: u64, fault: Fault, persistent: bool) -> Option<FaultPlan> {
    Some(FaultPlan { kind, at, fault, persistent })
}

/// Writes a file through the writer and reads it back.
fn round_trip(disk: &FaultDisk, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let io = Io::simulated(Arc::new(disk.clone()));
    let path = Path::new("a");
    let mut writer =
        FileWriter::new(&io, disk.create(path, OpenMode::default())?, Purpose::Flush, false);
    writer.append(bytes)?;
    writer.finish()?;
    disk.sync_dir(Path::new("/"))?;
    let file = disk.open(path, OpenMode::default())?;
    let mut back = vec![0; file.len()? as usize];
    file.read_exact_at(&mut back, 0)?;
    Ok(back)
}

#[test]
fn every_fault_at_every_call_gives_an_error_or_the_right_bytes() {
    let bytes: Vec<u8> = (0..600_000_u32).map(|at| (at / 3) as u8).collect();
    let plain = FaultDisk::over(&MemoryDisk::new());
    assert!(round_trip(&plain, &bytes).unwrap() == bytes);
    assert_eq!((plain.calls_of(CallKind::Sync), plain.triggered()), (1, 0));
    let mut triggered = 0;
    for fault in Fault::ALL {
        for at in 1..=plain.calls() {
            for persistent in [false, true] {
                let disk = FaultDisk::over(&MemoryDisk::new());
                disk.set_plan(plan(None, at, fault, persistent));
                let outcome = round_trip(&disk, &bytes);
                triggered += u64::from(disk.triggered() > 0);
                match (outcome, disk.triggered()) {
                    (Ok(back), 0) => assert!(back == bytes),
                    (Ok(back), _) => {
                        assert!(matches!(
                            fault,
                            Fault::Eintr | Fault::ShortRead | Fault::ShortWrite | Fault::BitFlip
                        ));
                        assert_eq!(back == bytes, fault != Fault::BitFlip);
                    }
                    (Err(_), hits) => {
                        assert!(hits > 0);
                        assert!(matches!(fault, Fault::Eio | Fault::Enospc | Fault::Emfile));
                    }
                }
            }
        }
    }
    assert!(triggered > 40, "{triggered} runs met their fault");
}

#[test]
fn a_plan_counts_its_own_kind_from_the_moment_it_is_set() {
    let disk = FaultDisk::over(&MemoryDisk::new());
    let file = disk.create(Path::new("a"), OpenMode::default()).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    disk.set_plan(plan(Some(CallKind::Write), 2, Fault::Enospc, false));
    file.write_all_at(b"abc", 0).unwrap();
    file.len().unwrap();
    let error = file.write_all_at(b"abc", 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    file.write_all_at(b"abc", 0).unwrap();
    assert_eq!((disk.triggered(), disk.calls_of(CallKind::Write)), (1, 4));
}

#[test]
fn a_failed_sync_loses_the_bytes_although_the_next_one_succeeds() {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::over(&memory);
    let file = disk.create(Path::new("a"), OpenMode::default()).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    file.write_all_at(b"lost", 0).unwrap();
    disk.set_plan(plan(Some(CallKind::Sync), 1, Fault::Eio, false));
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(memory.contents("a"), b"lost");
    assert!(memory.crash_image(CrashMode::All, 0).contents("a").is_empty());
}

#[test]
fn batched_reads_meet_faults_one_by_one() {
    let disk = FaultDisk::over(&MemoryDisk::new());
    let file = disk.create(Path::new("a"), OpenMode::default()).unwrap();
    file.write_all_at(&[1; 100], 0).unwrap();
    disk.set_plan(plan(Some(CallKind::Read), 2, Fault::Eio, false));
    let read =
        |offset| BatchRead { file: file.clone(), offset, buffer: vec![0; 10], result: Ok(()) };
    let mut reads = [read(0), read(10), read(20)];
    disk.read_batch(&mut reads);
    assert_eq!(reads.map(|read| read.result.is_ok()), [true, false, true]);
}

#[test]
fn delays_go_by_their_seed_and_change_nothing_else() {
    let delays = |seed: Option<u64>| -> Vec<Option<Duration>> {
        let disk = FaultDisk::over(&MemoryDisk::new());
        disk.set_delays(seed);
        (0..4096).map(|_| disk.faults.state.lock().delay()).collect()
    };
    assert_eq!(delays(Some(1)), delays(Some(1)));
    assert!(delays(Some(1)) != delays(Some(2)));
    assert!(delays(None).iter().all(Option::is_none));
    let waits: Vec<Duration> = delays(Some(1)).into_iter().flatten().collect();
    assert!((128..512).contains(&waits.len()), "{} of 4096", waits.len());
    assert!(waits.iter().all(|wait| *wait < Duration::from_millis(20)));
    assert!(waits.iter().any(|wait| *wait > Duration::from_millis(1)));

    let (plain, delayed) =
        (FaultDisk::over(&MemoryDisk::new()), FaultDisk::over(&MemoryDisk::new()));
    delayed.set_delays(Some(1));
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at / 3) as u8).collect();
    assert!(round_trip(&plain, &bytes).unwrap() == bytes);
    assert!(round_trip(&delayed, &bytes).unwrap() == bytes);
    assert_eq!((plain.calls(), delayed.triggered()), (delayed.calls(), 0));
}
