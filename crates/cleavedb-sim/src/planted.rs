//! Testing the testers: every deliberate mistake compiled into the engine is switched on in turn
//! and must be caught.
//!
//! The switch is one for the whole process, so nothing else may run meanwhile.

use std::collections::BTreeMap;

use cleavedb::sim::plant;

use crate::crash::{Crasher, Depth};
use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, guarded};
use crate::session::Check;
use crate::{damage, faults, isolation, metamorphic, small, sources};

/// A family of checks and how it is run against a planted bug.
pub struct Catcher {
    /// Name in the table.
    pub name: &'static str,
    check: fn(&Budget) -> Check,
}

/// All families that can catch, the cheapest first.
pub const CATCHERS: [Catcher; 6] = [
    Catcher { name: "model", check: model },
    Catcher { name: "crash", check: crash },
    Catcher { name: "small", check: |budget| small::sweep(budget, &Form::base()).map(|_| ()) },
    Catcher { name: "faults", check: |budget| faults::campaign(budget, 12, 1).map(|_| ()) },
    Catcher { name: "damage", check: |budget| damage::campaign(budget, 40, 2).map(|_| ()) },
    Catcher { name: "isolation", check: |budget| isolation::run(budget.seed, 300).map(|_| ()) },
];

fn model(budget: &Budget) -> Check {
    let forms = Form::simulated();
    for number in 0.. {
        if budget.is_spent() {
            break;
        }
        let seed = budget.seed_of(number);
        let list = Generator::list(seed, Profile::of(seed, 300));
        let form = &forms[number as usize % forms.len()];
        guarded("planted", || metamorphic::run(form, seed, &list))?;
    }
    Ok(())
}

fn crash(budget: &Budget) -> Check {
    for number in 0.. {
        if budget.is_spent() {
            break;
        }
        let seed = budget.seed_of(number);
        let form = match number {
            0 => Form::base(),
            1 => Form::find("values of 8 bytes apart, segments of one kilobyte"),
            2 => Form::find("values of 100 bytes in files of their own"),
            3 => Form::find("values of 40 bytes apart, holes of 16"),
            4 => Form::find("novkv, values of 8 bytes apart"),
            5 => Form::find("unified, values of 8 bytes apart"),
            6 => Form::find("buckets"),
            _ => Form::drawn(seed),
        };
        let list = Generator::list(seed, Profile::crash(40));
        let depth = Depth { calls_one_in: 3, ..Depth::FULL };
        guarded("planted", || Crasher::new(form, depth, seed).run(&list))?;
    }
    Ok(())
}

/// Which families caught which bug, with what they said.
pub type Matrix = BTreeMap<String, Vec<(&'static str, Option<String>)>>;

/// How much longer a family looks for a bug that nobody caught in the first round: what takes many
/// seeds on a busy machine is no matter of luck then.
const PATIENCE: u64 = 8;

/// Plants every bug in turn. Each family gets `seconds`; unless `all`, the first one to catch a
/// bug ends its turn. A bug that all have missed gets a second, longer round.
#[must_use]
pub fn matrix(seed: u64, seconds: u64, all: bool, only: Option<&str>) -> Matrix {
    let mut matrix = Matrix::new();
    let names = sources::planted();
    for name in names.into_iter().filter(|name| only.is_none_or(|only| name == only)) {
        plant(Some(&name));
        let mut outcomes = round(seed, seconds, all);
        if outcomes.iter().all(|(_, violation)| violation.is_none()) {
            outcomes = round(seed.wrapping_add(1), seconds * PATIENCE, false);
        }
        plant(None);
        matrix.insert(name, outcomes);
    }
    matrix
}

/// What the families say of the bug that is planted.
fn round(seed: u64, seconds: u64, all: bool) -> Vec<(&'static str, Option<String>)> {
    let mut outcomes = Vec::new();
    for catcher in &CATCHERS {
        let budget = Budget::new(seed, seconds);
        let outcome = guarded(catcher.name, || (catcher.check)(&budget)).err();
        let caught = outcome.is_some();
        outcomes.push((catcher.name, outcome.map(|violation| violation.0)));
        if caught && !all {
            break;
        }
    }
    outcomes
}

/// How many bugs somebody caught.
#[must_use]
pub fn caught(matrix: &Matrix) -> usize {
    matrix.values().filter(|row| row.iter().any(|(_, what)| what.is_some())).count()
}

/// The matrix as a table in Markdown.
#[must_use]
pub fn table(matrix: &Matrix) -> String {
    let names: Vec<&str> = CATCHERS.iter().map(|catcher| catcher.name).collect();
    let mut text = format!("| planted bug | {} |\n", names.join(" | "));
    text.push_str(&format!("|---|{}\n", "---|".repeat(names.len())));
    for (bug, row) in matrix {
        text.push_str(&format!("| `{bug}` |"));
        for name in &names {
            let cell = match row.iter().find(|(family, _)| family == name) {
                Some((_, Some(_))) => "caught",
                Some((_, None)) => "-",
                None => "",
            };
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    text
}
