//! The survivors of the segments, sorted, with as much of their values as there is room for.
//!
//! Where even their keys have no room, the window holds those that come first; the others are
//! collected again once these are written. Owned by one rewrite. Invariants: WI-1 after
//! [`Window::sort`] it holds every survivor that was shown and lies from `from` up to `limit`,
//! once, in order. WI-2 its memory stays within what it was given, one record excepted. WI-3 a
//! value is in memory from the fetch of its batch, or from the walk, until its record was written.

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::io::meter::HeldMemory;
use crate::io::{Io, Purpose};
use crate::values::rewrite::walk::{Met, Segment};
use crate::values::table::format::Rank;

/// The window grows by such a share of its memory at a time.
const GROWTH_SHARE: usize = 32;

/// Marks a value that is not in memory. No value begins there: see [`WINDOW_BYTES_MAX`].
const NOT_HELD: u32 = u32::MAX;

/// Most bytes of a window: with one record more, places in it fit 32 bits.
const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// Most bytes of the values that are fetched together, one excepted: so that a step ends soon.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// A survivor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    pub(super) seq: Seq,
    /// Where in its segment it stands.
    pub(super) offset: u64,
    key_start: u32,
    pub(super) bytes: u32,
    keyspace: KeyspaceId,
    /// Where in the values it begins, or [`NOT_HELD`].
    held_at: u32,
    key_bytes: u16,
    /// Number of its source.
    pub(super) source: u16,
}

/// A place in the order that outlives what it was taken of.
struct Bound {
    keyspace: KeyspaceId,
    key: Vec<u8>,
    seq: Seq,
    file: FileId,
}

impl Bound {
    fn of(rank: &Rank<'_>) -> Self {
        let Rank { keyspace, key, seq, file } = *rank;
        Self { keyspace, key: key.to_vec(), seq, file }
    }

    fn rank(&self) -> Rank<'_> {
        Rank { keyspace: self.keyspace, key: &self.key, seq: self.seq, file: self.file }
    }
}

/// Keys of survivors, and the files of the sources by their numbers.
struct Keys {
    bytes: Vec<u8>,
    files: Vec<FileId>,
}

impl Keys {
    fn rank_of(&self, survivor: &Survivor) -> Rank<'_> {
        let start = survivor.key_start as usize;
        let key = self.bytes.get(start..start + usize::from(survivor.key_bytes));
        let file = self.files.get(usize::from(survivor.source)).map_or(FileId(0), |file| *file);
        let Survivor { keyspace, seq, .. } = *survivor;
        Rank { keyspace, key: key.unwrap_or_default(), seq, file }
    }
}

/// The window.
pub(super) struct Window {
    memory_bytes_max: usize,
    /// Memory that is left free for keys and places of survivors that are still to come.
    reserve_bytes: usize,
    survivors: Vec<Survivor>,
    keys: Keys,
    values: Vec<u8>,
    /// Bytes of the values that were kept while the segments were walked over.
    kept_bytes: usize,
    /// Whether values are kept on the way.
    keeps_values: bool,
    /// What comes before it was written already.
    from: Option<Bound>,
    /// What comes from here on had no room.
    limit: Option<Bound>,
    /// Number of the survivor that is to be written next.
    next: usize,
    /// Number of the survivor behind the batch.
    batch_end: usize,
    held: HeldMemory,
}

/// A value that is to be fetched: the number of its survivor, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    number: usize,
    pub(super) source: u16,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

impl Wanted {
    #[cfg(test)]
    /// A value that no window asked for.
    pub(super) fn at(source: u16, offset: u64, bytes: u32) -> Self {
        Self { number: 0, source, offset, bytes }
    }

    /// Offset behind it.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }
}

impl Window {
    /// An empty window of so many bytes at most, for survivors of sources with these files. If
    /// every record survives, they are what `records` says: number, and bytes of the keys.
    pub(super) fn new(
        io: &Io,
        files: Vec<FileId>,
        memory_bytes_max: u64,
        records: (u64, u64),
    ) -> Self {
        let memory_bytes_max = memory_bytes_max.min(WINDOW_BYTES_MAX) as usize;
        let index_bytes = records.0.saturating_mul(size_of::<Survivor>() as u64);
        let index_bytes = index_bytes.saturating_add(records.1);
        Self {
            memory_bytes_max,
            reserve_bytes: index_bytes.min(memory_bytes_max as u64 / 2) as usize,
            survivors: Vec::new(),
            keys: Keys { bytes: Vec::new(), files },
            values: Vec::new(),
            kept_bytes: 0,
            keeps_values: true,
            from: None,
            limit: None,
            next: 0,
            batch_end: 0,
            held: HeldMemory::new(&io.meter, Purpose::Collection),
        }
    }

