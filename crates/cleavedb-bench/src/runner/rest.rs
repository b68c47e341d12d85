//! An engine left to itself: only its sizes are looked at, until they change no more.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::runner::{Outcome, Plan, Progress};

/// Looks within the time after which a store counts as at rest.
const LOOKS: u32 = 10;

/// Shortest and longest time between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Waits, in the first thread alone, until there was no change for some time; cut short where
/// changes go on until the phase's time is up.
pub(super) fn rest(plan: &Plan, thread: usize, progress: &Progress<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let Some(samples) = progress.samples.as_ref().filter(|_| thread == 0) else {
        return Ok(outcome);
    };
    let stable = Duration::try_from_secs_f64(plan.stable_seconds)?;
    let pause = (stable / LOOKS).clamp(PAUSE_MIN, PAUSE_MAX);
    let mut changed = progress.start;
    loop {
        std::thread::sleep(pause);
        let looks = progress.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if samples.take_if_changed(looks) {
            changed = Instant::now();
        }
        outcome.operations = looks;
        if changed.elapsed() >= stable {
            return Ok(outcome);
        }
        if progress.deadline.is_some_and(|end| Instant::now() >= end) {
            outcome.cut_short = true;
            return Ok(outcome);
        }
    }
}
