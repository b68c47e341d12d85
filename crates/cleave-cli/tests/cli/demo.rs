//! `demo` on a small folder.

use crate::support::{Place, cleave};

fn folder(place: &Place) -> String {
    for n in 0..60 {
        place.file(&format!("folder/d{}/file{n}", n % 4), format!("{n} ").repeat(n * n));
    }
    place.file("folder/top", "at the top");
    place.file("folder/binary", (0..=255u8).collect::<Vec<_>>().repeat(1000));
    place.file("folder/empty", "");
    place.beside("folder").to_str().unwrap().to_owned()
}

#[test]
fn the_demo_finds_everything_in_order() {
    let place = Place::new();
    let folder = folder(&place);
    let store = place.store();
    let run = cleave(["demo", &folder, "--dir", store.to_str().unwrap(), "--json"]);
    let json = run.json();
    assert_eq!(json["files"], 63);
    assert_eq!(json["differences"], serde_json::json!([]));
    let kills = json["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 3);
    for kill in kills {
        let acknowledged = kill["acknowledged"].as_u64().unwrap();
        assert!(acknowledged >= 200 && kill["recovered"].as_u64().unwrap() >= acknowledged);
    }
    let stores = json["stores"].as_array().unwrap();
    let ways = stores.iter().map(|store| (store["separate_at"].as_u64(), &store["strategy"]));
    let names =
        ["unified", "wisckey", "novkv", "wayfinder", "unified"].map(serde_json::Value::from);
    let apart = Some(1024);
    let expected: Vec<_> = [None, apart, apart, apart, apart].into_iter().zip(&names).collect();
    assert_eq!(ways.collect::<Vec<_>>(), expected);
    for store in stores {
        let overwrite = &store["overwrite"];
        let figure = |name: &str| overwrite[name].as_u64().unwrap();
        assert!(figure("bytes_written") >= figure("user_bytes_written"), "{overwrite}");
        assert!(figure("user_bytes_written") > 0, "{overwrite}");
        if store["strategy"] != "wisckey" {
            assert_eq!((figure("index_reads"), figure("index_writes")), (0, 0), "{overwrite}");
        }
        assert!(store["write_amplification"].as_f64().unwrap() > 0.9);
        let phases: Vec<_> = store["phases"].as_array().unwrap().iter().collect();
        let has = |name: &str| phases.iter().any(|phase| phase["name"] == name);
        assert!(has("store") && has("read at end") && has("verify"), "{phases:?}");
        assert!(has("overwrite") && has("settle"), "{phases:?}");
    }
    // The store stays because it was named, and is sound.
    assert!(place.run("verify", ["--json"]).json()["problems"].as_array().unwrap().is_empty());
    place.run("put", ["a", "1", "--strategy", "novkv"]).fails(2, "strategy unified");
    cleave(["demo", &folder, "--dir", store.to_str().unwrap()]).fails(2, "not empty");
}

#[test]
fn the_demo_prints_a_table_and_takes_a_limit() {
    let place = Place::new();
    let folder = folder(&place);
    let store = place.store();
    let dir = ["--dir", store.to_str().unwrap(), "--strategy", "novkv"];
    let limits = ["demo", &folder, "--max-bytes", "20k", "--kills", "1"];
    let text = cleave([limits.as_slice(), &dir].concat()).ok();
    place.run("put", ["a", "1", "--strategy", "wisckey"]).fails(2, "strategy novkv");
    for part in [
        "left out",
        "store",
        "read back",
        "multi-get",
        "merge",
        "prefix scans",
        "values inline",
        "separated from 1024 B, wisckey",
        "separated from 1024 B, novkv",
        "inline: overwriting took",
        "separated, novkv: overwriting took",
        "killed while writing",
        "all as",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    cleave(["demo", "/nonexistent"]).fails(2, "/nonexistent");
}
