//! Checks every byte of a table and every relation between its parts, in one pass over the file.
//!
//! Reads past the cache. Findings are reported and the check goes on: one damaged block must not
//! hide another. Invariant: what is reported as checked adds up to the length of the file.

use crate::base::checksum::{Rolling, key_hash};
use crate::base::entry::{Seq, compare_entries};
use crate::base::error::{Error, Result};
use crate::io::Purpose;
use crate::table::block::EntryAt;
use crate::table::filter::{Filter, decode_filter};
use crate::table::format::{self, Extent, FOOTER_BYTES, HEADER_BYTES, RESTART_INTERVAL_MAX};
use crate::table::properties::KindCounts;
use crate::table::reader::{BlockHandle, TableReader};
use crate::table::tombstones::decode_tombstones;

/// What a check has to tell.
#[derive(Debug)]
pub(crate) enum VerifyEvent {
    /// So many more bytes were checked.
    Checked(u64),
    /// A finding.
    Problem(Error),
}

/// Told what a check finds.
pub(crate) type VerifySink<'a> = dyn FnMut(VerifyEvent) + 'a;

/// Bytes read in one go.
const WINDOW_BYTES: u64 = 1 << 20;

impl TableReader {
    /// Checks every byte of the file: the whole-file checksum against the manifest's, every block
    /// and section, order and bounds of the entries, filter, counts and properties.
    pub(crate) fn verify(&self, sink: &mut VerifySink<'_>) {
        let mut audit = Audit::new(self, sink);
        if let Err(error) = audit.run() {
            audit.problem(error);
        }
    }
}

/// The state of one check.
struct Audit<'a, 'b> {
    table: &'a TableReader,
    sink: &'a mut VerifySink<'b>,
    checksum: Rolling,
    kinds: KindCounts,
    distinct: u64,
    raw_key_bytes: u64,
    raw_value_bytes: u64,
    seqs: Option<(Seq, Seq)>,
    first: Option<Vec<u8>>,
    last: Option<(Vec<u8>, Seq)>,
    /// Whether a block could not be read, so that totals cannot agree.
    incomplete: bool,
}

impl<'a, 'b> Audit<'a, 'b> {
    fn new(table: &'a TableReader, sink: &'a mut VerifySink<'b>) -> Self {
        Self {
            table,
            sink,
            checksum: Rolling::new(table.seed),
            kinds: KindCounts::default(),
            distinct: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            seqs: None,
            first: None,
            last: None,
            incomplete: false,
        }
    }

    fn problem(&mut self, error: Error) {
        (self.sink)(VerifyEvent::Problem(error.in_file(self.table.path())));
    }

    fn finding(&mut self, what: &str, offset: u64) {
        self.problem(Error::corruption(what).at_offset(offset));
    }

    /// Reads a stretch of the file, feeding the whole-file checksum.
    fn read(&mut self, extent: Extent) -> Result<Vec<u8>> {
        let mut bytes = vec![0; extent.len as usize];
        self.table.read_exact(&mut bytes, extent.offset, Purpose::Verify)?;
        self.checksum.update(&bytes);
        (self.sink)(VerifyEvent::Checked(extent.len));
        Ok(bytes)
    }

    fn run(&mut self) -> Result<()> {
        let header = self.read(Extent { offset: 0, len: HEADER_BYTES as u64 })?;
        if let Err(error) = format::decode_header(&header) {
            self.problem(error);
        }
        self.blocks()?;
        self.tail()?;
        let length = self.table.file.len().unwrap_or(0);
        if self.checksum.value() != self.table.meta.checksum || length != self.table.meta.bytes {
            self.finding("the file's checksum or length differs from the manifest's", 0);
        }
        if !self.incomplete {
            self.totals();
        }
        Ok(())
    }

    fn blocks(&mut self) -> Result<()> {
        let mut number = 0;
        while let Some(first) = self.table.handle(number) {
            // As many blocks as fit the window, at least one.
            let mut handles = vec![first];
            let mut len = first.extent.len;
            while let Some(next) = self.table.handle(number + handles.len()) {
                if len + next.extent.len > WINDOW_BYTES {
                    break;
                }
                len += next.extent.len;
                handles.push(next);
            }
            number += handles.len();
            let bytes = self.read(Extent { offset: first.extent.offset, len })?;
            let mut rest = bytes.as_slice();
            for handle in handles {
                let Some((stored, after)) = rest.split_at_checked(handle.extent.len as usize)
                else {
                    return Err(Error::corruption("block outside the file"));
                };
                rest = after;
                if let Err(error) = self.block(handle, stored) {
                    self.incomplete = true;
                    self.last = None;
                    self.problem(error.at_offset(handle.extent.offset));
                }
            }
        }
        Ok(())
    }

