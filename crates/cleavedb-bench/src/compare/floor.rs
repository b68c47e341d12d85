//! Is a peer as fast here as it is known to be? A peer that is slow for a reason of this machine
//! or of its settings makes every ratio worthless, in whose favour they may be.
//!
//! - F1: what is compared is processor time for an operation: unlike a rate it hardly depends on
//!   the device and on other processes.
//! - F2: known figures belong to one shape of a run; another shape is not judged, and says so.
//! - F3: of a peer with several forms the cheapest one counts, as it does in the verdict.

use serde_json::Value;

use crate::phase::{FILL_BATCH, Phase};

/// Share of its known speed that a peer must reach.
const REACHED_MIN: f64 = 0.9;

/// The shape in which the figures were taken: threads, bytes of a value, items, memory.
const THREADS: u64 = 2;
const VALUE_BYTES: f64 = 1_024.0;
const ITEMS: f64 = 5e6;
const MEMORY_BYTES: f64 = (2u64 << 30) as f64;

/// How far from it a run may lie: values by a tenth, items and memory by a quarter.
const VALUE_TOLERANCE: f64 = 0.1;
const SIZE_TOLERANCE: f64 = 0.25;

/// Operations below which a phase mostly warms up.
const OPERATIONS_MIN: u64 = 100_000;

/// Processor microseconds for an operation: peer, phase, writes in a batch, figure.
const KNOWN: &[(&str, Phase, usize, f64)] = &[
    ("rocksdb", Phase::FillRandom, 1, 12.0),
    ("rocksdb", Phase::ReadRandom, 1, 40.0),
    ("rocksdb", Phase::Overwrite, 1, 19.0),
    ("rocksdb-blob", Phase::FillRandom, 1, 14.0),
    ("rocksdb-blob", Phase::ReadRandom, 1, 30.0),
    ("rocksdb-blob", Phase::Overwrite, 1, 15.0),
    ("fjall", Phase::FillRandom, 1, 12.0),
    ("fjall", Phase::ReadRandom, 1, 38.0),
    ("fjall", Phase::Overwrite, 1, 13.0),
    ("fjall-blob", Phase::FillRandom, 1, 9.0),
    ("fjall-blob", Phase::ReadRandom, 1, 43.0),
    ("fjall-blob", Phase::Overwrite, 1, 9.0),
    ("leveldb", Phase::FillRandom, 1, 20.0),
    ("leveldb", Phase::ReadRandom, 1, 94.0),
    ("leveldb", Phase::Overwrite, 1, 17.0),
    ("lmdb", Phase::FillRandom, FILL_BATCH, 3.0),
    ("lmdb", Phase::ReadRandom, 1, 37.0),
    ("lmdb", Phase::Overwrite, 1, 56.0),
    ("redb", Phase::FillRandom, FILL_BATCH, 5.0),
    ("redb", Phase::ReadRandom, 1, 37.0),
];

/// What the check says of one peer in one phase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Floor {
    /// It is as fast as it is known to be.
    Reached {
        /// Microseconds known.
        known: f64,
        /// Microseconds measured.
        measured: f64,
    },
    /// It is not: nothing measured beside it counts.
    Missed {
        /// Microseconds known.
        known: f64,
        /// Microseconds measured.
        measured: f64,
    },
    /// The figures belong to another shape than this run's, for that reason.
    OtherShape(String),
    /// There is no figure of this peer and phase.
    Unknown,
}

impl std::fmt::Display for Floor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reached { known, measured } => write!(f, "{measured:.1} us, known {known}"),
            Self::Missed { known, measured } => write!(
                f,
                "MISSED: {measured:.1} us, known {known}, at most {:.1} allowed",
                known / REACHED_MIN
            ),
            Self::OtherShape(_) => f.write_str("other shape"),
            Self::Unknown => f.write_str("-"),
        }
    }
}

