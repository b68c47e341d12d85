//! How LevelDB and RocksDB are opened: what their own guides recommend, within the budget.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::functions::{Common, Handle, Level, Rocks};
use super::parts;
use super::store::{NOTHING, Opening, Store, int};
use super::{LEVELDB, ROCKSDB};
use crate::engine::{Engine, Settings};
use crate::peers::shared;
use crate::tuning::Tuning;

const FILTER_BITS_PER_KEY: u8 = 10;
const OPEN_FILES_MAX: usize = 100_000;
const BLOB_BYTES_MIN: u64 = 1_024;
const BLOB_AGE_CUTOFF: f64 = 0.25;
const BYTES_PER_SYNC: u64 = 1 << 20;

/// Number of "no compression" in both libraries.
const NO_COMPRESSION: i32 = 0;

/// Settings that LevelDB has.
const LEVELDB_TAKES: [&str; 4] = ["memtable_bytes", "file_bytes", "cache_bytes", "filter_bits"];
/// Settings that every form of RocksDB has, and those of the form with blob files.
const ROCKSDB_TAKES: [&str; 7] = [
    "memtable_bytes",
    "file_bytes",
    "cache_bytes",
    "filter_bits",
    "size_ratio",
    "merges_parts",
    "statistics",
];
const BLOB_TAKES: [&str; 5] =
    ["separate_at", "separated_file_bytes", "collects", "age_cutoff", "garbage_share"];

/// Bytes of a memtable and of the block cache within a budget, where they are not set.
fn shares(settings: &Settings) -> (usize, usize) {
    let (budget, tuning) = (settings.memory_budget, &settings.tuning);
    let memtable = tuning.memtable_bytes.unwrap_or((budget / 4).clamp(1 << 20, 64 << 20));
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    (size(memtable), size(tuning.cache_bytes.unwrap_or(budget).max(1 << 20)))
}

pub(in crate::peers) fn open_leveldb(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    shared::refuse_direct("leveldb", settings)?;
    let library = LEVELDB.get()?;
    let common = Common::load(library, "leveldb")?;
    let level = Level::load(library, "leveldb")?;
    std::fs::create_dir_all(dir)?;
    let (memtable, budget) = shares(settings);
    let tuning = &settings.tuning;
    let filter_bits = tuning.filter_bits.unwrap_or(FILTER_BITS_PER_KEY);
    // Two memtables: one that is written to and one that is flushed.
    let cache_bytes = match tuning.cache_bytes {
        Some(_) => budget,
        None => budget.saturating_sub(2 * memtable).max(1 << 20),
    };
    // SAFETY: every handle is made here, known to nobody else, and destroyed after the store.
    let (options, cache, filter) = unsafe {
        let options = (common.options_create)();
        let cache = (level.cache_create_lru)(cache_bytes);
        let filter = (level.filterpolicy_create_bloom)(i32::from(filter_bits));
        (common.options_set_create_if_missing)(options, 1);
        (common.options_set_write_buffer_size)(options, memtable);
        (common.options_set_max_open_files)(options, int(OPEN_FILES_MAX));
        (common.options_set_compression)(options, NO_COMPRESSION);
        if let Some(bytes) = tuning.file_bytes {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            (level.options_set_max_file_size)(options, bytes);
        }
        (level.options_set_cache)(options, cache);
        (level.options_set_filter_policy)(options, filter);
        (options, cache, filter)
    };
    // SAFETY: functions without arguments that read a constant.
    let (major, minor) = unsafe { ((level.major_version)(), (level.minor_version)()) };
    let handles = [options as usize, cache as usize, filter as usize];
    let text = format!(
        "write_buffer_size={memtable} cache={cache_bytes} bloom bits={filter_bits} \
         max_open_files={OPEN_FILES_MAX} max_file_size={} block_size=4096 compression=none sync={} \
         buffered I/O{}",
        tuning.file_bytes.map_or_else(|| "default".to_owned(), |bytes| bytes.to_string()),
        settings.sync,
        tuning.not_taken(&LEVELDB_TAKES),
    );
    let store = Store::open(Opening {
        common,
        rocks: None,
        merges: false,
        merges_parts: false,
        counts: false,
        options,
        sync: settings.sync,
        name: format!("leveldb {major}.{minor}"),
        settings: text,
        dir,
        release: Box::new(move || {
            let [options, cache, filter] = handles.map(|handle| handle as Handle);
            // SAFETY: the store that used them is closed; each is destroyed once.
            unsafe {
                (common.options_destroy)(options);
                (common.cache_destroy)(cache);
                (level.filterpolicy_destroy)(filter);
            }
        }),
    })?;
    Ok(Box::new(store))
}

/// What is different between the forms of RocksDB.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Plain,
    Blob,
    Merge,
}

pub(in crate::peers) fn open_rocksdb(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_form(dir, settings, Form::Plain)
}

