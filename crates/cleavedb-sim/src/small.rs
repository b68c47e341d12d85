//! All small cases: every sequence of up to three operations after a fresh start, a crash before
//! every call, in every mode.
//!
//! Most crash bugs of file systems and databases need no more than that; so all of it is tried
//! rather than some of it. Invariant A1: the sequences of one length are numbered, and the number
//! alone says which operations they hold.

use cleavedb::sim::{CrashMode, MemoryDisk};

use crate::crash::{Crasher, Depth, Figures};
use crate::form::Form;
use crate::harness::{Budget, guarded};
use crate::kinds::Kinds;
use crate::model::State;
use crate::operation::{Change, Edge, Operation, Payload, Span};
use crate::random::mix;
use crate::session::{Check, Session, Violation};
use crate::world::World;

/// Longest sequence.
pub const LENGTH_MAX: u32 = 3;

/// The operations that sequences are made of; `tag` tells their values apart.
#[must_use]
pub fn alphabet(tag: u32) -> Vec<Operation> {
    let value = |bytes| Payload { tag, bytes };
    let range = Span { from: Edge::With(7), to: Edge::Without(11) };
    vec![
        Operation::Write(Change::Put(0, 8, value(12))),
        Operation::Write(Change::Put(1, 9, value(5000))),
        Operation::Write(Change::Delete(1, 8)),
        Operation::Write(Change::Merge(1, 9, value(6))),
        Operation::Batch(
            vec![
                Change::Put(0, 10, value(900)),
                Change::Merge(1, 10, value(8)),
                Change::Put(2, 11, value(8)),
            ],
            false,
        ),
        Operation::Batch(vec![Change::Put(0, 8, value(20)), Change::Delete(1, 9)], true),
        Operation::Write(Change::DeleteRange(1, range)),
        Operation::Sync,
        Operation::Flush,
        Operation::Compact,
        Operation::Step(4),
        Operation::TakeSnapshot(0),
        Operation::Checkpoint,
        Operation::Reopen(true),
    ]
}

/// The sequence of a length and a number, or `None` where there are no more.
#[must_use]
pub fn sequence(length: u32, number: u64) -> Option<Vec<Operation>> {
    let letters = alphabet(0).len() as u64;
    if number >= letters.pow(length) {
        return None;
    }
    let mut rest = number;
    let mut list = Vec::new();
    for position in 0..length {
        list.push(alphabet(position + 1).swap_remove((rest % letters) as usize));
        rest /= letters;
    }
    Some(list)
}

/// A database that was just created and holds a few pairs.
fn beginning(form: &Form) -> Check<(MemoryDisk, State)> {
    let world = World::simulated(1);
    let mut session = Session::start(world.clone(), form.clone())?;
    for key in 7..10 {
        session.run(&Operation::Write(Change::Put(1, key, Payload { tag: 100, bytes: 30 })))?;
    }
    session.close()?;
    let image = world.disk().map(|disk| disk.crash_image(CrashMode::All, 0));
    let image = image.ok_or_else(|| Violation("no simulated disk".to_owned()))?;
    Ok((image, session.state().clone()))
}

/// What has been counted.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Crash states.
    pub figures: Figures,
    /// Sequences run.
    pub sequences: u64,
    /// The same, once for each store that they were run over.
    pub runs: u64,
    /// Sequences there are.
    pub of: u64,
}

/// Whether a sequence is run over these indexes: shorter ones over all of them, of the longest a
/// third over each, another third with the next seed.
fn is_run_over(kinds: Kinds, length: u32, number: u64, seed: u64) -> bool {
    length < LENGTH_MAX || kinds == Kinds::in_turn(number.wrapping_add(seed))
}

/// Runs all sequences, the short ones first, until the budget is spent. What is left out when
/// time is short depends on the seed.
///
/// # Errors
/// The first crash state that breaks a promise, with its sequence.
pub fn sweep(budget: &Budget, form: &Form) -> Check<Swept> {
    let store = |kinds: Kinds| -> Check<_> {
        let form = kinds.form(form);
        let (image, state) = beginning(&form)?;
        Ok((kinds, image, state, Crasher::new(form, Depth::FLAT, budget.seed)))
    };
    let mut stores = Kinds::ALL.into_iter().map(store).collect::<Check<Vec<_>>>()?;
    let letters = alphabet(0).len() as u64;
    let mut swept = Swept::default();
    for length in 1..=LENGTH_MAX {
        let count = letters.pow(length);
        swept.of += count;
        for step in 0..count {
            if budget.is_spent() {
                continue;
            }
            // An odd factor visits every number once where the count is a power of two, and
            // nearly so elsewhere: the order differs by seed.
            let number = (step.wrapping_mul(mix(budget.seed) | 1) ^ step) % count;
            let number = if budget.seed == 1 { step } else { number };
            let Some(list) = sequence(length, number) else { continue };
            for (kinds, image, state, crasher) in &mut stores {
                if !is_run_over(*kinds, length, number, budget.seed) {
                    continue;
                }
                let seed = budget.seed;
                let name = format!("{}: sequence {length}/{number} SEED={seed}", kinds.name());
                let counted = crasher.figures.states;
                guarded(&name, || crasher.run_from(image, state.clone(), &list))
                    .map_err(|v| v.context(format!("{name} {list:?}")))?;
                swept.runs += 1;
                budget.count(crasher.figures.states - counted);
            }
            swept.sequences += 1;
        }
    }
    stores.iter().for_each(|(.., crasher)| swept.figures.add(&crasher.figures));
    Ok(swept)
}
