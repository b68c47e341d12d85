//! A map in memory behind one lock. Nothing is stored; it is the naive twin that tests of the
//! runner use and the measure of what a workload costs by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::Result;

use crate::engine::{Engine, EngineStats, Settings, WriteBatch};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Memory {
    map: RwLock<Map>,
}

/// An empty map; `dir` stays untouched.
pub(super) fn open(_dir: &Path, _settings: &Settings) -> Result<Box<dyn Engine>> {
    Ok(Box::new(Memory::default()))
}

impl Memory {
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(map: &mut Map, key: &[u8], operand: u64) {
    let old = map.get(key).and_then(|value| value.as_slice().try_into().ok());
    let sum = old.map_or(0, u64::from_le_bytes).wrapping_add(operand);
    map.insert(key.to_vec(), sum.to_le_bytes().to_vec());
}

impl Engine for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn settings(&self) -> String {
        "a map behind one lock; nothing is stored".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write().remove(key);
        Ok(())
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        add(&mut self.write(), key, operand);
        Ok(())
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.read().get(key).map(|value| found(value)).is_some())
    }

    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let map = self.read();
        let pairs: Box<dyn Iterator<Item = (&Vec<u8>, &Vec<u8>)>> = if reverse {
            Box::new(map.range(..=from.to_vec()).rev())
        } else {
            Box::new(map.range(from.to_vec()..))
        };
        Ok(pairs.take(limit).map(|(key, value)| visit(key, value)).count())
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(MemoryBatch { engine: self, writes: Vec::new() })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        let bytes = self.read().iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        EngineStats { live_bytes: bytes, memory_bytes: bytes, ..EngineStats::default() }
    }
}

enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Add(Vec<u8>, u64),
}

struct MemoryBatch<'a> {
    engine: &'a Memory,
    writes: Vec<Write>,
}

impl WriteBatch for MemoryBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes.push(Write::Put(key.to_vec(), value.to_vec()));
    }

    fn delete(&mut self, key: &[u8]) {
        self.writes.push(Write::Delete(key.to_vec()));
    }

    fn merge_add(&mut self, key: &[u8], operand: u64) {
        self.writes.push(Write::Add(key.to_vec(), operand));
    }

    fn len(&self) -> usize {
        self.writes.len()
    }

    fn commit(&mut self) -> Result<()> {
        let mut map = self.engine.write();
        for write in self.writes.drain(..) {
            match write {
                Write::Put(key, value) => drop(map.insert(key, value)),
                Write::Delete(key) => drop(map.remove(&key)),
                Write::Add(key, operand) => add(&mut map, &key, operand),
            }
        }
        Ok(())
    }
}
