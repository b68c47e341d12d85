//! When may one say that A is faster than B? Rounds in which every engine runs once, runs that
//! others disturbed repeated, and a median with its spread.
//!
//! - P1: a ratio comes from two runs of one round, never of two. A round holds every engine in
//!   every form, so that each has its partner and the leading engine runs once for all.
//! - P2: a run during which other processes took more than [`OTHERS_MAX`] of a processor does not
//!   count; it is repeated at once, [`TRIES_MAX`] times at most, and how often that happened is
//!   reported. A pair counts only if both of its runs do.
//! - P3: "at least X" holds when the median does and the lowest pair is at least 0.95 X.
//! - P4: no engine has a better place in the rounds than another: every second round goes backwards
//!   through the list, and every two of them begin further on in it.

mod others;

use std::fmt;

use anyhow::{Error, Result, anyhow};
use serde::Serialize;

pub use others::Others;

/// Share of one processor that others may take during a run.
pub const OTHERS_MAX: f64 = 0.2;

/// How far below the claim the lowest pair may lie.
const LOWEST_SHARE: f64 = 0.95;

/// Pairs that a claim needs at least.
pub const PAIRS_MIN: usize = 5;

/// Tries of one run, after which its place in the round stays empty.
pub const TRIES_MAX: usize = 5;

/// Median and extremes of one ratio over the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Pairs.
    pub pairs: usize,
    /// Smallest.
    pub lowest: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub highest: f64,
}

impl Spread {
    /// The spread of some figures; `None` if there are none or one is not a number.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        if figures.iter().any(|figure| !figure.is_finite()) {
            return None;
        }
        figures.sort_by(f64::total_cmp);
        let (lowest, highest) = (*figures.first()?, *figures.last()?);
        let upper = *figures.get(figures.len() / 2)?;
        let lower = *figures.get((figures.len() - 1) / 2)?;
        Some(Self { pairs: figures.len(), lowest, median: lower.midpoint(upper), highest })
    }

    /// Whether "at least `claim`" may be said.
    #[must_use]
    pub fn is_at_least(&self, claim: f64) -> bool {
        self.pairs >= PAIRS_MIN && self.median >= claim && self.lowest >= LOWEST_SHARE * claim
    }

    /// The largest X for which "at least X" may be said; `None` with too few pairs.
    #[must_use]
    pub fn claim(&self) -> Option<f64> {
        (self.pairs >= PAIRS_MIN).then(|| self.median.min(self.lowest / LOWEST_SHARE))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(claim) = self.claim() else {
            return write!(f, "{:.2} ({} of {PAIRS_MIN} pairs)", self.median, self.pairs);
        };
        write!(
            f,
            "{:.2} ({:.2} to {:.2}), at least {:.2}",
            self.median,
            self.lowest,
            self.highest,
            (claim * 100.0).floor() / 100.0
        )
    }
}

/// The runs that count, by round and contender. Two runs of one round are a pair.
#[derive(Debug, Serialize)]
pub struct Rounds<T> {
    /// In each round, for each contender in order, the run that counts; `None` where none does.
    pub kept: Vec<Vec<Option<T>>>,
    /// For each contender, how many of its runs others disturbed.
    pub thrown_away: Vec<usize>,
    /// Largest share of a processor that others took during a run that counts.
    pub others: f64,
}

/// What is known of a run once it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its round, from 1 on.
    pub round: usize,
    /// Which contender ran.
    pub contender: usize,
    /// Which try it was, from 1 on.
    pub attempt: usize,
    /// Share of a processor that others took.
    pub others: f64,
    /// Whether it counts.
    pub counts: bool,
}

/// The runs themselves, and who is told of them.
pub trait Course {
    /// What comes of a run.
    type Outcome;

    /// Runs a contender.
    ///
    /// # Errors
    /// Why it cannot; it is left out of all further rounds.
    fn run(&mut self, round: usize, contender: usize) -> Result<Self::Outcome>;

