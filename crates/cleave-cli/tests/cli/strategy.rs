//! `--strategy`: chosen when a store is created, and never again.

use crate::support::{NONE, Place, cleave};

#[test]
fn a_store_keeps_the_strategy_it_was_created_with() {
    let names = ["wisckey", "novkv", "wayfinder", "unified"];
    for (chosen, other) in names.into_iter().zip(names.into_iter().cycle().skip(1)) {
        let place = Place::new();
        place.run("put", ["a", "1", "--strategy", chosen]).ok();
        let refused = format!("created with strategy {chosen}, not {other}");
        place.run("put", ["b", "2", "--strategy", other]).fails(2, &refused);
        let lines = place.file("pairs.tsv", "c\t3\n");
        let lines = lines.to_str().unwrap();
        place.run("load", [lines, "--strategy", other]).fails(2, &refused);
        let merge = ["d", "4", "--operator", "u64-add", "--keyspace", "sums", "--strategy"];
        place.run("merge", [merge.as_slice(), &[other]].concat()).fails(2, &refused);
        let bench = ["--phases", "fillseq", "--num", "100", "--strategy"];
        place.run("bench", [bench.as_slice(), &[other]].concat()).fails(2, &refused);
        assert_eq!(place.run("count", ["--json"]).json()["count"], 1, "nothing was written");
        place.run("load", [lines, "--strategy", chosen]).ok();
        place.run("merge", [merge.as_slice(), &[chosen]].concat()).ok();
        place.run("bench", [bench.as_slice(), &[chosen]].concat()).ok();
        // Who does not ask takes what is there.
        place.run("put", ["b", "2"]).ok();
        assert_eq!(place.run("count", ["--json"]).json()["count"], 3);
        assert!(place.run("verify", ["--json"]).json()["problems"].as_array().unwrap().is_empty());
    }
}

#[test]
fn each_command_that_creates_a_store_takes_it() {
    let pairs = Place::new();
    let lines = pairs.file("pairs.tsv", "c\t3\n");
    let lines = lines.to_str().unwrap();
    let creations = [
        ("put", vec!["a", "1"]),
        ("load", vec![lines]),
        ("merge", vec!["d", "4", "--operator", "u64-add"]),
        ("bench", vec!["--phases", "fillseq", "--num", "100"]),
    ];
    for (command, rest) in creations {
        let place = Place::new();
        place.run(command, [rest.as_slice(), &["--strategy", "novkv"]].concat()).ok();
        place.run("put", ["x", "y", "--strategy", "wisckey"]).fails(2, "strategy novkv");
    }
}

#[test]
fn unknown_strategies_are_named_and_others_do_not_take_one() {
    let place = Place::new();
    place.run("put", ["a", "1", "--strategy", "nonesuch"]).fails(2, "novkv");
    assert!(!place.store().exists());
    place.run("get", ["a", "--strategy", "novkv"]).fails(2, "--strategy");
    assert!(
        cleave(["put", "--help"])
            .ok()
            .contains("[possible values: wisckey, novkv, wayfinder, unified]")
    );
}

/// Two thousand pairs with separated values, half of them replaced, compacted.
fn overwritten(strategy: &str) -> Place {
    let place = Place::new();
    let lines = |numbers: std::ops::Range<u32>, round: u32| -> String {
        numbers.map(|n| format!("key{n:05}\t{round} {n} {:02000}\n", n * n)).collect()
    };
    for (numbers, round) in [(0..2000, 1), (0..1000, 2)] {
        let file = place.file("pairs.tsv", lines(numbers, round));
        place.run("load", [file.to_str().unwrap(), "--strategy", strategy]).ok();
    }
    place.run("compact", NONE).ok();
    place
}

#[test]
fn stats_tell_the_strategy_and_what_collection_knows() {
    let novkv = overwritten("novkv");
    let json = novkv.run("stats", ["--json"]).json();
    assert_eq!(json["values"]["strategy"], "novkv");
    assert_eq!(json["values"]["containers"], 0);
    assert_eq!(json["collection"]["facts_waiting"], 1000, "{json}");
    let page = novkv.run("stats", NONE).ok();
    assert!(page.contains("strategy novkv"), "{page}");
    assert!(page.contains("0 stated, 1000 not read yet"), "{page}");
    novkv.run("reclaim", NONE).ok();
    let json = novkv.run("stats", ["--json"]).json();
    assert_eq!(json["values"]["containers"], 1, "{json}");
    assert_eq!(json["collection"]["facts_waiting"], 0, "{json}");
    assert!(novkv.run("stats", NONE).ok().contains("1 in key order"));
    assert!(novkv.run("get", ["key00007"]).ok().starts_with("2 7 "));
    assert!(novkv.run("get", ["key01007"]).ok().starts_with("1 1007 "));
    let wisckey = overwritten("wisckey");
    wisckey.run("reclaim", NONE).ok();
    let json = wisckey.run("stats", ["--json"]).json();
    assert_eq!(json["values"]["strategy"], "wisckey");
    assert_eq!(json["values"]["containers"], 0, "{json}");
    assert_eq!(json["collection"]["facts_waiting"], 0, "{json}");
    for field in ["index_reads", "index_writes", "facts", "records_held", "compactions_asked"] {
        assert_eq!(json["collection"][field], 0, "{field}: since this command opened the store");
    }
}
