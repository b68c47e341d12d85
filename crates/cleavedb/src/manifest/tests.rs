//! Reopens, rolls, damage, and every crash and fault of a manifest's life.

use super::*;
use crate::base::section::SectionTag;
use crate::base::sync::{Arc, Mutex};
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::{CrashMode, MemoryDisk};
use crate::log::testing::{DIR, UUID, disk, io, io_over};

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Edit `number` of the tests; lengths differ so that frames meet sectors everywhere.
fn edit(number: u64) -> Edit {
    let mut payload = number.to_le_bytes().to_vec();
    payload.extend((0..number * 37 % 700).map(|i| 1 + (i % 200) as u8));
    Edit { sections: vec![Section { tag: SectionTag::ENGINE, payload }] }
}

/// The snapshot that stands for the first `count` edits.
fn snapshot(count: u64) -> Vec<Section> {
    let payload = count.to_le_bytes().to_vec();
    vec![Section { tag: SectionTag::KEYSPACES, payload }]
}

/// How many edits a recovered manifest amounts to; checks that it is exactly a prefix.
fn edits_in(recovered: &Recovered) -> u64 {
    let (first, rest) = recovered.edits.split_first().expect("a snapshot");
    let [base] = &first.sections[..] else { panic!("snapshot of one section") };
    assert_eq!(base.tag, SectionTag::KEYSPACES);
    let mut count = u64::from_le_bytes(base.payload[..8].try_into().unwrap());
    for found in rest {
        count += 1;
        assert_eq!(*found, edit(count));
    }
    count
}

fn create(io: &Io) -> Manifest {
    Manifest::create(io, dir(), UUID, snapshot(0)).map_err(AppendError::into_error).unwrap()
}

#[test]
fn edits_are_found_again_also_across_rolls_and_reopens() {
    let disk = disk();
    let io = io(&disk);
    let mut manifest = create(&io);
    assert_eq!((manifest.id(), manifest.uuid()), (FIRST_MANIFEST, UUID));
    let mut id = 1;
    for number in 1..=40 {
        manifest.append(&edit(number)).unwrap();
        if number % 7 == 0 {
            id += 3;
            manifest.roll(snapshot(number), FileId(id)).unwrap();
        }
        if number % 5 == 0 {
            drop(manifest);
            let (reopened, recovered) = Manifest::open(&io, dir()).unwrap();
            assert_eq!(edits_in(&recovered), number);
            manifest = reopened;
        }
        let recovered = Manifest::read_only(&io, dir()).unwrap();
        assert_eq!(edits_in(&recovered), number);
        assert_eq!((recovered.uuid, recovered.format_version), (UUID, FORMAT_VERSION));
        assert_eq!(recovered.manifest_id, FileId(id));
        assert!(matches!(recovered.end, End::Clean { .. }));
    }
    let names: Vec<_> = io.disk.read_dir(dir()).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, [format!("{:06}.man", id), "CURRENT".to_owned()]);
}

#[test]
fn reading_only_writes_nothing() {
    let disk = disk();
    let mut manifest = create(&io(&disk));
    manifest.append(&edit(1)).unwrap();
    let bytes = disk.contents("/db/000001.man");
    disk.replace("/db/000001.man", &bytes[..manifest.bytes() as usize - 1]).unwrap();
    disk.replace("/db/CURRENT.tmp", b"".as_slice()).unwrap();
    let (before, calls) = (disk.digest(), disk.mutations());
    let recovered = Manifest::read_only(&io(&disk), dir()).unwrap();
    assert_eq!(edits_in(&recovered), 0);
    assert!(matches!(recovered.end, End::Torn { .. }));
    assert_eq!((disk.digest(), disk.mutations()), (before, calls));
}

#[test]
fn a_torn_tail_is_cut_and_asks_for_a_roll() {
    let disk = disk();
    let io = io(&disk);
    let mut manifest = create(&io);
    manifest.append(&edit(1)).unwrap();
    manifest.append(&edit(2)).unwrap();
    assert!(!manifest.needs_roll(1 << 20));
    let bytes = disk.contents("/db/000001.man");
    disk.replace("/db/000001.man", &bytes[..manifest.bytes() as usize - 3]).unwrap();
    let (mut manifest, recovered) = Manifest::open(&io, dir()).unwrap();
    assert_eq!(edits_in(&recovered), 1);
    assert!(manifest.needs_roll(1 << 20));
    manifest.append(&edit(2)).unwrap();
    assert_eq!(edits_in(&Manifest::read_only(&io, dir()).unwrap()), 2);
    manifest.roll(snapshot(2), FileId(9)).unwrap();
    assert!(!manifest.needs_roll(1 << 20));
}

