//! The bytes of page files: header, pages of leaves, of inner nodes and of roots. Encoding and
//! decoding only; no I/O, no state, any thread.
//!
//! Invariants: FP-1 every checksum is seeded with database and file number and bound to its offset
//! (rule F1); who names a page names its checksum, so a root proves all that lies below it. FP-2
//! no length is trusted before it is compared with what is there (rule F8). FP-3 a page has one
//! encoding.

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::{FILE_ID_MAX, FileKind};
use crate::index::flex::tree::TreeWidths;
use crate::index::flex::tree::parts::Part;
use crate::log::format::{FORMAT_VERSION, unsupported_version};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"CLVFLEXP";
/// Bytes of the file's header.
pub(crate) const HEADER_BYTES: u64 = 64;
/// Where the header's checksum begins to count: behind itself.
const HEADER_COVERED_FROM: usize = 12;
/// Last byte of the header.
const END: u8 = 0xE7;

/// First bytes of a page.
const PAGE_MAGIC: [u8; 4] = *b"FXPG";
/// Version of pages. On disk: raised by every change.
pub(crate) const PAGE_VERSION: u8 = 1;
/// Bytes of a page in front of its body.
pub(crate) const PAGE_HEADER_BYTES: usize = 40;
/// Where a page's checksum stands, and where it begins to count: behind itself.
pub(crate) const PAGE_CHECKSUM_AT: usize = 4;
pub(crate) const PAGE_COVERED_FROM: usize = 8;
/// Longest page of a leaf or an inner node: what the widest nodes take is far below it.
pub(crate) const NODE_BYTES_MAX: u32 = 1 << 20;
/// Longest page of a root: its table of files and what the owner adds.
pub(crate) const ROOT_BYTES_MAX: u32 = 64 << 20;
/// Most levels of a tree: 2^32 leaves even if each node had as few children as any may have.
pub(crate) const HEIGHT_MAX: u64 = 32;
/// Most extents of a leaf, or children of a node, on disk.
pub(crate) const WIDTH_MAX: u64 = 4096;

/// What stands in a page. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Extents.
    Leaf = 1,
    /// Children.
    Inner = 2,
    /// The tree as a whole.
    Root = 3,
}

impl PageKind {
    fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Leaf,
            2 => Self::Inner,
            3 => Self::Root,
            _ => return None,
        })
    }

    /// The word in dumps.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Inner => "inner",
            Self::Root => "root",
        }
    }
}

/// Where a page stands, and that it is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PageAddress {
    /// The page file.
    pub(crate) file: FileId,
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// Bytes of it.
    pub(crate) bytes: u32,
    /// Its checksum.
    pub(crate) checksum: u32,
}

impl PageAddress {
    /// Offset behind it.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }

    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
        put_varint(out, self.bytes.into());
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// Reads one.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let (file, offset) = (FileId(reader.varint()?), reader.varint()?);
        let (bytes, checksum) = (reader.varint_u32()?, reader.u32()?);
        let is_sound = (1..=FILE_ID_MAX).contains(&file.0)
            && (HEADER_BYTES..=i64::MAX as u64).contains(&offset)
            && (PAGE_HEADER_BYTES as u32..=ROOT_BYTES_MAX).contains(&bytes);
        if !is_sound {
            return Err(Error::corruption("no page can stand at this address"));
        }
        Ok(Self { file, offset, bytes, checksum })
    }
}

/// Whose pages these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// The keyspace; never zero.
    pub(crate) keyspace: KeyspaceId,
}

impl Owner {
    /// Seed of the checksums in one of its files.
    pub(crate) fn seed(&self, file: FileId) -> u32 {
        file_seed(&self.uuid, file.0)
    }
}

