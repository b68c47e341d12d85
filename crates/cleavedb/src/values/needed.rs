//! What the models of locator and map share: tables of what each rule is worth, which is how much
//! must be done without it until something is wrong.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Formatter, Result as Formatted};

/// Steps of a run.
const STEPS: u64 = 4000;

/// What went wrong in a run.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) what: String,
}

impl Display for Broken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.what)
    }
}

/// Marks, by name.
pub(crate) type Marks = BTreeMap<&'static str, u64>;

/// Runs a model with all its rules, which must never fail, and must meet all of these. The
/// environment makes it run longer (`NAME_SEEDS`, `NAME_STEPS`) or from another `SEED` on.
pub(crate) fn assert_all_met(
    name: &str,
    marks: &[&str],
    run: impl Fn(u64, u64) -> Result<Marks, Broken>,
) {
    let of_environment = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let first = of_environment("SEED", 1);
    let seeds = of_environment(&format!("{name}_SEEDS"), 300);
    let steps = of_environment(&format!("{name}_STEPS"), 3000);
    let mut met = Marks::new();
    for seed in first..first + seeds {
        match run(seed, steps) {
            Ok(marks) => {
                marks.into_iter().for_each(|(name, count)| *met.entry(name).or_default() += count);
            }
            Err(broken) => panic!("{broken}"),
        }
    }
    println!("model {name} seeds={seeds} steps={steps} failures=0 {met:?}");
    let missing = marks.iter().filter(|name| met.get(*name).is_none_or(|n| *n == 0));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "never met: {missing:?}");
}

/// Runs a model without each of these rules, from seed 1 up to the one given with it, until a run
/// fails. Prints a row of the table for each; returns those without which none did.
pub(crate) fn needless<R: Copy + Debug, T>(
    model: &str,
    rules: &[(R, u64)],
    run: impl Fn(R, u64, u64) -> Result<T, Broken>,
) -> Vec<R> {
    println!(
        "\n| model | without | caught in run | after operations | by |\n|---|---|---|---|---|"
    );
    let mut needless = Vec::new();
    for &(rule, seeds) in rules {
        let Some(broken) = (1..=seeds).find_map(|seed| run(rule, seed, STEPS).err()) else {
            println!("| {model} | `{rule:?}` | none of {seeds} | | |");
            needless.push(rule);
            continue;
        };
        let Broken { seed, step, what } = broken;
        let operations = (seed - 1) * STEPS + step;
        let what: String = what.chars().take(100).collect();
        println!("| {model} | `{rule:?}` | {seed} | {operations} | {} |", what.replace('|', "/"));
    }
    needless
}
