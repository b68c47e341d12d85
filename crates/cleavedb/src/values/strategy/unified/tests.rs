//! What it shares with `novkv`, and what it does not.

use super::*;
use crate::base::entry::FileId;

#[test]
fn it_goes_by_facts_and_by_a_locator() {
    let handle = Handle { file: FileId(15), epoch: 3, offset: 128, bytes: 40 };
    assert_eq!(Unified.resolve(&handle.encode()).unwrap(), handle);
    assert!(matches!(Unified.collection(), Collects::Facts));
    assert!(Unified.locates() && !Novkv.locates());
    assert!(Unified.separates(8, Some(8)) && !Unified.separates(7, Some(8)));
    let mut changes = RefChanges::default();
    Unified.born(&handle, &mut changes);
    assert_eq!(changes.edits().len(), 1);
    Unified.died(&handle, &mut changes);
    assert_eq!(changes.edits(), []);
}
