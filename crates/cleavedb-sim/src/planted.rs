//! Testing the testers: every deliberate mistake compiled into the engine is switched on in turn
//! and must be caught.
//!
//! The switch is one for the whole process, so nothing else may run meanwhile.

use std::collections::BTreeMap;
use std::time::Instant;

use cleavedb::sim::plant;

use crate::crash::{Crasher, Depth};
use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, guarded};
use crate::session::Check;
use crate::{damage, faults, full, isolation, metamorphic, small, sources};

/// A family of checks and how it is run against a planted bug.
pub struct Catcher {
    /// Name in the table.
    pub name: &'static str,
    /// What it does in the time given, with this bug planted.
    check: fn(&Budget, &str) -> Check,
}

/// All families that can catch, the cheapest first.
pub const CATCHERS: [Catcher; 6] = [
    Catcher { name: "model", check: model },
    Catcher { name: "crash", check: crash },
    Catcher { name: "small", check: |budget, _| small::sweep(budget, &Form::base()).map(|_| ()) },
    Catcher { name: "faults", check: faults },
    Catcher { name: "damage", check: |budget, _| damage::campaign(budget, 40, 2).map(|_| ()) },
    Catcher { name: "isolation", check: |budget, _| isolation::run(budget.seed, 300).map(|_| ()) },
];

/// The one family of forms that has what a bug is about, as its name begins; by the forms' names.
const ABOUT: [(&str, &str); 5] = [
    ("map_", "wayfinder"),
    ("locat", "unified"),
    ("bucket_", "buckets"),
    ("reloc", "novkv"),
    ("flex_", "flex"),
];

/// The simulated forms, or those that a bug can show under.
fn forms(bug: &str) -> Vec<Form> {
    let about = ABOUT.iter().find(|(start, _)| bug.starts_with(start));
    let has = |form: &Form| about.is_none_or(|(_, word)| form.name.contains(word));
    Form::simulated().into_iter().filter(has).collect()
}

fn model(budget: &Budget, bug: &str) -> Check {
    let forms = forms(bug);
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

fn crash(budget: &Budget, bug: &str) -> Check {
    let (all, forms) = (Form::simulated().len(), forms(bug));
    for number in 0.. {
        if budget.is_spent() {
            break;
        }
        let seed = budget.seed_of(number);
        let form = match number {
            _ if forms.len() < all => forms[number as usize % forms.len()].clone(),
            0 => Form::base(),
            1 => Form::find("values of 8 bytes apart, segments of one kilobyte"),
            2 => Form::find("values of 100 bytes in files of their own"),
            3 => Form::find("values of 40 bytes apart, holes of 16"),
            4 => Form::find("novkv, values of 8 bytes apart"),
            5 => Form::find("unified, values of 8 bytes apart"),
            6 => Form::find("buckets"),
            7 => Form::find("wayfinder, values of 8 bytes apart"),
            _ => Form::drawn(seed),
        };
        let list = Generator::list(seed, Profile::crash(40));
        let depth = Depth { calls_one_in: 3, ..Depth::FULL };
        guarded("planted", || Crasher::new(form, depth, seed).run(&list))?;
    }
    Ok(())
}

fn faults(budget: &Budget, bug: &str) -> Check {
    if bug.contains("reserve") {
        return full_disks(budget);
    }
    let (all, forms) = (Form::simulated().len(), forms(bug));
    if forms.len() == all {
        return faults::campaign(budget, 12, 1).map(|_| ());
    }
    for number in 0.. {
        if budget.is_spent() {
            break;
        }
        let (seed, form) = (budget.seed_of(number), &forms[number as usize % forms.len()]);
        guarded("planted", || full::sweep(form, seed))?;
        faults::sweep(form, seed, 12, budget)?;
    }
    Ok(())
}

/// Full disks alone, for what one of dozens of them shows; the first ones have shown it.
fn full_disks(budget: &Budget) -> Check {
    let known = full::LARGE_SEGMENT;
    guarded("planted", || full::sweep(&Form::drawn(known), known))?;
    for number in 0.. {
        if budget.is_spent() {
            break;
        }
        let seed = budget.seed_of(number);
        guarded("planted", || full::usual(&Form::drawn(seed), seed))?;
    }
    Ok(())
}

/// What one family says of one bug.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub family: &'static str,
    /// The violation, if it caught the bug.
    pub violation: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// What the families that were run say of each bug, by its name.
pub type Matrix = BTreeMap<String, Vec<Outcome>>;

/// How much longer families look for a bug in the next round: what takes many seeds on a busy
/// machine is no matter of luck then.
const PATIENCE: u64 = 4;

/// Plants every bug in turn. With `all`, each family gets `seconds`. Without, the first one to
/// catch a bug ends its turn, and families get one second each, since most bugs are caught at once
/// by one or another. A bug that all have missed gets another round, four times as long, until one
/// took at least eight times `seconds` for each family.
#[must_use]
pub fn matrix(seed: u64, seconds: u64, all: bool, only: Option<&str>) -> Matrix {
    let mut matrix = Matrix::new();
    let names = sources::planted();
    for name in names.into_iter().filter(|name| only.is_none_or(|only| name == only)) {
        let outcomes = outcomes(seed, seconds, all, &name);
        matrix.insert(name, outcomes);
    }
    matrix
}

/// Plants one bug.
pub(crate) fn outcomes(seed: u64, seconds: u64, all: bool, name: &str) -> Vec<Outcome> {
    /// Times `seconds`: the longest round.
    const ROUND_MAX: u64 = 8;
    plant(Some(name));
    let mut spent = if all { seconds } else { 1 };
    let mut outcomes = round(seed, spent, all, name);
    let is_missed = |outcome: &Outcome| outcome.violation.is_none();
    while outcomes.iter().all(is_missed) && spent < seconds * ROUND_MAX {
        spent *= PATIENCE;
        outcomes = round(seed.wrapping_add(spent), spent, false, name);
    }
    plant(None);
    outcomes
}

/// What the families say of the bug that is planted.
fn round(seed: u64, seconds: u64, all: bool, name: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for catcher in &CATCHERS {
        let (budget, start) = (Budget::new(seed, seconds), Instant::now());
        let violation = guarded(catcher.name, || (catcher.check)(&budget, name)).err();
        let (family, seconds) = (catcher.name, start.elapsed().as_secs_f64());
        let is_caught = violation.is_some();
        let violation = violation.map(|violation| violation.0);
        outcomes.push(Outcome { family, violation, seconds });
        if is_caught && !all {
            break;
        }
    }
    outcomes
}

/// How many bugs somebody caught.
#[must_use]
pub fn caught(matrix: &Matrix) -> usize {
    let is_caught = |row: &&Vec<Outcome>| row.iter().any(|outcome| outcome.violation.is_some());
    matrix.values().filter(is_caught).count()
}

/// The matrix as a table in Markdown: seconds until a bug was caught.
#[must_use]
pub fn table(matrix: &Matrix) -> String {
    let names: Vec<&str> = CATCHERS.iter().map(|catcher| catcher.name).collect();
    let mut text = format!("| planted bug | {} |\n", names.join(" | "));
    text.push_str(&format!("|---|{}\n", "---|".repeat(names.len())));
    for (bug, row) in matrix {
        text.push_str(&format!("| `{bug}` |"));
        for name in &names {
            let cell = match row.iter().find(|outcome| outcome.family == *name) {
                Some(Outcome { violation: Some(_), seconds, .. }) => format!("{seconds:.1} s"),
                Some(_) => "-".to_owned(),
                None => String::new(),
            };
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    text
}
