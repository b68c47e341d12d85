//! When may one say that A is faster than B? Interleaved rounds A B A B, those that others
//! disturbed
//! thrown away, and a median with its spread.
//!
//! - P1: a ratio comes from two runs of one round, never from runs far apart. A round holds every
//!   form of both sides, so that the better form of each has its partner.
//! - P2: a round during which other processes took more than [`OTHERS_MAX`] of a processor does
//!   not count; it is repeated, and how often that happened is reported.
//! - P3: "at least X" holds when the median does and the lowest pair is at least 0.95 X.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

/// Share of one processor that others may take during a pair.
pub const OTHERS_MAX: f64 = 0.2;

/// How far below the claim the lowest pair may lie.
const LOWEST_SHARE: f64 = 0.95;

/// Pairs that a claim needs at least.
pub const PAIRS_MIN: usize = 5;

/// Attempts for each pair that is wanted, after which the run goes on with what there is.
const ATTEMPTS_PER_PAIR: usize = 4;

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

/// The rounds that count: in each, every contender ran once, one after the other. Two contenders
/// of one round are a pair.
#[derive(Debug, Serialize)]
pub struct Rounds<T> {
    /// Outcomes of the contenders, in order, of each round.
    pub kept: Vec<Vec<T>>,
    /// Rounds that others disturbed.
    pub thrown_away: usize,
    /// Largest share of a processor that others took during a round that counts.
    pub others: f64,
}

/// What is known of a round once all of it has run.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its number, from 1 on; rounds that do not count have one, too.
    pub number: usize,
    /// Share of a processor that others took.
    pub others: f64,
    /// Whether it counts.
    pub counts: bool,
}

/// Runs rounds of `contenders` until `wanted` of them count, which they do unless others took
/// more than `others_max` of a processor ([`OTHERS_MAX`] for anything that is to be claimed).
/// `others` tells the share that other processes took since it was called last; `ended` hears of
/// every round, and may take from its outcomes what need not be kept.
///
/// # Errors
/// The first error of a run or of `ended`.
pub fn run_rounds<T>(
    wanted: usize,
    contenders: usize,
    others_max: f64,
    mut run: impl FnMut(usize, usize) -> Result<T>,
    mut others: impl FnMut() -> f64,
    mut ended: impl FnMut(&mut [T], Ended) -> Result<()>,
) -> Result<Rounds<T>> {
    let mut rounds = Rounds { kept: Vec::new(), thrown_away: 0, others: 0.0 };
    for number in 1..=wanted * ATTEMPTS_PER_PAIR {
        if rounds.kept.len() == wanted {
            break;
        }
        others();
        let outcomes: Result<Vec<T>> =
            (0..contenders).map(|contender| run(number, contender)).collect();
        let mut outcomes = outcomes?;
        let share = others();
        let counts = share <= others_max;
        ended(&mut outcomes, Ended { number, others: share, counts })?;
        if counts {
            rounds.others = rounds.others.max(share);
            rounds.kept.push(outcomes);
        } else {
            rounds.thrown_away += 1;
        }
    }
    Ok(rounds)
}

/// What other processes take of the processors, from the kernel's accounts: everything that ran
/// on the machine less what this process, the children it waited for, and threads of the kernel
/// ran. Those write back what the engines wrote; who else writes shows by a process of its own.
#[derive(Debug)]
pub struct Others {
    since: Instant,
    busy: u64,
    own: u64,
}

impl Others {
    /// Starts to watch.
    #[must_use]
    pub fn watch() -> Self {
        let (busy, own) = ticks();
        Self { since: Instant::now(), busy, own }
    }

    /// The share of one processor since the last call.
    pub fn share(&mut self) -> f64 {
        let now = Self::watch();
        let busy = now.busy.saturating_sub(self.busy);
        let others = busy.saturating_sub(now.own.saturating_sub(self.own));
        let seconds = now.since.duration_since(self.since).as_secs_f64().max(1e-9);
        *self = now;
        others as f64 / rustix::param::clock_ticks_per_second() as f64 / seconds
    }
}

/// Ticks that all processors were busy, and ticks of this process, its dead children and the
/// kernel's threads.
fn ticks() -> (u64, u64) {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let kernel: u64 = processes
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .map(|entry| kernel_ticks(&read(&entry.path().join("stat"))))
        .sum();
    let own = own_ticks(&read(Path::new("/proc/self/stat")));
    (busy_ticks(&read(Path::new("/proc/stat"))), own + kernel)
}

/// From `/proc/stat`: user, nice, system, irq, softirq and steal of the line of all processors.
fn busy_ticks(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let fields: Vec<u64> =
        line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    [0, 1, 2, 5, 6, 7].into_iter().filter_map(|place| fields.get(place)).sum()
}

/// From `/proc/self/stat`: user and system ticks, own and of children.
fn own_ticks(text: &str) -> u64 {
    let fields = fields_after_name(text);
    [11, 12, 13, 14].into_iter().filter_map(|place| fields.get(place)?.parse::<u64>().ok()).sum()
}

/// The flag of a process that is a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// From `/proc/N/stat`: user and system ticks of a thread of the kernel, none of any other process.
fn kernel_ticks(text: &str) -> u64 {
    let fields = fields_after_name(text);
    let field = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    if field(6).is_none_or(|flags| flags & KERNEL_THREAD == 0) {
        return 0;
    }
    field(11).unwrap_or(0) + field(12).unwrap_or(0)
}

/// The fields from the state on; the name in brackets before may hold anything.
fn fields_after_name(text: &str) -> Vec<&str> {
    text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace().collect()
}

#[cfg(test)]
mod tests;
