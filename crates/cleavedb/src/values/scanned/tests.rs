//! Which parts are taken for known ones.

use super::ScannedParts;
use crate::base::entry::FileId;

const KIB: u64 = 1 << 10;

#[test]
fn what_was_read_once_is_known() {
    let parts = ScannedParts::new(64 << 20);
    assert!(!parts.meet(FileId(7), 0..60 * KIB));
    assert!(parts.meet(FileId(7), 0..60 * KIB));
    assert!(parts.meet(FileId(7), 20 * KIB..40 * KIB));
    assert!(!parts.meet(FileId(7), 20 * KIB..30 * KIB), "no part begins here");
    assert!(!parts.meet(FileId(8), 0..60 * KIB), "of another file");
    assert!(!parts.meet(FileId(7), 50 * KIB..120 * KIB), "most of it is new");
    assert!(!parts.meet(FileId(7), 5..5), "nothing");
}

#[test]
fn as_much_as_the_cache_could_keep_is_remembered() {
    let parts = ScannedParts::new(64 << 20);
    let ranges = || (0..1000).map(|number| number * 32 * KIB..number * 32 * KIB + 16 * KIB);
    assert_eq!(ranges().filter(|range| parts.meet(FileId(1), range.clone())).count(), 0);
    let known = ranges().filter(|range| parts.meet(FileId(1), range.clone())).count();
    assert!(known >= 750, "{known}");
    assert_eq!(parts.memory_bytes(), 4096 * 4);
    let none = ScannedParts::new(0);
    assert!(!none.meet(FileId(1), 0..1) && !none.meet(FileId(1), 0..1));
}
