//! LMDB, a copy-on-write B-tree in one memory map. One transaction for each write or batch; its
//! cache is the page cache.

use std::ops::Bound::{Included, Unbounded};
use std::path::{Path, PathBuf};

use anyhow::Result;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, RwTxn, WithoutTls};

use super::foreign::open_lmdb;
use super::shared::{self, Aside, AsideBatch, Write};
use crate::engine::{Engine, EngineStats, Settings, WriteBatch};

type Pairs = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Option<Env<WithoutTls>>,
    pairs: Pairs,
    dir: PathBuf,
    settings: String,
}

pub(super) fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    shared::refuse_direct("lmdb", settings)?;
    std::fs::create_dir_all(dir)?;
    let env = open_lmdb(dir, settings.sync)?;
    let transaction = env.write_txn()?;
    let pairs = env
        .create_databases_and_commit(transaction, |opener, transaction| {
            let database = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
        })?
        .unwrap_commit();
    let settings = format!(
        "no write map, NO_READ_AHEAD{}; the page cache is its cache{}",
        if settings.sync { "" } else { ", NO_SYNC" },
        settings.tuning.not_taken(&[]),
    );
    Ok(Box::new(Lmdb { env: Some(env), pairs, dir: dir.to_owned(), settings }))
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        if let Some(env) = self.env.take() {
            env.prepare_for_closing().wait();
        }
    }
}

impl Lmdb {
    fn env(&self) -> Result<&Env<WithoutTls>> {
        self.env.as_ref().ok_or_else(|| anyhow::anyhow!("the environment is closed"))
    }

    fn write(&self, work: impl FnOnce(&mut RwTxn<'_>) -> Result<()>) -> Result<()> {
        let mut transaction = self.env()?.write_txn()?;
        work(&mut transaction)?;
        Ok(transaction.commit()?)
    }

    fn add(&self, transaction: &mut RwTxn<'_>, key: &[u8], operand: u64) -> Result<()> {
        let sum = shared::sum(self.pairs.get(transaction, key)?, operand)?;
        Ok(self.pairs.put(transaction, key, &sum)?)
    }

    /// Commits a batch.
    fn commit(&self, aside: &Aside) -> Result<()> {
        self.write(|transaction| {
            for write in aside.writes() {
                match write {
                    Write::Put(key, value) => self.pairs.put(transaction, key, value)?,
                    Write::Delete(key) => drop(self.pairs.delete(transaction, key)?),
                    Write::Add(key, operand) => self.add(transaction, key, operand)?,
                }
            }
            Ok(())
        })
    }
}

impl Engine for Lmdb {
    fn name(&self) -> String {
        "lmdb 0.9 (heed 0.23)".to_owned()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|transaction| Ok(self.pairs.put(transaction, key, value)?))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|transaction| {
            self.pairs.delete(transaction, key)?;
            Ok(())
        })
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        self.write(|transaction| self.add(transaction, key, operand))
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.env()?.read_txn()?;
        let value = self.pairs.get(&transaction, key)?;
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let transaction = self.env()?.read_txn()?;
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = self.pairs.get(&transaction, key)? {
                found(index, value);
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
        let transaction = self.env()?.read_txn()?;
        let mut pairs = 0;
        let mut take = |pair: heed::Result<(&[u8], &[u8])>| {
            let (key, value) = pair?;
            visit(key, value);
            pairs += 1;
            Ok::<_, heed::Error>(())
        };
        // An empty key is none for LMDB.
        let all = from.is_empty();
        match (reverse, all) {
            (true, _) => {
                let range = self.pairs.rev_range(&transaction, &(Unbounded, Included(from)))?;
                range.take(limit).try_for_each(&mut take)?;
            }
            (false, true) => {
                self.pairs.iter(&transaction)?.take(limit).try_for_each(&mut take)?;
            }
            (false, false) => {
                let range = self.pairs.range(&transaction, &(Included(from), Unbounded))?;
                range.take(limit).try_for_each(&mut take)?;
            }
        }
        Ok(pairs)
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(AsideBatch::new(|aside| self.commit(aside)))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.env()?.force_sync()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        shared::stats_of(&self.dir)
    }
}
