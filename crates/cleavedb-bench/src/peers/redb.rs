//! redb, a copy-on-write B-tree in Rust. One transaction for each write or batch.
//!
//! It knows "on the device" and "in the memory of the process", but not what lies between. For
//! writes that survive the end of the process, as the other engines have them, its file is kept
//! behind a backend that leaves the syncs out.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use redb::backends::FileBackend;
use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    WriteTransaction,
};

use super::shared::{self, Aside, AsideBatch, Write};
use crate::engine::{Engine, EngineStats, Settings, WriteBatch};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

#[derive(Debug)]
struct Backend {
    file: FileBackend,
    sync: bool,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

struct Redb {
    db: Database,
    path: PathBuf,
    settings: String,
}

pub(super) fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    shared::refuse_direct("redb", settings)?;
    std::fs::create_dir_all(dir)?;
    let path = dir.join("bench.redb");
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
    let cache = usize::try_from(settings.memory_budget).unwrap_or(usize::MAX);
    let db = Builder::new()
        .set_cache_size(cache)
        .create_with_backend(Backend { file: FileBackend::new(file)?, sync: settings.sync })?;
    let transaction = db.begin_write()?;
    transaction.open_table(PAIRS)?;
    transaction.commit()?;
    let settings = format!(
        "defaults; cache_size={cache} durability=Immediate, {}, buffered I/O{}",
        if settings.sync { "synced" } else { "syncs left out" },
        settings.tuning.not_taken(&[]),
    );
    Ok(Box::new(Redb { db, path, settings }))
}

impl Redb {
    fn write(&self, work: impl FnOnce(&mut Table<'_>) -> Result<()>) -> Result<()> {
        let transaction: WriteTransaction = self.db.begin_write()?;
        work(&mut transaction.open_table(PAIRS)?)?;
        Ok(transaction.commit()?)
    }

    /// Commits a batch.
    fn commit(&self, aside: &Aside) -> Result<()> {
        self.write(|table| {
            for write in aside.writes() {
                match write {
                    Write::Put(key, value) => drop(table.insert(key, value)?),
                    Write::Delete(key) => drop(table.remove(key)?),
                    Write::Add(key, operand) => add(table, key, operand)?,
                }
            }
            Ok(())
        })
    }
}

type Table<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

fn add(table: &mut Table<'_>, key: &[u8], operand: u64) -> Result<()> {
    let sum = shared::sum(table.get(key)?.as_ref().map(|value| value.value()), operand)?;
    table.insert(key, sum.as_slice())?;
    Ok(())
}

impl Engine for Redb {
    fn name(&self) -> String {
        "redb 4.5".to_owned()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        self.write(|table| add(table, key, operand))
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.begin_read()?.open_table(PAIRS)?.get(key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let table = self.db.begin_read()?.open_table(PAIRS)?;
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = table.get(*key)? {
                found(index, value.value());
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let table = self.db.begin_read()?.open_table(PAIRS)?;
        let mut range = if reverse { table.range(..=from)? } else { table.range(from..)? };
        let mut pairs = 0;
        while pairs < limit {
            let pair = if reverse { range.next_back() } else { range.next() };
            let Some(pair) = pair else { break };
            let (key, value) = pair?;
            visit(key.value(), value.value());
            pairs += 1;
        }
        Ok(pairs)
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(AsideBatch::new(|aside| self.commit(aside)))
    }

    fn flush(&self) -> Result<()> {
        Ok(std::fs::File::open(&self.path)?.sync_all()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        self.path.parent().map(shared::stats_of).unwrap_or_default()
    }
}
