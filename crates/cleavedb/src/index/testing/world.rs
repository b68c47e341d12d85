//! A disk in memory with all that an index needs, and ways to read an index as a model would.

use std::path::PathBuf;

use crate::base::checksum::key_hash;
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::file_ids::FileIds;
use crate::base::lookup::{Found, Lookup};
use crate::base::names::file_name;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::base::sync::atomic::AtomicBool;
use crate::base::widths::{DeltaWidths, Widths};
use crate::index::testing::{Append, Entry, Recorder};
use crate::index::{
    CursorOptions, IndexContext, IndexView, JobContext, KeyLookup, KeyRange, Listener,
    ListenerFactory, VerifySink,
};
use crate::io::disk::Disk;
use crate::io::memory_disk::MemoryDisk;
use crate::io::{Io, Purpose};
use crate::memory::cache::BlockCache;
use crate::table::cache::TableCache;
use crate::values::file::OpenFiles;

/// Keyspace of all test indexes.
pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(7);

/// A directory on a disk in memory.
pub(crate) struct World {
    pub(crate) io: Io,
    dir: PathBuf,
    file_ids: Arc<FileIds>,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) is_disk_full: Arc<AtomicBool>,
}

/// Widths so small that everything splits within a few entries.
pub(crate) fn tiny_widths() -> Widths {
    Widths {
        memtable_bytes: 1 << 10,
        frozen_memtables_max: 3,
        journal_segment_bytes: 1 << 16,
        value_segment_bytes: 4 << 10,
        value_tail_bytes: 2 << 10,
        value_order_bytes: 256,
        large_value_bytes: 8 << 20,
        large_chunk_bytes: 1 << 20,
        hole_block_bytes: 4096,
        replay_bytes_max: 1 << 16,
        manifest_bytes_max: 1 << 16,
        facts_bytes_max: 64 << 10,
        block_cache_bytes_max: u64::MAX,
        block_bytes: 64,
        restart_interval: 2,
        table_bytes: 600,
        level0_runs_trigger: 2,
        level_base_bytes_min: 1200,
        level_ratio: 3,
        read_compaction_nanos_min: 0,
        subcompaction_bytes_min: 1500,
        bucket_bytes: 1 << 10,
        buckets_max: 16,
        deltas: DeltaWidths::default(),
        journaled: true,
        locator_shard_bits: 1,
        locator_fingerprint_bits: 15,
        locator_window_bits: 20,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(MemoryDisk::new()))
    }

    pub(crate) fn on(disk: Arc<dyn Disk>) -> Self {
        let io = Io::simulated(disk);
        let dir = PathBuf::from("/db");
        if io.disk.read_dir(&dir).is_err() {
            io.disk.create_dir(&dir).unwrap();
            io.disk.sync_dir(std::path::Path::new("/")).unwrap();
        }
        let blocks = Arc::new(BlockCache::new(64 << 10));
        let tables = TableCache::new(&io, dir.clone(), [3; 16], &blocks, 8, 1 << 20, false);
        Self {
            io,
            dir,
            file_ids: Arc::new(FileIds::new(FileId(1))),
            tables: Arc::new(tables),
            obsolete: Arc::new(ObsoleteFiles::default()),
            is_disk_full: Arc::default(),
        }
    }

    pub(crate) fn context(&self) -> IndexContext {
        IndexContext {
            io: self.io.clone(),
            dir: self.dir.clone(),
            uuid: [3; 16],
            keyspace: KEYSPACE,
            file_ids: self.file_ids.clone(),
            tables: self.tables.clone(),
            open_files: Arc::new(OpenFiles::new(2)),
            obsolete: self.obsolete.clone(),
            is_disk_full: Arc::clone(&self.is_disk_full),
            reserve_bytes: 0,
            widths: tiny_widths(),
            compression: vec![Compression::None; 5].into_iter().chain([Compression::Lz4]).collect(),
            operator: Some(Arc::new(Append)),
            direct_reads: false,
            direct_writes: false,
        }
    }

    /// Unlinks what is obsolete, as the engine's housekeeping does.
    pub(crate) fn sweep(&self) {
        for (kind, id) in self.obsolete.take() {
            self.tables.evict(id);
            self.io.disk.remove_file(&self.dir.join(file_name(kind, id))).unwrap();
        }
    }

    /// Names on disk.
    pub(crate) fn names(&self) -> Vec<String> {
        self.io.disk.read_dir(&self.dir).unwrap().into_iter().map(|entry| entry.name).collect()
    }
}

