//! Each decision of the strategy alone.

use super::*;
use crate::base::entry::FileId;

const HANDLE: Handle = Handle { file: FileId(15), epoch: 3, offset: 128, bytes: 40 };

fn file(id: u64, live_bytes: u64) -> FileFigures {
    FileFigures {
        id: FileId(id),
        file_bytes: 1000,
        live_bytes,
        is_dead: false,
        is_settled: true,
        is_taken: false,
        is_punched: false,
    }
}

#[test]
fn a_handle_of_any_epoch_leads_somewhere() {
    assert_eq!(Novkv.resolve(&HANDLE.encode()).unwrap(), HANDLE);
    assert!(Novkv.resolve(b"").is_err());
}

#[test]
fn what_is_least_valid_is_collected_first() {
    let mut files = [file(1, 900), file(2, 100), file(3, 500), file(4, 100)];
    Novkv.rank(&mut files);
    assert_eq!(files.map(|file| file.id.0), [2, 4, 3, 1]);
}

#[test]
fn births_and_deaths_are_counted_by_file_whatever_the_epoch() {
    let mut changes = RefChanges::default();
    Novkv.born(&HANDLE, &mut changes);
    assert_eq!(changes.edits().len(), 1);
    Novkv.died(&Handle { epoch: 0, ..HANDLE }, &mut changes);
    assert_eq!(changes.edits(), []);
    assert!(matches!(Novkv.collection(), Collects::ByFacts));
    assert!(Novkv.separates(10, Some(10)) && !Novkv.separates(9, Some(10)));
    assert!(!Novkv.separates(usize::MAX, None));
}
