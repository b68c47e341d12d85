//! A shard of the locator on disk: one section that stands alone, so that shards are written and
//! loaded one at a time. Encoding and decoding only; no I/O, no state, any thread.
//!
//! Layout: `docs/format/locator.md`. Side map and chains are not in it: without them reads of a few
//! keys go to the index. Invariants: LC-1 the checksum is seeded with database and file and bound
//! to the section's offset (rule F1). LC-2 nothing is believed before it holds, and no count beyond
//! the bytes that are there (rule F8). LC-3 a table has one encoding.

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::Ordering;
use crate::values::locator::place::{WINDOW_BITS, container_in};
use crate::values::locator::shard::Image;
use crate::values::locator::table::{
    DEPTH_MAX, DRAWERS, HEAD, Shape, Table, ends_of, entries_of, head_of,
};
use crate::values::locator::{Generation, Locator, SHARD_BITS_MAX};

/// First bytes of a section.
const MAGIC: [u8; 8] = *b"CLVLOCAT";
/// Version of the section. On disk: raised by every change.
pub(crate) const VERSION: u32 = 1;
/// Where the checksum begins to count: behind itself.
const COVERED_FROM: usize = 12;
/// Bytes in front of the pages.
pub(crate) const HEADER_BYTES: usize = 88;

/// Where a section stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// The file.
    pub(crate) file: FileId,
    /// Offset of the section's first byte.
    pub(crate) offset: u64,
}

impl Site {
    pub(crate) fn checksum(&self, covered: &[u8]) -> u32 {
        let offset = self.offset.wrapping_add(COVERED_FROM as u64);
        crc_at(file_seed(&self.uuid, self.file.0), offset, covered)
    }
}

/// A section, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Number of the shard.
    pub(crate) shard: u32,
    /// Shards that there are, as a power of two.
    pub(crate) shard_bits: u32,
    /// How sure fingerprints were.
    pub(crate) shape: Shape,
    /// What was in it.
    pub(crate) image: Image,
}

impl Section {
    /// The section's bytes.
    pub(crate) fn encode(&self, site: &Site) -> Vec<u8> {
        let Self { shard, shard_bits, shape, image } = self;
        let parts = image.table.parts();
        let pages_bytes = parts.pages.len() * DRAWERS + parts.entries * size_of::<u64>();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + pages_bytes);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&site.uuid);
        bytes.extend_from_slice(&site.file.0.to_le_bytes());
        bytes.extend_from_slice(&image.generation.0.to_le_bytes());
        bytes.extend_from_slice(&image.window_base.to_le_bytes());
        bytes.extend_from_slice(&shard.to_le_bytes());
        bytes.extend_from_slice(&(parts.split as u32).to_le_bytes());
        bytes.extend_from_slice(&(parts.entries as u64).to_le_bytes());
        let small = [*shard_bits, parts.depth, shape.fingerprint_bits, shape.floor_bits];
        bytes.extend(small.map(|number| number as u8));
        bytes.extend_from_slice(&(parts.pages.len() as u32).to_le_bytes());
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        for page in parts.pages {
            bytes.extend(ends_of(page));
            bytes.extend(entries_of(page).iter().flat_map(|entry| entry.to_le_bytes()));
        }
        let length = bytes.len() as u64;
        put(&mut bytes, 16, &length.to_le_bytes());
        seal(&mut bytes, site);
        bytes
    }

    /// Decodes and proves a section; `bytes` may go on behind it. Returns its length, too.
    pub(crate) fn decode(bytes: &[u8], site: &Site) -> Result<(Self, usize)> {
        Self::decode_all(bytes, site).map_err(|error| error.at_offset(site.offset))
    }

    fn decode_all(bytes: &[u8], site: &Site) -> Result<(Self, usize)> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption("not a shard of a locator"));
        }
        let (checksum, version, length) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(covered) = bytes.get(COVERED_FROM..length).filter(|_| length >= HEADER_BYTES)
        else {
            return Err(Error::corruption("a shard of a locator is cut short"));
        };
        if site.checksum(covered) != checksum {
            return Err(Error::corruption("checksum of a locator's shard"));
        }
        if version != VERSION {
            let message = format!("locator of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut reader = Reader::new(bytes.get(24..length).unwrap_or_default());
        if reader.take(16)? != site.uuid || reader.u64()? != site.file.0 {
            return Err(Error::corruption("a locator's shard of another file"));
        }
        Ok((Self::decode_body(&mut reader)?, length))
    }

    fn decode_body(reader: &mut Reader<'_>) -> Result<Self> {
        let (generation, window_base) = (Generation(reader.u64()?), reader.u64()?);
        let (shard, split, entries) = (reader.u32()?, reader.u32()? as usize, reader.u64()?);
        let small = [reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?];
        let [shard_bits, depth, fingerprint_bits, floor_bits] = small.map(u32::from);
        let count = reader.u32()? as usize;
        let is_sound = (1..=SHARD_BITS_MAX).contains(&shard_bits)
            && shard >> shard_bits == 0
            && (1..16).contains(&fingerprint_bits)
            && (1..=fingerprint_bits).contains(&floor_bits)
            && depth <= DEPTH_MAX
            && window_base.checked_add(1 << WINDOW_BITS).is_some()
            && count <= reader.rest().len() / DRAWERS;
        if !is_sound {
            return Err(Error::corruption("a locator's shard states what cannot be"));
        }
        let mut pages = Vec::with_capacity(count);
        for _ in 0..count {
            pages.push(decode_page(reader)?);
        }
        let shape = Shape { fingerprint_bits, floor_bits, ..Shape::USUAL };
        match Table::from_pages(shape, depth, split, pages) {
            Some(table) if reader.is_empty() && table.len() as u64 == entries => {
                let image = Image { generation, window_base, table };
                Ok(Self { shard, shard_bits, shape, image })
            }
            _ => Err(Error::corruption("pages that make no table of a locator")),
        }
    }
}

