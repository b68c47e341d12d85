//! What the strategy decides.

use super::*;

#[test]
fn it_goes_by_facts_alone() {
    assert!(matches!(Novkv.collection(), Collects::Facts));
    assert!(!Novkv.locates() && !Novkv.maps());
}
