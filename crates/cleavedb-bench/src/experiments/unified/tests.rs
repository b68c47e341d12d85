//! The plan is what it says, and a small run has rows that make sense.

use std::path::Path;

use super::*;
use crate::experiments::execute::{PartResult, run_all, run_stretch};
use crate::experiments::find;

const ENGINES: [&str; 3] = ["cleavedb", "cleavedb-novkv", "cleavedb-wisckey"];

fn part<'a>(experiment: &'a Experiment, name: &str) -> &'a Part {
    experiment.parts.iter().find(|part| part.name == name).unwrap()
}

fn plans(part: &Part) -> Vec<&Plan> {
    let plans = part.steps.iter().filter_map(|step| match step {
        Step::Run { plan, .. } => Some(&**plan),
        Step::Crash { .. } | Step::Reopen(_) => None,
    });
    plans.collect()
}

#[test]
fn five_gb_are_overwritten_three_times_under_each_bound() {
    let experiment = find("unified", Scale::new(1.0).unwrap()).unwrap();
    for bound in BOUNDS {
        for (choice, phase) in CHOICES {
            let part = part(&experiment, &format!("overwrite, {choice}, space at most {bound}"));
            let data = part.data_bytes();
            assert!((OVERWRITTEN_BYTES - 2_000..=OVERWRITTEN_BYTES).contains(&data), "{data}");
            let tuning = &part.plan.settings.tuning;
            let asked = Tuning { space_amplification_max: Some(bound), ..Tuning::default() };
            assert_eq!(*tuning, asked, "nothing else is set");
            let [_, overwrite] = plans(part)[..] else { panic!("{part:?}") };
            assert_eq!((overwrite.phases[0], overwrite.samples), (phase, SAMPLES));
            assert_eq!(overwrite.operations, Some(3 * part.plan.num));
            assert!(part.obstacle("rocksdb-blob").is_some() && part.obstacle("memory").is_some());
            assert!(ENGINES.iter().all(|engine| part.obstacle(engine).is_none()));
        }
    }
    let opened = part(&experiment, "overwrite, uniform, as opened");
    assert!(opened.obstacle("rocksdb").is_none() && opened.obstacle("cleavedb").is_some());
}

#[test]
fn nothing_is_called_after_deletes_nor_between_updates_and_scans() {
    let experiment = find("unified", Scale::new(1.0).unwrap()).unwrap();
    for (way, phase) in DELETES {
        let part = part(&experiment, &format!("delete {way}"));
        let [_, delete, rest] = plans(part)[..] else { panic!("{part:?}") };
        assert!(delete.unaided && delete.phases == [phase] && delete.samples > 0);
        assert_eq!((&rest.phases[..], rest.seconds), (&[Phase::Rest][..], Some(600.0)));
        assert_eq!(part.obstacle("rocksdb").is_some(), phase == Phase::DropKeyspace);
    }
    let scans = part(&experiment, "scans over updates");
    let updates: Vec<_> =
        plans(scans).into_iter().filter(|plan| plan.phases == [Phase::Overwrite]).collect();
    assert_eq!(updates.len() as u64, TIMES);
    assert!(updates.iter().all(|plan| plan.unaided));
    let all: u64 = updates.iter().filter_map(|plan| plan.operations).sum();
    assert!(all.abs_diff(UPDATES * scans.plan.num) < TIMES);
    let seeds: std::collections::BTreeSet<_> = updates.iter().map(|plan| plan.seed).collect();
    assert_eq!(seeds.len() as u64, TIMES, "each time other items");
    let compact = plans(scans).into_iter().position(|plan| plan.phases == [Phase::Compact]);
    let lengths = plans(scans).into_iter().skip(compact.unwrap() + 1).map(|plan| plan.seek_pairs);
    assert_eq!(lengths.collect::<Vec<_>>(), [50, 10_000]);
}

#[test]
fn stores_of_ten_million_keys_are_killed_and_read() {
    let experiment = find("unified", Scale::new(1.0).unwrap()).unwrap();
    for keys in OPENED_KEYS {
        for (cold, cache) in [(false, "files cached"), (true, "files not cached")] {
            let part = part(&experiment, &format!("open after a kill, {keys} keys, {cache}"));
            assert_eq!(part.plan.num, keys);
            let [_, Step::Crash { cold: is_cold }, Step::Run { plan, .. }] = &part.steps[..] else {
                panic!("{part:?}")
            };
            assert_eq!((*is_cold, plan.operations), (cold, Some(GETS)));
        }
    }
}

/// Cells of a table's rows, by part, engine and heading.
fn cell<'a>(text: &'a str, title: &str, part: &str, engine: &str, heading: &str) -> &'a str {
    let begin = format!("## {title}");
    let table = text.split_once(begin.as_str()).unwrap_or_else(|| panic!("{title}: {text}")).1;
    let mut lines = table.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &'a str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let place = cells(lines.next().unwrap()).iter().position(|cell| *cell == heading);
    let rows = lines.map(cells);
    let mut own = rows.filter(|cells| cells[1] == part && cells[2] == engine);
    let row = own.next().unwrap_or_else(|| panic!("{part}, {engine}: {text}"));
    row[place.unwrap_or_else(|| panic!("{heading}: {text}"))]
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("a number, not '{text}'"))
}