    /// Takes a survivor in, unless it was written before or has to wait.
    pub(super) fn add(&mut self, segment: &Segment, met: &Met<'_>) {
        let Met { keyspace, key, seq, offset, bytes, whole } = *met;
        let rank = Rank { keyspace, key, seq, file: segment.file.id() };
        let is_behind = |bound: &Bound| rank >= bound.rank();
        if self.limit.as_ref().is_some_and(is_behind) || !self.from.as_ref().is_none_or(is_behind) {
            return;
        }
        let (key_start, key_bytes) = (self.keys.bytes.len() as u32, key.len() as u16);
        let step_bytes = self.step_bytes();
        reserve(&mut self.keys.bytes, key.len(), step_bytes);
        self.keys.bytes.extend_from_slice(key);
        let held_at = self.keep(whole);
        let source = segment.source;
        reserve(&mut self.survivors, 1, step_bytes);
        let survivor =
            Survivor { seq, offset, key_start, bytes, keyspace, held_at, key_bytes, source };
        self.survivors.push(survivor);
        let used_bytes = self.keys.bytes.len() + self.survivors.len() * size_of::<Survivor>();
        if used_bytes > self.memory_bytes_max / 2 && self.survivors.len() > 1 {
            self.cut();
        }
        if self.index_bytes() + self.values.capacity() > self.values_max() {
            self.drop_values();
        }
        self.note_held();
    }

    /// Keeps a value that was read anyway, if there is room for it. Some values without the others
    /// are not worth it: what they take, the batches of the others go without. A few long ones are
    /// no matter.
    fn keep(&mut self, whole: Option<&[u8]>) -> u32 {
        let is_long = |whole: &&[u8]| whole.len() > self.values_max() / 8;
        let Some(whole) = whole.filter(|whole| self.keeps_values && !is_long(whole)) else {
            return NOT_HELD;
        };
        // Keys go first: what they took later would cost all values that were kept.
        let index_bytes = self.index_bytes().max(self.reserve_bytes + 2 * self.step_bytes());
        let room = self.values_max().saturating_sub(index_bytes + self.values.len());
        if whole.len() > room {
            self.drop_values();
            return NOT_HELD;
        }
        let start = self.values.len();
        // Never beyond the room: the last step is a shorter one.
        let step_bytes = self.step_bytes().min(room);
        reserve(&mut self.values, whole.len(), step_bytes);
        self.values.extend_from_slice(whole);
        self.kept_bytes = self.values.len();
        start as u32
    }

    /// Up to here the window may fill; the rest is for what is fetched.
    fn values_max(&self) -> usize {
        self.memory_bytes_max / 8 * 7
    }

    fn step_bytes(&self) -> usize {
        self.memory_bytes_max / GROWTH_SHARE
    }

    /// Memory of keys and places.
    fn index_bytes(&self) -> usize {
        self.keys.bytes.capacity() + self.survivors.capacity() * size_of::<Survivor>()
    }

    fn note_held(&mut self) {
        let files = self.keys.files.capacity() * size_of::<FileId>();
        self.held.set((self.index_bytes() + self.values.capacity() + files) as u64);
    }

    fn drop_values(&mut self) {
        self.values = Vec::new();
        self.kept_bytes = 0;
        self.keeps_values = false;
        for survivor in &mut self.survivors {
            survivor.held_at = NOT_HELD;
        }
    }

    /// Lets the later half wait for another walk.
    fn cut(&mut self) {
        self.drop_values();
        self.sort();
        let half = self.survivors.len() / 2;
        let first_gone = self.survivors.get(half).map(|survivor| self.keys.rank_of(survivor));
        self.limit = first_gone.as_ref().map(Bound::of);
        self.survivors.truncate(half);
        // What is left of the keys moves together, in the order in which it stands.
        self.survivors.sort_unstable_by_key(|survivor| survivor.key_start);
        let mut end = 0;
        for survivor in &mut self.survivors {
            let start = survivor.key_start as usize;
            let key = start..start + usize::from(survivor.key_bytes);
            survivor.key_start = end as u32;
            end += key.len();
            self.keys.bytes.copy_within(key, survivor.key_start as usize);
        }
        self.keys.bytes.truncate(end);
    }

