//! An open store of LevelDB or RocksDB behind their C interface, as an engine.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr::{self, null_mut};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::batch::{Folded, Native};
use super::functions::{Common, Handle, Rocks};
use super::{parts, statistics};
use crate::engine::{Engine, EngineStats, WriteBatch, delete_keys, overwrite};
use crate::peers::shared::{self, Stripes};

/// `bytes` as a C interface wants them.
pub(super) fn raw(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// An open store. The options and caches it was opened with live as long as it does.
pub(super) struct Store {
    pub(super) common: Common,
    pub(super) rocks: Option<Rocks>,
    pub(super) merges: bool,
    merges_parts: bool,
    /// The options it was opened with, where they keep statistics.
    counting: Option<Handle>,
    pub(super) db: Handle,
    pub(super) write_options: Handle,
    read_options: Handle,
    pub(super) adding: Stripes,
    name: String,
    settings: String,
    dir: PathBuf,
    /// Destroys what the store was opened with, after it is closed.
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

// SAFETY: both libraries say that a database may be used by several threads at the same time
// without synchronisation of their own; the option handles are not changed after opening.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

/// What a store is opened with.
pub(super) struct Opening<'a> {
    pub(super) common: Common,
    pub(super) rocks: Option<Rocks>,
    pub(super) merges: bool,
    pub(super) merges_parts: bool,
    /// Whether the options keep statistics.
    pub(super) counts: bool,
    pub(super) options: Handle,
    pub(super) sync: bool,
    pub(super) name: String,
    pub(super) settings: String,
    pub(super) dir: &'a Path,
    pub(super) release: Box<dyn FnOnce() + Send + Sync>,
}

impl Store {
    pub(super) fn open(opening: Opening<'_>) -> Result<Self> {
        let Opening {
            common,
            rocks,
            merges,
            merges_parts,
            counts,
            options,
            sync,
            name,
            settings,
            dir,
            release,
        } = opening;
        let path = CString::new(dir.as_os_str().as_encoded_bytes())?;
        let mut error = null_mut();
        // SAFETY: the options are whole, the path ends with a zero, the place of the error is null
        // as both libraries want it.
        let db = unsafe { (common.open)(options, path.as_ptr(), &raw mut error) };
        let opened = check(&common, error).with_context(|| format!("opening {name}"));
        if opened.is_err() || db.is_null() {
            release();
            opened?;
            bail!("opening {name} gave nothing");
        }
        // SAFETY: makes options of their own, destroyed when the store is dropped.
        let (write_options, read_options) =
            unsafe { ((common.writeoptions_create)(), (common.readoptions_create)()) };
        // SAFETY: the options were just made and nobody else knows them.
        unsafe { (common.writeoptions_set_sync)(write_options, u8::from(sync)) };
        Ok(Self {
            common,
            rocks,
            merges,
            merges_parts,
            counting: counts.then_some(options),
            db,
            write_options,
            read_options,
            adding: Stripes::new(),
            name,
            settings,
            dir: dir.to_owned(),
            release: Some(release),
        })
    }

    /// The same store under another name.
    pub(super) fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// Runs a call that may put an error somewhere.
    pub(super) fn call<T>(&self, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
        let mut error = null_mut();
        let result = call(&raw mut error);
        check(&self.common, error).map(|()| result)
    }

    /// The value of a key, copied.
    pub(super) fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut copy = None;
        self.get(key, &mut |value| copy = Some(value.to_vec()))?;
        Ok(copy)
    }

    fn get_pinned(&self, rocks: &Rocks, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // SAFETY: database and options are open; the key is read during the call only.
        let pinned = self.call(|error| unsafe {
            (rocks.get_pinned)(self.db, self.read_options, raw(key), key.len(), error)
        })?;
        Ok(show(rocks, pinned, found))
    }

    fn get_copy(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut bytes = 0;
        // SAFETY: as for the pinned value; the length is written before the call returns.
        let value = self.call(|error| unsafe {
            let length = &raw mut bytes;
            (self.common.get)(self.db, self.read_options, raw(key), key.len(), length, error)
        })?;
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: the library says so many bytes stand there; they are freed below.
        found(unsafe { std::slice::from_raw_parts(value.cast(), bytes) });
        // SAFETY: the value is ours to free, with the library's own function, and not used again.
        unsafe { (self.common.free)(value.cast()) };
        Ok(true)
    }

    /// Moves a new cursor to the first pair in the direction of the scan.
    fn seek(&self, cursor: Handle, from: &[u8], reverse: bool) {
        let common = &self.common;
        // SAFETY: the cursor is open and used by this thread alone; keys are read during the calls.
        unsafe {
            match (&self.rocks, reverse) {
                (_, false) => (common.iter_seek)(cursor, raw(from), from.len()),
                (Some(rocks), true) => (rocks.iter_seek_for_prev)(cursor, raw(from), from.len()),
                (None, true) => {
                    (common.iter_seek)(cursor, raw(from), from.len());
                    if (common.iter_valid)(cursor) == 0 {
                        (common.iter_seek_to_last)(cursor);
                    } else if self.key(cursor) != from {
                        (common.iter_prev)(cursor);
                    }
                }
            }
        }
    }

    /// Precondition: the cursor stands on a pair and does not move while the key is used.
    fn key<'a>(&self, cursor: Handle) -> &'a [u8] {
        let mut bytes = 0;
        // SAFETY: the key of a valid cursor stays where it is until the cursor moves.
        unsafe {
            let key = (self.common.iter_key)(cursor, &raw mut bytes);
            slice(key, bytes)
        }
    }

    /// Precondition: as for the key.
    fn value_at<'a>(&self, cursor: Handle) -> &'a [u8] {
        let mut bytes = 0;
        // SAFETY: the value of a valid cursor stays where it is until the cursor moves.
        unsafe {
            let value = (self.common.iter_value)(cursor, &raw mut bytes);
            slice(value, bytes)
        }
    }

    fn property(&self, rocks: &Rocks, name: &CStr) -> u64 {
        let mut figure = 0;
        // SAFETY: the name ends with a zero, the figure is written during the call.
        let known = unsafe { (rocks.property_int)(self.db, name.as_ptr(), &raw mut figure) };
        if known == 0 { figure } else { 0 }
    }

    /// A text that the library made and gives away; empty where there is none.
    ///
    /// # Safety
    /// `text` is null or ends with a zero, and nobody else frees it.
    unsafe fn text(&self, text: *mut c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the caller's promise; it is freed below.
        let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: freed by the library that made it, and not used again.
        unsafe { (self.common.free)(text.cast()) };
        copy
    }

    fn property_text(&self, rocks: &Rocks, name: &str) -> String {
        let Ok(name) = CString::new(name) else { return String::new() };
        // SAFETY: the name ends with a zero; the text is made for the caller.
        unsafe { self.text((rocks.property_value)(self.db, name.as_ptr())) }
    }

    /// Adds what RocksDB tells of its reads and of what its tables hold.
    fn add_statistics(&self, rocks: &Rocks, options: Handle, stats: &mut EngineStats) {
        // SAFETY: the options live until the store is closed; the text is made for the caller.
        let text = unsafe { self.text((rocks.options_statistics_get_string)(options)) };
        let files = self.property_text(rocks, "rocksdb.cf-file-histogram");
        stats.read_counters = statistics::counters(&text, &files);
        let level = |level: usize| {
            let name = format!("rocksdb.aggregated-table-properties-at-level{level}");
            self.property_text(rocks, &name)
        };
        let levels: Vec<_> = (0..statistics::LEVELS).map(level).collect();
        stats.detail = serde_json::json!({ "tables": statistics::tables(&levels) });
    }
}

