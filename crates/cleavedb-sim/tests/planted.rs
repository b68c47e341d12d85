//! Every planted bug must be caught, each in a process of its own, since the switch is one for all
//! of a process; as many at a time as the machine has cores.

use std::process::Command;
use std::sync::Mutex;

use cleavedb_sim::sources;

/// Seconds for each family and bug.
const SECONDS: &str = "8";

/// Fewest bugs that must be planted.
const LEAST: usize = 24;

/// What the harness says of one bug, if nobody caught it.
fn missed(name: &str) -> Option<String> {
    let harness = Command::new(env!("CARGO_BIN_EXE_cleavedb-sim"))
        .args(["planted", "--only", name, "--seconds", SECONDS])
        .env("SEED", "1")
        .output();
    let output = match harness {
        Ok(output) => output,
        Err(error) => return Some(format!("{name}: the harness does not start: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_caught = output.status.success() && said.contains("planted=1 caught=1");
    (!is_caught).then(|| format!("{name}: {}\n{said}", output.status))
}

#[test]
fn every_planted_bug_is_caught() {
    let names = sources::planted();
    assert!(names.len() >= LEAST, "only {} bugs are planted: {names:?}", names.len());
    let (waiting, all_missed) = (Mutex::new(names.iter()), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                // No lock is held while a process runs.
                while let Some(name) = { waiting.lock().unwrap().next() } {
                    if let Some(what) = missed(name) {
                        all_missed.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let all_missed = all_missed.into_inner().unwrap();
    assert!(all_missed.is_empty(), "{}", all_missed.join("\n"));
}
