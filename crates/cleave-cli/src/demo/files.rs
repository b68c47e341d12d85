//! The demo's files in the store and what they must be: length and hash of every one, kept
//! beside the store from the moment it was stored, so that files that change meanwhile do not
//! matter.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleavedb::{Db, Durability, Keyspace, KeyspaceOptions, Value, operators};

use crate::bytes;
use crate::demo::report::{Meter, Report};
use crate::failure::Result;
use crate::progress;

/// Keyspace of the files.
const KEYSPACE: &str = "files";

/// Keyspace of the sums by kind of file.
const TALLY_KEYSPACE: &str = "bytes-by-kind";

/// Most files read in one call, and the bytes after which a call is full.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 8 << 20;

/// One file in so many is overwritten, by its place in path order.
const OVERWRITE_EVERY: usize = 5;

/// One file in so many, by the hash of its path, is overwritten once more at the end.
const OVERWRITE_AGAIN_EVERY: u64 = 3;

/// One file in so many is deleted.
const DELETE_EVERY: usize = 7;

/// Operations in a batch of changes.
const CHANGES_IN_A_BATCH: usize = 64;

/// What a value must be.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    bytes: usize,
    hash: u64,
}

impl Mark {
    fn of(value: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        Self { bytes: value.len(), hash: hasher.finish() }
    }
}

/// Everything that must be in the store.
pub struct Contents {
    marks: BTreeMap<Vec<u8>, Mark>,
    separate_at: Option<u32>,
}

fn name(key: &[u8]) -> String {
    let mut text = String::new();
    bytes::escape(key, &mut text);
    text
}

impl Contents {
    /// Nothing yet; values of at least so many bytes will go to the value log.
    pub fn new(separate_at: Option<u32>) -> Self {
        Self { marks: BTreeMap::new(), separate_at }
    }

    fn keyspace(&self, db: &Db) -> Result<Keyspace> {
        let options = KeyspaceOptions::new().separate_at(self.separate_at);
        Ok(db.keyspace(KEYSPACE, options)?)
    }

    /// Stores the files under their paths below `folder`; leaves out what cannot be read.
    pub fn store(
        &mut self,
        db: &Db,
        folder: &Path,
        files: &[PathBuf],
        report: &mut Report,
    ) -> Result<()> {
        let keyspace = self.keyspace(db)?;
        let mut meter = Meter::default();
        let (mut left_out, mut stored_bytes) = (0, 0);
        let bar = progress::steps("store", files.len() as u64);
        for path in files {
            bar.inc(1);
            let key = path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes();
            let value = match fs::read(path) {
                Ok(value) if value.len() <= cleavedb::VALUE_BYTES_MAX => value,
                _ => {
                    left_out += 1;
                    continue;
                }
            };
            meter.call(1, || keyspace.put(key, &value))?;
            meter.bytes(key.len() + value.len());
            stored_bytes += value.len() as u64;
            self.marks.insert(key.to_vec(), Mark::of(&value));
        }
        bar.finish_and_clear();
        meter.call(0, || db.sync())?;
        report.stored(self.marks.len() as u64, stored_bytes, left_out);
        report.phase("store", &meter);
        Ok(())
    }

    /// Reads every file by its key, in an order that has nothing to do with the keys', and
    /// compares.
    pub fn read_back(&self, db: &Db, phase: &'static str, report: &mut Report) -> Result<()> {
        let keyspace = self.keyspace(db)?;
        let mut order: Vec<_> = self.marks.iter().collect();
        order.sort_by_cached_key(|(key, _)| Mark::of(key).hash);
        let mut meter = Meter::default();
        let bar = progress::steps(phase, order.len() as u64);
        for (key, mark) in order {
            bar.inc(1);
            match meter.call(1, || keyspace.get(key))? {
                Some(value) => {
                    meter.bytes(value.len());
                    if Mark::of(&value) != *mark {
                        report.differ(format!("{phase}: '{}' has other bytes", name(key)));
                    }
                }
                None => report.differ(format!("{phase}: '{}' is gone", name(key))),
            }
        }
        bar.finish_and_clear();
        report.phase(phase, &meter);
        Ok(())
    }

