//! What the strategy decides.

use super::*;

#[test]
fn it_goes_by_facts_and_by_a_locator() {
    assert!(matches!(Unified.collection(), Collects::Facts));
    assert!(Unified.locates() && !Unified.maps());
}
