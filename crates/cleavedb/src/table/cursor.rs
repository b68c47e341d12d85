//! Walks all entries of a table in both directions, reading ahead while it goes on.
//!
//! Owned by one scan or compaction; pins its table. Invariants: C1 to C4 of
//! [`crate::base::cursor::Cursor`]. T1 `block` is the number of the block that `position` holds.
//! T2 a walk of [`Readahead::Usual`] is told to the table once, when the next begins elsewhere or
//! the cursor goes.

use std::ops::RangeInclusive;

use crate::base::cursor::{Cursor, Head};
use crate::base::entry::{Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::recycled::{self, Recycled};
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::table::CacheEntry;
use crate::table::block::Block;
use crate::table::block_cursor::BlockCursor;
use crate::table::reader::{BlockHandle, TableReader};

/// How much is read in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readahead {
    /// One block at a time.
    #[cfg(any(test, feature = "sim"))]
    None,
    /// Twice as much with each read that follows the one before, in either direction.
    Growing,
    /// The same; and where a walk begins, as many blocks as walks of this table usually take.
    Usual,
    /// As much as possible from the start: the whole table will be read.
    Full,
}

/// How a table cursor reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableCursorOptions {
    /// For the byte meter.
    pub(crate) purpose: Purpose,
    /// Whether blocks read go into the cache.
    pub(crate) fill_cache: bool,
    /// How much is read in one go.
    pub(crate) readahead: Readahead,
}

/// First amount that a growing readahead reads in one go.
const READAHEAD_BYTES_FIRST: u64 = 16 << 10;
/// Most that is read in one go: 256 KiB take about as long to transfer as a device needs to begin,
/// so more gains little and wastes more where the scan ends.
const READAHEAD_BYTES_MAX: u64 = 256 << 10;
/// Blocks up to which a walk begins with all that few walks go beyond; a longer one begins with
/// what most take. A second read takes as long as the transfer of more blocks than these.
const WALK_BLOCKS_CHEAP: usize = 16;

/// A stretch of the file that was read in one go.
#[derive(Debug, Default)]
struct Ahead {
    offset: u64,
    bytes: Recycled,
}

impl Ahead {
    fn get(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = usize::try_from(handle.extent.offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(handle.extent.len as usize)?)
    }
}

/// A cursor over one table.
pub(crate) struct TableCursor {
    table: Arc<TableReader>,
    options: TableCursorOptions,
    position: BlockCursor,
    block: usize,
    ahead: Ahead,
    /// Counts what `ahead` holds.
    held: HeldMemory,
    /// Blocks whose reading, one behind the other, would go on: the next one in each direction.
    expected: (Option<usize>, Option<usize>),
    window: u64,
    /// Whether the walk that begins goes backward, as far as the seek says.
    backward: bool,
    /// Blocks from which and up to which the walk has gone.
    walk: Option<RangeInclusive<usize>>,
}

impl TableReader {
    /// A cursor over the table's entries, not positioned.
    pub(crate) fn cursor(self: &Arc<Self>, options: TableCursorOptions) -> TableCursor {
        TableCursor {
            table: self.clone(),
            options,
            position: BlockCursor::default(),
            block: 0,
            ahead: Ahead::default(),
            held: HeldMemory::new(&self.io.meter, options.purpose),
            expected: (None, None),
            window: 0,
            backward: false,
            walk: None,
        }
    }
}

impl TableCursor {
    /// Takes block `number`; false where there is none.
    fn enter(&mut self, number: usize) -> Result<bool> {
        if self.position.block().is_some() && self.block == number {
            return Ok(true);
        }
        self.position.clear();
        let Some(handle) = self.table.handle(number) else { return Ok(false) };
        self.walk_to(number);
        let block = self.load(handle)?;
        self.position.set_block(block);
        self.block = number;
        Ok(true)
    }