#[test]
fn a_roll_is_due_when_edits_outgrow_limit_and_snapshot() {
    let disk = disk();
    let mut manifest = create(&io(&disk));
    for number in 1..=20 {
        assert!(!manifest.needs_roll(8000));
        manifest.append(&edit(number)).unwrap();
    }
    assert!(manifest.needs_roll(1000));
    let mut large = snapshot(20);
    large[0].payload.resize(20_000, 1);
    manifest.roll(large, FileId(2)).unwrap();
    manifest.append(&edit(21)).unwrap();
    assert!(!manifest.needs_roll(100), "the snapshot alone is larger");
}

#[test]
fn sections_of_newer_builds_survive_rolls() {
    let later = |byte| Section { tag: SectionTag(0x8777), payload: vec![byte] };
    let disk = disk();
    let io = io(&disk);
    let mut manifest = create(&io);
    manifest.append(&Edit { sections: vec![later(1), edit(1).sections.remove(0)] }).unwrap();
    drop(manifest);
    let (mut manifest, _) = Manifest::open(&io, dir()).unwrap();
    manifest.roll(snapshot(1), FileId(2)).unwrap();
    manifest.roll(snapshot(1), FileId(3)).unwrap();
    drop(manifest);
    let recovered = Manifest::read_only(&io, dir()).unwrap();
    assert_eq!(recovered.edits.len(), 1);
    assert_eq!(recovered.edits[0].sections[1..], [later(1)]);
}

#[test]
fn an_unknown_required_section_refuses_to_open_and_changes_nothing() {
    let disk = disk();
    let io = io(&disk);
    let mut manifest = create(&io);
    let section = Section { tag: SectionTag(0x777), payload: vec![1] };
    manifest.append(&Edit { sections: vec![section] }).unwrap();
    drop(manifest);
    let before = disk.digest();
    let error = Manifest::open(&io, dir()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("1911"), "{error}");
    assert_eq!(error.file(), Some(Path::new("/db/000001.man")));
    assert_eq!(disk.digest(), before);
}

/// Every flipped bit of manifest and pointer is an error: the manifest's last edit, too.
#[test]
fn any_flip_is_corruption() {
    let disk = disk();
    let mut manifest = create(&io(&disk));
    for number in 1..=4 {
        manifest.append(&edit(number)).unwrap();
    }
    let good = manifest.bytes() as usize;
    for (name, bytes) in [("/db/000001.man", good), ("/db/CURRENT", 48)] {
        let intact = disk.contents(name);
        for at in 0..bytes {
            for mask in [1, 0x40] {
                let mut bad = intact.clone();
                bad[at] ^= mask;
                disk.replace(name, bad).unwrap();
                let error = Manifest::read_only(&io(&disk), dir()).err().unwrap();
                assert_eq!(error.kind(), ErrorKind::Corruption, "{name} byte {at}: {error}");
                assert!(error.file().is_some());
            }
        }
        disk.replace(name, intact).unwrap();
    }
    assert_eq!(edits_in(&Manifest::read_only(&io(&disk), dir()).unwrap()), 4);
}

