//! Which folders hold the name of a database.

use super::*;

#[test]
fn every_name_on_the_way_stands_in_a_folder() {
    let above = |dir: &'static str| folders_above(Path::new(dir)).collect::<Vec<_>>();
    assert_eq!(above("/a/b/db"), ["/a/b", "/a", "/"].map(Path::new));
    assert_eq!(above("a/db"), ["a", "."].map(Path::new));
    assert_eq!(above("db"), [Path::new(".")]);
    assert!(above("/").is_empty());
}