    fn load(&mut self, handle: BlockHandle) -> Result<Block> {
        let key = (self.table.file_id(), handle.extent.offset);
        let table = self.table.clone();
        let cache = &table.cache;
        let cached = if self.options.fill_cache { cache.get(&key) } else { cache.peek(&key) };
        if let Some(block) = cached.and_then(CacheEntry::into_block) {
            return Ok(block);
        }
        if self.ahead.get(handle).is_none() {
            let (first, last) = self.plan(handle);
            if first == last {
                return if self.options.fill_cache {
                    self.table.block(handle.extent, self.options.purpose)
                } else {
                    self.table.read_block(handle.extent, self.options.purpose)
                };
            }
            self.read_ahead(first, last)?;
        }
        let Some(stored) = self.ahead.get(handle) else {
            return Err(Error::corruption("block outside what was read"));
        };
        let block = self.table.decode_block(handle, stored)?;
        if self.options.fill_cache {
            cache.insert(key, CacheEntry::Block(block.clone()));
        }
        Ok(block)
    }

    /// Lengthens the walk to this block, or begins one where it does not go on.
    fn walk_to(&mut self, number: usize) {
        if self.options.readahead != Readahead::Usual {
            return;
        }
        let walk = match self.walk.take() {
            Some(walk) if number + 1 >= *walk.start() && number <= walk.end() + 1 => {
                number.min(*walk.start())..=number.max(*walk.end())
            }
            ended => {
                self.end_walk(ended);
                number..=number
            }
        };
        self.walk = Some(walk);
    }

    /// Tells the table how far a walk went (T2).
    fn end_walk(&self, walk: Option<RangeInclusive<usize>>) {
        if let Some(walk) = walk {
            self.table.usual_walk.note(walk.end() - walk.start() + 1);
        }
    }

    /// Decides which blocks to read together with this one.
    fn plan(&mut self, handle: BlockHandle) -> (usize, usize) {
        let number = handle.number;
        let forward = self.expected.0 == Some(number);
        let backward = !forward && self.expected.1 == Some(number);
        let goes_on = forward || backward;
        let grown = (2 * self.window).clamp(READAHEAD_BYTES_FIRST, READAHEAD_BYTES_MAX);
        let (first, last) = match self.options.readahead {
            #[cfg(any(test, feature = "sim"))]
            Readahead::None => (number, number),
            Readahead::Full => self.blocks_from(handle, backward, usize::MAX, READAHEAD_BYTES_MAX),
            Readahead::Growing | Readahead::Usual if goes_on => {
                self.blocks_from(handle, backward, usize::MAX, grown)
            }
            Readahead::Growing => (number, number),
            Readahead::Usual => self.first_blocks(handle),
        };
        let bytes = |number| self.table.handle(number).map_or(0, |handle| handle.extent.len);
        self.window = match goes_on {
            true => grown,
            false if first == last => 0,
            false => (first..=last).map(bytes).sum(),
        };
        self.expected = (Some(last + 1), first.checked_sub(1));
        (first, last)
    }

    /// So many blocks from this one on, of so many bytes at most; itself in any case.
    fn blocks_from(
        &self,
        handle: BlockHandle,
        backward: bool,
        blocks_max: usize,
        bytes_max: u64,
    ) -> (usize, usize) {
        let (mut first, mut last) = (handle.number, handle.number);
        let mut total = handle.extent.len;
        while last - first + 1 < blocks_max {
            let next = if backward { first.checked_sub(1) } else { Some(last + 1) };
            let Some(next) = next.and_then(|next| self.table.handle(next)) else { break };
            total += next.extent.len;
            if total > bytes_max {
                break;
            }
            if backward {
                first = next.number;
            } else {
                last = next.number;
            }
        }
        (first, last)
    }

    /// What a walk begins with: as much as walks of this table usually take, but for what the
    /// cache holds at the far end.
    fn first_blocks(&self, handle: BlockHandle) -> (usize, usize) {
        let number = handle.number;
        let Some(expected) = self.table.usual_walk.expected() else { return (number, number) };
        let blocks = expected.most.min(expected.least.max(WALK_BLOCKS_CHEAP));
        let (mut first, mut last) =
            self.blocks_from(handle, self.backward, blocks, READAHEAD_BYTES_MAX);
        let is_cached = |number| {
            let key = self.table.handle(number).map(|at| (self.table.file_id(), at.extent.offset));
            key.is_some_and(|key| self.table.cache.peek(&key).is_some())
        };
        while last > number && is_cached(last) {
            last -= 1;
        }
        while first < number && is_cached(first) {
            first += 1;
        }
        if first < last {
            mark!("table_walk_begun_with_what_is_usual");
        }
        (first, last)
    }

