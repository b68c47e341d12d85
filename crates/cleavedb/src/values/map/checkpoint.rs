//! A shard of the map on disk: one section that stands alone, so that shards are written and loaded
//! one at a time. Encoding and decoding only; no I/O, no state, any thread.
//!
//! Layout: `docs/format/map.md`. Chains are not in it: no snapshot outlives the process.
//! Invariants: MC-1 the checksum is seeded with database and file and bound to the section's offset
//! (rule F1). MC-2 nothing is believed before it holds, and no count beyond the bytes that are
//! there (rule F8). MC-3 a table has one encoding, and every entry stands where a lookup looks for
//! it.

use crate::base::checksum::KeyedHash;
use crate::base::codec::Reader;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::Ordering;
use crate::values::locator::Generation;
use crate::values::locator::checkpoint::Site;
use crate::values::map::guards::Guard;
use crate::values::map::place::Version;
use crate::values::map::shard::Image;
use crate::values::map::table::{Hashing, Shape, Table};
use crate::values::map::{Map, SHARD_BITS_MAX};

/// First bytes of a section.
const MAGIC: [u8; 8] = *b"CLVEXMAP";
/// Version of the section. On disk: raised by every change.
pub(crate) const VERSION: u32 = 1;
/// Where the checksum stands, and where it begins to count: behind itself.
const CHECKSUM_AT: usize = 8;
const COVERED_FROM: usize = 12;
/// Where the section's length stands.
const LENGTH_AT: usize = 16;
/// Bytes in front of the pages.
pub(crate) const HEADER_BYTES: usize = 80;
/// Bytes of a page in front of its entries.
const PAGE_HEADER_BYTES: usize = 4;

/// A section, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Number of the shard.
    pub(crate) shard: u32,
    /// Shards that there are, as a power of two.
    pub(crate) shard_bits: u32,
    /// What was in it.
    pub(crate) image: Image,
}

impl Section {
    /// The section's bytes.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn encode(&self, site: &Site) -> Vec<u8> {
        let Image { generation, table } = &self.image;
        let mut bytes = encode(self.shard, self.shard_bits, *generation, table, site);
        seal(&mut bytes, site);
        bytes
    }

    /// Decodes and proves a section; `bytes` may go on behind it. Returns its length, too.
    pub(crate) fn decode(bytes: &[u8], site: &Site, shape: Shape) -> Result<(Self, usize)> {
        Self::decode_all(bytes, site, shape).map_err(|error| error.at_offset(site.offset))
    }

    fn decode_all(bytes: &[u8], site: &Site, shape: Shape) -> Result<(Self, usize)> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption("not a shard of a map"));
        }
        let (checksum, version, length) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(covered) = bytes.get(COVERED_FROM..length).filter(|_| length >= HEADER_BYTES)
        else {
            return Err(Error::corruption("a shard of a map is cut short"));
        };
        if site.checksum(covered) != checksum {
            return Err(Error::corruption("checksum of a map's shard"));
        }
        if version != VERSION {
            let message = format!("map of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut reader = Reader::new(bytes.get(LENGTH_AT + 8..length).unwrap_or_default());
        if reader.take(16)? != site.uuid || reader.u64()? != site.file.0 {
            return Err(Error::corruption("a map's shard of another file"));
        }
        Ok((Self::decode_body(&mut reader, site, shape)?, length))
    }

    fn decode_body(reader: &mut Reader<'_>, site: &Site, shape: Shape) -> Result<Self> {
        let (generation, entries) = (Generation(reader.u64()?), reader.u64()?);
        let (shard, split) = (reader.u32()?, reader.u32()? as usize);
        let (shard_bits, depth) = (u32::from(reader.u8()?), u32::from(reader.u8()?));
        let (reserved, count) = (reader.u16()?, reader.u32()? as usize);
        let is_sound = (1..=SHARD_BITS_MAX).contains(&shard_bits)
            && shard >> shard_bits == 0
            && reserved == 0
            && count <= reader.rest().len() / PAGE_HEADER_BYTES;
        if !is_sound {
            return Err(Error::corruption("a map's shard states what cannot be"));
        }
        let mut pages = Vec::with_capacity(count);
        for _ in 0..count {
            let length = reader.u32()? as usize;
            pages.push(reader.take(length)?);
        }
        let hashing = Hashing { keyed: KeyedHash::new(&site.uuid), shard_bits };
        let table = Table::from_raw_pages(shape, hashing, shard as usize, (depth, split), &pages)?;
        if !reader.is_empty() || table.len() as u64 != entries {
            return Err(Error::corruption("a map's shard has other entries than it states"));
        }
        Ok(Self { shard, shard_bits, image: Image { generation, table } })
    }
}

