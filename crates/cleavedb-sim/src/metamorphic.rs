//! The same operation list under every form: each answer is that of the model, all transcripts are
//! the same, and the same seed twice leaves the same bytes on disk.
//!
//! A list that fails is shrunk by dropping operations and printed as a regression test.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, guarded, spread};
use crate::operation::{Operation, as_rust};
use crate::random::{Random, mix};
use crate::session::{Check, Session, Violation};
use crate::world::World;

/// Operations of one list.
pub const LIST: usize = 600;

/// What one run left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of all answers.
    pub trail: u64,
    /// Hash of the disk's contents, 0 on a real disk.
    pub disk: u64,
    /// Calls that changed the disk.
    pub calls: u64,
}

/// Runs a list under a form.
///
/// # Errors
/// The first difference from the model, with the operation's index.
pub fn run(form: &Form, seed: u64, operations: &[Operation]) -> Check<Outcome> {
    let world = World::for_form(form, seed).map_err(|error| Violation(error.to_string()))?;
    let mut session = Session::start(world.clone(), form.clone())?;
    for (index, operation) in operations.iter().enumerate() {
        session
            .run(operation)
            .map_err(|v| v.context(format!("operation {index}, {operation:?}")))?;
    }
    session.finish().map_err(|v| v.context("at the end"))?;
    let disk = world.disk().map_or(0, |disk| disk.digest());
    let calls = world.disk().map_or(0, |disk| disk.mutations());
    Ok(Outcome { trail: session.trail(), disk, calls })
}

/// Runs a list under several forms, the first one twice.
///
/// # Errors
/// A difference from the model, between forms, or between the two runs.
pub fn compare_forms(forms: &[Form], seed: u64, operations: &[Operation]) -> Check<u64> {
    let mut first: Option<Outcome> = None;
    for form in forms {
        let context = |v: Violation| v.context(format!("form \"{}\"", form.name));
        let outcome =
            guarded(&format!("{} SEED={seed}", form.name), || run(form, seed, operations))
                .map_err(context)?;
        match first {
            None => {
                let again = run(form, seed, operations).map_err(context)?;
                if again != outcome {
                    return Err(Violation(format!(
                        "form \"{}\" is not deterministic: {outcome:?}, then {again:?}",
                        form.name
                    )));
                }
                first = Some(outcome);
            }
            Some(other) if other.trail != outcome.trail => {
                return Err(Violation(format!("form \"{}\" answers differently", form.name)));
            }
            Some(_) => {}
        }
    }
    Ok((forms.len() as u64 + 1) * operations.len() as u64)
}

/// The forms of one seed: the named simulated ones in turn, some drawn ones, and now and then the
/// real disk.
fn forms_of(seed: u64) -> Vec<Form> {
    let mut random = Random::new(mix(seed));
    let mut forms = Form::all();
    if !random.chance(1, 8) {
        forms.retain(|form| !form.native);
    }
    forms.push(Form::drawn(random.bits()));
    forms.push(Form::drawn(random.bits()));
    let turn = random.index(forms.len());
    forms.rotate_left(turn);
    // A real disk is never deterministic: its threads run when they like.
    forms.sort_by_key(|form| form.native);
    forms
}

/// Drops operations as long as the list still fails, within `runs` attempts.
#[must_use]
pub fn shrink(form: &Form, seed: u64, operations: &[Operation], mut runs: u32) -> Vec<Operation> {
    let fails = |list: &[Operation]| {
        guarded(&format!("shrinking SEED={seed}"), || run(form, seed, list)).is_err()
    };
    let mut list = operations.to_vec();
    let mut piece = list.len().div_ceil(2);
    while piece > 0 {
        let mut start = 0;
        while start < list.len() && runs > 0 {
            runs -= 1;
            let mut shorter = list.clone();
            shorter.drain(start..(start + piece).min(list.len()));
            if fails(&shorter) {
                list = shorter;
            } else {
                start += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    list
}

/// A regression test for a failing list.
#[must_use]
pub fn regression_test(
    form: &Form,
    seed: u64,
    list: &[Operation],
    violation: &Violation,
) -> String {
    format!(
        "// {violation}\n#[test]\nfn seed_{seed}() {{\n    let form = Form::find({:?});\n    \
         let list = {};\n    metamorphic::run(&form, {seed}, &list).unwrap();\n}}\n",
        form.name,
        as_rust(list)
    )
}

/// Runs seeds until the budget is spent; returns (seeds, operations executed).
///
/// # Errors
/// The first failure, shrunk and printed as a test.
pub fn campaign(budget: &Budget, length: usize) -> Check<(u64, u64)> {
    let executed = AtomicU64::new(0);
    let seeds = spread(budget, "model", 1, |seed| {
        let operations = Generator::list(seed, Profile::of(seed, length));
        let forms = forms_of(seed);
        match compare_forms(&forms, seed, &operations) {
            Ok(count) => {
                executed.fetch_add(count, Ordering::Relaxed);
                budget.count(count);
                Ok(())
            }
            Err(violation) => Err(reduced(&forms, seed, &operations, violation)),
        }
    })?;
    Ok((seeds, executed.load(Ordering::Relaxed)))
}

fn reduced(forms: &[Form], seed: u64, list: &[Operation], violation: Violation) -> Violation {
    let failing = forms
        .iter()
        .find(|form| guarded(&format!("again SEED={seed}"), || run(form, seed, list)).is_err());
    let Some(form) = failing else { return violation };
    let short = shrink(form, seed, list, 600);
    let test = regression_test(form, seed, &short, &violation);
    violation.context(format!("{} operations suffice:\n{test}\n", short.len()))
}
