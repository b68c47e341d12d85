//! Groups are there as a whole or not at all; what fails takes back no more than its group.

use super::*;
use crate::io::fault_disk::{Fault, FaultDisk, FaultPlan};
use crate::log::testing::io_over;

#[test]
fn a_view_and_an_open_see_whole_groups_only() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    space.insert(0, b"first", 1).unwrap();
    let first = commit(&mut space);
    let view = space.view();
    space.insert(5, b" and second", 1).unwrap();
    space.collapse(0..1).unwrap();
    assert_eq!(all(&space), b"irst and second");
    assert_eq!(view.read(0..5, Purpose::Read).unwrap(), b"first");
    assert_eq!(space.view().tree().length(), 5, "not committed");
    space.roll_back();
    assert_eq!(all(&space), b"first");
    space.insert(0, b"the ", 1).unwrap();
    let prepared = space.commit().unwrap();
    let second = prepared.state();
    assert_eq!(space.insert(0, b"x", 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    space.publish(prepared).unwrap();
    assert_eq!(all(&Space::open(&context, first).unwrap()), b"first");
    assert_eq!(all(&Space::open(&context, second).unwrap()), b"the first");
    assert_eq!(view.read(0..5, Purpose::Read).unwrap(), b"first");
    // Nothing new: nothing is written.
    let before = disk.digest();
    assert_eq!(commit(&mut space), second);
    assert_eq!(disk.digest(), before);
}

#[test]
fn a_log_goes_on_in_a_new_file_after_each_open() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    let mut wanted = Vec::new();
    for number in 0..6u8 {
        space.insert(wanted.len() as u64, &[number; 30], 1).unwrap();
        wanted.extend([number; 30]);
        let state = commit(&mut space);
        assert_eq!(state.log.unwrap().group, u64::from(number) + 1);
        // A group that was logged and that no edit names does not count, nor stand in the way.
        space.insert(0, b"lost", 1).unwrap();
        drop(space.commit().unwrap());
        space = Space::open(&context, state).unwrap();
        assert_eq!(all(&space), wanted);
    }
    assert_eq!(disk.files().iter().filter(|(path, _)| path.ends_with_log()).count(), 6);
    let state = checkpoint(&mut space);
    assert_eq!(state.log, None);
    drop(space);
    sweep(&context);
    assert_eq!(disk.files().iter().filter(|(path, _)| path.ends_with_log()).count(), 0);
    assert_eq!(all(&Space::open(&context, state).unwrap()), wanted);
}

/// Whether a path is that of a log.
trait EndsWithLog {
    fn ends_with_log(&self) -> bool;
}

impl EndsWithLog for PathBuf {
    fn ends_with_log(&self) -> bool {
        self.extension().is_some_and(|extension| extension == "fxl")
    }
}

#[test]
fn a_failing_call_loses_no_committed_group() {
    let (mut triggered, mut errors) = (0, 0);
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
        for at in 1..45 {
            let memory = disk();
            let faults = FaultDisk::over(&memory);
            let context = context_over(io_over(faults.clone()), SMALL, 20);
            let mut space = Space::new(&context).unwrap();
            space.insert(0, &[7; 3000], 1).unwrap();
            let state = commit(&mut space);
            faults.set_plan(Some(FaultPlan { kind: None, at, fault, persistent: false }));
            let outcome = (|| {
                for number in 0..8 {
                    space.insert(100 * number, &[number as u8; 5000], 2)?;
                }
                let prepared = space.commit()?;
                space.publish(prepared)?;
                let prepared = space.checkpoint()?;
                let state = prepared.state();
                space.publish(prepared)?;
                Ok::<_, Error>(state)
            })();
            triggered += faults.triggered();
            faults.set_plan(None);
            match outcome {
                Ok(after) => {
                    assert_eq!(all(&Space::open(&context, after).unwrap()), all(&space));
                }
                Err(error) => {
                    errors += 1;
                    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace), "{error}");
                    let reopened = Space::open(&context, state).unwrap();
                    assert_eq!(all(&reopened), [7; 3000]);
                }
            }
            // It goes on, or it says that it has to be opened again.
            match space.insert(0, b"more", 1) {
                Ok(()) => {
                    let state = commit(&mut space);
                    assert_eq!(all(&Space::open(&context, state).unwrap()), all(&space));
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Stopped),
            }
        }
    }
    assert!(triggered > 20 && errors > 20, "{triggered} faults, {errors} errors");
}

#[test]
fn the_log_of_a_small_tree_begins_anew_at_half_its_bound() {
    let disk = disk();
    let context = context(&disk, SpaceLimits { log_bytes_max: 4000, ..SMALL });
    let mut space = Space::new(&context).unwrap();
    // Inserted in front of each other, no two extents are one.
    let bytes_when_due = |space: &mut Space| {
        while !space.is_checkpoint_due() {
            space.insert(0, &[1; 30], 1).unwrap();
            commit(space);
        }
        space.log.bytes()
    };
    let of_small = bytes_when_due(&mut space);
    checkpoint(&mut space);
    assert_eq!(space.log.bytes(), 0);
    let of_larger = bytes_when_due(&mut space);
    assert!((2000..2400).contains(&of_small), "{of_small} bytes");
    assert!((4000..4400).contains(&of_larger), "{of_larger} bytes");
}