    fn read_ahead(&mut self, first: usize, last: usize) -> Result<()> {
        let (Some(first), Some(last)) = (self.table.handle(first), self.table.handle(last)) else {
            return Err(Error::corruption("readahead beyond the table"));
        };
        mark!("table_readahead");
        let offset = first.extent.offset;
        // Whose buffer may serve this read.
        self.ahead = Ahead::default();
        let mut bytes = recycled::take((last.extent.end() - offset) as usize);
        self.held.set(bytes.capacity() as u64);
        self.table.read_exact(&mut bytes, offset, self.options.purpose)?;
        self.ahead = Ahead { offset, bytes: Recycled::new(bytes) };
        Ok(())
    }

    /// Runs a move; after an error the cursor stands on nothing (C2), and the error names the
    /// block.
    fn moving(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        step(self).map_err(|error| {
            self.position.clear();
            let offset = self.table.handle(self.block).map_or(0, |handle| handle.extent.offset);
            error.in_file(self.table.path()).at_offset(offset)
        })
    }

    /// Stands on the first entry of the first block at or behind `number` that has one.
    fn first_from(&mut self, number: usize) -> Result<()> {
        if self.enter(number)? {
            self.position.seek_first()?;
        }
        Ok(())
    }

    fn last_until(&mut self, number: Option<usize>) -> Result<()> {
        let Some(number) = number else {
            self.position.clear();
            return Ok(());
        };
        if self.enter(number)? {
            self.position.seek_last()?;
        }
        Ok(())
    }

    fn seek_to(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let Some(number) = self.table.index.locate(key, seq) else {
            self.position.clear();
            return Ok(());
        };
        if !self.enter(number)? {
            return Ok(());
        }
        self.position.seek(key, seq)?;
        if self.position.entry().is_none() {
            // The separator may lie behind the block's last entry.
            self.first_from(number + 1)?;
        }
        Ok(())
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.backward = false;
        self.moving(|cursor| cursor.first_from(0))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.backward = true;
        self.moving(|cursor| cursor.last_until(cursor.table.index.len().checked_sub(1)))
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.backward = false;
        self.moving(|cursor| cursor.seek_to(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.backward = true;
        self.moving(|cursor| cursor.seek_to(key, seq))?;
        if self.valid() { self.prev() } else { self.seek_last() }
    }

    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if let Err(error) = self.position.next() {
            return self.moving(|_| Err(error));
        }
        if self.position.entry().is_none() {
            return self.moving(|cursor| cursor.first_from(cursor.block + 1));
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if let Err(error) = self.position.prev() {
            return self.moving(|_| Err(error));
        }
        if self.position.entry().is_none() {
            return self.moving(|cursor| cursor.last_until(cursor.block.checked_sub(1)));
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.position.entry().is_some()
    }

    fn key(&self) -> &[u8] {
        self.position.key()
    }

    fn seq(&self) -> Seq {
        self.position.entry().map_or(0, |entry| entry.seq)
    }

    fn kind(&self) -> Kind {
        self.position.entry().map_or(Kind::Delete, |entry| entry.kind)
    }

    fn head(&self) -> Option<Head<'_>> {
        let entry = self.position.entry()?;
        Some(Head { key: self.position.key(), seq: entry.seq, kind: entry.kind })
    }

    fn value(&self) -> &[u8] {
        match (self.position.block(), self.position.entry()) {
            (Some(block), Some(entry)) => block.slice(entry.value, entry.end),
            _ => &[],
        }
    }

    fn value_owned(&self) -> Value {
        match (self.position.block(), self.position.entry()) {
            (Some(block), Some(entry)) => block.value(entry),
            _ => Value::copy_from(&[]),
        }
    }
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        let walk = self.walk.take();
        self.end_walk(walk);
    }
}

#[cfg(test)]
mod tests;
