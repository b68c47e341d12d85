//! A line on the standard error for each run that begins: how many are done, how long the rest
//! will take.

use std::time::{Duration, Instant};

/// Counts runs, over all suites.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    done: usize,
    total: usize,
    /// Engines with their settings that have passed the self-test: suites need not repeat it.
    pub(super) tested: Vec<String>,
}

impl Progress {
    /// Begins with `total` runs ahead; runs that are repeated come on top.
    #[must_use]
    pub fn of(total: usize) -> Self {
        Self { begun: Instant::now(), done: 0, total, tested: Vec::new() }
    }

    /// Says what begins that is no run.
    pub(super) fn note(&self, what: &str) {
        eprintln!("{}", line(self.done, self.total, self.begun.elapsed(), what));
    }

    /// Says which run begins, and counts it.
    pub(super) fn run(&mut self, what: &str) {
        self.note(what);
        self.done += 1;
    }
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn line(done: usize, total: usize, elapsed: Duration, what: &str) -> String {
    let total = total.max(done + 1);
    let left = match u32::try_from(done) {
        Ok(done) if done > 0 => {
            let each = elapsed / done;
            format!(
                ", about {} left",
                clock(each * u32::try_from(total).unwrap_or(0).saturating_sub(done))
            )
        }
        _ => String::new(),
    };
    format!("[{done}/{total}] {}{left}: {what}", clock(elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_is_done() {
        let minute = Duration::from_secs(60);
        assert_eq!(line(0, 4, minute, "x"), "[0/4] 0:01:00: x");
        assert_eq!(line(2, 4, minute * 61, "x"), "[2/4] 1:01:00, about 1:01:00 left: x");
        // More runs than expected: one is always ahead.
        assert_eq!(line(9, 4, minute * 9, "x"), "[9/10] 0:09:00, about 0:01:00 left: x");
    }
}
