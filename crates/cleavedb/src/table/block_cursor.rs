//! Walks the entries of one block in both directions.
//!
//! Owned by one table cursor. Forward, the key is patched in place, entry by entry. Backward, one
//! restart interval at a time is decoded into a small index, so that `prev` costs no more than
//! `next` on average. Invariants: K1 while on an entry, `entry` describes it. K2 in the backward
//! state, `slots[slot]` is that entry and its key stands in `arena`.

use std::cmp::Ordering;

use crate::base::entry::Seq;
use crate::base::error::{Error, Result};
use crate::table::block::{Block, EntryAt};
use crate::table::format::RESTART_INTERVAL_MAX;

/// One entry of the interval decoded for walking backward.
#[derive(Clone, Copy, Debug)]
struct Slot {
    entry: EntryAt,
    key_start: u32,
    key_end: u32,
}

impl Slot {
    #[inline]
    fn key<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        arena.get(self.key_start as usize..self.key_end as usize).unwrap_or(&[])
    }
}

/// A position in a block.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    block: Option<Block>,
    entry: Option<EntryAt>,
    /// Key of the current entry in the forward state.
    key: Vec<u8>,
    /// The decoded interval in the backward state; empty in the forward state.
    slots: Vec<Slot>,
    arena: Vec<u8>,
    slot: usize,
    /// Number of the decoded interval.
    interval: u32,
}

impl BlockCursor {
    /// Takes a block; stands on nothing.
    pub(crate) fn set_block(&mut self, block: Block) {
        self.block = Some(block);
        self.clear_position();
    }

    /// Gives the block up.
    pub(crate) fn clear(&mut self) {
        self.block = None;
        self.clear_position();
    }

    fn clear_position(&mut self) {
        self.entry = None;
        self.slots.clear();
    }

    /// The block.
    pub(crate) fn block(&self) -> Option<&Block> {
        self.block.as_ref()
    }

    /// The current entry.
    pub(crate) fn entry(&self) -> Option<&EntryAt> {
        self.entry.as_ref()
    }

    /// Key of the current entry.
    pub(crate) fn key(&self) -> &[u8] {
        match self.slots.get(self.slot) {
            Some(slot) => slot.key(&self.arena),
            None => &self.key,
        }
    }

    fn current_block(&self) -> Result<&Block> {
        self.block.as_ref().ok_or_else(|| Error::corruption("cursor without a block"))
    }