/// A section's bytes, not sealed yet.
fn encode(
    shard: u32,
    shard_bits: u32,
    generation: Generation,
    table: &Table<Version>,
    site: &Site,
) -> Vec<u8> {
    let pages = table.raw_pages();
    let pages_bytes: usize = table.raw_pages().map(|page| PAGE_HEADER_BYTES + page.len()).sum();
    let length = HEADER_BYTES + pages_bytes;
    let (depth, split) = table.depth();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    bytes.extend_from_slice(&site.uuid);
    bytes.extend_from_slice(&site.file.0.to_le_bytes());
    bytes.extend_from_slice(&generation.0.to_le_bytes());
    bytes.extend_from_slice(&(table.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&shard.to_le_bytes());
    bytes.extend_from_slice(&(split as u32).to_le_bytes());
    bytes.extend_from_slice(&[shard_bits as u8, depth as u8, 0, 0]);
    bytes.extend_from_slice(&(pages.len() as u32).to_le_bytes());
    debug_assert_eq!(bytes.len(), HEADER_BYTES);
    for page in pages {
        bytes.extend_from_slice(&(page.len() as u32).to_le_bytes());
        bytes.extend_from_slice(page);
    }
    debug_assert_eq!(bytes.len(), length);
    bytes
}

/// Makes the checksum of a section right.
pub(crate) fn seal(bytes: &mut [u8], site: &Site) {
    let checksum = site.checksum(bytes.get(COVERED_FROM..).unwrap_or_default());
    if let Some(place) = bytes.get_mut(CHECKSUM_AT..COVERED_FROM) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
}

impl Map {
    /// The section of a shard; `None` while a flush that touched it or any move is not published,
    /// or while the shard is not loaded. It is locked while its bytes are copied.
    pub(crate) fn encode_shard(&self, number: usize, site: &Site) -> Option<Vec<u8>> {
        let shard = self.shards.get(number)?.read();
        // Under the lock, and before the moves are asked about: what is published meanwhile could
        // not touch the shard, nor end what it has to swing there.
        let generation = Generation(self.published.load(Ordering::Acquire));
        let is_quiet = !shard.is_open() && self.open_moves.load(Ordering::Acquire) == 0;
        if shard.is_waiting() || !is_quiet && self.settings.guards.hold(Guard::QuietCheckpoint) {
            return None;
        }
        let shard_bits = self.settings.shard_bits;
        let mut bytes = encode(number as u32, shard_bits, generation, shard.table(), site);
        drop(shard);
        seal(&mut bytes, site);
        Some(bytes)
    }

    /// Whether a section is sound; its length.
    pub(crate) fn check_section(&self, bytes: &[u8], site: &Site) -> Result<usize> {
        Section::decode(bytes, site, self.settings.shape).map(|(_, used)| used)
    }

    /// Ends the wait of a shard with its section, if that counts; returns whether it does. One that
    /// is damaged, another shard's or of other sizes is an error, and the shard goes on waiting.
    pub(crate) fn load_section(&self, number: usize, bytes: &[u8], site: &Site) -> Result<bool> {
        let (section, _) = Section::decode(bytes, site, self.settings.shape)?;
        let is_ours =
            section.shard as usize == number && section.shard_bits == self.settings.shard_bits;
        if !is_ours {
            return Err(Error::corruption("another shard's section").at_offset(site.offset));
        }
        Ok(self.load_shard(number, section.image))
    }
}

#[cfg(test)]
mod tests;
