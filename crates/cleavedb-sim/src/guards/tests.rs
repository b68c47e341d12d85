//! The table speaks of bugs that there are, and of each once.

use std::collections::BTreeSet;

use super::*;
use crate::sources;

#[test]
fn every_rule_has_a_bug_of_its_own_in_the_engine() {
    let planted = sources::planted();
    let named: BTreeSet<&str> = GUARDS.iter().map(|guard| guard.bug).collect();
    assert_eq!(named.len(), GUARDS.len());
    for name in named {
        assert!(planted.contains(name), "{name} is planted nowhere");
    }
    for name in planted.iter().filter(|name| name.starts_with("map_")) {
        let is_variant = name == "map_touch_ignores_range_deletes";
        let is_listed = GUARDS.iter().any(|guard| guard.bug == name);
        assert!(is_listed || is_variant, "{name} guards no rule");
    }
}
