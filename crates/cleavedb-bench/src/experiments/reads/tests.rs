//! Shares and times are those of the phase, and silence is said aloud.

use serde_json::json;

use super::*;

#[test]
fn reads_are_told_by_level_and_by_time() {
    let report = json!({
        "labels": ["fillrandom", "reads"],
        "phases": [
            {"read_counters": {"gets": 0}},
            {"read_counters": {
                "gets": 200, "get micros": 1_000,
                "blob file reads": 100, "blob file read micros": 600,
                "gets ended in memtables": 20, "gets ended in level 0": 180,
                "file reads in level 0": 50, "file reads in level 1": 0,
                "operands applied": 500,
            }},
        ],
        "engine_stats": {"tables": [
            {"level": 0, "entries": 100, "operands": 50},
            {"level": 4, "entries": 300, "operands": 0},
        ]},
    });
    assert_eq!(
        told(&[report]),
        [
            "reads: 200 gets ended in memtables 10.0 %, level 0 90.0 %, level 1 0.0 %, level 2 and \
             deeper 0.0 %; table file reads (background work's too) for a get: level 0 0.250; \
             operands applied for a get: 2.500",
            "reads: a get 5.00 us, of which value time (blob file reads, 0.500 for a get) 3.00 us \
             and index time (the rest) 2.00 us",
            "operands among the entries of tables: 12.5 % of all; level 0 50.0 % of 100, level 4 \
             0.0 % of 300",
        ]
    );
}

#[test]
fn an_engine_that_counts_nothing_has_a_row_that_says_so() {
    let silent = json!({"labels": ["reads"], "phases": [{}], "engine_stats": null});
    let told_nothing = told(&[silent]);
    assert!(told_nothing[0].starts_with("not measured") && told_nothing.len() == 1);
    let cleave = json!({"labels": [], "phases": [], "engine_stats": {
        "read_amplification": 1.5,
        "keyspaces": [{"levels": [{"level": 0, "entries": 0}, {"level": 1, "entries": 7}]}],
    }});
    let lines = told(&[cleave]);
    assert!(lines[0].starts_with("1.50 blocks") && lines[0].contains("by level: level 1 7;"));
    assert!(lines[0].contains("not measured"), "{lines:?}");
}
