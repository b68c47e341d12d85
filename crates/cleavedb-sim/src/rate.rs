//! The rate limit: bytes that background work writes in a second, under a load that would need
//! more, on a real directory with real threads and the real clock.

use std::path::Path;
use std::time::{Duration, Instant};

use cleavedb::{Db, KeyspaceOptions, Options};

use crate::random::Random;
use crate::session::{Check, Violation};

/// How far from the limit the measured rate may be.
const TOLERANCE: f64 = 0.1;

/// Load before the measurement: background work must be busy by then.
const WARM_UP: Duration = Duration::from_secs(3);

/// Writes between two looks at the clock.
const WRITES_A_LOOK: usize = 256;

const VALUE_BYTES: usize = 1024;

/// What was measured; rates in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The limit.
    pub limit: f64,
    /// What flush and compaction wrote.
    pub measured: f64,
    /// What they wrote under the same load without a limit.
    pub unlimited: f64,
    /// What the user wrote under the limit.
    pub user: f64,
}

/// Loads for `window` under `limit` bytes per second and without a limit; stores are made in
/// `directory` and removed.
///
/// # Errors
/// A rate outside the limit by more than a tenth; a load that needs less than the limit.
pub fn run(directory: &Path, seed: u64, limit: u64, window: Duration) -> Check<Figures> {
    let (measured, user) = measure(directory, seed, limit, window)?;
    let (unlimited, _) = measure(directory, seed, 0, window)?;
    let figures = Figures { limit: limit as f64, measured, unlimited, user };
    if unlimited < figures.limit * (1.0 + TOLERANCE) {
        let message = format!("the load needs only {unlimited:.0} bytes/s: no test of the limit");
        return Err(Violation(message));
    }
    if (measured / figures.limit - 1.0).abs() > TOLERANCE {
        return Err(Violation(format!("limit={limit} measured={measured:.0} bytes/s")));
    }
    Ok(figures)
}

/// Bytes per second of background work and of the user, after the warm-up.
fn measure(directory: &Path, seed: u64, limit: u64, window: Duration) -> Check<(f64, f64)> {
    let place = tempfile::Builder::new().prefix("cleavedb-rate").tempdir_in(directory);
    let place = place.map_err(|error| Violation(error.to_string()))?;
    let db = Options::new()
        .memory_budget(64 << 20)
        .io_rate_limit(limit)
        .open(place.path().join("db"))?;
    let keyspace = db.keyspace("load", KeyspaceOptions::new())?;
    let mut random = Random::new(seed);
    let noise: Vec<u8> = (0..16 * VALUE_BYTES).map(|_| random.bits() as u8).collect();
    let mut load = |until: Duration| -> Check<Duration> {
        let start = Instant::now();
        while start.elapsed() < until {
            for _ in 0..WRITES_A_LOOK {
                let at = random.index(noise.len() - VALUE_BYTES);
                let key = format!("key{:012}", random.below(1 << 30));
                keyspace.put(key, &noise[at..at + VALUE_BYTES])?;
            }
        }
        Ok(start.elapsed())
    };
    load(WARM_UP)?;
    let before = written(&db);
    let seconds = load(window)?.as_secs_f64();
    let after = written(&db);
    drop(keyspace);
    db.close()?;
    Ok(((after.0 - before.0) as f64 / seconds, (after.1 - before.1) as f64 / seconds))
}

/// Bytes written so far by background work, and by the user.
fn written(db: &Db) -> (u64, u64) {
    let stats = db.stats();
    let of = |purpose: &str| stats.bytes_written.get(purpose).copied().unwrap_or(0);
    (of("flush") + of("compaction"), stats.user_bytes_written)
}
