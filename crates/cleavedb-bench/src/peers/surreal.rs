//! SurrealKV, an LSM-tree in Rust: plain, or with values of 1 KiB and more in a value log. One
//! transaction for each write or batch; its commits are asynchronous and are waited for.

use std::path::{Path, PathBuf};

use anyhow::Result;
use surrealkv::{
    Durability, Error, LSMIterator, Mode, Options, ReadOptions, Transaction, Tree, TreeBuilder,
};
use tokio::runtime::{Builder, Runtime};

use super::shared::{self, Aside, AsideBatch, Stripes};
use crate::engine::{Engine, EngineStats, Settings, WriteBatch};

struct Surreal {
    tree: Tree,
    runtime: Runtime,
    adding: Stripes,
    durability: Durability,
    dir: PathBuf,
    settings: String,
}

pub(super) fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_with(dir, settings, false)
}

pub(super) fn open_separated(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_with(dir, settings, true)
}

fn open_with(dir: &Path, settings: &Settings, separated: bool) -> Result<Box<dyn Engine>> {
    shared::refuse_direct("surrealkv", settings)?;
    let mut builder = Builder::new_multi_thread();
    if settings.background_threads > 0 {
        builder.worker_threads(settings.background_threads);
    }
    let runtime = builder.enable_all().build()?;
    let memtable = (settings.memory_budget / 4).clamp(1 << 20, 64 << 20);
    // Two memtables wait at most beside the active one.
    let cache = settings.memory_budget.saturating_sub(3 * memtable).max(32 << 20);
    let options = Options::new()
        .with_path(dir.to_owned())
        .with_block_size(4096)
        .with_max_memtable_size(usize::try_from(memtable).unwrap_or(usize::MAX))
        .with_block_cache_capacity(cache)
        .with_enable_vlog(separated)
        .without_compression();
    let tree = {
        let _context = runtime.enter();
        TreeBuilder::with_options(options).build()?
    };
    let durability = if settings.sync { Durability::Immediate } else { Durability::Eventual };
    let settings = format!(
        "defaults; block_size=4096 max_memtable_size={memtable} block_cache_capacity={cache} \
         vlog={} compression=none durability={durability:?} buffered I/O{}",
        if separated { "from 1 KiB on" } else { "no" },
        settings.tuning.not_taken(&[]),
    );
    let adding = Stripes::new();
    Ok(Box::new(Surreal { tree, runtime, adding, durability, dir: dir.to_owned(), settings }))
}

impl Drop for Surreal {
    fn drop(&mut self) {
        // What a close cannot write, the next opening replays from the log.
        let _ = self.runtime.block_on(self.tree.close());
    }
}

impl Surreal {
    /// One transaction; again where another that wrote the same keys came first, as any client of
    /// it has to. One of those that meet always gets through.
    fn write(&self, mut work: impl FnMut(&mut Transaction) -> Result<()>) -> Result<()> {
        loop {
            let mut transaction = self.tree.begin_with_mode(Mode::WriteOnly)?;
            transaction.set_durability(self.durability);
            work(&mut transaction)?;
            match self.runtime.block_on(transaction.commit()) {
                Err(Error::TransactionWriteConflict | Error::TransactionRetry) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
        Ok(transaction.get(key)?.map(|value| value.to_vec()))
    }

    /// Commits a batch.
    fn commit(&self, aside: &Aside) -> Result<()> {
        let _locks = self.adding.lock(aside.added());
        self.write(|transaction| {
            shared::resolved(
                aside,
                |key| self.value(key),
                |key, value| {
                    match value {
                        Some(value) => transaction.set(key, value)?,
                        None => transaction.delete(key)?,
                    }
                    Ok(())
                },
            )
        })
    }
}

impl Engine for Surreal {
    fn name(&self) -> String {
        "surrealkv 1.2".to_owned()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|transaction| Ok(transaction.set(key, value)?))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|transaction| Ok(transaction.delete(key)?))
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        let _locks = self.adding.lock([key]);
        let sum = shared::sum(self.value(key)?.as_deref(), operand)?;
        self.put(key, &sum)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.tree.begin_with_mode(Mode::ReadOnly)?.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = transaction.get(*key)? {
                found(index, &value);
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
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly)?;
        let mut options = ReadOptions::new();
        if reverse {
            // The bound is exclusive: the next key there could be.
            let mut bound = from.to_vec();
            bound.push(0);
            options.set_iterate_upper_bound(Some(bound));
        } else {
            options.set_iterate_lower_bound(Some(from.to_vec()));
        }
        let mut cursor = transaction.range_with_options(&options)?;
        let mut more = if reverse { cursor.seek_last()? } else { cursor.seek_first()? };
        let mut pairs = 0;
        while more && pairs < limit {
            visit(cursor.key().user_key(), &cursor.value_ref()?);
            pairs += 1;
            more = if reverse { cursor.prev()? } else { cursor.next()? };
        }
        Ok(pairs)
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(AsideBatch::new(|aside| self.commit(aside)))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush_wal(true)?)
    }

    fn settle(&self) -> Result<()> {
        shared::wait_until_quiet()
    }

    fn stats(&self) -> EngineStats {
        shared::stats_of(&self.dir)
    }
}