/// Makes the checksum of a section right.
pub(crate) fn seal(bytes: &mut [u8], site: &Site) {
    let checksum = site.checksum(bytes.get(COVERED_FROM..).unwrap_or_default());
    put(bytes, 8, &checksum.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, number: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + number.len()) {
        place.copy_from_slice(number);
    }
}

fn decode_page(reader: &mut Reader<'_>) -> Result<Vec<u64>> {
    let ends = *reader.take(DRAWERS)?.first_chunk::<DRAWERS>().unwrap_or(&[0; DRAWERS]);
    let count = usize::from(ends.last().copied().unwrap_or_default());
    let entries = reader.take(count * size_of::<u64>())?;
    let mut page = Vec::with_capacity(if count == 0 { 0 } else { HEAD + count });
    if count > 0 || ends != [0; DRAWERS] {
        page.extend(head_of(ends));
    }
    let (entries, _) = entries.as_chunks::<8>();
    page.extend(entries.iter().map(|entry| u64::from_le_bytes(*entry)));
    if entries_of(&page).iter().any(|entry| container_in(*entry) == 0) {
        return Err(Error::corruption("an entry of a locator without container"));
    }
    Ok(page)
}

impl Locator {
    /// The section of a shard; `None` while a flush that touched it is not published, or while it
    /// waits for its own checkpoint.
    pub(crate) fn encode_shard(&self, number: usize, site: &Site) -> Option<Vec<u8>> {
        let shard = self.slots.get(number)?.shard.read();
        if shard.is_odd() || shard.is_waiting() {
            return None;
        }
        // Under the lock: a flush that is published later could not touch the shard before.
        let generation = Generation(self.published.load(Ordering::Acquire));
        let (window_base, table) = (shard.window_base(), shard.table.clone());
        drop(shard);
        let image = Image { generation, window_base, table };
        let shape = self.settings.shape;
        let shard_bits = self.settings.shard_bits;
        Some(Section { shard: number as u32, shard_bits, shape, image }.encode(site))
    }

    /// Ends the wait of a shard with its section, or, where that is damaged, of another shard or of
    /// other sizes, without one. Returns whether it was taken.
    pub(crate) fn load_section(&self, number: usize, bytes: &[u8], site: &Site) -> Result<bool> {
        let section = Section::decode(bytes, site).and_then(|(section, _)| {
            let is_ours = section.shard as usize == number
                && section.shard_bits == self.settings.shard_bits
                && section.shape.fingerprint_bits == self.settings.shape.fingerprint_bits
                && section.shape.floor_bits == self.settings.shape.floor_bits;
            is_ours
                .then_some(section.image)
                .ok_or_else(|| Error::corruption("another shard's section").at_offset(site.offset))
        });
        match section {
            Ok(mut image) => {
                image.table.set_shape(self.settings.shape);
                Ok(self.load_shard(number, Some(image)))
            }
            Err(error) => {
                self.load_shard(number, None);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