/// The header of a page file.
pub(crate) fn encode_header(owner: &Owner, file: FileId) -> Vec<u8> {
    debug_assert!(owner.keyspace.0 != 0);
    let mut covered = Vec::with_capacity(HEADER_BYTES as usize);
    covered.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    covered.extend_from_slice(&owner.uuid);
    covered.extend_from_slice(&file.0.to_le_bytes());
    covered.extend_from_slice(&owner.keyspace.0.to_le_bytes());
    covered.extend_from_slice(&[0; 18]);
    covered.extend_from_slice(&[FileKind::FlexPages as u8, END]);
    let crc = crc_at(owner.seed(file), HEADER_COVERED_FROM as u64, &covered);
    let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.append(&mut covered);
    bytes
}

/// Proves the header of a page file.
pub(crate) fn check_header(bytes: &[u8], owner: &Owner, file: FileId) -> Result<()> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corruption("not a file of pages"));
    }
    let crc = reader.u32()?;
    let is_whole = bytes.len() as u64 == HEADER_BYTES;
    if !is_whole || crc != crc_at(owner.seed(file), HEADER_COVERED_FROM as u64, reader.rest()) {
        return Err(Error::corruption("a page file's header is damaged, or of another file"));
    }
    let version = reader.u32()?;
    if version != FORMAT_VERSION {
        return Err(unsupported_version(version));
    }
    if bytes != encode_header(owner, file) {
        return Err(Error::corruption("a page file's header states what cannot be"));
    }
    Ok(())
}

/// What the header of a page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// What stands in it.
    pub(crate) kind: PageKind,
    /// Bytes of it.
    pub(crate) bytes: u32,
    /// Whose it is.
    pub(crate) keyspace: KeyspaceId,
    /// Extents, children or files in it.
    pub(crate) count: u32,
    /// Number of the checkpoint that wrote it.
    pub(crate) checkpoint: u64,
    /// Bytes of the space that lie below it.
    pub(crate) length: u64,
    /// Its checksum.
    pub(crate) checksum: u32,
}

impl PageHeader {
    /// Reads the header of a page; proves nothing.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.take(PAGE_MAGIC.len())? != PAGE_MAGIC {
            return Err(Error::corruption("no page begins here"));
        }
        let checksum = reader.u32()?;
        let (version, kind, zero) = (reader.u8()?, reader.u8()?, reader.u16()?);
        if version != PAGE_VERSION {
            let message = format!("page of version {version}, this build knows {PAGE_VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let kind = PageKind::from_u8(kind).filter(|_| zero == 0);
        let kind = kind.ok_or_else(|| Error::corruption("a page of a kind that is unknown"))?;
        let (bytes, keyspace) = (reader.u32()?, KeyspaceId(reader.u32()?));
        let (count, checkpoint, length) = (reader.u32()?, reader.u64()?, reader.u64()?);
        Ok(Self { kind, bytes, keyspace, count, checkpoint, length, checksum })
    }
}

/// Makes the checksum of a page right that stands at an offset; returns it.
pub(crate) fn seal(page: &mut [u8], seed: u32, offset: u64) -> u32 {
    let covered = page.get(PAGE_COVERED_FROM..).unwrap_or_default();
    let checksum = crc_at(seed, offset.saturating_add(PAGE_COVERED_FROM as u64), covered);
    if let Some(place) = page.get_mut(PAGE_CHECKSUM_AT..PAGE_COVERED_FROM) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
    checksum
}

/// A page that is proved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// What its header says.
    pub(crate) header: PageHeader,
    /// What comes behind the header.
    pub(crate) body: &'a [u8],
}

