//! An open table: index, filter, tombstones and properties in memory, blocks through the cache.
//!
//! Shared by any number of threads, immutable. Invariants: R1 nothing read from the file is used
//! before its checksum agreed. R2 an error names the file and the offset of the damaged part.
//! R3 a point read of a cached block allocates nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc as BytesArc;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::tombstone::Fragments;
use crate::base::usual::UsualRun;
use crate::io::disk::OpenMode;
use crate::io::meter::OpenTable;
use crate::io::{DiskFile, Io, Purpose};
use crate::table::block::{Block, BlockGet};
use crate::table::block_index::{BlockIndex, decode_index};
use crate::table::filter::{Filter, decode_filter};
use crate::table::format::{self, Extent, FOOTER_BYTES, Footer, HEADER_BYTES, TABLE_BYTES_MIN};
use crate::table::meta::TableMeta;
use crate::table::properties::{Properties, decode_properties};
use crate::table::tombstones::decode_tombstones;
use crate::table::{BlockCache, CacheEntry};

/// How a table is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenOptions {
    /// Bypass the page cache.
    pub(crate) direct: bool,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
}

/// An open table.
pub(crate) struct TableReader {
    pub(super) io: Io,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
    pub(super) seed: u32,
    pub(super) meta: TableMeta,
    pub(super) footer: Footer,
    pub(super) index: BlockIndex,
    pub(super) filter: Filter,
    pub(super) properties: Properties,
    fragments: Arc<Fragments>,
    has_tombstones: bool,
    pub(super) cache: Arc<BlockCache>,
    /// Blocks that users' scans of the table took.
    pub(super) usual_walk: UsualRun,
    /// Counts the table as open.
    open: OpenTable,
}

/// A block that a point read needs; see [`TableReader::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    /// Number of the block in its table.
    pub(crate) number: usize,
    /// Where it lies.
    pub(crate) extent: Extent,
}

/// Allocates a shared buffer of `len` zeros in one go.
pub(super) fn zeroed(len: usize) -> BytesArc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}

impl TableReader {
    /// Opens a table and checks it against what the manifest says of it.
    pub(crate) fn open(
        io: &Io,
        cache: &Arc<BlockCache>,
        path: &Path,
        uuid: &[u8; 16],
        expected: &TableMeta,
        options: OpenOptions,
    ) -> Result<Arc<Self>> {
        Self::load(io, cache, path, uuid, expected, options)
            .map(Arc::new)
            .map_err(|e| e.in_file(path))
    }

    fn load(
        io: &Io,
        cache: &Arc<BlockCache>,
        path: &Path,
        uuid: &[u8; 16],
        expected: &TableMeta,
        options: OpenOptions,
    ) -> Result<Self> {
        let mode = OpenMode { direct: options.direct, random: true };
        let file = io.disk.open(path, mode).map_err(|e| opening(path, e))?;
        let length = file.len().map_err(|e| Error::io("measuring a table", path, e))?;
        if length != expected.bytes || length < TABLE_BYTES_MIN {
            let wanted = expected.bytes;
            return Err(Error::corruption(format!("{length} bytes long instead of {wanted}")));
        }
        let source = Source { io, file: &*file, path, purpose: options.purpose };
        let header = format::decode_header(&source.read(0, HEADER_BYTES as u64)?)?;
        if header.uuid != *uuid || header.file != expected.file {
            let found = header.file;
            return Err(Error::corruption(format!("table {found} of some database, misplaced")));
        }
        let seed = header.seed();
        let footer_at = length - FOOTER_BYTES as u64;
        let footer = source.read(footer_at, FOOTER_BYTES as u64)?;
        let footer = format::decode_footer(&footer, seed, footer_at)?;
        let tail_at = footer.filter.offset;
        let tail = source.read(tail_at, footer_at - tail_at)?;
        let sections = Sections { tail: &tail, tail_at, seed };
        let filter = sections.decode(footer.filter, decode_filter)?;
        let tombstones = sections.decode(footer.tombstones, decode_tombstones)?;
        let index = sections.decode(footer.index, |raw| decode_index(raw, tail_at))?;
        let properties = sections.decode(footer.properties, decode_properties)?;
        check_against(&properties, expected, index.len(), tombstones.len())
            .map_err(|e| e.at_offset(footer.properties.offset))?;
        let mut table = Self {
            io: io.clone(),
            file,
            path: path.to_owned(),
            seed,
            meta: expected.clone(),
            footer,
            index,
            filter,
            properties,
            has_tombstones: !tombstones.is_empty(),
            fragments: Arc::new(Fragments::build(tombstones)),
            cache: cache.clone(),
            usual_walk: UsualRun::default(),
            open: OpenTable::new(&io.meter),
        };
        let bytes = table.memory_bytes();
        table.open.set(bytes);
        Ok(table)
    }

