//! Is it a key-value store at all? Random operations against a map in memory, with reopening in
//! between; no figure of an engine counts before it has passed.
//!
//! - S1: a pure function of its seed and the engine, so a failure repeats.
//! - S2: every kind of call of [`Engine`] is made, and everything stored is compared in both
//!   directions before and after each reopening.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::engine::{Engine, Opener, Settings, WriteBatch};

/// Lengths of values, the odd ones between the usual ones included.
const VALUE_LENGTHS: [usize; 9] = [0, 1, 7, 8, 100, 1_023, 1_024, 5_000, 40_000];

/// Different keys of items, and of counters.
const KEYS: u32 = 300;

/// Longest batch.
const BATCH_WRITES_MAX: usize = 40;

/// Threads and additions of each that meet on one counter.
const ADDERS: usize = 3;
const ADDITIONS: u64 = 200;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// How much to test.
#[derive(Clone, Copy, Debug)]
pub struct SelfTest {
    /// Seed of everything.
    pub seed: u64,
    /// Times the engine is opened.
    pub rounds: usize,
    /// Calls between two openings.
    pub calls: usize,
}

impl Default for SelfTest {
    fn default() -> Self {
        Self { seed: 1, rounds: 4, calls: 1_500 }
    }
}

/// What was tested.
#[derive(Clone, Debug, Serialize)]
pub struct Passed {
    /// Name and version of the engine.
    pub engine: String,
    /// Random calls whose answers were right.
    pub calls: usize,
    /// Openings of a store that held something.
    pub reopened: usize,
    /// Pairs there were at the end.
    pub pairs: usize,
}

/// Tests the engine that `open` opens in `dir`, which must be empty or absent.
///
/// # Errors
/// The first wrong answer, or the engine's own error.
pub fn check(open: Opener, dir: &Path, settings: &Settings, test: &SelfTest) -> Result<Passed> {
    let mut tester = Tester {
        random: Xoshiro256PlusPlus::seed_from_u64(test.seed),
        model: Model::new(),
        stored: 0,
    };
    let mut passed = Passed { engine: String::new(), calls: 0, reopened: 0, pairs: 0 };
    for round in 0..=test.rounds {
        let engine = open(dir, settings).with_context(|| format!("opening, round {round}"))?;
        let engine = engine.as_ref();
        tester.compare(engine).with_context(|| format!("after opening, round {round}"))?;
        passed.reopened += usize::from(round > 0);
        if round == test.rounds {
            passed.engine = engine.name();
            break;
        }
        for call in 0..test.calls {
            tester
                .call(engine)
                .with_context(|| format!("call {call} of round {round}, seed {}", test.seed))?;
            passed.calls += 1;
        }
        tester.add_together(engine).with_context(|| format!("round {round}"))?;
        engine.settle().with_context(|| format!("settling, round {round}"))?;
        tester.compare(engine).with_context(|| format!("before closing, round {round}"))?;
    }
    passed.pairs = tester.model.len();
    Ok(passed)
}

struct Tester {
    random: Xoshiro256PlusPlus,
    model: Model,
    stored: u64,
}

impl Tester {
    /// A key of an item; some are the beginning of others.
    fn key(&mut self) -> Vec<u8> {
        let number = self.random.random_range(0..KEYS);
        let mut key = format!("k{number:03}").into_bytes();
        key.resize(key.len() + (number % 7) as usize * 9, (number % 251) as u8);
        key
    }

