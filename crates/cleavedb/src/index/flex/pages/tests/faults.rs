//! Each failing call ends in a typed error, and the next checkpoint works.

use super::*;
use crate::io::fault_disk::{Fault, FaultDisk, FaultPlan};
use crate::log::testing::io_over;

#[test]
fn a_failing_call_loses_nothing() {
    let (mut triggered, mut errors) = (0, 0);
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
        for at in 1..40 {
            let memory = disk();
            let faults = FaultDisk::over(&memory);
            let context = context_over(io_over(faults.clone()), SHORT, 20);
            let mut tree = scattered(TINY, 60);
            let mut store = PageStore::new(&context);
            save(&mut store, &tree);
            let (root, before) = (store.root().unwrap(), all(&tree));
            (0..30).for_each(|number| tree.overwrite(20 * number, apart(1000 + number)).unwrap());
            faults.set_plan(Some(FaultPlan { kind: None, at, fault, persistent: false }));
            let outcome = store.checkpoint(&tree, b"");
            triggered += faults.triggered();
            faults.set_plan(None);
            match outcome {
                Ok(draft) => drop(store.publish(draft).unwrap()),
                Err(error) => {
                    errors += 1;
                    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace), "{error}");
                    assert!(error.file().is_some(), "{error}");
                    assert_eq!(all(reopened(&context, root).tree().unwrap()), before);
                }
            }
            save(&mut store, &tree);
            assert_eq!(all(reopened(&context, store.root().unwrap()).tree().unwrap()), all(&tree));
        }
    }
    assert!(triggered > 10 && errors > 5, "{triggered} faults, {errors} errors");
}
