//! Limits are there, for the right phases, and leave nothing behind.

use super::*;

#[test]
fn limits_are_measured_and_belong_to_their_phases() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { num: 50, value_bytes: 100, threads: 3, multi_get_keys: 4, ..Plan::default() };
    let limits = measure(dir.path(), "some", &plan, Duration::from_millis(5)).unwrap();
    assert_eq!(limits.writes.bytes, 50 * 116);
    assert!(limits.writes.pairs_per_second > 0.0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let line = serde_json::json!({"limits": limits});
    let of = |phase| of_phase(&line, phase);
    assert_eq!(of(Phase::FillSorted), Some(limits.writes.pairs_per_second));
    assert_eq!(of(Phase::Overwrite), Some(limits.writes.pairs_per_second));
    assert_eq!(of(Phase::ReadRandom), limits.reads_per_second);
    assert_eq!(of(Phase::MultiGet), limits.batched_reads_per_second);
    assert_eq!(of(Phase::Scan), None);
    assert!(sentences(&line).contains("a bare loop of `write` with"));
    assert!(sentences(&Value::Null).contains("not measured"));
}

#[test]
fn synced_writes_are_few_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = Plan { num: 5, value_bytes: 10, ..Plan::default() };
    plan.settings.sync = true;
    let writes = bare_writes(dir.path(), &plan).unwrap();
    assert!(writes.synced);
    assert_eq!(writes.bytes, 5 * 26);
    let line = serde_json::json!({"limits": {"writes": writes}});
    assert!(sentences(&line).contains("`fdatasync`"));
}