    /// Reads every file in path order, many in one call, and compares.
    pub fn read_together(&self, db: &Db, report: &mut Report) -> Result<()> {
        let keyspace = self.keyspace(db)?;
        let mut meter = Meter::default();
        let mut group: Vec<(&Vec<u8>, &Mark)> = Vec::new();
        let mut group_bytes = 0;
        let mut rest = self.marks.iter().peekable();
        while let Some((key, mark)) = rest.next() {
            group.push((key, mark));
            group_bytes += mark.bytes;
            let full = group.len() >= TOGETHER || group_bytes >= TOGETHER_BYTES;
            if !full && rest.peek().is_some() {
                continue;
            }
            let keys = group.iter().map(|(key, _)| key);
            let values = meter.call(group.len() as u64, || keyspace.multi_get(keys))?;
            for ((key, mark), value) in group.drain(..).zip(values) {
                meter.bytes(value.as_ref().map_or(0, |value| value.len()));
                if value.is_none_or(|value| Mark::of(&value) != *mark) {
                    report.differ(format!("multi-get: '{}' is not what it was", name(key)));
                }
            }
            group_bytes = 0;
        }
        report.phase("multi-get", &meter);
        Ok(())
    }

    /// Adds up the bytes of every kind of file (by its name's extension) with merges, and compares
    /// with the sums known here.
    pub fn tally(&self, db: &Db, report: &mut Report) -> Result<()> {
        let options = KeyspaceOptions::new().merge_operator(operators::U64_ADD);
        let keyspace = db.keyspace(TALLY_KEYSPACE, options)?;
        let mut sums: BTreeMap<&[u8], u64> = BTreeMap::new();
        let mut meter = Meter::default();
        for (key, mark) in &self.marks {
            let kind = extension(key);
            let bytes = mark.bytes as u64;
            *sums.entry(kind).or_default() += bytes;
            meter.call(1, || keyspace.merge(kind, bytes.to_le_bytes()))?;
            meter.bytes(kind.len() + size_of::<u64>());
        }
        report.phase("merge", &meter);
        let mut pairs = keyspace.iter();
        for (kind, sum) in sums {
            let found = pairs.next().transpose()?;
            let right = found.is_some_and(|(key, value)| key == kind && value == sum.to_le_bytes());
            if !right {
                report.differ(format!("merge: the sum of '{}' is not {sum}", name(kind)));
                break;
            }
        }
        Ok(())
    }

    /// Scans the files of every top folder by prefix, then everything downwards.
    pub fn scan(&self, db: &Db, report: &mut Report) -> Result<()> {
        let keyspace = self.keyspace(db)?;
        let mut prefixes: Vec<&[u8]> =
            self.marks.keys().filter_map(|key| top_folder(key)).collect();
        prefixes.dedup();
        let mut meter = Meter::default();
        for prefix in prefixes {
            let mut expected =
                self.marks.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
            let mut pairs = keyspace.prefix(prefix);
            loop {
                let found = meter.call(1, || pairs.next()).transpose()?;
                let wanted = expected.next();
                if !same(&found, wanted) {
                    report.differ(format!("scan of '{}': {}", name(prefix), first(&found, wanted)));
                    break;
                }
                let Some((key, value)) = found else { break };
                meter.bytes(key.len() + value.len());
            }
        }
        report.phase("prefix scans", &meter);
        let mut meter = Meter::default();
        let mut expected = self.marks.iter().rev();
        let mut pairs = keyspace.iter();
        loop {
            let found = meter.call(1, || pairs.next_back()).transpose()?;
            let wanted = expected.next();
            if !same(&found, wanted) {
                report.differ(format!("reverse scan: {}", first(&found, wanted)));
                break;
            }
            let Some((key, value)) = found else { break };
            meter.bytes(key.len() + value.len());
        }
        report.phase("reverse scan", &meter);
        Ok(())
    }