impl<'a> Page<'a> {
    /// Proves that bytes are the page of an address.
    pub(crate) fn open(bytes: &'a [u8], owner: &Owner, address: &PageAddress) -> Result<Self> {
        let covered = bytes.get(PAGE_COVERED_FROM..).unwrap_or_default();
        let covered_at = address.offset.saturating_add(PAGE_COVERED_FROM as u64);
        let checksum = crc_at(owner.seed(address.file), covered_at, covered);
        let stated = bytes.get(PAGE_CHECKSUM_AT..PAGE_COVERED_FROM).unwrap_or_default();
        if stated != checksum.to_le_bytes() || bytes.len() as u64 != u64::from(address.bytes) {
            return Err(Error::corruption("checksum of a page"));
        }
        let header = PageHeader::decode(bytes)?;
        if checksum != address.checksum {
            return Err(Error::corruption("another page than the one that is named"));
        }
        if header.bytes != address.bytes || header.keyspace != owner.keyspace {
            return Err(Error::corruption("a page of another length or owner"));
        }
        Ok(Self { header, body: bytes.get(PAGE_HEADER_BYTES..).unwrap_or_default() })
    }
}

/// What all pages of a checkpoint have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Whose they are.
    pub(crate) keyspace: KeyspaceId,
    /// Number of the checkpoint.
    pub(crate) checkpoint: u64,
}

impl Stamp {
    /// A page, not sealed yet.
    fn page(&self, kind: PageKind, count: u32, length: u64, body: &[u8]) -> Vec<u8> {
        let bytes = (PAGE_HEADER_BYTES + body.len()) as u32;
        let mut page = Vec::with_capacity(bytes as usize);
        page.extend_from_slice(&PAGE_MAGIC);
        page.extend_from_slice(&[0; 4]);
        page.extend_from_slice(&[PAGE_VERSION, kind as u8, 0, 0]);
        page.extend_from_slice(&bytes.to_le_bytes());
        page.extend_from_slice(&self.keyspace.0.to_le_bytes());
        page.extend_from_slice(&count.to_le_bytes());
        page.extend_from_slice(&self.checkpoint.to_le_bytes());
        page.extend_from_slice(&length.to_le_bytes());
        debug_assert_eq!(page.len(), PAGE_HEADER_BYTES);
        page.extend_from_slice(body);
        page
    }

    /// The page of a leaf.
    pub(crate) fn leaf(&self, packed: &[u8], count: u32, length: u64) -> Vec<u8> {
        self.page(PageKind::Leaf, count, length, packed)
    }

    /// The page of an inner node: the length of each child and where it stands.
    pub(crate) fn inner(&self, children: &[(u64, PageAddress)]) -> Vec<u8> {
        let mut body = Vec::with_capacity(children.len() * 20);
        let mut length = 0;
        for (child_length, address) in children {
            length += child_length;
            put_varint(&mut body, *child_length);
            address.encode(&mut body);
        }
        self.page(PageKind::Inner, children.len() as u32, length, &body)
    }

    /// The page of a root.
    pub(crate) fn root(&self, root: &RootPage) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, root.widths.leaf_extents_max as u64);
        put_varint(&mut body, root.widths.children_max as u64);
        put_varint(&mut body, root.widths.window_bytes.into());
        put_varint(&mut body, root.extents);
        put_varint(&mut body, root.height);
        root.top.encode(&mut body);
        for file in &root.files {
            put_varint(&mut body, file.id.0);
            put_varint(&mut body, file.end);
            put_varint(&mut body, file.live_bytes);
        }
        put_bytes(&mut body, &root.attached);
        self.page(PageKind::Root, root.files.len() as u32, root.length, &body)
    }
}

/// A page file as a root knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLine {
    /// Its number.
    pub(crate) id: FileId,
    /// Where what had been written to it ended, the root's page itself not counted.
    pub(crate) end: u64,
    /// Bytes of the pages in it that the root leads to, its own page not counted.
    pub(crate) live_bytes: u64,
}

/// A tree as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootPage {
    /// Sizes of its nodes.
    pub(crate) widths: TreeWidths,
    /// Bytes of the space.
    pub(crate) length: u64,
    /// How many extents it is made of.
    pub(crate) extents: u64,
    /// Levels of nodes.
    pub(crate) height: u64,
    /// Page of the topmost node.
    pub(crate) top: PageAddress,
    /// The page files in force, by number.
    pub(crate) files: Vec<FileLine>,
    /// What the owner keeps beside the tree.
    pub(crate) attached: Vec<u8>,
}