/// What must hold of an engine's rows, whatever its speed.
fn rows_make_sense(text: &str, engine: &str) {
    for (choice, bound) in [("uniform", BOUNDS[0]), ("zipf 0.99", BOUNDS[2])] {
        let part = format!("overwrite, {choice}, space at most {bound}");
        let at = |heading| {
            cell(text, "Space while everything is overwritten", &part, engine, heading).to_owned()
        };
        assert!(number(&at("samples")) > 100.0, "{text}");
        let (most, mean) =
            (number(&at("value files by those of the load, most")), number(&at("mean")));
        assert!(most >= mean && mean >= 1.0, "{most}, {mean}: {text}");
        assert!(number(&at("WA, own account")) >= 1.0 && at("put p99.99 us") != "-", "{text}");
    }
    for (way, _) in DELETES {
        let part = format!("delete {way}");
        let title = "Disk after deletes, nothing called";
        assert_eq!(
            cell(text, title, &part, engine, "folder before").split(' ').nth(1),
            Some("MiB")
        );
        assert_ne!(cell(text, title, &part, engine, "at rest"), "-");
    }
    let title = "Scans over updates, MB/s";
    for heading in ["0 updates of each", "1.5 updates of each", "3 updates of each", "compacted"] {
        assert!(number(cell(text, title, "scans over updates", engine, heading)) > 0.0, "{text}");
    }
    for keys in OPENED_KEYS {
        let part = format!("open after a kill, {keys} keys, files not cached");
        let at = |heading| cell(text, "Opening after a kill", &part, engine, heading);
        // Every write was acknowledged before the end, so none may be missing.
        assert_eq!((at("found"), at("keys")), (at("gets"), (keys / 1_000).to_string().as_str()));
        assert!(at("after that get").ends_with("MiB"), "{text}");
        let has_locator = engine == "cleavedb";
        assert_eq!(at("locator bytes after that get") != "-", has_locator, "{text}");
    }
}

#[test]
fn a_thousandth_has_rows_that_make_sense_for_every_strategy() {
    let scale = Scale::new(0.001).unwrap();
    let mut experiment = find("unified", scale).unwrap();
    // A part of each kind, and both ends of the bounds.
    let left_out = [
        "space at most 1.25",
        "uniform, space at most 1.5",
        "99, space at most 1.1",
        "files cached",
    ];
    experiment.parts.retain(|part| !left_out.iter().any(|name| part.name.contains(name)));
    for plan in experiment.parts.iter_mut().flat_map(|part| &mut part.steps).filter_map(plan_of) {
        plan.stable_seconds = 0.2;
        plan.seconds = plan.seconds.map(|seconds| seconds.min(5.0));
        if plan.phases == [Phase::SeekRandom] {
            plan.operations = Some(10);
        }
    }
    let results = run_all(
        &experiment,
        &ENGINES.map(str::to_owned),
        |stretch, dir: &Path| run_stretch(stretch, dir),
        || Ok(Box::new(tempfile::tempdir()?)),
    );
    let results: Vec<PartResult> = results.unwrap();
    let text = tables(&results);
    ENGINES.iter().for_each(|engine| rows_make_sense(&text, engine));
    for (title, columns) in [("Space", 21), ("Disk", 16), ("Scans", 17), ("Opening", 18)] {
        let table = text.split_once(&format!("## {title}")).unwrap().1;
        let mut rows = table.lines().skip(1).skip_while(|line| line.is_empty());
        let rows = rows.by_ref().take_while(|line| line.starts_with('|'));
        let counts: Vec<_> = rows.map(|row| row.matches('|').count() - 1).collect();
        assert!(counts.len() > 2 && counts.iter().all(|count| *count == columns), "{text}");
    }
    #[cfg(feature = "peers")]
    every_engine_has_a_line(&results);
}

fn plan_of(step: &mut Step) -> Option<&mut Plan> {
    match step {
        Step::Run { plan, .. } => Some(plan),
        Step::Crash { .. } | Step::Reopen(_) => None,
    }
}

#[cfg(feature = "peers")]
fn every_engine_has_a_line(results: &[PartResult]) {
    let drawn = plots(results);
    for what in [
        "value files by those of the load",
        "whole folder by data",
        "MiB on disk",
        "scans of 50, MB/s",
    ] {
        let plot = drawn.iter().find(|plot| plot.title.contains(what));
        let plot = plot.unwrap_or_else(|| panic!("{what}"));
        assert_eq!(plot.lines.len(), ENGINES.len(), "{what}");
        let points = plot.lines.iter().map(|line| line.1.len()).min();
        assert!(points > Some(1), "{what}: {points:?}");
        assert!(plot.svg().unwrap().contains("cleavedb-wisckey"), "{what}");
    }
    let bounded = drawn.iter().find(|plot| plot.title.contains("1.1: value files")).unwrap();
    assert_eq!(bounded.level, Some(1.1));
}