/// Makes recorders that forget.
pub(crate) struct Forgetful;

impl ListenerFactory for Forgetful {
    fn listener(&self, _keyspace: KeyspaceId) -> Box<dyn Listener> {
        Box::new(Recorder::default())
    }
}

/// What a job gets.
pub(crate) fn job_context(stripes: &[Seq]) -> JobContext {
    JobContext {
        stripes: stripes.to_vec(),
        listeners: Arc::new(Forgetful),
        cancelled: Arc::new(AtomicBool::new(false)),
    }
}

/// The value that a lookup amounts to; operands are appended without asking the operator.
pub(crate) fn value_of(lookup: &Lookup) -> Option<Vec<u8>> {
    let base = match &lookup.found {
        Some(Found { kind: Kind::Put | Kind::PutSeparated, value, .. }) => Some(value.to_vec()),
        _ => None,
    };
    if base.is_none() && lookup.operands.is_empty() {
        return None;
    }
    let mut value = base.unwrap_or_default();
    lookup.operands.iter().rev().for_each(|(_, operand)| value.extend_from_slice(operand));
    Some(value)
}

/// A point read.
pub(crate) fn get(view: &dyn IndexView, key: &[u8], snapshot: Seq) -> Result<Option<Vec<u8>>> {
    let mut lookup = Lookup::new(snapshot);
    view.get(key, key_hash(key), &mut lookup)?;
    Ok(value_of(&lookup))
}

/// Point reads in one batch.
pub(crate) fn multi_get(
    view: &dyn IndexView,
    keys: &[Vec<u8>],
    snapshot: Seq,
) -> Vec<Option<Vec<u8>>> {
    let mut lookups: Vec<KeyLookup<'_>> = keys
        .iter()
        .map(|key| KeyLookup { key, hash: key_hash(key), lookup: Lookup::new(snapshot) })
        .collect();
    view.multi_get(&mut lookups).unwrap();
    lookups.iter().map(|key| value_of(&key.lookup)).collect()
}

fn options(range: KeyRange) -> CursorOptions {
    CursorOptions { range, purpose: Purpose::Read, fill_cache: true }
}

/// All entries of a range, walked forwards; the walk backwards must meet the same.
pub(crate) fn entries_of(view: &dyn IndexView, range: KeyRange) -> Vec<Entry> {
    let mut cursor = view.cursor(&options(range)).unwrap();
    let mut forwards = Vec::new();
    let entry = |cursor: &dyn crate::base::cursor::Cursor| Entry {
        key: cursor.key().to_vec(),
        seq: cursor.seq(),
        kind: cursor.kind(),
        value: cursor.value_owned().to_vec(),
    };
    cursor.seek_first().unwrap();
    while cursor.valid() {
        forwards.push(entry(&*cursor));
        cursor.next().unwrap();
    }
    let mut backwards = Vec::new();
    cursor.seek_last().unwrap();
    while cursor.valid() {
        backwards.push(entry(&*cursor));
        cursor.prev().unwrap();
    }
    backwards.reverse();
    assert_eq!(forwards, backwards);
    for at in (0..forwards.len()).step_by(3) {
        let Entry { key, seq, .. } = &forwards[at];
        cursor.seek(key, *seq).unwrap();
        assert_eq!(entry(&*cursor), forwards[at]);
        cursor.prev().unwrap();
        assert_eq!(cursor.valid().then(|| entry(&*cursor)).as_ref(), forwards[..at].last());
        cursor.seek_before(key, *seq).unwrap();
        assert_eq!(cursor.valid().then(|| entry(&*cursor)).as_ref(), forwards[..at].last());
        cursor.seek(key, seq - 1).unwrap();
        assert_eq!(cursor.valid().then(|| entry(&*cursor)).as_ref(), forwards.get(at + 1));
    }
    forwards
}

/// Collects findings.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Error>,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) entries: u64,
}

impl VerifySink for Findings {
    fn read(&mut self, files: u64, entries: u64) {
        self.files += files;
        self.entries += entries;
    }
    fn checked(&mut self, _file: FileId, bytes: u64) {
        self.bytes += bytes;
    }
    fn problem(&mut self, error: Error) {
        self.problems.push(error);
    }
}

/// A view must verify clean, every byte of it.
pub(crate) fn verify(view: &dyn IndexView) {
    let mut findings = Findings::default();
    view.verify(&mut findings);
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    assert_eq!(findings.bytes, view.space().disk_bytes);
}