    /// Overwrites a part and deletes another, in batches, while a snapshot keeps the old state.
    pub fn change(&mut self, db: &Db, report: &mut Report) -> Result<()> {
        let keyspace = self.keyspace(db)?;
        let before = db.snapshot();
        let old: Vec<(Vec<u8>, Mark)> =
            self.marks.iter().map(|(key, mark)| (key.clone(), *mark)).collect();
        let mut meter = Meter::default();
        let mut batch = db.batch();
        for (place, (key, _)) in old.iter().enumerate() {
            if place % DELETE_EVERY == DELETE_EVERY - 1 {
                batch.delete(&keyspace, key);
                self.marks.remove(key);
            } else if place % OVERWRITE_EVERY == OVERWRITE_EVERY - 1 {
                let value = changed(before.get(&keyspace, key)?);
                meter.bytes(key.len() + value.len());
                batch.put(&keyspace, key, &value);
                self.marks.insert(key.clone(), Mark::of(&value));
            }
            if batch.len() >= CHANGES_IN_A_BATCH {
                let operations = batch.len() as u64;
                meter.call(operations, || batch.commit(Durability::Buffered))?;
            }
        }
        let operations = batch.len() as u64;
        meter.call(operations, || batch.commit(Durability::Sync))?;
        report.phase("change", &meter);
        for (key, mark) in &old {
            let value = before.get(&keyspace, key)?;
            if value.is_none_or(|value| Mark::of(&value) != *mark) {
                report.differ(format!("snapshot: '{}' is not what it was", name(key)));
            }
        }
        self.deleted_stay_deleted(&keyspace, &old, report)
    }

    /// Overwrites a part that is spread over everything, one by one.
    pub fn overwrite(&mut self, db: &Db, report: &mut Report) -> Result<()> {
        let keyspace = self.keyspace(db)?;
        let mut meter = Meter::default();
        for (key, mark) in &mut self.marks {
            if Mark::of(key).hash % OVERWRITE_AGAIN_EVERY != 0 {
                continue;
            }
            let value = changed(keyspace.get(key)?);
            meter.bytes(key.len() + value.len());
            meter.call(1, || keyspace.put(key, &value))?;
            *mark = Mark::of(&value);
        }
        meter.call(0, || db.sync())?;
        report.phase("overwrite", &meter);
        Ok(())
    }

    fn deleted_stay_deleted(
        &self,
        keyspace: &Keyspace,
        old: &[(Vec<u8>, Mark)],
        report: &mut Report,
    ) -> Result<()> {
        for (key, _) in old.iter().filter(|(key, _)| !self.marks.contains_key(key)) {
            if keyspace.contains(key)? {
                report.differ(format!("'{}' was deleted and is still there", name(key)));
            }
        }
        Ok(())
    }
}

/// Another value for a key, as long as the old one and a little more.
fn changed(old: Option<Value>) -> Vec<u8> {
    let mut value = old.map(|value| value.to_vec()).unwrap_or_default();
    value.reverse();
    value.truncate(cleavedb::VALUE_BYTES_MAX / 2);
    value.extend_from_slice(b"\nchanged\n");
    value
}

/// `a/` of `a/b/c`; nothing for a file that lies in the folder itself.
fn top_folder(key: &[u8]) -> Option<&[u8]> {
    let slash = key.iter().position(|&byte| byte == b'/')?;
    key.get(..=slash)
}

/// `rs` of `a/b.rs`; nothing where there is no extension.
fn extension(key: &[u8]) -> &[u8] {
    let name = key.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => name.get(dot + 1..).unwrap_or_default(),
        _ => b"",
    }
}

type Pair = (cleavedb::Value, cleavedb::Value);

fn same(found: &Option<Pair>, wanted: Option<(&Vec<u8>, &Mark)>) -> bool {
    match (found, wanted) {
        (None, None) => true,
        (Some((key, value)), Some((wanted, mark))) => key == wanted && Mark::of(value) == *mark,
        _ => false,
    }
}

fn first(found: &Option<Pair>, wanted: Option<(&Vec<u8>, &Mark)>) -> String {
    let found = found.as_ref().map_or_else(|| "the end".to_owned(), |(key, _)| name(key));
    let wanted = wanted.map_or_else(|| "the end".to_owned(), |(key, _)| name(key));
    format!("'{found}' came where '{wanted}' was due, or its bytes differ")
}