    /// Number of the file.
    pub(crate) fn file_id(&self) -> FileId {
        self.meta.file
    }

    /// Memory held while the table is open, blocks in the cache left out.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let own = size_of::<Self>() + self.fragments.memory_bytes();
        self.index.memory_bytes() + self.filter.memory_bytes() + own as u64
    }

    /// Whether an entry with this key hash may be in the table. Range tombstones are no entries:
    /// ask [`TableReader::tombstones`] all the same.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        if planted!("table_filter_false_negative") && hash.is_multiple_of(16) {
            return false;
        }
        self.filter.may_contain(hash)
    }

    /// The table's range tombstones.
    pub(crate) fn tombstones(&self) -> &Arc<Fragments> {
        &self.fragments
    }

    /// Offers what the table knows of `key` to the lookup; true when it is decided.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        lookup: &mut Lookup,
        purpose: Purpose,
    ) -> Result<bool> {
        self.cover(key, lookup);
        if !self.may_contain(hash) {
            return Ok(lookup.end_source());
        }
        let mut handle = self.locate(key, lookup.snapshot);
        while let Some(at) = handle {
            let block = self.block(at.extent, purpose)?;
            match self.search(&block, at, key, lookup)? {
                Some(decided) => return Ok(decided),
                None => handle = self.handle(at.number + 1),
            }
        }
        Ok(lookup.end_source())
    }

    /// Tells the lookup of the newest range tombstone of this table that covers `key`.
    #[inline]
    pub(crate) fn cover(&self, key: &[u8], lookup: &mut Lookup) {
        if self.has_tombstones {
            let cover = self.fragments.cover_seq(key, lookup.snapshot);
            if cover > 0 {
                lookup.cover(cover);
            }
        }
    }

    /// The block in which the newest version of `key` that `snapshot` sees must be, if it is in
    /// the table.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8], snapshot: Seq) -> Option<BlockHandle> {
        self.handle(self.index.locate(key, snapshot)?)
    }

    /// Block `number`, if there is one.
    pub(crate) fn handle(&self, number: usize) -> Option<BlockHandle> {
        Some(BlockHandle { number, extent: self.index.extent(number)? })
    }

    /// Offers the versions of `key` in one block to the lookup. `None`: the key's versions go on
    /// in the next block; else whether the lookup is decided.
    #[inline]
    pub(crate) fn search(
        &self,
        block: &Block,
        handle: BlockHandle,
        key: &[u8],
        lookup: &mut Lookup,
    ) -> Result<Option<bool>> {
        let outcome = block
            .get(key, lookup)
            .map_err(|e| e.in_file(&self.path).at_offset(handle.extent.offset))?;
        match outcome {
            BlockGet::Decided => Ok(Some(true)),
            BlockGet::Done => Ok(Some(lookup.end_source())),
            BlockGet::Ended => {
                let goes_on = self.index.split(handle.number).is_some()
                    && self.index.separator(handle.number) == key;
                if goes_on && !planted!("table_get_stops_at_block_end") {
                    mark!("table_key_split_over_blocks");
                    return Ok(None);
                }
                Ok(Some(lookup.end_source()))
            }
        }
    }

    /// The block at `extent`, from the cache or read into it.
    #[inline]
    pub(crate) fn block(&self, extent: Extent, purpose: Purpose) -> Result<Block> {
        let key = (self.meta.file, extent.offset);
        let load = || self.read_block(extent, purpose).map(CacheEntry::Block);
        match self.cache.get_or_load(&key, load)? {
            CacheEntry::Block(block) => Ok(block),
            // No file is a table and something else.
            CacheEntry::Record(_) | CacheEntry::Value(_) | CacheEntry::Resident(_) => {
                self.read_block(extent, purpose)
            }
        }
    }

    /// Reads the block at `extent` past the cache.
    pub(crate) fn read_block(&self, extent: Extent, purpose: Purpose) -> Result<Block> {
        let mut stored = zeroed(extent.len as usize);
        if let Some(buffer) = BytesArc::get_mut(&mut stored) {
            self.read_exact(buffer, extent.offset, purpose)?;
        }
        self.block_of(stored, extent.offset)
    }

    /// Reads bytes of the file.
    pub(super) fn read_exact(&self, out: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        Source { io: &self.io, file: &*self.file, path: &self.path, purpose }
            .read_exact(out, offset)
    }

    /// Makes a block of its stored bytes, read at `handle` by the caller.
    pub(crate) fn decode_block(&self, handle: BlockHandle, stored: &[u8]) -> Result<Block> {
        self.block_of(stored.into(), handle.extent.offset)
    }

    fn block_of(&self, stored: BytesArc<[u8]>, offset: u64) -> Result<Block> {
        Block::from_stored(stored, self.seed, offset).map_err(|e| {
            mark!("table_block_damaged");
            e.in_file(&self.path)
        })
    }

    /// The file, for reads submitted in batches.
    pub(crate) fn disk_file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// The file's path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn opening(path: &Path, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::corruption("a table that the manifest names is missing").in_file(path);
    }
    Error::io("opening a table", path, error)
}