/// The bytes a library hands out; a null pointer stands for none.
///
/// # Safety
/// They must stay where they are and as they are as long as the slice is used.
unsafe fn slice<'a>(bytes: *const c_char, count: usize) -> &'a [u8] {
    if bytes.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.cast(), count) }
}

/// Shows a pinned value and gives it back; says whether there was one.
fn show(rocks: &Rocks, pinned: Handle, found: &mut dyn FnMut(&[u8])) -> bool {
    if pinned.is_null() {
        return false;
    }
    let mut bytes = 0;
    // SAFETY: the value stays where it is until the slice is destroyed, below.
    found(unsafe {
        let value = (rocks.pinnableslice_value)(pinned, &raw mut bytes);
        slice(value, bytes)
    });
    // SAFETY: ours to destroy, and not used again.
    unsafe { (rocks.pinnableslice_destroy)(pinned) };
    true
}

/// The error a library left, if it left one.
pub(super) fn check(common: &Common, error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error is text that ends with a zero, and ours until it is freed below.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: freed by the library that made it, and not used again.
    unsafe { (common.free)(error.cast()) };
    Err(anyhow!("{text}"))
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: every cursor and batch borrows the store, so none is left; each handle is
        // destroyed once.
        unsafe {
            (self.common.close)(self.db);
            (self.common.writeoptions_destroy)(self.write_options);
            (self.common.readoptions_destroy)(self.read_options);
        }
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl Engine for Store {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key_at, value_at) = (raw(key), raw(value));
        // SAFETY: database and options are open; key and value are read during the call only.
        self.call(|error| unsafe {
            let put = self.common.put;
            put(self.db, self.write_options, key_at, key.len(), value_at, value.len(), error);
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: as for a put.
        self.call(|error| unsafe {
            (self.common.delete)(self.db, self.write_options, raw(key), key.len(), error);
        })
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        if let (Some(rocks), true) = (&self.rocks, self.merges) {
            let operand = operand.to_le_bytes();
            // SAFETY: as for a put.
            return self.call(|error| unsafe {
                let (merge, at) = (rocks.merge, raw(&operand));
                merge(self.db, self.write_options, raw(key), key.len(), at, operand.len(), error);
            });
        }
        let _locks = self.adding.lock([key]);
        let sum = shared::sum(self.value(key)?.as_deref(), operand)?;
        self.put(key, &sum)
    }

    fn merge_part(&self, key: &[u8], place: usize, part: &[u8]) -> Result<()> {
        if let (Some(rocks), true) = (&self.rocks, self.merges_parts) {
            let operand = parts::operand(place, part)?;
            // SAFETY: as for a put.
            return self.call(|error| unsafe {
                let (merge, at) = (rocks.merge, raw(&operand));
                merge(self.db, self.write_options, raw(key), key.len(), at, operand.len(), error);
            });
        }
        let _locks = self.adding.lock([key]);
        let mut value = self.value(key)?.unwrap_or_default();
        overwrite(&mut value, place, part);
        self.put(key, &value)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match &self.rocks {
            Some(rocks) => self.get_pinned(rocks, key, found),
            None => self.get_copy(key, found),
        }
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let Some(rocks) = &self.rocks else {
            for (index, key) in keys.iter().enumerate() {
                self.get_copy(key, &mut |value| found(index, value))?;
            }
            return Ok(());
        };
        if keys.is_empty() {
            return Ok(());
        }
        let places: Vec<_> = keys.iter().map(|key| raw(key)).collect();
        let lengths: Vec<_> = keys.iter().map(|key| key.len()).collect();
        let mut pinned = vec![null_mut(); keys.len()];
        let mut errors = vec![null_mut(); keys.len()];
        // SAFETY: all four arrays have as many entries as there are keys; the keys are read
        // during the call only; the default column family lives as long as the database.
        unsafe {
            (rocks.batched_multi_get_cf)(
                self.db,
                self.read_options,
                (rocks.get_default_column_family_handle)(self.db),
                keys.len(),
                places.as_ptr(),
                lengths.as_ptr(),
                pinned.as_mut_ptr(),
                errors.as_mut_ptr(),
                0,
            );
        }
        let mut outcome = Ok(());
        for (index, (pinned, error)) in pinned.into_iter().zip(errors).enumerate() {
            show(rocks, pinned, &mut |value| found(index, value));
            outcome = outcome.and(check(&self.common, error));
        }
        outcome
    }

    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let common = &self.common;
        // SAFETY: database and options are open; the cursor is destroyed below.
        let cursor = unsafe { (common.create_iterator)(self.db, self.read_options) };
        ensure!(!cursor.is_null(), "no cursor");
        let step = if reverse { common.iter_prev } else { common.iter_next };
        self.seek(cursor, from, reverse);
        let mut pairs = 0;
        // SAFETY: the cursor is open and this thread's alone.
        while pairs < limit && unsafe { (common.iter_valid)(cursor) } != 0 {
            visit(self.key(cursor), self.value_at(cursor));
            pairs += 1;
            if pairs < limit {
                // SAFETY: it stands on a pair; key and value of before are not used again.
                unsafe { step(cursor) };
            }
        }
        // SAFETY: the cursor is open.
        let outcome = self.call(|error| unsafe { (common.iter_get_error)(cursor, error) });
        // SAFETY: ours to destroy, and not used again.
        unsafe { (common.iter_destroy)(cursor) };
        outcome.map(|()| pairs)
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        if self.merges { Box::new(Native::new(self)) } else { Box::new(Folded::new(self)) }
    }

    fn flush(&self) -> Result<()> {
        let Some(rocks) = &self.rocks else { return Ok(()) };
        // SAFETY: the options are made and destroyed here; the database is open.
        self.call(|error| unsafe {
            let options = (rocks.flushoptions_create)();
            (rocks.flush)(self.db, options, error);
            (rocks.flushoptions_destroy)(options);
        })?;
        // SAFETY: the database is open.
        self.call(|error| unsafe { (rocks.flush_wal)(self.db, 1, error) })
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let Some(rocks) = &self.rocks else { return delete_keys(self, from, to) };
        // SAFETY: the database is open, its column family lives as long; keys are read during the
        // call only.
        self.call(|error| unsafe {
            let all = (rocks.get_default_column_family_handle)(self.db);
            let (start, end) = (raw(from), raw(to));
            let options = self.write_options;
            (rocks.delete_range_cf)(self.db, options, all, start, from.len(), end, to.len(), error);
        })
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: the database is open; a null pointer stands for the beginning and the end.
        unsafe { (self.common.compact_range)(self.db, ptr::null(), 0, ptr::null(), 0) };
        self.settle()
    }

    fn settle(&self) -> Result<()> {
        let Some(rocks) = &self.rocks else { return shared::wait_until_quiet() };
        // SAFETY: the options are made and destroyed here; the database is open.
        self.call(|error| unsafe {
            let options = (rocks.wait_for_compact_options_create)();
            (rocks.wait_for_compact)(self.db, options, error);
            (rocks.wait_for_compact_options_destroy)(options);
        })
    }

    fn stats(&self) -> EngineStats {
        let mut stats = shared::stats_of(&self.dir);
        if let Some(rocks) = &self.rocks {
            let sum = |names: &[&CStr]| names.iter().map(|name| self.property(rocks, name)).sum();
            stats.live_bytes =
                sum(&[c"rocksdb.estimate-live-data-size", c"rocksdb.live-blob-file-size"]);
            stats.value_file_bytes = sum(&[c"rocksdb.total-blob-file-size"]);
            stats.value_live_bytes = sum(&[c"rocksdb.live-blob-file-size"])
                .saturating_sub(sum(&[c"rocksdb.live-blob-file-garbage-size"]));
            stats.memory_bytes =
                sum(&[c"rocksdb.block-cache-usage", c"rocksdb.estimate-table-readers-mem"]);
            if let Some(options) = self.counting {
                self.add_statistics(rocks, options, &mut stats);
            }
        }
        stats
    }
}

/// Nothing where a null pointer is wanted.
pub(super) const NOTHING: Handle = ptr::null_mut();

/// `count` as the C interfaces want small numbers.
pub(super) fn int(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}
