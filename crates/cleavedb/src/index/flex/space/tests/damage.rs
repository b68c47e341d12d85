//! Flips in what counts of a log are errors; what lies behind does not matter.

use super::*;

fn some_space() -> (MemoryDisk, Vec<SpaceState>, Vec<Vec<u8>>) {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    let (mut states, mut contents) = (Vec::new(), Vec::new());
    for number in 0..4u8 {
        space.insert(u64::from(number), &[number; 20], 1).unwrap();
        space.set_tag(3, Tag::new(u16::from(number))).unwrap();
        states.push(commit(&mut space));
        contents.push(all(&space));
    }
    (disk, states, contents)
}

#[test]
fn a_log_is_proved_up_to_where_it_counts_and_no_further() {
    let (disk, states, contents) = some_space();
    let end = states[2].log.unwrap();
    let log = path(FileKind::FlexLog, end.file);
    let good = disk.contents(&log);
    assert!((end.bytes as usize) < good.len());
    let open = || Space::open(&context_over(io(&disk), SMALL, 1 << 20), states[2]);
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 1 << (at % 8);
        disk.replace(&log, damaged).unwrap();
        match open() {
            Ok(space) => {
                assert!(at >= end.bytes as usize, "byte {at}");
                assert_eq!(all(&space), contents[2]);
            }
            Err(error) => {
                assert!(at < end.bytes as usize, "byte {at}: {error}");
                assert!(
                    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
                    "{error}"
                );
                assert_eq!(error.file(), Some(log.as_path()), "byte {at}: {error}");
            }
        }
    }
    // Torn behind the end, and torn before it.
    for length in 0..good.len() {
        disk.replace(&log, &good[..length]).unwrap();
        match open() {
            Ok(space) => {
                assert!(length >= end.bytes as usize, "{length} bytes");
                assert_eq!(all(&space), contents[2]);
            }
            Err(error) => {
                assert!(length < end.bytes as usize, "{length} bytes: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
    disk.remove(&log).unwrap();
    assert_eq!(open().err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn another_end_than_the_one_that_was_committed_is_noticed() {
    let (disk, states, _) = some_space();
    let state = states[2];
    let end = state.log.unwrap();
    for wrong in [
        LogEnd { bytes: end.bytes - 1, ..end },
        LogEnd { bytes: end.bytes + 1, ..end },
        LogEnd { bytes: 1 << 40, ..end },
        LogEnd { group: end.group + 1, ..end },
        LogEnd { group: end.group - 1, ..end },
        LogEnd { file: FileId(99), ..end },
        LogEnd { checksum: end.checksum ^ 1, ..end },
    ] {
        let context = context_over(io(&disk), SMALL, 1 << 20);
        let opened = Space::open(&context, SpaceState { log: Some(wrong), ..state });
        let error = opened.err().unwrap_or_else(|| panic!("{wrong:?} is taken"));
        assert_eq!(error.kind(), ErrorKind::Corruption, "{wrong:?}: {error}");
    }
}

#[test]
fn a_chain_of_logs_is_proved_from_its_beginning() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    let mut state = SpaceState::default();
    for number in 0..3u8 {
        space.insert(0, &[number; 20], 1).unwrap();
        state = commit(&mut space);
        space = Space::open(&context, state).unwrap();
    }
    let wanted = all(&space);
    let logs: Vec<_> = disk
        .files()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "fxl"))
        .collect();
    assert_eq!(logs.len(), 3);
    for log in &logs {
        let good = disk.contents(log);
        for at in (0..good.len()).step_by(3) {
            let mut damaged = good.clone();
            damaged[at] ^= 2;
            disk.replace(log, damaged).unwrap();
            assert!(Space::open(&context, state).is_err(), "{} byte {at}", log.display());
        }
        disk.replace(log, good).unwrap();
    }
    assert_eq!(all(&Space::open(&context, state).unwrap()), wanted);
}

#[test]
fn a_missing_or_damaged_segment_is_an_error_for_its_bytes() {
    let (disk, states, contents) = some_space();
    let open = || Space::open(&context_over(io(&disk), SMALL, 1 << 20), states[3]).unwrap();
    let (id, _) = open().segments().next().map(|(id, state)| (id, state.bytes)).unwrap();
    let segment = path(FileKind::FlexSegment, id);
    let space = open();
    assert_eq!(all(&space), contents[3]);
    let mut bytes = disk.contents(&segment);
    bytes[4100] ^= 1;
    disk.replace(&segment, bytes).unwrap();
    let error = open().read(0..80, Purpose::Read).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(4096)));
    assert_eq!(error.file(), Some(segment.as_path()));
}

#[test]
fn a_log_of_another_history_is_noticed_by_the_one_after_it() {
    let history = |tag: u16| {
        let disk = disk();
        let context = context(&disk, SMALL);
        let mut space = Space::new(&context).unwrap();
        space.insert(0, &[1; 20], 1).unwrap();
        space.set_tag(3, Tag::new(tag)).unwrap();
        let first = commit(&mut space).log.unwrap();
        let mut space = Space::open(&context, SpaceState { root: None, log: Some(first) }).unwrap();
        space.insert(0, &[2; 20], 1).unwrap();
        let state = commit(&mut space);
        (disk, path(FileKind::FlexLog, first.file), state)
    };
    let ((disk, log, state), (other, same, _)) = (history(5), history(6));
    // As long, and every frame in it holds.
    let theirs = other.contents(&same);
    assert_eq!((&log, disk.contents(&log).len()), (&same, theirs.len()));
    assert!(Space::open(&context_over(io(&disk), SMALL, 1 << 20), state).is_ok());
    disk.replace(&log, theirs).unwrap();
    let error = Space::open(&context_over(io(&disk), SMALL, 1 << 20), state).err().unwrap();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(log.as_path())));
}