    /// Moves to the first entry.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        self.clear_position();
        let start = self.current_block()?.restart(0)?;
        self.step_to(start)
    }

    /// Moves to the last entry.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        self.clear_position();
        let block = self.current_block()?;
        let (interval, end) = (block.restarts() - 1, block.entries_end());
        self.load_interval(interval, end)
    }

    /// Moves to the first entry at or after (key, seq); to none where all are before.
    pub(crate) fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.clear_position();
        let block = self.current_block()?;
        let mut at = block.restart(block.seek_interval(key, seq)?)?;
        let end = block.entries_end();
        while at < end {
            self.step_to(at)?;
            let Some(entry) = &self.entry else { break };
            let order = self.key.as_slice().cmp(key).then_with(|| seq.cmp(&entry.seq));
            if order != Ordering::Less {
                return Ok(());
            }
            at = entry.end;
        }
        self.entry = None;
        Ok(())
    }

    /// Moves one entry on; to none behind the last.
    pub(crate) fn next(&mut self) -> Result<()> {
        let Some(entry) = &self.entry else { return Ok(()) };
        let at = entry.end;
        if !self.slots.is_empty() {
            self.slot += 1;
            if let Some(slot) = self.slots.get(self.slot) {
                self.entry = Some(slot.entry);
                return Ok(());
            }
            self.slot -= 1;
            self.become_forward();
        }
        if at >= self.current_block()?.entries_end() {
            self.entry = None;
            return Ok(());
        }
        self.step_to(at)
    }

    /// Moves one entry back; to none before the first.
    pub(crate) fn prev(&mut self) -> Result<()> {
        let Some(entry) = &self.entry else { return Ok(()) };
        let start = entry.start;
        if self.slots.is_empty() {
            let block = self.current_block()?;
            let interval = interval_of(block, start)?;
            return match (block.restart(interval)? == start, interval) {
                (false, _) => self.load_interval(interval, start),
                (true, 0) => self.leave(),
                (true, _) => self.load_interval(interval - 1, start),
            };
        }
        match (self.slot.checked_sub(1), self.interval) {
            (Some(slot), _) => {
                self.slot = slot;
                self.entry = self.slots.get(slot).map(|slot| slot.entry);
                Ok(())
            }
            (None, 0) => self.leave(),
            (None, interval) => self.load_interval(interval - 1, start),
        }
    }

    fn leave(&mut self) -> Result<()> {
        self.clear_position();
        Ok(())
    }

    /// Leaves the backward state, keeping the current entry's key.
    fn become_forward(&mut self) {
        self.key.clear();
        if let Some(slot) = self.slots.get(self.slot) {
            self.key.extend_from_slice(slot.key(&self.arena));
        }
        self.slots.clear();
    }

    /// Decodes the entry at `start`, whose predecessor's key stands in `self.key`.
    #[inline]
    fn step_to(&mut self, start: u32) -> Result<()> {
        let Some(block) = &self.block else { return self.leave() };
        let entry = match block.entry(start) {
            Ok(entry) if entry.shared as usize <= self.key.len() => entry,
            Ok(_) => return self.fail(),
            Err(error) => {
                self.clear_position();
                return Err(error);
            }
        };
        self.key.truncate(entry.shared as usize);
        self.key.extend_from_slice(block.slice(entry.key, entry.value));
        self.entry = Some(entry);
        Ok(())
    }

    #[cold]
    fn fail(&mut self) -> Result<()> {
        self.clear_position();
        Err(Error::corruption(
            "entry shares more than its predecessor's key, or a restart point is missing",
        ))
    }

    /// Decodes interval `number` up to the entry that starts at `end`, and stands on the last.
    fn load_interval(&mut self, number: u32, end: u32) -> Result<()> {
        self.clear_position();
        let Some(block) = &self.block else { return Ok(()) };
        let mut at = block.restart(number)?;
        let (mut last_start, mut filled) = (0, 0);
        while at < end {
            let entry = block.entry(at)?;
            let (shared, unshared) = (entry.shared as usize, (entry.value - entry.key) as usize);
            if shared > filled - last_start || self.slots.len() >= RESTART_INTERVAL_MAX {
                return self.fail();
            }
            let needed = filled + shared + unshared + COPY_SLACK_BYTES;
            if self.arena.len() < needed {
                self.arena.resize(needed.next_power_of_two(), 0);
            }
            if let Some((done, room)) = self.arena.split_at_mut_checked(filled) {
                copy_short(room, done.get(last_start..).unwrap_or(&[]), shared);
                let room = room.get_mut(shared..).unwrap_or(&mut []);
                copy_short(room, block.bytes_from(entry.key), unshared);
            }
            last_start = filled;
            filled += shared + unshared;
            // At most RESTART_INTERVAL_MAX keys: far below four gigabytes.
            let (key_start, key_end) = (last_start as u32, filled as u32);
            self.slots.push(Slot { entry, key_start, key_end });
            at = entry.end;
        }
        if at != end || self.slots.is_empty() {
            self.clear_position();
            return Err(Error::corruption("restart point between entries"));
        }
        self.interval = number;
        self.slot = self.slots.len() - 1;
        self.entry = self.slots.last().map(|slot| slot.entry);
        Ok(())
    }
}

/// Room behind what is copied that [`copy_short`] may fill with anything.
const COPY_SLACK_BYTES: usize = 16;

/// Copies `len` bytes. Where there is room, short ones are copied with up to fifteen bytes of what
/// follows, which takes two instructions instead of a call.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8], len: usize) {
    if len <= 8
        && let (Some(to), Some(from)) = (to.first_chunk_mut::<8>(), from.first_chunk::<8>())
    {
        *to = *from;
    } else if len <= 16
        && let (Some(to), Some(from)) = (to.first_chunk_mut::<16>(), from.first_chunk::<16>())
    {
        *to = *from;
    } else if let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) {
        to.copy_from_slice(from);
    }
}

/// The interval in which the entry at `start` lies.
fn interval_of(block: &Block, start: u32) -> Result<u32> {
    let (mut low, mut high) = (0, block.restarts());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if block.restart(middle)? <= start {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