#[test]
fn a_cut_manifest_never_loses_its_snapshot_silently() {
    let disk = disk();
    let mut manifest = create(&io(&disk));
    manifest.append(&edit(1)).unwrap();
    let bytes = disk.contents("/db/000001.man");
    let first = manifest.snapshot_bytes as usize;
    for length in 0..manifest.bytes() as usize {
        disk.replace("/db/000001.man", &bytes[..length]).unwrap();
        match Manifest::read_only(&io(&disk), dir()) {
            Ok(recovered) => {
                assert!(length >= first);
                assert_eq!(edits_in(&recovered), 0);
            }
            Err(error) => {
                assert!(length < first);
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
    disk.remove("/db/000001.man").unwrap();
    let error = Manifest::read_only(&io(&disk), dir()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn files_of_another_database_are_refused() {
    let (one, other) = (disk(), disk());
    drop(create(&io(&one)));
    drop(Manifest::create(&io(&other), dir(), [9; 16], snapshot(0)).unwrap());
    one.replace("/db/CURRENT", other.contents("/db/CURRENT")).unwrap();
    let error = Manifest::open(&io(&one), dir()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("another database"), "{error}");
}

/// What a session may have made durable, and what it has begun.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    created: bool,
    durable: u64,
    issued: u64,
}

/// Creates or opens like the engine does, then appends up to `until`, rolling now and then.
fn session(io: &Io, until: u64, bounds: &Mutex<Bounds>) -> Result<(), AppendError> {
    let recoverable = AppendError::Recoverable;
    let state = probe(io, dir()).map_err(recoverable)?;
    if state == State::Unfinished {
        clear_unfinished(io, dir()).map_err(recoverable)?;
    }
    let (mut manifest, mut count) = if state == State::Present {
        let (manifest, recovered) = Manifest::open(io, dir()).map_err(recoverable)?;
        let count = edits_in(&recovered);
        (manifest, count)
    } else {
        (Manifest::create(io, dir(), UUID, snapshot(0))?, 0)
    };
    let begun = Bounds { created: true, durable: count, issued: count };
    *bounds.lock() = begun;
    while count < until {
        bounds.lock().issued = count + 1;
        manifest.append(&edit(count + 1))?;
        count += 1;
        bounds.lock().durable = count;
        if count % 3 == 0 || manifest.needs_roll(1 << 20) {
            let next_id = FileId(manifest.id().0 + 1);
            manifest.roll(snapshot(count), next_id)?;
        }
    }
    Ok(())
}

/// Checks a crash image: recovers, to a prefix within the bounds, and can go on. `depth` crashes
/// of the recovery itself are tried, too.
fn check_image(image: &MemoryDisk, bounds: Bounds, depth: u32, seed: u64, states: &Mutex<u64>) {
    *states.lock() += 1;
    let state = probe(&io(image), dir()).unwrap_or_else(|e| panic!("{bounds:?}: {e}"));
    let at_least = if state == State::Present {
        let recovered = Manifest::read_only(&io(image), dir()).unwrap();
        let count = edits_in(&recovered);
        assert!(count >= bounds.durable && count <= bounds.issued, "{count} not in {bounds:?}");
        count
    } else {
        assert!(!bounds.created, "a finished creation came undone: {state:?}");
        0
    };
    let next = Arc::new(Mutex::new(Bounds {
        created: state == State::Present,
        durable: at_least,
        issued: at_least,
    }));
    if depth > 0 {
        let known = next.clone();
        let counted = Arc::new(Mutex::new(0));
        let inner = counted.clone();
        image.set_observer(Some(Arc::new(move |call, disk| {
            let mode = CrashMode::ALL[(seed + call) as usize % CrashMode::ALL.len()];
            let bounds = *known.lock();
            check_image(&disk.crash_image(mode, seed + call), bounds, depth - 1, seed, &inner);
        })));
        session(&io(image), at_least + 4, &next).map_err(AppendError::into_error).unwrap();
        image.set_observer(None);
        *states.lock() += *counted.lock();
    } else {
        session(&io(image), at_least + 2, &next).map_err(AppendError::into_error).unwrap();
    }
    let recovered = Manifest::read_only(&io(image), dir()).unwrap();
    assert_eq!(edits_in(&recovered), next.lock().durable);
    let manifests =
        image.files().iter().filter(|(p, _)| p.to_string_lossy().ends_with(".man")).count();
    assert_eq!(manifests, 1, "no manifest is left over");
}

/// Crashes at every mutating call of creation, appends and rolls, in every mode.
#[test]
fn every_crash_state_recovers_to_a_prefix() {
    let disk = disk();
    let bounds = Arc::new(Mutex::new(Bounds::default()));
    let states = Arc::new(Mutex::new(0));
    let (known, counted) = (bounds.clone(), states.clone());
    disk.set_observer(Some(Arc::new(move |call, disk| {
        let bounds = *known.lock();
        for mode in CrashMode::ALL {
            for seed in 0..4 {
                let seed = call * 1000 + seed;
                let image = disk.crash_image(mode, seed);
                check_image(&image, bounds, u32::from(seed % 4 == 0), seed, &counted);
            }
        }
    })));
    session(&io(&disk), 8, &bounds).map_err(AppendError::into_error).unwrap();
    disk.set_observer(None);
    assert_eq!(bounds.lock().durable, 8);
    assert!(*states.lock() > 3000, "{} states", *states.lock());
}

/// Every call fails in every way, once or from then on; then the machine crashes.
#[test]
fn every_failing_call_ends_in_an_error_or_success_and_a_prefix() {
    let (mut runs, mut failed) = (0, 0);
    for fault in [Fault::Eio, Fault::Enospc, Fault::Emfile, Fault::ShortWrite, Fault::Eintr] {
        for (at, persistent) in (1..).flat_map(|at| [(at, false), (at, true)]) {
            let memory = disk();
            let faults = FaultDisk::over(&memory);
            let plan = FaultPlan { kind: None, at, fault, persistent };
            faults.set_plan(Some(plan));
            let bounds = Mutex::new(Bounds::default());
            let outcome = session(&io_over(faults.clone()), 7, &bounds);
            faults.set_plan(None);
            runs += 1;
            failed += u64::from(outcome.is_err());
            let bounds = *bounds.lock();
            let states = Mutex::new(0);
            for mode in [CrashMode::None, CrashMode::All, CrashMode::Sectors] {
                check_image(&memory.crash_image(mode, at), bounds, 0, at, &states);
            }
            if at > faults.calls() {
                break;
            }
        }
    }
    assert!(failed > 50 && runs > 200, "{runs} runs, {failed} failed");
}

/// After a failure whose outcome is not known, nothing is written any more.
#[test]
fn a_failed_sync_stops_the_manifest() {
    for kind in [CallKind::Sync, CallKind::Rename, CallKind::SyncDir] {
        let memory = disk();
        let faults = FaultDisk::over(&memory);
        let io = io_over(faults.clone());
        let mut manifest = create(&io);
        let plan = FaultPlan { kind: Some(kind), at: 1, fault: Fault::Eio, persistent: false };
        faults.set_plan(Some(plan));
        let error = match kind {
            CallKind::Sync => manifest.append(&edit(1)).unwrap_err(),
            _ => manifest.roll(snapshot(0), FileId(2)).unwrap_err(),
        };
        assert!(error.is_fatal(), "{kind:?}");
        faults.set_plan(None);
        let calls = memory.mutations();
        let again = manifest.append(&edit(1)).unwrap_err();
        assert!(again.is_fatal());
        assert_eq!(again.error().kind(), ErrorKind::Stopped);
        assert!(manifest.roll(snapshot(0), FileId(3)).unwrap_err().is_fatal());
        assert_eq!(memory.mutations(), calls);
    }
}

/// A full disk stops neither the manifest in force nor the database.
#[test]
fn a_roll_without_room_leaves_the_old_manifest_in_force() {
    let memory = disk();
    let faults = FaultDisk::over(&memory);
    let io = io_over(faults.clone());
    let mut manifest = create(&io);
    for kind in [CallKind::Create, CallKind::Write, CallKind::Allocate] {
        let persistent = kind == CallKind::Allocate;
        let plan = FaultPlan { kind: Some(kind), at: 1, fault: Fault::Enospc, persistent };
        faults.set_plan(Some(plan));
        let error = manifest.roll(snapshot(0), FileId(2)).unwrap_err();
        assert!(!error.is_fatal(), "{kind:?}");
        assert_eq!(error.error().kind(), ErrorKind::NoSpace);
        faults.set_plan(None);
        assert_eq!(manifest.id(), FIRST_MANIFEST);
        assert!(!memory.files().iter().any(|(path, _)| path.ends_with("000002.man")));
    }
    manifest.append(&edit(1)).unwrap();
    manifest.roll(snapshot(1), FileId(2)).unwrap();
    let error = manifest.roll(snapshot(1), FileId(2)).unwrap_err();
    assert!(!error.is_fatal(), "a number may not be used twice");
    manifest.append(&edit(2)).unwrap();
    assert_eq!(edits_in(&Manifest::read_only(&io, dir()).unwrap()), 2);
}