    fn counter(&mut self) -> Vec<u8> {
        format!("m{:03}", self.random.random_range(0..KEYS / 10)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let place = self.random.random_range(0..VALUE_LENGTHS.len());
        let mut value = vec![0; VALUE_LENGTHS.get(place).copied().unwrap_or(0)];
        self.stored += 1;
        for (index, byte) in value.iter_mut().enumerate() {
            *byte = (self.stored.wrapping_mul(31) >> (index % 8) ^ index as u64) as u8;
        }
        value
    }

    fn add(&mut self, key: &[u8], operand: u64) {
        let old = self.model.get(key).and_then(|value| value.as_slice().try_into().ok());
        let sum = old.map_or(0, u64::from_le_bytes).wrapping_add(operand);
        self.model.insert(key.to_vec(), sum.to_le_bytes().to_vec());
    }

    /// One random call, compared with the model.
    fn call(&mut self, engine: &dyn Engine) -> Result<()> {
        match self.random.random_range(0..100) {
            0..30 => {
                let (key, value) = (self.key(), self.value());
                engine.put(&key, &value).context("put")?;
                self.model.insert(key, value);
            }
            30..40 => {
                let key = self.key();
                engine.delete(&key).context("delete")?;
                self.model.remove(&key);
            }
            40..50 => {
                // Small enough that no sum overflows: engines may differ in what happens then.
                let (key, operand) = (self.counter(), self.random.random_range(0..1 << 40));
                engine.merge_add(&key, operand).context("merge_add")?;
                self.add(&key, operand);
            }
            50..53 => {
                let key = self.counter();
                engine.delete(&key).context("delete of a counter")?;
                self.model.remove(&key);
            }
            53..70 => self.get(engine).context("get")?,
            70..75 => self.multi_get(engine).context("multi_get")?,
            75..90 => self.scan(engine).context("scan")?,
            90..99 => self.batch(engine).context("batch")?,
            _ => engine.flush().context("flush")?,
        }
        Ok(())
    }

    fn get(&mut self, engine: &dyn Engine) -> Result<()> {
        let key = if self.random.random_bool(0.2) { self.counter() } else { self.key() };
        let mut got = None;
        let found = engine.get(&key, &mut |value| got = Some(value.to_vec()))?;
        ensure!(found == got.is_some(), "it said {found} and gave {got:?}");
        ensure!(got.as_ref() == self.model.get(&key), "wrong value of {}", key.escape_ascii());
        Ok(())
    }

    fn multi_get(&mut self, engine: &dyn Engine) -> Result<()> {
        let count = self.random.random_range(0..50);
        let keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let mut got: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
        engine.multi_get(&slices, &mut |index, value| {
            if let Some(place) = got.get_mut(index) {
                *place = Some(value.to_vec());
            }
        })?;
        for (key, got) in keys.iter().zip(&got) {
            ensure!(got.as_ref() == self.model.get(key), "wrong value of {}", key.escape_ascii());
        }
        Ok(())
    }

    fn scan(&mut self, engine: &dyn Engine) -> Result<()> {
        let from = match self.random.random_range(0..4) {
            0 => b"a".to_vec(),
            1 => b"z".to_vec(),
            _ => self.key(),
        };
        let limit = self.random.random_range(1..60);
        let reverse = self.random.random();
        let wanted: Vec<_> = if reverse {
            self.model.range(..=from.clone()).rev().take(limit).collect()
        } else {
            self.model.range(from.clone()..).take(limit).collect()
        };
        same(engine, &from, reverse, limit, &wanted)
    }

    fn batch(&mut self, engine: &dyn Engine) -> Result<()> {
        let writes = self.random.random_range(0..BATCH_WRITES_MAX);
        let mut batch = engine.batch();
        for _ in 0..writes {
            match self.random.random_range(0..10) {
                0..6 => {
                    let (key, value) = (self.key(), self.value());
                    batch.put(&key, &value);
                    self.model.insert(key, value);
                }
                6..8 => {
                    let key = self.key();
                    batch.delete(&key);
                    self.model.remove(&key);
                }
                _ => {
                    let (key, operand) = (self.counter(), self.random.random_range(0..1_000));
                    batch.merge_add(&key, operand);
                    self.add(&key, operand);
                }
            }
        }
        self.commit(batch.as_mut(), writes)
    }

    fn commit(&mut self, batch: &mut dyn WriteBatch, writes: usize) -> Result<()> {
        ensure!(batch.len() == writes, "{} writes counted, not {writes}", batch.len());
        batch.commit()?;
        ensure!(batch.is_empty(), "a committed batch is not empty");
        Ok(())
    }

    /// Several threads add to one counter: no addition may be lost.
    fn add_together(&mut self, engine: &dyn Engine) -> Result<()> {
        let key = self.counter();
        std::thread::scope(|scope| {
            let adders: Vec<_> = (0..ADDERS)
                .map(|_| scope.spawn(|| (0..ADDITIONS).try_for_each(|_| engine.merge_add(&key, 1))))
                .collect();
            adders.into_iter().try_for_each(|adder| {
                adder.join().unwrap_or_else(|_| Err(anyhow!("a thread that adds panicked")))
            })
        })
        .context("additions of several threads")?;
        self.add(&key, ADDERS as u64 * ADDITIONS);
        Ok(())
    }

    /// Everything there is, upwards and downwards.
    fn compare(&self, engine: &dyn Engine) -> Result<()> {
        let upwards: Vec<_> = self.model.iter().collect();
        same(engine, b"", false, usize::MAX, &upwards)?;
        let downwards: Vec<_> = self.model.iter().rev().collect();
        same(engine, b"~", true, usize::MAX, &downwards)
    }
}

/// Whether a scan gives exactly the pairs wanted.
fn same(
    engine: &dyn Engine,
    from: &[u8],
    reverse: bool,
    limit: usize,
    wanted: &[(&Vec<u8>, &Vec<u8>)],
) -> Result<()> {
    let mut wrong = None;
    let mut place = 0;
    let pairs = engine.scan(from, reverse, limit, &mut |key, value| {
        let right = wanted.get(place).is_some_and(|(k, v)| k.as_slice() == key && *v == value);
        if !right && wrong.is_none() {
            wrong = Some((place, key.to_vec()));
        }
        place += 1;
    })?;
    let way = if reverse { "downwards" } else { "upwards" };
    if let Some((place, key)) = wrong {
        bail!("pair {place} {way} from {} is {}", from.escape_ascii(), key.escape_ascii());
    }
    ensure!(
        place == wanted.len() && pairs == place,
        "{place} pairs {way} from {}, it says {pairs}, but there are {}",
        from.escape_ascii(),
        wanted.len(),
    );
    Ok(())
}

#[cfg(test)]
mod tests;
