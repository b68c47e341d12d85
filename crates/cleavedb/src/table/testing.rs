//! What the tests of this layer share: a disk in memory, tables made of generated entries, and a
//! sorted vector as the naive twin.

use std::path::PathBuf;

use crate::base::checksum::key_hash;
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::sync::Arc;
use crate::base::tombstone::RangeTombstone;
use crate::io::disk::Disk as _;
use crate::io::memory_disk::MemoryDisk;
use crate::io::{Io, Purpose};
use crate::memory::cache::BlockCache as MemoryCache;
use crate::table::BlockCache;
use crate::table::meta::TableMeta;
use crate::table::reader::{OpenOptions, TableReader};
use crate::table::writer::{TableOptions, TableWriter};

pub(crate) const UUID: [u8; 16] = *b"0123456789abcdef";

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: Vec<u8>,
    pub(crate) seq: Seq,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
}

pub(crate) fn item(key: &[u8], seq: Seq, kind: Kind, value: &[u8]) -> Item {
    Item { key: key.to_vec(), seq, kind, value: value.to_vec() }
}

pub(crate) fn tombstone(start: &[u8], end: &[u8], seq: Seq) -> RangeTombstone {
    RangeTombstone { start: start.into(), end: end.into(), seq }
}

/// A disk, a cache and ways to make tables on them.
pub(crate) struct Bench {
    pub(crate) disk: MemoryDisk,
    pub(crate) io: Io,
    pub(crate) cache: Arc<BlockCache>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_cache(1 << 20)
    }

    pub(crate) fn with_cache(bytes: u64) -> Self {
        let disk = MemoryDisk::new();
        disk.create_dir("/db".as_ref()).unwrap();
        disk.sync_dir("/".as_ref()).unwrap();
        let io = Io::simulated(Arc::new(disk.clone()));
        Self { disk, io, cache: Arc::new(MemoryCache::new(bytes)) }
    }

    pub(crate) fn path(file: u64) -> PathBuf {
        PathBuf::from(format!("/db/{file:06}.tbl"))
    }

    pub(crate) fn options(file: u64, compression: Compression, block_bytes: usize) -> TableOptions {
        TableOptions {
            uuid: UUID,
            file: FileId(file),
            keyspace: KeyspaceId(7),
            level: 3,
            block_bytes,
            restart_interval: 4,
            compression,
            purpose: Purpose::Flush,
            direct: false,
            limited: false,
        }
    }

    pub(crate) fn write(
        &self,
        options: TableOptions,
        items: &[Item],
        tombstones: &[RangeTombstone],
    ) -> Result<TableMeta> {
        let mut writer = TableWriter::create(&self.io, &Self::path(options.file.0), options)?;
        for item in items {
            writer.add(&item.key, item.seq, item.kind, &item.value)?;
        }
        for tombstone in tombstones {
            writer.add_tombstone(tombstone)?;
        }
        writer.finish()
    }

    pub(crate) fn open(&self, meta: &TableMeta) -> Result<Arc<TableReader>> {
        let options = OpenOptions { direct: false, purpose: Purpose::Read };
        TableReader::open(&self.io, &self.cache, &Self::path(meta.file.0), &UUID, meta, options)
    }

    pub(crate) fn bytes(&self, file: u64) -> Vec<u8> {
        self.disk.contents(Self::path(file))
    }

    /// Replaces a file's bytes, as damage would.
    pub(crate) fn set_bytes(&self, file: u64, bytes: Vec<u8>) {
        self.disk.replace(Self::path(file), bytes).unwrap();
    }
}

/// What a lookup came to, in comparable form.
pub(crate) type Outcome = (Vec<(Seq, Vec<u8>)>, Option<(Seq, Kind, Vec<u8>)>, Seq);

pub(crate) fn outcome(lookup: &Lookup) -> Outcome {
    let operands = lookup.operands.iter().map(|(seq, value)| (*seq, value.to_vec())).collect();
    let found = lookup.found.as_ref().map(|f| (f.seq, f.kind, f.value.to_vec()));
    (operands, found, lookup.newest_seq)
}

/// What the twin says of `key`.
pub(crate) fn expected(
    items: &[Item],
    tombstones: &[RangeTombstone],
    key: &[u8],
    snapshot: Seq,
) -> Outcome {
    let mut lookup = Lookup::new(snapshot);
    let covers = tombstones
        .iter()
        .filter(|t| t.seq <= snapshot && &*t.start <= key && key < &*t.end)
        .map(|t| t.seq);
    if let Some(cover) = covers.max() {
        lookup.cover(cover);
    }
    for item in items.iter().filter(|item| item.key == key && item.seq <= snapshot) {
        let value = || crate::base::value::Value::copy_from(&item.value);
        if lookup.offer(item.seq, item.kind, value) {
            return outcome(&lookup);
        }
    }
    lookup.end_source();
    outcome(&lookup)
}

pub(crate) fn get(table: &TableReader, key: &[u8], snapshot: Seq) -> Result<Outcome> {
    let mut lookup = Lookup::new(snapshot);
    let decided = table.get(key, key_hash(key), &mut lookup, Purpose::Read)?;
    assert_eq!(decided, lookup.found.is_some());
    Ok(outcome(&lookup))
}