    /// Puts the survivors in order: all that are to come have been shown.
    pub(super) fn sort(&mut self) {
        let Self { survivors, keys, .. } = self;
        survivors.sort_unstable_by(|left, right| keys.rank_of(left).cmp(&keys.rank_of(right)));
    }

    /// The survivor that is to be written next, and its rank.
    pub(super) fn front(&self) -> Option<(&Survivor, Rank<'_>)> {
        let survivor = self.survivors.get(self.next)?;
        Some((survivor, self.keys.rank_of(survivor)))
    }

    /// From where on survivors wait for another walk.
    pub(super) fn limit(&self) -> Option<Rank<'_>> {
        self.limit.as_ref().map(Bound::rank)
    }

    /// The bytes of the record that is to be written next, if they are in memory.
    pub(super) fn front_bytes(&self) -> Option<&[u8]> {
        let survivor = self.survivors.get(self.next)?;
        let start = survivor.held_at as usize;
        let end = start.checked_add(survivor.bytes as usize)?;
        self.values.get(start..end).filter(|_| survivor.held_at != NOT_HELD)
    }

    /// The record was written.
    pub(super) fn pass(&mut self) {
        self.next += 1;
        if self.next == self.batch_end {
            self.values.truncate(self.kept_bytes);
            if self.values.capacity() > self.memory_bytes_max {
                // One huge record must not keep its memory for the rest.
                self.values.shrink_to(self.kept_bytes);
            }
            self.note_held();
        }
    }

    /// Goes on to the survivors that had to wait; false if there are none. The segments must be
    /// walked over again.
    pub(super) fn go_on(&mut self) -> bool {
        self.from = self.limit.take();
        self.survivors.clear();
        self.keys.bytes.clear();
        (self.next, self.batch_end) = (0, 0);
        self.drop_values();
        self.keeps_values = true;
        if self.from.is_none() {
            (self.survivors, self.keys.bytes) = (Vec::new(), Vec::new());
        }
        self.note_held();
        self.from.is_some()
    }

    /// Begins the batch of the next survivors: those of its values that are not in memory, in the
    /// order of their places.
    pub(super) fn begin_batch(&mut self) -> Vec<Wanted> {
        let room = self.values_max().saturating_sub(self.index_bytes() + self.kept_bytes);
        // What the list itself takes is the rest of the memory.
        let wanted_max = (self.memory_bytes_max / 16 / size_of::<Wanted>()).max(1);
        let bytes_max = room.max(self.memory_bytes_max / 16).min(BATCH_BYTES_MAX);
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        self.batch_end = self.next;
        for (number, survivor) in self.survivors.iter().enumerate().skip(self.next) {
            let Survivor { source, offset, .. } = *survivor;
            if survivor.held_at == NOT_HELD {
                let more = survivor.bytes as usize;
                let is_full = bytes + more > bytes_max || wanted.len() == wanted_max;
                if is_full && !wanted.is_empty() {
                    break;
                }
                wanted.push(Wanted { number, source, offset, bytes: survivor.bytes });
                bytes += more;
            }
            self.batch_end = number + 1;
        }
        wanted.sort_unstable_by_key(|wanted| (wanted.source, wanted.offset));
        self.values.reserve_exact(bytes);
        self.note_held();
        wanted
    }

    /// Memory for what is read at once while a batch is fetched.
    pub(super) fn wave_bytes(&self) -> u64 {
        (self.memory_bytes_max / 8) as u64
    }

    /// Takes the bytes of a value in; `fill` gets the memory for them.
    pub(super) fn take<E>(
        &mut self,
        wanted: &Wanted,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.values.len();
        self.values.resize(start + wanted.bytes as usize, 0);
        fill(self.values.get_mut(start..).unwrap_or_default())?;
        if let Some(survivor) = self.survivors.get_mut(wanted.number) {
            survivor.held_at = start as u32;
        }
        Ok(())
    }
}

/// Makes room for so many more, in steps rather than by doubling.
fn reserve<T>(vec: &mut Vec<T>, more: usize, step_bytes: usize) {
    if vec.capacity() - vec.len() < more {
        vec.reserve_exact(more.max(step_bytes / size_of::<T>()));
    }
}

#[cfg(test)]
mod tests;
