//! fjall, an LSM-tree in Rust: plain, or with values of 1 KiB and more in files of their own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};

use super::shared::{self, Aside, AsideBatch, Stripes};
use crate::engine::{Engine, EngineStats, Settings, WriteBatch};

/// Values of so many bytes are separated where nothing else is said: its own default.
const SEPARATED_BYTES_MIN: u32 = 1_024;

struct Fjall {
    db: Database,
    pairs: Keyspace,
    adding: Stripes,
    persist: Option<PersistMode>,
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
    shared::refuse_direct("fjall", settings)?;
    // Its page on memory: 64 MiB for a memtable, two of which may be there; the rest is cache.
    let tuning = &settings.tuning;
    let memtable = (settings.memory_budget / 4).clamp(1 << 20, 64 << 20);
    let memtable = tuning.memtable_bytes.unwrap_or(memtable);
    let cache = settings.memory_budget.saturating_sub(2 * memtable).max(1 << 20);
    let cache = tuning.cache_bytes.unwrap_or(cache);
    let threshold = tuning
        .separate_at
        .map_or(SEPARATED_BYTES_MIN, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    let mut builder =
        Database::builder(dir).cache_size(cache).journal_compression(CompressionType::None);
    if settings.background_threads > 0 {
        builder = builder.worker_threads(settings.background_threads);
    }
    let db = builder.open()?;
    let separation = separated.then(|| {
        let mut options = KvSeparationOptions::default()
            .compression(CompressionType::None)
            .separation_threshold(threshold);
        if let Some(bytes) = tuning.separated_file_bytes {
            options = options.file_target_size(bytes);
        }
        if let Some(share) = tuning.garbage_share {
            options = options.staleness_threshold(share as f32);
        }
        options
    });
    let mut takes = vec!["memtable_bytes", "cache_bytes"];
    if separated {
        takes.extend(["separate_at", "separated_file_bytes", "garbage_share"]);
    }
    let pairs = db.keyspace("bench", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtable)
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .with_kv_separation(separation)
    })?;
    let persist = settings.sync.then_some(PersistMode::SyncData);
    let settings = format!(
        "defaults (blocks of 4 KiB, 10 filter bits, leveled); cache_size={cache} \
         max_memtable_size={memtable} compression=none separated={} persist={} buffered I/O{}",
        if separated { format!("from {threshold} bytes on") } else { "no".to_owned() },
        if settings.sync { "SyncData after each commit" } else { "Buffer" },
        tuning.not_taken(&takes),
    );
    let adding = Stripes::new();
    Ok(Box::new(Fjall { db, pairs, adding, persist, dir: dir.to_owned(), settings }))
}

impl Fjall {
    fn persist(&self) -> Result<()> {
        if let Some(mode) = self.persist {
            self.db.persist(mode)?;
        }
        Ok(())
    }

    /// Commits a batch.
    fn commit(&self, aside: &Aside) -> Result<()> {
        let _locks = self.adding.lock(aside.added());
        let mut batch = self.db.batch().durability(self.persist);
        let get = |key: &[u8]| Ok(self.pairs.get(key)?.map(|value| value.to_vec()));
        shared::resolved(aside, get, |key, value| {
            match value {
                Some(value) => batch.insert(&self.pairs, key, value),
                None => batch.remove(&self.pairs, key),
            }
            Ok(())
        })?;
        Ok(batch.commit()?)
    }
}

impl Engine for Fjall {
    fn name(&self) -> String {
        "fjall 3.1".to_owned()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pairs.insert(key, value)?;
        self.persist()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pairs.remove(key)?;
        self.persist()
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        let _locks = self.adding.lock([key]);
        let sum = shared::sum(self.pairs.get(key)?.as_deref(), operand)?;
        self.put(key, &sum)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.pairs.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut pairs = 0;
        let mut take = |guard: fjall::Guard| {
            let (key, value) = guard.into_inner()?;
            visit(&key, &value);
            pairs += 1;
            Ok::<_, fjall::Error>(())
        };
        if reverse {
            self.pairs.range(..=from).rev().take(limit).try_for_each(&mut take)?;
        } else {
            self.pairs.range(from..).take(limit).try_for_each(&mut take)?;
        }
        Ok(pairs)
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(AsideBatch::new(|aside| self.commit(aside)))
    }

    fn flush(&self) -> Result<()> {
        self.pairs.rotate_memtable_and_wait()?;
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn settle(&self) -> Result<()> {
        shared::wait_until_quiet()
    }

    fn stats(&self) -> EngineStats {
        shared::stats_of(&self.dir)
    }
}
