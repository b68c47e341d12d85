//! What has been asked for, acknowledged and made durable: the bounds of what a crash may leave.
//!
//! Shared between a session and the observer of its disk. Invariants: B1 durable <= acknowledged
//! <= issued. B2 states are numbered by commit; number 0 is the empty database.

use std::fmt;

use crate::model::{Dump, State, dump_fingerprint};

/// Commits of one run.
#[derive(Clone, Debug)]
pub struct Progress {
    states: Vec<State>,
    acknowledged: usize,
    durable: usize,
}

/// Which commits a crash may leave as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Must be there.
    pub low: usize,
    /// May be there.
    pub high: usize,
}

impl Progress {
    /// Before the first commit, from a state that is durable.
    #[must_use]
    pub fn new(state: State) -> Self {
        Self { states: vec![state], acknowledged: 0, durable: 0 }
    }

    /// A commit that leads to `state` is under way.
    pub fn issue(&mut self, state: State) {
        debug_assert!(self.states.len() <= self.acknowledged + 1, "one commit at a time (B1)");
        self.states.push(state);
    }

    /// The commit under way was acknowledged.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.issued();
    }

    /// The commit under way was refused without a trace.
    pub fn withdraw(&mut self) {
        self.states.truncate(self.acknowledged + 1);
    }

    /// Everything acknowledged is durable.
    pub fn settle(&mut self) {
        self.durable = self.acknowledged;
    }

    /// Number of the newest commit asked for.
    #[must_use]
    pub fn issued(&self) -> usize {
        self.states.len() - 1
    }

    /// Number of the newest commit acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// The state after commit `index`.
    #[must_use]
    pub fn state(&self, index: usize) -> Option<&State> {
        self.states.get(index)
    }

    /// What a loss of power may leave now.
    #[must_use]
    pub fn after_power_loss(&self) -> Window {
        Window { low: self.durable, high: self.issued() }
    }

    /// What a kill of the process may leave now.
    #[must_use]
    pub fn after_kill(&self) -> Window {
        Window { low: self.acknowledged, high: self.issued() }
    }

    /// The newest commit of the window with this fingerprint.
    #[must_use]
    pub fn find(&self, fingerprint: u64, window: Window) -> Option<usize> {
        (window.low..=window.high).rev().find(|&index| {
            self.state(index).is_some_and(|state| state.fingerprint() == fingerprint)
        })
    }

    /// The commit of the window that `dump` shows.
    ///
    /// # Errors
    /// A description of what is there instead.
    pub fn place(&self, dump: &Dump, window: Window) -> Result<usize, String> {
        let fingerprint = dump_fingerprint(dump);
        if let Some(index) = self.find(fingerprint, window) {
            return Ok(index);
        }
        let all = Window { low: 0, high: self.issued() };
        let what = match self.find(fingerprint, all) {
            Some(index) if index < window.low => {
                format!("lost: the state is that of commit {index}")
            }
            Some(index) => format!("commit {index} shows before it was issued"),
            None => {
                let best = (window.low..=window.high).filter_map(|index| {
                    let difference = Difference::between(&self.state(index)?.dump(), dump);
                    Some((difference.0.len(), index, difference))
                });
                match best.min_by_key(|(count, ..)| *count) {
                    Some((_, index, difference)) => {
                        format!("hole: no commit has this state; nearest is {index}: {difference}")
                    }
                    None => "hole: no commit has this state".to_owned(),
                }
            }
        };
        Err(format!("{what}; allowed are {} to {}", window.low, window.high))
    }
}

/// Keys on which two dumps differ.
#[derive(Debug)]
pub struct Difference(pub Vec<String>);

impl Difference {
    /// Compares what should be there with what is.
    #[must_use]
    pub fn between(expected: &Dump, found: &Dump) -> Self {
        let mut lines = Vec::new();
        let mut names: Vec<&String> = expected.keys().chain(found.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let want: std::collections::BTreeMap<_, _> =
                expected.get(name).into_iter().flatten().map(|(k, v)| (k, v)).collect();
            let have: std::collections::BTreeMap<_, _> =
                found.get(name).into_iter().flatten().map(|(k, v)| (k, v)).collect();
            for (key, value) in &want {
                match have.get(key) {
                    None => lines.push(format!("{name}/{} is missing", key.escape_ascii())),
                    Some(other) if other != value => lines.push(format!(
                        "{name}/{} is {} instead of {}",
                        key.escape_ascii(),
                        brief(other),
                        brief(value)
                    )),
                    Some(_) => {}
                }
            }
            for key in have.keys().filter(|key| !want.contains_key(*key)) {
                lines.push(format!("{name}/{} should not be there", key.escape_ascii()));
            }
        }
        Self(lines)
    }
}

/// The beginning of a value, for messages.
#[must_use]
pub fn brief(value: &[u8]) -> String {
    let head = value.get(..24).unwrap_or(value);
    format!("\"{}\" ({} bytes)", head.escape_ascii(), value.len())
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<&str> = self.0.iter().take(4).map(String::as_str).collect();
        write!(f, "{} differences: {}", self.0.len(), shown.join("; "))
    }
}

#[cfg(test)]
mod tests;
