//! What the tests of value tables share: records as a segment has them, and tables made of them.

use std::path::{Path, PathBuf};

use crate::base::checksum::file_seed;
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::io::memory_disk::MemoryDisk;
use crate::io::seeded::Seeded;
use crate::io::{Io, Purpose};
use crate::log::separated::{Binding, SeparatedPut, SeparatedRecord, bind, encode_separated};
use crate::log::testing::{DIR, UUID, disk, io};
use crate::values::file::{ValueContext, ValueFile};
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use crate::values::table::format::Rank;
use crate::values::table::reader::{LoadedIndexes, TableFile};
use crate::values::table::writer::{TablePlace, ValueTableOptions, ValueTableWriter, WrittenTable};

/// Container of most tests.
pub(crate) const CONTAINER: FileId = FileId(17);

/// Where records stand in the segments that they are taken from.
const SEGMENT_OFFSET: u64 = 120;

/// One version of a key, in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) keyspace: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) seq: Seq,
    pub(crate) file: u64,
    pub(crate) value: Vec<u8>,
    pub(crate) how: Compression,
}

impl Item {
    pub(crate) fn rank(&self) -> Rank<'_> {
        let (keyspace, file) = (KeyspaceId(self.keyspace), FileId(self.file));
        Rank { keyspace, key: &self.key, seq: self.seq, file }
    }

    /// What an entry with this handle's place asks for.
    pub(crate) fn wanted(&self, place: TablePlace) -> Wanted<'_> {
        let TablePlace { offset, bytes } = place;
        let handle = Handle { file: FileId(self.file), epoch: 1, offset, bytes };
        Wanted { handle, keyspace: KeyspaceId(self.keyspace), key: &self.key, seq: self.seq }
    }

    /// The record as a segment has it.
    pub(crate) fn segment_bytes(&self) -> Vec<u8> {
        let put = SeparatedPut {
            keyspace: KeyspaceId(self.keyspace),
            key: &self.key,
            value: &self.value,
            compression: self.how,
            hash: 0,
        };
        let mut bytes = Vec::new();
        let slot = encode_separated(&mut bytes, 0, &put, &mut Vec::new());
        let seed = file_seed(&UUID, self.file);
        let place = Binding { seed, payload_offset: SEGMENT_OFFSET, base_seq: self.seq };
        bind(&mut bytes, &[slot], place).unwrap();
        bytes
    }

    /// Moves the record from its segment into a table.
    pub(crate) fn add_to(&self, writer: &mut ValueTableWriter) -> Result<TablePlace> {
        let bytes = self.segment_bytes();
        let record = SeparatedRecord::decode(&bytes).unwrap();
        let body = record.proven_body(file_seed(&UUID, self.file), SEGMENT_OFFSET).unwrap();
        writer.add(FileId(self.file), &record, body)
    }
}

pub(crate) fn item(keyspace: u32, key: &[u8], seq: Seq, file: u64, value: &[u8]) -> Item {
    let (key, value) = (key.to_vec(), value.to_vec());
    Item { keyspace, key, seq, file, value, how: Compression::None }
}

/// Bytes without a pattern.
pub(crate) fn noise(random: &mut Seeded, length: usize) -> Vec<u8> {
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(length).collect()
}

/// A disk and ways to make tables on it.
pub(crate) struct Bench {
    pub(crate) disk: MemoryDisk,
    pub(crate) io: Io,
    pub(crate) context: Arc<ValueContext>,
    pub(crate) indexes: Arc<LoadedIndexes>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let disk = disk();
        let io = io(&disk);
        Self::over(disk, io)
    }

    pub(crate) fn over(disk: MemoryDisk, io: Io) -> Self {
        let context = crate::values::testing::context(&io, false);
        Self { disk, io, context, indexes: LoadedIndexes::new(1 << 20) }
    }

    pub(crate) fn path(container: FileId) -> PathBuf {
        Path::new(DIR).join(file_name(FileKind::ValueTable, container))
    }

    pub(crate) fn options(sources: &[u64], group_bytes: u64) -> ValueTableOptions {
        ValueTableOptions {
            uuid: UUID,
            container: CONTAINER,
            sources: sources.iter().copied().map(FileId).collect(),
            group_bytes,
            purpose: Purpose::Collection,
            direct: false,
            limited: false,
        }
    }

    pub(crate) fn create(&self, options: &ValueTableOptions) -> Result<ValueTableWriter> {
        ValueTableWriter::create(&self.io, &Self::path(options.container), options)
    }

    /// Writes a table of these records, which stand in order.
    pub(crate) fn write(
        &self,
        options: &ValueTableOptions,
        items: &[Item],
    ) -> Result<(WrittenTable, Vec<TablePlace>)> {
        let mut writer = self.create(options)?;
        let places = items.iter().map(|item| item.add_to(&mut writer)).collect::<Result<_>>()?;
        Ok((writer.finish()?, places))
    }

    pub(crate) fn file(&self, container: FileId) -> Arc<ValueFile> {
        let file = ValueFile::new(&self.context, FileKind::ValueTable, container);
        file.keep();
        file
    }

    pub(crate) fn open(&self) -> Result<TableFile> {
        TableFile::open(&self.file(CONTAINER), None, &self.indexes, Purpose::Read)
    }

    /// Opens what was written, as the manifest would have it.
    pub(crate) fn open_sealed(&self, written: &WrittenTable) -> Result<TableFile> {
        let (id, sealed) = (written.sealed.id, Some(&written.sealed));
        TableFile::open(&self.file(id), sealed, &self.indexes, Purpose::Read)
    }

    /// Bytes of the table.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.disk.contents(Self::path(CONTAINER))
    }

    /// Opens a table of these bytes and checks all of it.
    pub(crate) fn verify_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.disk.replace(Self::path(CONTAINER), bytes).unwrap();
        let table = self.open()?;
        crate::values::table::verify::verify(&table, Purpose::Verify, &mut |_| Ok(()))
    }
}

/// The files of these records.
pub(crate) fn sources(items: &[Item]) -> Vec<u64> {
    items.iter().map(|item| item.file).collect()
}

/// Some records of two keyspaces and three files, in order: short and longer keys, versions, one
/// copy that was moved, compressed values.
pub(crate) fn some_items() -> Vec<Item> {
    let mut items = vec![
        item(1, b"", 9, 5, b"a value under the empty key"),
        item(1, b"apple", 44, 5, &[b'a'; 100]),
        item(1, b"apple", 41, 6, b"an older one"),
        item(1, b"apple", 41, 8, b"an older one"),
        item(1, &[0xff; 40], 3, 8, &[0xff; 30]),
        item(300, b"apple", 12, 6, b"of another keyspace"),
    ];
    for number in 0..20_u64 {
        let key = format!("key {:03}", number / 2);
        let value = vec![b'v'; 60 + number as usize * 7];
        let how = [Compression::None, Compression::Lz4, Compression::Zstd][number as usize % 3];
        let item = item(300, key.as_bytes(), 100 - number, 5 + number % 2, &value);
        items.push(Item { how, ..item });
    }
    items
}