    fn block(&mut self, handle: BlockHandle, stored: &[u8]) -> Result<()> {
        let block = self.table.decode_block(handle, stored)?;
        let mut restarts = 0;
        let mut since_restart = 0;
        let mut key = Vec::new();
        let mut at = 0;
        while at < block.entries_end() {
            let entry = block.entry(at)?;
            let is_restart = restarts < block.restarts() && block.restart(restarts)? == at;
            since_restart = if is_restart { 1 } else { since_restart + 1 };
            if since_restart > RESTART_INTERVAL_MAX {
                return Err(Error::corruption("a restart point is missing"));
            }
            if entry.shared as usize > key.len() || (is_restart && entry.shared > 0) {
                return Err(Error::corruption("entry shares more than its predecessor's key"));
            }
            restarts += u32::from(is_restart);
            key.truncate(entry.shared as usize);
            key.extend_from_slice(block.slice(entry.key, entry.value));
            self.entry(handle, at == 0, &key, &entry)?;
            at = entry.end;
        }
        if restarts != block.restarts() {
            return Err(Error::corruption("restart point between entries"));
        }
        self.check_separator(handle, &key)
    }

    fn entry(&mut self, at: BlockHandle, leads: bool, key: &[u8], entry: &EntryAt) -> Result<()> {
        let table = self.table;
        if leads && let Some(before) = at.number.checked_sub(1) {
            let order = table.index.separator(before).cmp(key);
            if order.is_gt() || (order.is_eq() && table.index.split(before).is_none()) {
                return Err(Error::corruption("block begins before its index entry says"));
            }
        }
        if let Some((last, seq)) = &self.last
            && compare_entries((last, *seq), (key, entry.seq)).is_ge()
        {
            return Err(Error::corruption("entries out of order"));
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != key) {
            self.distinct += 1;
            if !table.filter.may_contain(key_hash(key)) {
                return Err(Error::corruption("the filter denies a key that is there"));
            }
        }
        let (low, high) = self.seqs.unwrap_or((entry.seq, entry.seq));
        self.seqs = Some((low.min(entry.seq), high.max(entry.seq)));
        self.kinds.add(entry.kind);
        self.raw_key_bytes += key.len() as u64;
        self.raw_value_bytes += u64::from(entry.end - entry.value);
        if self.first.is_none() {
            self.first = Some(key.to_vec());
        }
        let (last, seq) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        *seq = entry.seq;
        Ok(())
    }

    fn check_separator(&self, handle: BlockHandle, last: &[u8]) -> Result<()> {
        let index = &self.table.index;
        let split = index.split(handle.number);
        let order = index.separator(handle.number).cmp(last);
        let last_seq = self.last.as_ref().map(|&(_, seq)| seq);
        let right =
            if split.is_some() { order.is_eq() && split == last_seq } else { order.is_ge() };
        if right { Ok(()) } else { Err(Error::corruption("block ends behind its index entry")) }
    }

    /// Checks filter, tombstones, index, properties and footer as they are in the file now.
    fn tail(&mut self) -> Result<()> {
        let footer = self.table.footer;
        for section in [footer.filter, footer.tombstones, footer.index, footer.properties] {
            let stored = self.read(section)?;
            let outcome = format::decode_sealed(&stored, self.table.seed, section.offset).and_then(
                |sealed| {
                    if section == footer.filter {
                        decode_filter(sealed.payload)?;
                    }
                    if section == footer.tombstones {
                        decode_tombstones(sealed.payload)?;
                    }
                    Ok(())
                },
            );
            if let Err(error) = outcome {
                self.problem(error.at_offset(section.offset));
            }
        }
        let at = footer.properties.end();
        let bytes = self.read(Extent { offset: at, len: FOOTER_BYTES as u64 })?;
        match format::decode_footer(&bytes, self.table.seed, at) {
            Ok(found) if found == footer => {}
            Ok(_) => self.finding("the footer changed since the table was opened", at),
            Err(error) => self.problem(error),
        }
        Ok(())
    }

    /// Compares what was counted with what properties and manifest say.
    fn totals(&mut self) {
        let table = self.table;
        let properties = &table.properties;
        let offset = table.footer.properties.offset;
        let tombstones = table.tombstones().tombstones();
        let mut seqs = self.seqs;
        let mut bounds_hold = true;
        for tombstone in &tombstones {
            let (low, high) = seqs.unwrap_or((tombstone.seq, tombstone.seq));
            seqs = Some((low.min(tombstone.seq), high.max(tombstone.seq)));
            bounds_hold &= tombstone.start >= table.meta.smallest;
            bounds_hold &= tombstone.end <= table.meta.largest;
        }
        for key in self.first.iter().chain(self.last.as_ref().map(|(key, _)| key)) {
            bounds_hold &= table.meta.contains(key);
        }
        let counted = (self.kinds, self.raw_key_bytes, self.raw_value_bytes);
        let stated = (properties.kinds, properties.raw_key_bytes, properties.raw_value_bytes);
        if counted != stated || tombstones.len() as u64 != properties.range_tombstones {
            self.finding("counts differ from the properties", offset);
        }
        if seqs.unwrap_or((0, 0)) != (properties.smallest_seq, properties.largest_seq) {
            self.finding("sequence numbers differ from the properties", offset);
        }
        if !bounds_hold {
            self.finding("keys outside the table's bounds", offset);
        }
        let hashes = match &table.filter {
            Filter::Empty => 0,
            Filter::Fuse(_, hashes) => *hashes,
            Filter::All => self.distinct.min(1),
        };
        if hashes > self.distinct || (hashes == 0) != (self.distinct == 0) {
            self.finding("the filter holds another number of keys", table.footer.filter.offset);
        }
    }
}

#[cfg(test)]
mod tests;