    /// The share of a processor that other processes took since the last call.
    fn others(&mut self) -> f64;

    /// Who they are, for a message.
    fn busiest(&self) -> String;

    /// Hears of every run; may take from its outcome what need not be kept.
    ///
    /// # Errors
    /// Whatever makes going on useless.
    fn ended(&mut self, outcome: &mut Self::Outcome, ended: Ended) -> Result<()>;

    /// Hears why a contender has no run that counts in a round; `out`: nor in any further one.
    ///
    /// # Errors
    /// Whatever makes going on useless.
    fn missing(&mut self, contender: usize, why: Error, out: bool) -> Result<()>;
}

/// Runs `wanted` rounds of `contenders`. Runs count unless others took more than `others_max` of a
/// processor meanwhile ([`OTHERS_MAX`] for anything that is to be claimed).
///
/// # Errors
/// The first one of `ended` or `missing`.
pub fn run_rounds<C: Course>(
    wanted: usize,
    contenders: usize,
    others_max: f64,
    course: &mut C,
) -> Result<Rounds<C::Outcome>> {
    let mut rounds = Rounds { kept: Vec::new(), thrown_away: vec![0; contenders], others: 0.0 };
    let mut there = vec![true; contenders];
    for round in 1..=wanted {
        let mut kept: Vec<_> = (0..contenders).map(|_| None).collect();
        for contender in order(round, wanted, contenders) {
            if there.get(contender) != Some(&true) {
                continue;
            }
            let tried = tries(round, contender, others_max, course)?;
            if let Some(count) = rounds.thrown_away.get_mut(contender) {
                *count += tried.disturbed;
            }
            match tried.came {
                Ok((outcome, share)) => {
                    rounds.others = rounds.others.max(share);
                    if let Some(place) = kept.get_mut(contender) {
                        *place = Some(outcome);
                    }
                }
                Err(why) => {
                    let out = tried.disturbed < TRIES_MAX;
                    course.missing(contender, why, out)?;
                    if let Some(there) = there.get_mut(contender) {
                        *there = !out;
                    }
                }
            }
        }
        rounds.kept.push(kept);
    }
    Ok(rounds)
}

/// The order of a round (P4): of each two rounds the second is the first backwards, and over all
/// of them the first place goes once through the list.
fn order(round: usize, rounds: usize, contenders: usize) -> Vec<usize> {
    let first = round.saturating_sub(1) / 2 * contenders / rounds.div_ceil(2).max(1);
    let mut order: Vec<_> =
        (0..contenders).map(|place| (first + place) % contenders.max(1)).collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// What came of the tries of one run.
struct Tried<T> {
    /// The outcome that counts and what others took meanwhile, or why there is none.
    came: Result<(T, f64)>,
    /// Tries that others disturbed.
    disturbed: usize,
}

fn tries<C: Course>(
    round: usize,
    contender: usize,
    others_max: f64,
    course: &mut C,
) -> Result<Tried<C::Outcome>> {
    let mut share = 0.0;
    for attempt in 1..=TRIES_MAX {
        course.others();
        let mut outcome = match course.run(round, contender) {
            Ok(outcome) => outcome,
            Err(why) => return Ok(Tried { came: Err(why), disturbed: attempt - 1 }),
        };
        share = course.others();
        let counts = share <= others_max;
        let ended = Ended { round, contender, attempt, others: share, counts };
        course.ended(&mut outcome, ended)?;
        if counts {
            return Ok(Tried { came: Ok((outcome, share)), disturbed: attempt - 1 });
        }
    }
    let came = Err(anyhow!(
        "round {round}: disturbed {TRIES_MAX} times, at last by {share:.2} of a processor: {}",
        course.busiest()
    ));
    Ok(Tried { came, disturbed: TRIES_MAX })
}

#[cfg(test)]
mod tests;
