//! One thread's loop: turns steps into calls, times them, checks what comes back.

use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::data::{Dataset, Key};
use crate::engine::{Engine, WriteBatch, overwrite};
use crate::phase::Phase;
use crate::runner::{Outcome, Plan, Progress, pair_bytes};
use crate::workload::{Generator, Step};

/// Bytes of an append to the one long value: 50,000 of them are less than what a patch may make of
/// a short value.
const APPENDED_BYTES: usize = 20;

/// Steps between two looks at the shared state.
const STEPS_BETWEEN_LOOKS: u64 = 64;

/// One thread of one phase.
pub(super) struct Driver<'a> {
    engine: &'a dyn Engine,
    data: &'a Dataset,
    batch_writes: usize,
    multi_get_keys: usize,
    counts_pairs: bool,
    /// Bytes of a part of a value.
    part_bytes: usize,
    /// Whether counters have keys of several lengths.
    short_keys: bool,
    /// Whether reads and writes are told apart, and which this is.
    mixes: bool,
    reading: bool,
    batch: Box<dyn WriteBatch + 'a>,
    together: Vec<Key>,
    value: Vec<u8>,
    outcome: Outcome,
    before: Option<Instant>,
    /// When the phase began.
    start: Instant,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        engine: &'a dyn Engine,
        data: &'a Dataset,
        plan: &Plan,
        phase: Phase,
    ) -> Self {
        Self {
            engine,
            data,
            batch_writes: phase.batch().unwrap_or(plan.batch).max(1),
            multi_get_keys: plan.multi_get_keys.max(1),
            counts_pairs: phase.unit() == "pairs",
            part_bytes: plan.mix.part_bytes.max(1),
            short_keys: phase == Phase::Up2x,
            mixes: phase.mixes(),
            reading: false,
            batch: engine.batch(),
            together: Vec::new(),
            value: Vec::new(),
            outcome: Outcome::default(),
            before: None,
            start: Instant::now(),
        }
    }

    /// Takes every step until the generator or the time is up.
    pub(super) fn run(
        mut self,
        mut steps: Generator<'_>,
        progress: &Progress<'_>,
    ) -> Result<Outcome> {
        self.start = progress.start;
        self.before = Some(Instant::now().max(progress.start));
        let mut since_look = 0;
        while let Some(step) = steps.next() {
            self.step(step)?;
            since_look += 1;
            // A scan is long: look at the clock after each.
            if since_look >= STEPS_BETWEEN_LOOKS || matches!(step, Step::Scan { .. }) {
                if progress.advance(since_look) {
                    // The look at sizes is no part of the next call.
                    self.before = Some(Instant::now());
                }
                since_look = 0;
                let late = progress.deadline.zip(self.before).is_some_and(|(end, now)| now >= end);
                if late || progress.stop.load(Ordering::Relaxed) {
                    self.outcome.cut_short = steps.remaining() > 0;
                    break;
                }
            }
        }
        self.commit()?;
        self.fetch()?;
        self.outcome.ended = Some(Instant::now());
        progress.advance(since_look);
        Ok(self.outcome)
    }

    fn step(&mut self, step: Step) -> Result<()> {
        self.reading = matches!(step, Step::Get(_));
        match step {
            Step::Put { item, version } => self.put(item, version),
            Step::Get(item) => {
                let key = self.data.key(item);
                self.get(&key)
            }
            Step::GetMissing(item) => {
                let key = self.data.missing_key(item);
                if self.engine.get(&key, &mut |_| ())? {
                    bail!("a key that was never written was found: {}", key.escape_ascii());
                }
                self.done(1, key.len() as u64);
                Ok(())
            }
            Step::GetTogether(item) => {
                self.together.push(self.data.key(item));
                if self.together.len() >= self.multi_get_keys { self.fetch() } else { Ok(()) }
            }
            Step::Scan { item, pairs, reverse } => self.scan(item, pairs, reverse),
            Step::Delete(item) => self.delete(item),
            Step::DeleteRange => {
                let (from, to) = self.data.bounds();
                self.engine.delete_range(&from, &to)?;
                self.wrote((from.len() + to.len()) as u64)
            }
            Step::DropKeyspace => {
                self.engine.drop_keyspace()?;
                self.wrote(0)
            }
            Step::Compact => {
                self.engine.compact()?;
                self.wrote(0)
            }
            Step::Add(item) if self.short_keys => self.add(&self.data.short_counter_key(item)),
            Step::Add(item) => self.add(&self.data.counter_key(item)),
            Step::AddByPut(item) => self.add_by_put(item),
            Step::GetCounter(item) if self.short_keys => {
                self.get_counter(&self.data.short_counter_key(item))
            }
            Step::GetCounter(item) => self.get_counter(&self.data.counter_key(item)),
            Step::Append(number) => self.append(number),
            Step::GetAppended => self.get_appended(),
            Step::ChangePart { item, version, part, merged } => {
                self.change_part(item, version, part, merged)
            }
            Step::ReadModifyWrite { item, version } => {
                let key = self.data.key(item);
                let data = self.data;
                let mut right = true;
                let found = self.engine.get(&key, &mut |value| {
                    right = data.is_value_of(&key, value);
                })?;
                check(right, &key)?;
                data.value(item, version, &mut self.value);
                self.engine.put(&key, &self.value)?;
                self.outcome.found += u64::from(found);
                self.wrote(pair_bytes(&key, &self.value))
            }
        }
    }

    fn put(&mut self, item: u64, version: u64) -> Result<()> {
        let key = self.data.key(item);
        self.data.value(item, version, &mut self.value);
        let bytes = pair_bytes(&key, &self.value);
        if self.batch_writes == 1 {
            self.engine.put(&key, &self.value)?;
            return self.wrote(bytes);
        }
        self.batch.put(&key, &self.value);
        self.batched(bytes)
    }

    fn delete(&mut self, item: u64) -> Result<()> {
        let key = self.data.key(item);
        if self.batch_writes == 1 {
            self.engine.delete(&key)?;
            return self.wrote(key.len() as u64);
        }
        self.batch.delete(&key);
        self.batched(key.len() as u64)
    }

    fn add(&mut self, key: &[u8]) -> Result<()> {
        let bytes = (key.len() + size_of::<u64>()) as u64;
        if self.batch_writes == 1 {
            self.engine.merge_add(key, 1)?;
            return self.wrote(bytes);
        }
        self.batch.merge_add(key, 1);
        self.batched(bytes)
    }

    /// Two calls counted as one operation. Nothing is held between them: threads that meet on one
    /// counter lose additions, as a client without locks of its own would.
    fn add_by_put(&mut self, item: u64) -> Result<()> {
        let key = self.data.counter_key(item);
        let (mut right, mut sum) = (true, 1);
        let found = self.engine.get(&key, &mut |value| match value.try_into() {
            Ok(old) => sum = u64::from_le_bytes(old).wrapping_add(1),
            Err(_) => right = false,
        })?;
        check(right, &key)?;
        self.engine.put(&key, &sum.to_le_bytes())?;
        self.outcome.found += u64::from(found);
        self.wrote((key.len() + size_of::<u64>()) as u64)
    }

    /// Changes one part of a value to what it would be in a value of this version; the part that
    /// holds the item's number keeps it, so that every mixture of parts passes the check.
    fn change_part(&mut self, item: u64, version: u64, part: u64, merged: bool) -> Result<()> {
        let (key, data) = (self.data.key(item), self.data);
        data.value(item, version, &mut self.value);
        let parts = (self.value.len() / self.part_bytes).max(1) as u64;
        let start = (part % parts) as usize * self.part_bytes;
        let end = (start + self.part_bytes).min(self.value.len());
        let new = self.value.get(start..end).unwrap_or_default();
        if merged {
            self.engine.merge_part(&key, start, new)?;
            return self.wrote((key.len() + end - start) as u64);
        }
        let (mut right, mut whole) = (true, Vec::new());
        let found = self.engine.get(&key, &mut |value| {
            right = data.is_value_of(&key, value);
            whole.extend_from_slice(value);
        })?;
        check(right, &key)?;
        self.outcome.found += u64::from(found);
        // What was never stored begins as a whole value.
        let stored = if found { &mut whole } else { &mut self.value.clone() };
        overwrite(stored, start, new);
        self.engine.put(&key, stored)?;
        let bytes = pair_bytes(&key, stored);
        self.wrote(bytes)
    }

    fn get(&mut self, key: &[u8]) -> Result<()> {
        let data = self.data;
        let (mut right, mut bytes) = (true, key.len() as u64);
        let found = self.engine.get(key, &mut |value| {
            right = data.is_value_of(key, value);
            bytes = pair_bytes(key, value);
        })?;
        check(right, key)?;
        self.outcome.found += u64::from(found);
        self.done(1, bytes);
        Ok(())
    }

    fn get_counter(&mut self, key: &[u8]) -> Result<()> {
        let (mut right, mut bytes) = (true, key.len() as u64);
        let found = self.engine.get(key, &mut |value| {
            right = value.len() == size_of::<u64>();
            bytes = (key.len() + value.len()) as u64;
        })?;
        check(right, key)?;
        self.outcome.found += u64::from(found);
        self.done(1, bytes);
        Ok(())
    }

    /// Appends to the one long value; never two threads at a time.
    fn append(&mut self, number: u64) -> Result<()> {
        let key = self.data.counter_key(0);
        let place = number as usize * APPENDED_BYTES;
        self.engine.merge_part(&key, place, &appended(number))?;
        self.wrote((key.len() + APPENDED_BYTES) as u64)
    }

    fn get_appended(&mut self) -> Result<()> {
        let key = self.data.counter_key(0);
        let (mut right, mut bytes) = (true, key.len() as u64);
        let found = self.engine.get(&key, &mut |value| {
            let parts = value.chunks(APPENDED_BYTES).zip(0..);
            right = parts.into_iter().all(|(part, number)| part == appended(number));
            bytes = pair_bytes(&key, value);
        })?;
        check(right && found, &key)?;
        self.outcome.found += 1;
        self.done(1, bytes);
        Ok(())
    }

    fn scan(&mut self, item: u64, limit: usize, reverse: bool) -> Result<()> {
        let from = self.data.key(item);
        let data = self.data;
        let (mut right, mut bytes) = (true, 0);
        // Empty before the first pair; keys of counters have several lengths.
        let mut last = Vec::with_capacity(from.len());
        let mut wrong = None;
        let pairs = self.engine.scan(&from, reverse, limit, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            let above = key > last.as_slice();
            let in_order = last.is_empty() || (above != reverse && key != last.as_slice());
            let matches = !Dataset::is_item_key(key) || data.is_value_of(key, value);
            if !(in_order && matches) && right {
                right = false;
                wrong = Some(key.to_vec());
            }
            last.clear();
            last.extend_from_slice(key);
        })?;
        check(right, wrong.as_deref().unwrap_or(&from))?;
        self.outcome.found += u64::from(pairs > 0);
        // A seek counts as one operation, a run of a scan as its pairs; the phase's unit says so.
        self.done(if self.counts_pairs { pairs as u64 } else { 1 }, bytes);
        Ok(())
    }

    fn fetch(&mut self) -> Result<()> {
        if self.together.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> = self.together.iter().map(|key| &**key).collect();
        let data = self.data;
        let (mut wrong, mut found, mut bytes) = (None, 0, 0);
        self.engine.multi_get(&keys, &mut |index, value| {
            let key = keys.get(index).copied().unwrap_or_default();
            if !data.is_value_of(key, value) {
                wrong = Some(key.to_vec());
            }
            found += 1;
            bytes += pair_bytes(key, value);
        })?;
        let count = keys.len() as u64;
        if let Some(key) = wrong {
            check(false, &key)?;
        }
        self.together.clear();
        self.outcome.found += found;
        self.done(count, bytes);
        Ok(())
    }

    /// Counts a write that was a call of its own.
    fn wrote(&mut self, bytes: u64) -> Result<()> {
        self.outcome.written += bytes;
        self.done(1, bytes);
        Ok(())
    }

    /// Counts a write that went into the batch; commits a full batch.
    fn batched(&mut self, bytes: u64) -> Result<()> {
        self.outcome.bytes += bytes;
        self.outcome.written += bytes;
        if self.batch.len() >= self.batch_writes { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        let writes = self.batch.len() as u64;
        if writes > 0 {
            self.batch.commit()?;
            self.done(writes, 0);
        }
        Ok(())
    }

    /// Ends one call: the time since the previous end is its latency.
    fn done(&mut self, operations: u64, bytes: u64) {
        let now = Instant::now();
        if let Some(before) = self.before.replace(now) {
            let latency = now.duration_since(before);
            self.outcome.latencies.record(latency);
            // A run of a whole scan is long without anybody having waited.
            if !self.counts_pairs {
                self.outcome.long.record(now.duration_since(self.start).as_secs_f64(), latency);
            }
            if self.mixes {
                let of =
                    if self.reading { &mut self.outcome.reads } else { &mut self.outcome.writes };
                of.record(latency);
            }
        }
        self.outcome.operations += operations;
        self.outcome.bytes += bytes;
    }
}

fn check(right: bool, key: &[u8]) -> Result<()> {
    if right {
        return Ok(());
    }
    bail!("wrong answer at key {}: not a value of this key, or out of order", key.escape_ascii())
}

/// What the append of this number writes.
fn appended(number: u64) -> [u8; APPENDED_BYTES] {
    let mut part = [b'a'; APPENDED_BYTES];
    part.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
    part
}
