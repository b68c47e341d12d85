//! Every planted bug must be caught; alone in its process, since the switch is one for all.

use cleavedb_sim::{family, sources};

/// Seconds for each family and bug.
const SECONDS: u64 = 8;

/// Fewest bugs that must be planted.
const LEAST: usize = 24;

#[test]
fn every_planted_bug_is_caught() {
    let names = sources::planted();
    assert!(names.len() >= LEAST, "only {} bugs are planted: {names:?}", names.len());
    match family::planted(1, SECONDS, false, None) {
        Ok(figure) => println!("{figure}"),
        Err(violation) => panic!("{violation}"),
    }
}
