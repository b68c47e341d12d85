//! Each decision of the strategy alone.

use super::*;
use crate::base::entry::FileId;

const HANDLE: Handle = Handle { file: FileId(15), epoch: 3, offset: 128, bytes: 40 };

#[test]
fn a_handle_of_any_epoch_leads_somewhere() {
    assert_eq!(Novkv.resolve(&HANDLE.encode()).unwrap(), HANDLE);
    assert!(Novkv.resolve(b"").is_err());
}

#[test]
fn births_and_deaths_are_counted_by_file_whatever_the_epoch() {
    let mut changes = RefChanges::default();
    Novkv.born(&HANDLE, &mut changes);
    assert_eq!(changes.edits().len(), 1);
    Novkv.died(&Handle { epoch: 0, ..HANDLE }, &mut changes);
    assert_eq!(changes.edits(), []);
    assert!(matches!(Novkv.collection(), Collects::Facts));
    assert!(Novkv.separates(10, Some(10)) && !Novkv.separates(9, Some(10)));
    assert!(!Novkv.separates(usize::MAX, None));
}