/// A space of two checkpoints, a log of several files behind the last one, and several segments.
fn some_history() -> (MemoryDisk, Arc<SpaceContext>, Space, SpaceState) {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    let mut state = SpaceState::default();
    for number in 0..9u8 {
        for at in [0, space.tree().length() / 2, space.tree().length()] {
            space.insert(at, &[number; 1500], 1).unwrap();
            space.set_tag(at, Tag::new(7)).unwrap();
        }
        space.collapse(20..300).unwrap();
        state = commit(&mut space);
        match number {
            2 | 5 => state = checkpoint(&mut space),
            // A log goes on in another file.
            6 | 7 => space = Space::open(&context, state).unwrap(),
            _ => {}
        }
    }
    assert_eq!(space.log.files().len(), 3);
    assert!(space.segments().count() > 3);
    (disk, context, space, state)
}

fn verified(space: &Space, state: &SpaceState) -> Findings {
    let mut findings = Findings::default();
    space.view().verify(state, &space.pins(), &mut findings);
    findings
}

/// Every byte that verification says it has read is one whose change it notices, and no other one.
#[test]
fn what_verify_counts_is_what_it_proves() {
    let (disk, _context, space, state) = some_history();
    let whole = verified(&space, &state);
    assert!(whole.problems.is_empty(), "{:?}", whole.problems);
    assert_eq!(whole.files as usize, space.files().len());
    let mut found = BTreeMap::from([("fxp", 0), ("fxl", 0), ("fxs", 0)]);
    for (path, _) in disk.files() {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let Some(found) = found.get_mut(ending) else { continue };
        let good = disk.contents(&path);
        // A header and a block of a segment are proved as wholes.
        let step = if ending == "fxs" { 64 } else { 1 };
        for at in (0..good.len()).step_by(step) {
            let mut damaged = good.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.replace(&path, damaged).unwrap();
            let problems = verified(&space, &state).problems;
            let Some(first) = problems.first() else { continue };
            *found += step as u64;
            assert_eq!(first.kind(), ErrorKind::Corruption, "{first}");
            assert_eq!(first.file(), Some(path.as_path()), "byte {at}: {first}");
            assert!(first.offset().is_some_and(|place| place <= at as u64), "byte {at}: {first}");
        }
        disk.replace(&path, good).unwrap();
    }
    assert!(found.values().all(|bytes| *bytes > 0), "{found:?}");
    assert_eq!(found.values().sum::<u64>(), whole.bytes, "{found:?}");
    assert!(verified(&space, &state).problems.is_empty());
}

#[test]
fn verify_goes_on_from_file_to_file() {
    let (disk, _context, space, state) = some_history();
    let files = space.pins().files;
    for (kind, id, _) in &files {
        let path = path(*kind, *id);
        let good = disk.contents(&path);
        // Nothing but the magic is left of it.
        disk.replace(&path, &good[..8]).unwrap();
        let problems = verified(&space, &state).problems;
        assert!(problems.iter().all(|it| it.kind() == ErrorKind::Corruption), "{problems:?}");
        assert!(problems.iter().any(|it| it.file() == Some(&path)), "{problems:?}");
        disk.replace(&path, good).unwrap();
    }
    // One byte of each file that is used, and each is named.
    for (kind, id, _) in &files {
        let mut bytes = disk.contents(path(*kind, *id));
        bytes[20] ^= 1;
        disk.replace(path(*kind, *id), bytes).unwrap();
    }
    let problems = verified(&space, &state).problems;
    let root = state.root.unwrap().file;
    for (kind, id, _) in &files {
        // Which other pages there are, only the root says.
        if *kind == FileKind::FlexPages && *id != root {
            continue;
        }
        let path = path(*kind, *id);
        assert!(problems.iter().any(|it| it.file() == Some(&path)), "{problems:?}");
    }
}

#[test]
fn what_holds_and_does_not_fit_is_a_finding_too() {
    let (_disk, _context, space, state) = some_history();
    let is_found = |state: &SpaceState, pins: &Pins, what: &str| {
        let mut findings = Findings::default();
        space.view().verify(state, pins, &mut findings);
        let told = findings.problems.iter().any(|problem| problem.message().contains(what));
        assert!(told, "{what}: {:?}", findings.problems);
    };
    let mut pins = space.pins();
    pins.live_bytes[0].1 += 1;
    is_found(&state, &pins, "are counted");
    pins.live_bytes[0].0 = FileId(1 << 30);
    is_found(&state, &pins, "no live bytes");
    let mut pins = space.pins();
    let first = pins.logs.remove(0);
    is_found(&state, &pins, "goes on from another file");
    pins.logs.splice(.., [first]);
    let end = state.log.unwrap();
    is_found(&SpaceState { log: None, ..state }, &pins, "for a space of");
    let group = end.group + 1;
    is_found(&SpaceState { log: Some(LogEnd { group, ..end }), ..state }, &space.pins(), "not 1");
    is_found(&SpaceState { root: None, ..state }, &space.pins(), "behind another group");
}
