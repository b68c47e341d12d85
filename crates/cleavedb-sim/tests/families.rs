//! Every family for a few seconds (`BUDGET_S`, default below); `cleavedb-sim ci` runs them up to
//! the counts of `docs/reliability.md`.

use std::path::Path;

use cleavedb_sim::family;
use cleavedb_sim::harness::Budget;
use cleavedb_sim::session::Check;

/// Seconds for each family.
const SECONDS: u64 = 10;

#[expect(clippy::panic, reason = "a violation fails the test")]
fn show(name: &str, figure: Check<String>) {
    match figure {
        Ok(figure) => println!("{name}: {figure}"),
        Err(violation) => panic!("{name}: {violation}"),
    }
}

#[test]
fn model() {
    show("model", family::model(&Budget::from_environment(SECONDS)));
}

#[test]
fn crash() {
    show("crash", family::crash(&Budget::from_environment(SECONDS)));
}

#[test]
fn small() {
    show("small", family::small(&Budget::from_environment(SECONDS)));
}

#[test]
fn faults() {
    show("faults", family::faults(&Budget::from_environment(SECONDS), 3));
}

#[test]
fn damage() {
    show("damage", family::damage(&Budget::from_environment(SECONDS), 8));
}

#[test]
fn kills() {
    let program = Path::new(env!("CARGO_BIN_EXE_cleavedb-sim"));
    show("kills", family::kills(program, &Budget::from_environment(SECONDS), 40));
}

#[test]
fn isolation() {
    show("isolation", family::isolation(&Budget::from_environment(SECONDS), 400));
}

#[test]
fn closing() {
    show("closing", family::closing(&Budget::from_environment(SECONDS)));
}