/// What decides whether a run has the shape of the known figures.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Threads that work at the same time.
    pub(crate) threads: u64,
    /// Items loaded.
    pub(crate) num: u64,
    /// Bytes of a value.
    pub(crate) value_bytes: u64,
    /// Values of several sizes.
    pub(crate) mixed_values: bool,
    /// Writes committed together.
    pub(crate) batch: usize,
    /// Whether every write is synced.
    pub(crate) sync: bool,
    /// Whether the phase, or one before it, was cut short after a time.
    pub(crate) cut_short: bool,
    /// Operations of phases that do not fill.
    pub(crate) operations: u64,
    /// Memory for everything.
    pub(crate) memory_bytes: u64,
}

impl Shape {
    /// The shape of a run up to the phase at `place`, from its line of JSON.
    pub(crate) fn of(run: &Value, place: usize) -> Self {
        let figure = |pointer| run.pointer(pointer).and_then(Value::as_u64);
        let flag = |pointer| run.pointer(pointer).and_then(Value::as_bool) == Some(true);
        let num = figure("/plan/num").unwrap_or(0);
        Self {
            threads: figure("/plan/threads").unwrap_or(0),
            num,
            value_bytes: figure("/plan/value_bytes").unwrap_or(0),
            mixed_values: flag("/plan/mixed_values"),
            batch: figure("/plan/batch").unwrap_or(1) as usize,
            sync: flag("/plan/settings/sync"),
            cut_short: (0..=place).any(|place| {
                // Lines of older runs do not say; there any limit may have been reached.
                let told = run.pointer(&format!("/phases/{place}/cut_short"));
                let limit = run.pointer("/plan/seconds").is_some_and(|limit| !limit.is_null());
                told.and_then(Value::as_bool).unwrap_or(limit)
            }),
            operations: figure("/plan/operations").unwrap_or(num),
            memory_bytes: figure("/round/memory_bytes").unwrap_or(0),
        }
    }

    /// Why the known figures say nothing about it; `None` where they do.
    pub(crate) fn differs(&self) -> Option<String> {
        let near = |figure: u64, known: f64, by: f64| {
            (known / (1.0 + by)..=known * (1.0 + by)).contains(&(figure as f64))
        };
        if self.threads != THREADS {
            return Some(format!("{} threads instead of {THREADS}", self.threads));
        }
        if self.mixed_values || !near(self.value_bytes, VALUE_BYTES, VALUE_TOLERANCE) {
            return Some(format!("not values of {VALUE_BYTES} bytes"));
        }
        if !near(self.num, ITEMS, SIZE_TOLERANCE) {
            return Some(format!("{} items instead of {ITEMS}", self.num));
        }
        if !near(self.memory_bytes, MEMORY_BYTES, SIZE_TOLERANCE) {
            return Some(format!(
                "{} bytes of memory instead of {MEMORY_BYTES}",
                self.memory_bytes
            ));
        }
        if self.sync {
            return Some("every write is synced".to_owned());
        }
        if self.cut_short {
            return Some("cut short after a time".to_owned());
        }
        (self.operations < OPERATIONS_MIN)
            .then(|| format!("fewer than {OPERATIONS_MIN} operations a phase"))
    }
}

/// Judges a peer that needed `measured_us` for an operation in each of its forms.
pub(crate) fn judge(shape: &Shape, peer: &str, phase: Phase, measured_us: &[f64]) -> Floor {
    if let Some(why) = shape.differs() {
        return Floor::OtherShape(why);
    }
    let batch = phase.batch().unwrap_or(shape.batch);
    let phase = if phase == Phase::FillBatch { Phase::FillRandom } else { phase };
    let known = KNOWN.iter().find(|&&(name, of, writes, _)| {
        name == peer && of == phase && (!phase.writes() || writes == batch)
    });
    let cheapest = measured_us.iter().copied().filter(|us| us.is_finite()).reduce(f64::min);
    match (known, cheapest) {
        (Some(&(.., known)), Some(measured)) if measured <= known / REACHED_MIN => {
            Floor::Reached { known, measured }
        }
        (Some(&(.., known)), Some(measured)) => Floor::Missed { known, measured },
        _ => Floor::Unknown,
    }
}

#[cfg(test)]
mod tests;