/// The properties must say what the manifest says.
fn check_against(
    properties: &Properties,
    meta: &TableMeta,
    blocks: usize,
    tombstones: usize,
) -> Result<()> {
    let agrees = properties.kinds.total() == meta.entries
        && properties.kinds.deletes() == meta.tombstones
        && properties.kinds.merges() == meta.merges
        && properties.range_tombstones == meta.range_tombstones
        && properties.range_tombstones == tombstones as u64
        && properties.blocks == blocks as u64
        && (properties.blocks == 0) == (meta.entries == 0)
        && properties.smallest == meta.smallest
        && properties.largest == meta.largest
        && properties.largest_exclusive == meta.largest_exclusive
        && properties.smallest_seq == meta.smallest_seq
        && properties.largest_seq == meta.largest_seq
        && properties.raw_key_bytes == meta.raw_key_bytes
        && properties.raw_value_bytes == meta.raw_value_bytes;
    if agrees {
        return Ok(());
    }
    Err(Error::corruption("properties do not match the manifest"))
}

/// A file to read from.
struct Source<'a> {
    io: &'a Io,
    file: &'a dyn DiskFile,
    path: &'a Path,
    purpose: Purpose,
}

impl Source<'_> {
    /// Reads `len` bytes, which the caller has compared with the length of the file.
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.read_exact(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn read_exact(&self, out: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(out, offset).map_err(|e| reading(self.path, offset, e))?;
        self.io.meter.read(self.purpose, out.len() as u64);
        Ok(())
    }
}

/// A failed read; a file that ends early is damaged, everything else is the system's trouble.
pub(super) fn reading(path: &Path, offset: u64, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return Error::corruption("the file ends early").in_file(path).at_offset(offset);
    }
    Error::io("reading a table", path, error).at_offset(offset)
}

/// The part of the file from the filter to the footer.
struct Sections<'a> {
    tail: &'a [u8],
    tail_at: u64,
    seed: u32,
}

impl Sections<'_> {
    fn decode<T>(&self, extent: Extent, decode: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let start = (extent.offset - self.tail_at) as usize;
        let stored = self
            .tail
            .get(start..start + extent.len as usize)
            .ok_or_else(|| Error::corruption("section outside the file"))?;
        let sealed = format::decode_sealed(stored, self.seed, extent.offset)?;
        if sealed.compression != crate::base::compress::Compression::None {
            return Err(Error::corruption("compressed section").at_offset(extent.offset));
        }
        decode(sealed.payload).map_err(|e| e.at_offset(extent.offset))
    }
}

#[cfg(test)]
pub(crate) mod tests;
