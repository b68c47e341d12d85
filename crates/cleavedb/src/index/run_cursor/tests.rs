//! Whose walks say how far scans go.

use super::*;
use crate::index::KeyRange;

#[test]
fn only_what_users_read_says_how_far_scans_go() {
    let readahead = |purpose| {
        let range = KeyRange::default();
        table_options(&CursorOptions { range, purpose, fill_cache: false }).readahead
    };
    assert_eq!(readahead(Purpose::Read), Readahead::Usual);
    assert_eq!(readahead(Purpose::Verify), Readahead::Growing);
    assert_eq!(readahead(Purpose::Compaction), Readahead::Growing);
}