pub(in crate::peers) fn open_rocksdb_blob(
    dir: &Path,
    settings: &Settings,
) -> Result<Box<dyn Engine>> {
    open_form(dir, settings, Form::Blob)
}

pub(in crate::peers) fn open_rocksdb_merge(
    dir: &Path,
    settings: &Settings,
) -> Result<Box<dyn Engine>> {
    open_form(dir, settings, Form::Merge)
}

/// What a store of RocksDB is opened with, besides its options: destroyed after it.
struct Parts {
    options: Handle,
    tables: Handle,
    cache: Handle,
    buffers: Handle,
}

fn open_form(dir: &Path, settings: &Settings, form: Form) -> Result<Box<dyn Engine>> {
    let library = ROCKSDB.get()?;
    let common = Common::load(library, "rocksdb")?;
    let rocks = Rocks::load(library, "rocksdb")?;
    std::fs::create_dir_all(dir)?;
    let (memtable, cache_bytes) = shares(settings);
    let jobs = if settings.background_threads > 0 {
        settings.background_threads
    } else {
        // Its guide: as many as there are processors, and one more for flushes.
        std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1)
    };
    let parts = options(&common, &rocks, settings, jobs);
    set_form(&rocks, &parts, form, &settings.tuning);
    let text = format!(
        "write_buffer_size={memtable} cache=hyper clock of {cache_bytes}, memtables, index and \
         filter blocks charged to it; bloom bits={} block_size=4096 \
         max_background_jobs={jobs} bytes_per_sync={BYTES_PER_SYNC} \
         level_compaction_dynamic_level_bytes compression=none sync={} {}{}{}",
        settings.tuning.filter_bits.unwrap_or(FILTER_BITS_PER_KEY),
        settings.sync,
        if settings.direct { "direct I/O" } else { "buffered I/O" },
        match form {
            Form::Plain => String::new(),
            Form::Blob => blob_text(&settings.tuning),
            Form::Merge if settings.tuning.merges_parts => String::new(),
            Form::Merge => "; merge operator uint64add".to_owned(),
        },
        tuned_text(&settings.tuning, form),
    );
    let handles = [parts.options, parts.tables, parts.cache, parts.buffers].map(|h| h as usize);
    let store = Store::open(Opening {
        common,
        rocks: Some(rocks),
        merges: form == Form::Merge && !settings.tuning.merges_parts,
        merges_parts: settings.tuning.merges_parts,
        counts: settings.tuning.statistics,
        options: parts.options,
        sync: settings.sync,
        name: "rocksdb".to_owned(),
        settings: text,
        dir,
        release: Box::new(move || {
            let [options, tables, cache, buffers] = handles.map(|handle| handle as Handle);
            // SAFETY: the store that used them is closed; each is destroyed once. The filter
            // belongs to the table options.
            unsafe {
                (common.options_destroy)(options);
                (rocks.block_based_options_destroy)(tables);
                (rocks.write_buffer_manager_destroy)(buffers);
                (common.cache_destroy)(cache);
            }
        }),
    })?;
    let version = version(dir).context("no OPTIONS file tells the version of RocksDB")?;
    Ok(Box::new(store.named(format!("rocksdb {version}"))))
}

/// The options that all forms share.
fn options(common: &Common, rocks: &Rocks, settings: &Settings, jobs: usize) -> Parts {
    let (memtable, cache_bytes) = shares(settings);
    let tuning = &settings.tuning;
    let filter_bits = tuning.filter_bits.unwrap_or(FILTER_BITS_PER_KEY);
    // Without a cache for blocks, memtables still want two.
    let buffer_bytes = (cache_bytes / 2).max(2 * memtable);
    let direct = u8::from(settings.direct);
    // SAFETY: every handle is made here, known to nobody else, and destroyed after the store;
    // the filter passes to the table options.
    unsafe {
        let options = (common.options_create)();
        let tables = (rocks.block_based_options_create)();
        // Entries of 0 bytes: the cache finds out how large they are.
        let cache = (rocks.cache_create_hyper_clock)(cache_bytes, 0);
        let buffers = (rocks.write_buffer_manager_create_with_cache)(buffer_bytes, cache, 0);
        let filter = (rocks.filterpolicy_create_bloom_full)(f64::from(filter_bits));
        (rocks.block_based_options_set_block_cache)(tables, cache);
        (rocks.block_based_options_set_filter_policy)(tables, filter);
        (rocks.block_based_options_set_cache_index_and_filter_blocks)(tables, 1);
        (rocks.block_based_options_set_pin_l0_filter_and_index_blocks_in_cache)(tables, 1);
        (rocks.options_set_block_based_table_factory)(options, tables);
        (rocks.options_set_write_buffer_manager)(options, buffers);
        (common.options_set_create_if_missing)(options, 1);
        (common.options_set_write_buffer_size)(options, memtable);
        (common.options_set_max_open_files)(options, -1);
        (common.options_set_compression)(options, NO_COMPRESSION);
        (rocks.options_set_max_background_jobs)(options, int(jobs));
        (rocks.options_set_bytes_per_sync)(options, BYTES_PER_SYNC);
        (rocks.options_set_level_compaction_dynamic_level_bytes)(options, 1);
        (rocks.options_set_use_direct_reads)(options, direct);
        (rocks.options_set_use_direct_io_for_flush_and_compaction)(options, direct);
        if tuning.cache_bytes == Some(0) {
            (rocks.block_based_options_set_no_block_cache)(tables, 1);
            (rocks.block_based_options_set_cache_index_and_filter_blocks)(tables, 0);
            (rocks.block_based_options_set_pin_l0_filter_and_index_blocks_in_cache)(tables, 0);
            (rocks.options_set_block_based_table_factory)(options, tables);
        }
        if let Some(bytes) = tuning.file_bytes {
            (rocks.options_set_target_file_size_base)(options, bytes);
        }
        if let Some(ratio) = tuning.size_ratio {
            (rocks.options_set_max_bytes_for_level_multiplier)(options, f64::from(ratio));
        }
        if tuning.statistics {
            (rocks.options_enable_statistics)(options);
        }
        if tuning.merges_parts {
            (rocks.options_set_merge_operator)(options, parts::operator(rocks));
        }
        Parts { options, tables, cache, buffers }
    }
}