/// Fewest bytes of a line of a root's table of files.
const FILE_LINE_BYTES_MIN: usize = 3;
/// Fewest bytes of a child in an inner node's page.
const CHILD_BYTES_MIN: usize = 1 + 1 + 1 + 1 + 4;

impl RootPage {
    /// Decodes the page of a root.
    pub(crate) fn decode(page: &Page<'_>) -> Result<Self> {
        if page.header.kind != PageKind::Root {
            return Err(Error::corruption("a page that is no root"));
        }
        let mut reader = Reader::new(page.body);
        let (leaf_extents_max, children_max) = (reader.varint()?, reader.varint()?);
        let window_bytes = reader.varint_u32()?;
        let (extents, height) = (reader.varint()?, reader.varint()?);
        let top = PageAddress::decode(&mut reader)?;
        let is_sound = leaf_extents_max <= WIDTH_MAX
            && children_max <= WIDTH_MAX
            && (1..=HEIGHT_MAX).contains(&height)
            && page.header.count as usize <= reader.rest().len() / FILE_LINE_BYTES_MIN;
        if !is_sound {
            return Err(Error::corruption("a root states what cannot be"));
        }
        let mut files: Vec<FileLine> = Vec::with_capacity(page.header.count as usize);
        for _ in 0..page.header.count {
            let (id, end) = (FileId(reader.varint()?), reader.varint()?);
            let line = FileLine { id, end, live_bytes: reader.varint()? };
            let room = end.checked_sub(HEADER_BYTES).filter(|_| end <= i64::MAX as u64);
            let is_next = files.last().is_none_or(|last| last.id < id) && id.0 > 0;
            if id.0 > FILE_ID_MAX || !is_next || room.is_none_or(|room| line.live_bytes > room) {
                return Err(Error::corruption("a root's table of files is damaged"));
            }
            files.push(line);
        }
        let attached = reader.bytes()?.to_vec();
        if !reader.is_empty() {
            return Err(Error::corruption("a root's page goes on behind its end"));
        }
        let (leaf_extents_max, children_max) = (leaf_extents_max as usize, children_max as usize);
        let widths = TreeWidths { leaf_extents_max, children_max, window_bytes };
        let length = page.header.length;
        Ok(Self { widths, length, extents, height, top, files, attached })
    }
}

/// A node as its page has it.
#[derive(Clone, Debug)]
pub(crate) enum NodePage {
    /// A leaf.
    Leaf(Part),
    /// The length of each child and where it stands.
    Inner(Vec<(u64, PageAddress)>),
}

impl NodePage {
    /// Decodes the page of a node.
    pub(crate) fn decode(page: &Page<'_>) -> Result<Self> {
        let PageHeader { kind, count, length, .. } = page.header;
        match kind {
            PageKind::Leaf => {
                let leaf = Part::leaf(page.body, count)?;
                if leaf.length() != length {
                    return Err(Error::corruption("a leaf of another length than it states"));
                }
                Ok(Self::Leaf(leaf))
            }
            PageKind::Inner => Self::decode_inner(page.body, count, length),
            PageKind::Root => Err(Error::corruption("a root's page in the place of a node's")),
        }
    }

    fn decode_inner(body: &[u8], count: u32, length: u64) -> Result<Self> {
        let mut reader = Reader::new(body);
        if count as usize > body.len() / CHILD_BYTES_MIN {
            return Err(Error::corruption("an inner node states too many children"));
        }
        let (mut children, mut sum) = (Vec::with_capacity(count as usize), 0u64);
        for _ in 0..count {
            let child_length = reader.varint()?;
            sum = sum.saturating_add(child_length);
            children.push((child_length, PageAddress::decode(&mut reader)?));
        }
        if !reader.is_empty() || sum != length {
            return Err(Error::corruption("an inner node has other children than it states"));
        }
        Ok(Self::Inner(children))
    }
}

#[cfg(test)]
mod tests;
