//! What the strategy decides.

use super::*;

#[test]
fn entries_are_bare_and_the_map_says_what_is_dead() {
    assert!(matches!(Wayfinder.collection(), Collects::Map));
    assert!(Wayfinder.maps() && !Wayfinder.locates());
}