/// How values are stored apart.
fn blob_text(tuning: &Tuning) -> String {
    format!(
        "; blob files of {} bytes from {} bytes on, their GC {} with age cutoff {} and force \
         threshold {}, blob cache {}",
        tuning.separated_file_bytes.map_or_else(|| "default".to_owned(), |bytes| bytes.to_string()),
        tuning.separate_at.unwrap_or(BLOB_BYTES_MIN),
        if tuning.collects.unwrap_or(true) { "on" } else { "off" },
        tuning.age_cutoff.unwrap_or(BLOB_AGE_CUTOFF),
        tuning.garbage_share.map_or_else(|| "default".to_owned(), |share| share.to_string()),
        if tuning.cache_bytes == Some(0) { "none" } else { "shared" },
    )
}

/// What was set beyond the recommended, and what could not be.
fn tuned_text(tuning: &Tuning, form: Form) -> String {
    let mut text = String::new();
    if let Some(bytes) = tuning.file_bytes {
        let _ = write!(text, "; target_file_size_base={bytes}");
    }
    if let Some(ratio) = tuning.size_ratio {
        let _ = write!(text, "; max_bytes_for_level_multiplier={ratio}");
    }
    if tuning.cache_bytes == Some(0) {
        text.push_str("; no block cache (the one named holds memtables only)");
    }
    if tuning.merges_parts {
        text.push_str("; merge operator of the benchmark that overwrites parts");
    }
    if tuning.statistics {
        text.push_str("; statistics on");
    }
    let mut takes = ROCKSDB_TAKES.to_vec();
    if form == Form::Blob {
        takes.extend(BLOB_TAKES);
    }
    text + &tuning.not_taken(&takes)
}

fn set_form(rocks: &Rocks, parts: &Parts, form: Form, tuning: &Tuning) {
    let options = parts.options;
    debug_assert!(options != NOTHING);
    match form {
        Form::Plain => (),
        // SAFETY: the options are not yet in use.
        Form::Merge if tuning.merges_parts => (),
        // SAFETY: the options are not yet in use.
        Form::Merge => unsafe { (rocks.options_set_uint64add_merge_operator)(options) },
        // SAFETY: the options are not yet in use; the cache is destroyed after the store.
        Form::Blob => unsafe {
            (rocks.options_set_enable_blob_files)(options, 1);
            (rocks.options_set_min_blob_size)(
                options,
                tuning.separate_at.unwrap_or(BLOB_BYTES_MIN),
            );
            (rocks.options_set_blob_compression_type)(options, NO_COMPRESSION);
            (rocks.options_set_enable_blob_gc)(options, u8::from(tuning.collects.unwrap_or(true)));
            let cutoff = tuning.age_cutoff.unwrap_or(BLOB_AGE_CUTOFF);
            (rocks.options_set_blob_gc_age_cutoff)(options, cutoff);
            if let Some(share) = tuning.garbage_share {
                (rocks.options_set_blob_gc_force_threshold)(options, share);
            }
            if let Some(bytes) = tuning.separated_file_bytes {
                (rocks.options_set_blob_file_size)(options, bytes);
            }
            if tuning.cache_bytes != Some(0) {
                (rocks.options_set_blob_cache)(options, parts.cache);
            }
        },
    }
}

/// The version that an open store has written into its options file.
fn version(dir: &Path) -> Option<String> {
    let files = std::fs::read_dir(dir).ok()?.flatten();
    let path = files.map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-"))
    })?;
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("rocksdb_version="))?;
    Some(line.to_owned())
}
