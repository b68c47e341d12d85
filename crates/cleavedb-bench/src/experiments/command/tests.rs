//! What an experiment that was stopped finds again.

use clap::Parser;
use serde_json::json;

use super::super::execute::stretches;
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[test]
fn only_runs_asked_for_in_just_the_same_way_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("values");
    let line = ["experiment", "values", "--folder", folder.to_str().unwrap()];
    let args = Line::parse_from(line).args;
    let experiment = find("values", Scale::new(0.01).unwrap()).unwrap();
    let part = experiment.parts.iter().find(|part| part.name.starts_with("cold")).unwrap();
    let asked = stretches(&experiment, part, "cleavedb").unwrap();
    assert_eq!(asked.len(), 2, "loaded, and opened again");
    assert!(Keeper::new(&args).unwrap().kept(&asked).is_none());

    let text = |stretch: &Stretch| json!({"asked": serde_json::to_string(stretch).unwrap()});
    let runs = folder.join("runs.jsonl");
    // The second was cut off when the process was killed.
    fs::write(&runs, format!("{}\n{{\"asked\": \"half", text(&asked[0]))).unwrap();
    let keeper = Keeper::new(&args).unwrap();
    assert!(keeper.kept(&asked).is_none());
    assert_eq!(keeper.kept(&asked[..1]).unwrap(), [text(&asked[0])]);
    assert!(fs::read_to_string(&runs).unwrap().ends_with('\n'), "the next line stands alone");

    fs::write(&runs, format!("{}\n{}\n", text(&asked[0]), text(&asked[1]))).unwrap();
    let keeper = Keeper::new(&args).unwrap();
    assert_eq!(keeper.kept(&asked).unwrap().len(), 2);
    let other = stretches(&experiment, part, "cleavedb-inline").unwrap();
    assert!(keeper.kept(&other).is_none());
}

#[test]
fn direct_is_for_every_stretch_of_engines_that_can() {
    let experiment = find("wisckey", Scale::new(0.001).unwrap()).unwrap();
    let part = experiment.parts.iter().find(|part| part.name.starts_with("recovery")).unwrap();
    let direct = |part: &Part, engine: &str| {
        let all = stretches(&experiment, part, engine).unwrap();
        all.iter().map(|stretch| stretch.plan.settings.direct).collect::<Vec<_>>()
    };
    assert_eq!(direct(part, "cleavedb"), [false, false]);
    let mut part = part.clone();
    part.go_direct();
    assert_eq!(direct(&part, "cleavedb"), [true, true]);
    assert_eq!(direct(&part, "memory"), [false, false]);
}
