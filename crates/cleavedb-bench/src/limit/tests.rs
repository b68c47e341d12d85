//! What is written where, and that a machine without groups says so.

use super::*;

#[test]
fn a_machine_without_memory_groups_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let error = Group::create(dir.path(), 1 << 20).unwrap_err();
    assert!(format!("{error:#}").contains("no memory groups"), "{error:#}");
    fs::write(dir.path().join("cgroup.controllers"), "cpu hugetlb\n").unwrap();
    let error = Group::create(dir.path(), 1 << 20).unwrap_err();
    assert!(format!("{error:#}").contains("no memory controller"), "{error:#}");
}

#[test]
fn a_group_gets_its_limit_and_the_process() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
    let group = Group::create(dir.path(), 123 << 20).unwrap();
    assert_eq!(group.bytes(), 123 << 20);
    let read = |file| fs::read_to_string(group.path().join(file)).unwrap();
    assert_eq!(read("memory.max"), (123u64 << 20).to_string());
    join(group.path()).unwrap();
    assert_eq!(read("cgroup.procs"), std::process::id().to_string());
}
