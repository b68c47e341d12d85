//! The suites have the shapes they are named for.

use clap::Parser;

use super::*;
use crate::phase::Phase;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    all: All,
}

fn all(line: &[&str]) -> All {
    Line::parse_from(["all", "--out", "/nowhere"].iter().chain(line)).all
}

#[test]
fn every_suite_has_phases_and_its_own_name() {
    for (place, suite) in every().enumerate() {
        assert!(Phase::parse_list(suite.phases).is_ok(), "{}", suite.name);
        assert!(!every().skip(place + 1).any(|other| other.name == suite.name));
    }
    let names: Vec<_> = chosen(&all(&["--suites", "synced, synced 64 threads,merges"]))
        .unwrap()
        .iter()
        .map(|suite| suite.name)
        .collect();
    assert_eq!(names, ["synced", "synced 64 threads", "merges"]);
    assert!(chosen(&all(&["--suites", "nonesuch"])).is_err());
    assert_eq!(chosen(&all(&[])).unwrap().len(), SUITES.len());
    let all = all(&["--suites", "values"]);
    let values = chosen(&all).unwrap();
    assert_eq!(values.len(), VALUES.len());
    let against: Vec<_> = values.iter().map(|suite| suite.args(&all).against).collect();
    assert_eq!(against, [SEPARATING, SEPARATING, "lmdb,redb"]);
    let named = All { against: "fjall".to_owned(), ..all };
    assert_eq!(values[2].args(&named).against, "fjall");
}

/// Otherwise peers would never be held against their known speed.
#[test]
fn scale_one_has_the_shape_of_the_known_figures() {
    let args = SUITES[0].args(&all(&["--scale", "1"]));
    assert_eq!((args.num, args.memory), (5_000_000, 2 << 30));
    assert_eq!((args.threads, args.value_size, args.sync), (2, 1_024, false));
    assert_eq!(args.seconds, Some(30.0));
    assert_eq!(SUITES[0].args(&all(&["--seconds", "0"])).seconds, None);
    let small = SUITES[0].args(&all(&["--scale", "0.000001"]));
    assert_eq!((small.num, small.memory), (ITEMS_MIN, MEMORY_BYTES_MIN));
}

#[test]
fn nothing_is_run_on_top_of_older_runs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("runs.jsonl"), "").unwrap();
    let mut all = all(&["--against", "fjall", "--cheap"]);
    all.out = dir.path().to_owned();
    assert!(run(&all).unwrap_err().to_string().contains("exists"));
    assert!(run(&All { scale: 0.0, ..all.clone() }).is_err());
    assert!(run(&All { seconds: -1.0, ..all }).is_err());
}
