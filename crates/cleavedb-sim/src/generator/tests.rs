//! Lists depend on their seed alone, meet every kind of operation, and print as Rust.

use std::collections::BTreeSet;

use super::{Generator, Profile};
use crate::operation::{Operation, as_rust, key_bytes};

#[test]
fn a_list_is_a_function_of_its_seed() {
    let profile = Profile::model(500);
    assert_eq!(Generator::list(5, profile), Generator::list(5, profile));
    assert_ne!(Generator::list(5, profile), Generator::list(6, profile));
}

#[test]
fn every_kind_of_operation_occurs() {
    let name = |operation: &Operation| {
        let text = format!("{operation:?}");
        text.split('(').next().unwrap_or_default().to_owned()
    };
    let list = Generator::list(1, Profile::model(20_000));
    let kinds: BTreeSet<String> = list.iter().map(name).collect();
    assert_eq!(kinds.len(), 24, "{kinds:?}");
}

#[test]
fn keys_differ() {
    let keys: BTreeSet<Vec<u8>> = (0..400).map(key_bytes).collect();
    assert_eq!(keys.len(), 400);
}

#[test]
fn lists_print_as_rust() {
    let list = Generator::list(2, Profile::model(50));
    let text = as_rust(&list);
    assert!(text.starts_with("vec![") && text.ends_with(']'));
    assert!(!text.contains(" ["), "slices would not compile: {text}");
}
