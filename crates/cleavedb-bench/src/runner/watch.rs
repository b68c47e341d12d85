//! What an engine tells of itself while a phase runs: its size, and why it made callers wait.
//!
//! A look costs something (for some engines a walk through their folder), so looks are so far
//! apart that they take a hundredth of one processor at most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engine::Engine;
use crate::measure::Timeline;
use crate::report::{Stall, Wait, Waits};

/// Calls that take longer are listed.
pub(super) const WAIT_MIN: Duration = Duration::from_millis(20);

/// Of those, how many are listed one by one, the longest.
pub(super) const WAITS_LISTED_MAX: usize = 20;

/// Shortest time between two looks, and its least multiple of what the last look took.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const LOOK_COST_FACTOR: u32 = 100;

/// Microseconds of delay by the engine's reason.
type Stalls = BTreeMap<String, Stall>;

/// Delays the engine counted between two looks.
#[derive(Debug)]
struct Grown {
    from_seconds: f64,
    to_seconds: f64,
    reasons: Stalls,
}

/// Looks at one engine during one phase.
pub(super) struct Watch<'a> {
    engine: &'a dyn Engine,
    start: Instant,
    /// When to look next, if at all before the end.
    next: Option<Instant>,
    last_seconds: f64,
    before: Stalls,
    last: Stalls,
    grown: Vec<Grown>,
    disk: Timeline,
    values: Timeline,
    disk_max: u64,
    values_max: u64,
}

/// What was seen during a phase.
pub(super) struct Seen {
    pub(super) disk: Vec<(f64, u64)>,
    pub(super) values: Vec<(f64, u64)>,
    pub(super) disk_max: u64,
    pub(super) values_max: u64,
    pub(super) waits: Waits,
}

impl<'a> Watch<'a> {
    /// Begins with a phase that starts now; looks once, and if it `repeats`, during the phase.
    pub(super) fn begin(engine: &'a dyn Engine, repeats: bool) -> Self {
        let stats = engine.stats();
        let stalls = stalls_of(&stats.detail);
        let (mut disk, mut values) = (Timeline::default(), Timeline::default());
        disk.look(0.0, stats.disk_bytes);
        values.look(0.0, stats.value_file_bytes);
        let start = Instant::now();
        Self {
            engine,
            start,
            next: repeats.then(|| start + LOOK_INTERVAL),
            last_seconds: 0.0,
            before: stalls.clone(),
            last: stalls,
            grown: Vec::new(),
            disk,
            values,
            disk_max: stats.disk_bytes,
            values_max: stats.value_file_bytes,
        }
    }

    /// Looks if it is time to.
    pub(super) fn maybe_look(&mut self) {
        if self.next.is_some_and(|next| Instant::now() >= next) {
            self.look();
        }
    }

    /// Looks now.
    pub(super) fn look(&mut self) {
        let begun = Instant::now();
        let stats = self.engine.stats();
        let seconds = self.start.elapsed().as_secs_f64();
        self.disk.look(seconds, stats.disk_bytes);
        self.values.look(seconds, stats.value_file_bytes);
        self.disk_max = self.disk_max.max(stats.disk_bytes);
        self.values_max = self.values_max.max(stats.value_file_bytes);
        let stalls = stalls_of(&stats.detail);
        let reasons = grown(&self.last, &stalls);
        if !reasons.is_empty() {
            let (from_seconds, to_seconds) = (self.last_seconds, seconds);
            self.grown.push(Grown { from_seconds, to_seconds, reasons });
        }
        self.last = stalls;
        self.last_seconds = seconds;
        let cost = begun.elapsed();
        let pause = LOOK_INTERVAL.max(cost * LOOK_COST_FACTOR);
        self.next = self.next.and_then(|_| Instant::now().checked_add(pause));
    }

    /// A last look; `count` calls were long, `longest` are the longest of them.
    pub(super) fn finish(mut self, count: u64, longest: Vec<Wait>) -> Seen {
        self.look();
        let longest = longest.into_iter().map(|wait| explained(wait, &self.grown)).collect();
        let stalls = grown(&self.before, &self.last);
        let above_ms = WAIT_MIN.as_millis() as u64;
        let values = self.values.into_looks();
        Seen {
            disk: self.disk.into_looks(),
            values: if self.values_max > 0 { values } else { Vec::new() },
            disk_max: self.disk_max,
            values_max: self.values_max,
            waits: Waits { above_ms, count, longest, stalls },
        }
    }
}

/// The engine's delays by reason, where it keeps such an account.
fn stalls_of(detail: &Value) -> Stalls {
    let all = detail.get("stalls").and_then(Value::as_object).into_iter().flatten();
    let figure = |stall: &Value, name| stall.get(name).and_then(Value::as_u64).unwrap_or(0);
    all.map(|(reason, stall)| {
        let (count, micros) = (figure(stall, "count"), figure(stall, "micros"));
        (reason.clone(), Stall { count, micros })
    })
    .collect()
}

/// What `after` has more than `before`.
fn grown(before: &Stalls, after: &Stalls) -> Stalls {
    let more = |(reason, now): (&String, &Stall)| {
        let then = before.get(reason).copied().unwrap_or_default();
        let stall = Stall {
            count: now.count.saturating_sub(then.count),
            micros: now.micros.saturating_sub(then.micros),
        };
        (stall != Stall::default()).then(|| (reason.clone(), stall))
    };
    after.iter().filter_map(more).collect()
}

/// A wait with the reasons that the engine counted around it, the one with most time first.
fn explained(wait: Wait, grown: &[Grown]) -> Wait {
    let begun = wait.at_seconds - wait.milliseconds / 1e3;
    let around = grown
        .iter()
        .filter(|grown| grown.from_seconds <= wait.at_seconds && grown.to_seconds >= begun);
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, stall) in around.flat_map(|grown| &grown.reasons) {
        *sum.entry(reason).or_default() += stall.micros;
    }
    let mut order: Vec<_> = sum.into_iter().collect();
    order.sort_by_key(|&(_, micros)| std::cmp::Reverse(micros));
    let reasons = order.into_iter().map(|(reason, _)| reason.to_owned()).collect();
    Wait { reasons, ..wait }
}

/// The long calls of one thread, or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Long {
    /// How many there were.
    pub(super) count: u64,
    /// The longest, the longest first.
    pub(super) longest: Vec<Wait>,
}

impl Long {
    /// Counts a call that took `duration` and ended `at_seconds`, if it is long.
    pub(super) fn record(&mut self, at_seconds: f64, duration: Duration) {
        if duration < WAIT_MIN {
            return;
        }
        let milliseconds = duration.as_secs_f64() * 1e3;
        self.merge(Self {
            count: 1,
            longest: vec![Wait { at_seconds, milliseconds, reasons: Vec::new() }],
        });
    }

    /// Adds another thread's.
    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.longest.extend(other.longest);
        self.longest.sort_by(|one, other| other.milliseconds.total_cmp(&one.milliseconds));
        self.longest.truncate(WAITS_LISTED_MAX);
    }
}

#[cfg(test)]
mod tests;
