//! Figures as people read them.

use super::*;

#[test]
fn bytes_read_well() {
    let shown: Vec<_> = [0, 1023, 1024, 1536, 256 << 20, 3 << 40].map(bytes).into();
    assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "256.0 MiB", "3.0 TiB"]);
}

#[test]
fn waits_are_told_with_their_reasons() {
    let none =
        serde_json::json!({"waits": {"above_ms": 20, "count": 0, "longest": [], "stalls": {}}});
    assert_eq!(waits_of(&[&none]), None);
    assert_eq!(waits_of(&[&serde_json::Value::Null]), None);
    assert_eq!(waits_of(&[]), None);
    let some = serde_json::json!({"waits": {
        "above_ms": 20, "count": 3,
        "longest": [{"at_seconds": 1.25, "milliseconds": 80.4, "reasons": ["full", "slow"]}],
        "stalls": {"full": {"count": 2, "micros": 90_000}},
    }});
    assert_eq!(
        waits_of(&[&none, &some]).as_deref(),
        Some(
            "3 calls above 20 ms, the longest 80 ms after 1.2 s (full, slow); \
             full: 2 delays, 0.09 s"
        )
    );
    // Over several runs all are counted, and the longest of all is told.
    let other = serde_json::json!({"waits": {
        "above_ms": 20, "count": 1,
        "longest": [{"at_seconds": 2.0, "milliseconds": 90.0, "reasons": []}],
        "stalls": {"busy": {"count": 1, "micros": 10_000}, "full": {"count": 1, "micros": 10_000}},
    }});
    assert_eq!(
        waits_of(&[&some, &other]).as_deref(),
        Some(
            "4 calls above 20 ms, the longest 90 ms after 2.0 s (no reason told); \
             busy: 1 delays, 0.01 s; full: 3 delays, 0.10 s"
        )
    );
}
