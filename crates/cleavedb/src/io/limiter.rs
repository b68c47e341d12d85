//! One token bucket for all background writes.

use std::time::Duration;

use crate::base::sync::{Arc, Mutex};
use crate::io::clock::Clock;

/// Holds background writers to a number of bytes per second.
///
/// The bucket may go into debt by one request, so requests of any size pass; tokens above
/// 100 ms' worth are not saved up. A limit of zero means no limit.
pub(crate) struct RateLimiter {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    bytes_per_second: u64,
    tokens: f64,
    updated: Duration,
}

/// Longest burst after idleness, in seconds of the limit.
const BURST_SECONDS: f64 = 0.1;

impl RateLimiter {
    /// A limiter; `bytes_per_second` 0 means unlimited.
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_per_second: u64) -> Self {
        let updated = clock.now();
        Self { clock, state: Mutex::new(State { bytes_per_second, tokens: 0.0, updated }) }
    }

    /// Takes `bytes` and waits until the rate allows them.
    pub(crate) fn acquire(&self, bytes: u64) {
        let wait = {
            let mut state = self.state.lock();
            if state.bytes_per_second == 0 {
                return;
            }
            let rate = state.bytes_per_second as f64;
            let now = self.clock.now();
            let earned = now.saturating_sub(state.updated).as_secs_f64() * rate;
            state.tokens = (state.tokens + earned).min(rate * BURST_SECONDS) - bytes as f64;
            state.updated = now;
            if state.tokens >= 0.0 {
                return;
            }
            Duration::from_secs_f64(-state.tokens / rate)
        };
        self.clock.sleep(wait);
    }
}

#[cfg(test)]
mod tests;
