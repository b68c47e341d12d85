//! The engines of the default build pass; every kind of lie is found out.

use super::*;
use crate::engine::EngineStats;
use crate::engines;

fn test() -> SelfTest {
    SelfTest { rounds: 2, calls: 400, ..SelfTest::default() }
}

#[test]
fn the_engine_passes_buffered_and_direct() {
    let others =
        [("cleavedb-novkv", false), ("cleavedb-wisckey", false), ("cleavedb-wayfinder", false)];
    for (name, direct) in [("cleavedb", false), ("cleavedb", true)].into_iter().chain(others) {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { direct, memory_budget: 32 << 20, ..Settings::default() };
        let known = engines::find(name).unwrap();
        let passed = check(known.open, &dir.path().join("db"), &settings, &test()).unwrap();
        assert_eq!((passed.calls, passed.reopened), (800, 2));
        assert!(passed.pairs > 50, "{passed:?}");
    }
}

#[test]
fn an_engine_that_forgets_is_found_out() {
    let known = engines::find("memory").unwrap();
    let error = check(known.open, Path::new("unused"), &Settings::default(), &test()).unwrap_err();
    assert!(format!("{error:#}").contains("after opening, round 1"), "{error:#}");
}

/// What is wrong with an engine.
#[derive(Clone, Copy, Debug)]
enum Lie {
    None,
    LosesDeletes,
    LosesAdditions,
    SkipsFirstPair,
    StopsEarly,
    MixesUpKeys,
    CommitsHalf,
}

/// A right engine behind a wrong call.
struct Liar(Box<dyn Engine>, Lie);

impl Engine for Liar {
    fn name(&self) -> String {
        self.0.name()
    }
    fn settings(&self) -> String {
        self.0.settings()
    }
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        if matches!(self.1, Lie::LosesDeletes) { Ok(()) } else { self.0.delete(key) }
    }
    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        if !matches!(self.1, Lie::LosesAdditions) {
            return self.0.merge_add(key, operand);
        }
        // Get and put with nothing that keeps others out in between.
        let mut old = 0;
        self.0.get(key, &mut |value| old = u64::from_le_bytes(value.try_into().unwrap()))?;
        std::thread::yield_now();
        self.0.put(key, &old.wrapping_add(operand).to_le_bytes())
    }
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get(key, found)
    }
    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let last = keys.len().wrapping_sub(1);
        let mixed = matches!(self.1, Lie::MixesUpKeys);
        self.0.multi_get(keys, &mut |index, value| {
            found(if mixed { last - index } else { index }, value);
        })
    }
    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut place = 0;
        let skips = reverse && matches!(self.1, Lie::SkipsFirstPair);
        let pairs = self.0.scan(from, reverse, limit, &mut |key, value| {
            if !(skips && place == 0) {
                visit(key, value);
            }
            place += 1;
        })?;
        Ok(pairs - usize::from(pairs > 0 && matches!(self.1, Lie::StopsEarly)))
    }
    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(LyingBatch(self.0.batch(), self.1, 0))
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
    fn settle(&self) -> Result<()> {
        self.0.settle()
    }
    fn stats(&self) -> EngineStats {
        self.0.stats()
    }
}

struct LyingBatch<'a>(Box<dyn WriteBatch + 'a>, Lie, usize);

impl WriteBatch for LyingBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.2 += 1;
        if !matches!(self.1, Lie::CommitsHalf) || self.2.is_multiple_of(2) {
            self.0.put(key, value);
        }
    }
    fn delete(&mut self, key: &[u8]) {
        self.2 += 1;
        self.0.delete(key);
    }
    fn merge_add(&mut self, key: &[u8], operand: u64) {
        self.2 += 1;
        self.0.merge_add(key, operand);
    }
    fn len(&self) -> usize {
        self.2
    }
    fn commit(&mut self) -> Result<()> {
        self.2 = 0;
        self.0.commit()
    }
}

fn liar(dir: &Path, settings: &Settings, lie: Lie) -> Result<Box<dyn Engine>> {
    Ok(Box::new(Liar(engines::open("cleavedb", dir, settings)?, lie)))
}

#[test]
fn every_lie_is_found_out() {
    let openers: [(Opener, Lie); 7] = [
        (|dir, settings| liar(dir, settings, Lie::None), Lie::None),
        (|dir, settings| liar(dir, settings, Lie::LosesDeletes), Lie::LosesDeletes),
        (|dir, settings| liar(dir, settings, Lie::LosesAdditions), Lie::LosesAdditions),
        (|dir, settings| liar(dir, settings, Lie::SkipsFirstPair), Lie::SkipsFirstPair),
        (|dir, settings| liar(dir, settings, Lie::StopsEarly), Lie::StopsEarly),
        (|dir, settings| liar(dir, settings, Lie::MixesUpKeys), Lie::MixesUpKeys),
        (|dir, settings| liar(dir, settings, Lie::CommitsHalf), Lie::CommitsHalf),
    ];
    for (open, lie) in openers {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { memory_budget: 32 << 20, ..Settings::default() };
        let outcome = check(open, &dir.path().join("db"), &settings, &test());
        assert_eq!(outcome.is_ok(), matches!(lie, Lie::None), "{lie:?}: {outcome:?}");
    }
}
