//! Two copies of a store that both went on: files of one number, none of which is taken for the
//! other's; and when a segment is named.

use super::*;

/// A context of a store that was opened by itself.
fn of_birth(disk: &MemoryDisk, next: u64, birth: u64) -> Arc<SpaceContext> {
    let mut context = context_over(io(disk), SMALL, next);
    Arc::get_mut(&mut context).unwrap().birth = birth;
    context
}

/// What the copies have in common.
fn trunk() -> (MemoryDisk, SpaceState) {
    let disk = disk();
    let mut space = Space::new(&of_birth(&disk, 20, 7)).unwrap();
    space.insert(0, &[1; 3000], 1).unwrap();
    let state = commit(&mut space);
    (disk, state)
}

/// A copy that goes on: as much is written to each of them, and something else.
fn grow(trunk: &(MemoryDisk, SpaceState), birth: u64, has_root: bool) -> (MemoryDisk, SpaceState) {
    let disk = trunk.0.deep_clone();
    let mut space = Space::open(&of_birth(&disk, 40, birth), trunk.1).unwrap();
    let byte = birth as u8;
    let mut state = trunk.1;
    for round in 0..4u64 {
        space.insert(round * 10, &vec![byte; 9000], 1).unwrap();
        space.set_tag(round * 10 + u64::from(byte), Tag::new(3)).unwrap();
        state = commit(&mut space);
        if has_root && round < 3 {
            state = checkpoint(&mut space);
        }
    }
    (disk, state)
}

#[test]
fn a_file_of_another_branch_is_not_taken_for_ones_own() {
    let trunk = trunk();
    let mut given = BTreeMap::from([("fxp", 0), ("fxl", 0), ("fxs", 0)]);
    for has_root in [false, true] {
        let (own, state) = grow(&trunk, 11, has_root);
        let (other, _) = grow(&trunk, 12, has_root);
        let open = |disk: &MemoryDisk| Space::open(&context_over(io(disk), SMALL, 1 << 20), state);
        let wanted = all(&open(&own).unwrap());
        let used = open(&own).unwrap().pins().files;
        for (kind, id, _) in used {
            let path = path(kind, id);
            let (mine, theirs) = (own.contents(&path), other.contents(&path));
            if mine == theirs {
                continue;
            }
            // As many bytes of data and of records; of pages, whatever they pack to.
            assert!(mine.len() == theirs.len() || kind == FileKind::FlexPages);
            let mixed = own.deep_clone();
            mixed.replace(&path, theirs).unwrap();
            let read = open(&mixed).and_then(|space| {
                let mut findings = Findings::default();
                space.view().verify(&state, &space.pins(), &mut findings);
                // Live pages of both may be the same, with other garbage beside them.
                assert!(findings.problems.is_empty() && kind == FileKind::FlexPages);
                space.read(0..space.tree().length(), Purpose::Read)
            });
            let error = match read {
                Ok(bytes) => {
                    assert_eq!(bytes, wanted, "{}", path.display());
                    continue;
                }
                Err(error) => error,
            };
            assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path)));
            let ending = path.extension().unwrap().to_str().unwrap();
            *given.get_mut(ending).unwrap() += 1;
        }
        assert_eq!(all(&open(&own).unwrap()), wanted);
    }
    assert!(given["fxl"] > 0 && given["fxs"] > 0, "{given:?}");
}

/// Whoever opens the state must know each segment that the tree leads to.
fn assert_opens(disk: &MemoryDisk, state: SpaceState, space: &Space) {
    let again = Space::open(&context_over(io(disk), SMALL, 1 << 20), state).unwrap();
    assert_eq!(all(&again), all(space));
}

#[test]
fn a_segment_is_named_by_the_first_group_that_counts() {
    let disk = disk();
    let mut space = Space::new(&context(&disk, SMALL)).unwrap();
    // Taken back: what names the segment is gone, and the next group writes to it as well.
    space.insert(0, b"nothing", 1).unwrap();
    let prepared = space.commit().unwrap();
    space.withdraw(prepared);
    space.insert(0, b"something", 1).unwrap();
    let state = commit(&mut space);
    assert_eq!(space.segments().count(), 1);
    assert_opens(&disk, state, &space);
    // Without a live byte at a checkpoint, and written to again behind it.
    space.collapse(0..9).unwrap();
    commit(&mut space);
    checkpoint(&mut space);
    space.insert(0, b"something else", 1).unwrap();
    let state = commit(&mut space);
    assert_opens(&disk, state, &space);
    let state = checkpoint(&mut space);
    assert_opens(&disk, state, &space);
}
