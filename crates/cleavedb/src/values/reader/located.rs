//! Reading by place: what a locator hands out is a guess, and the record that stands there says
//! whose it is, and of which seq.
//!
//! Invariants: VL-1 a value is handed out only with a record that proved its place, the keyspace
//! and key asked for, and a seq that the snapshot sees (rules R16, R21). VL-2 that a record is
//! another key's is said only if it proved itself, too. VL-3 whatever cannot be read or proved is
//! no error here: the index names the record if it is the key's, and says what is wrong with it.

use std::sync::Arc as BytesArc;

use crate::base::codec::Reader;
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::value::{SharedBytes, Value};
use crate::io::Purpose;
use crate::io::disk::BatchRead;
use crate::log::separated::SeparatedRecord;
use crate::memory::cache_entry::CachedValue;
use crate::values::cache::{Kept, cache_place};
use crate::values::edit::SealedValues;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::locator::place::{Place, UNIT_BYTES};
use crate::values::reader::{ValueReader, Wanted};
use crate::values::table::reader::{TableFile, shared_value};

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought<'a> {
    /// Where the key lives.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// What is to be seen.
    pub(crate) snapshot: Seq,
}

/// What stands at a place.
#[derive(Clone, Debug)]
pub(crate) enum Located {
    /// The key's record, of this seq.
    Value(Seq, Value),
    /// Nothing that the snapshot sees.
    Newer,
    /// The record of another key.
    OtherKey,
    /// The reader's table has no such container, or not any more.
    Gone,
    /// Nothing that proves itself.
    Unproven,
}

/// A place in a container that is there.
struct Spot<'a> {
    place: Place,
    home: Home<'a>,
    /// Where what is to be read ends.
    end: u64,
}

enum Home<'a> {
    Segment(&'a Arc<ValueFile>),
    Table(&'a Arc<ValueFile>, &'a Arc<TableFile>),
}

/// A record that proved itself: offset, bytes, whose it is, and its value.
struct Proven {
    offset: u64,
    bytes: u32,
    located: Located,
}

impl ValueReader<'_> {
    /// What stands at a candidate's place, from the cache or into it: one device read at most.
    pub(crate) fn read_at(&self, place: &Place, sought: &Sought<'_>) -> Located {
        let spot = match self.spot_of(place, sought) {
            Ok(spot) => spot,
            Err(located) => return located,
        };
        let cache = &self.context.cache;
        let at = cache_place(place.container(), place.offset());
        let guard = match cache.begin_any(at, place.bytes(), true) {
            Kept::Hit(kept) => return self.of_kept(&kept, sought),
            Kept::Miss(guard) => guard,
        };
        let Ok(owner) = self.read_spot(&spot) else { return Located::Unproven };
        let Some(proven) = spot.prove(&owner, place.offset(), sought) else {
            return Located::Unproven;
        };
        if let Located::Value(seq, value) = &proven.located {
            cache.keep(guard, &proven.wanted(place, sought, *seq), value);
        }
        proven.located
    }

    /// [`ValueReader::read_at`] for many at once, all device reads under way together.
    pub(crate) fn read_many_at(&self, places: &[(Place, Sought<'_>)]) -> Vec<Located> {
        let mut found: Vec<Option<Located>> = Vec::with_capacity(places.len());
        let mut spots = Vec::with_capacity(places.len());
        let mut reads = Vec::with_capacity(places.len());
        for (number, (place, sought)) in places.iter().enumerate() {
            let spot = match self.spot_of(place, sought) {
                Ok(spot) => spot,
                Err(located) => {
                    found.push(Some(located));
                    continue;
                }
            };
            let at = cache_place(place.container(), place.offset());
            let guard = match self.context.cache.begin_any(at, place.bytes(), false) {
                Kept::Hit(kept) => {
                    found.push(Some(self.of_kept(&kept, sought)));
                    continue;
                }
                Kept::Miss(guard) => guard,
            };
            found.push(None);
            if let Ok(read) = spot.batch_read() {
                self.context.io.meter.read(Purpose::Read, read.buffer.len() as u64);
                reads.push(read);
                spots.push((number, spot, guard));
            }
        }
        self.submit(&mut reads);
        for (read, (number, spot, guard)) in reads.into_iter().zip(spots) {
            let Some((place, sought)) = places.get(number) else { continue };
            if read.result.is_err() {
                continue;
            }
            let owner: SharedBytes = BytesArc::new(read.buffer).into();
            let Some(proven) = spot.prove(&owner, place.offset(), sought) else { continue };
            if let Located::Value(seq, value) = &proven.located {
                self.context.cache.keep(guard, &proven.wanted(place, sought, *seq), value);
            }
            if let Some(found) = found.get_mut(number) {
                *found = Some(proven.located);
            }
        }
        found.into_iter().map(|found| found.unwrap_or(Located::Unproven)).collect()
    }

    fn submit(&self, reads: &mut [BatchRead]) {
        match reads {
            [] => {}
            // A lone read needs no ring.
            [read] => read.result = read.file.read_exact_at(&mut read.buffer, read.offset),
            batch => {
                self.context.io.disk.read_batch(batch);
                self.context.io.meter.batch_submitted();
            }
        }
    }

    /// Where the record that a handle names stands now, as far as that is known without a search.
    pub(crate) fn known_place(&self, handle: &Handle) -> Option<Place> {
        if handle.is_large() {
            return None;
        }
        let Some(moved) = self.files.get_moved(handle.file) else {
            return Place::of(handle.file, handle.offset, handle.bytes);
        };
        let now = match handle.epoch == moved.epoch {
            true => *handle,
            false => self.context.repairs.get(handle).filter(|now| now.epoch == moved.epoch)?,
        };
        Place::of(moved.container, now.offset, now.bytes)
    }

    /// Where to read; what can be said without reading.
    fn spot_of(&self, place: &Place, sought: &Sought<'_>) -> Result<Spot<'_>, Located> {
        let id = place.container();
        let (home, end, smallest_seq) = if let Some(entry) = self.files.get(id) {
            let is_other =
                |values: &SealedValues| !entry.file.is_as_sealed(values).unwrap_or(false);
            if entry.state.sealed.as_ref().is_some_and(is_other) {
                return Err(Located::Unproven);
            }
            let smallest_seq = entry.state.sealed.map_or(0, |values| values.totals.smallest_seq);
            let end = entry.state.sealed.map_or_else(|| entry.file.readable(), |v| v.sealed.bytes);
            (Home::Segment(&entry.file), end, smallest_seq)
        } else if let Some(entry) = self.files.container(id) {
            let table = entry.container.table(Purpose::Read).map_err(|_| Located::Unproven)?;
            let end = table.records_end();
            (Home::Table(entry.container.file(), table), end, entry.totals.smallest_seq)
        } else {
            mark!("locator_stale_container");
            return Err(Located::Gone);
        };
        if smallest_seq > sought.snapshot {
            return Err(Located::Newer);
        }
        let end = (place.offset() + u64::from(place.bytes())).min(end);
        match place.offset() < end {
            true => Ok(Spot { place: *place, home, end }),
            false => Err(Located::Unproven),
        }
    }

    fn of_kept(&self, kept: &CachedValue, sought: &Sought<'_>) -> Located {
        if *kept.key != *sought.key || kept.keyspace != sought.keyspace {
            return Located::OtherKey;
        }
        if kept.seq > sought.snapshot && !planted!("located_seq_unchecked") {
            return Located::Newer;
        }
        self.context.cache.count_hit();
        Located::Value(kept.seq, kept.value.clone())
    }

    fn read_spot(&self, spot: &Spot<'_>) -> Result<SharedBytes> {
        let mut owner: BytesArc<[u8]> =
            std::iter::repeat_n(0, (spot.end - spot.place.offset()) as usize).collect();
        let file = spot.file();
        if let Some(buffer) = BytesArc::get_mut(&mut owner) {
            let offset = spot.place.offset();
            let disk_file = file.disk_file()?;
            disk_file
                .read_exact_at(buffer, offset)
                .map_err(|error| super::failed(file, offset, error))?;
        }
        self.context.io.meter.read(Purpose::Read, owner.len() as u64);
        Ok(owner.into())
    }
}

impl Spot<'_> {
    fn file(&self) -> &Arc<ValueFile> {
        match &self.home {
            Home::Segment(file) | Home::Table(file, _) => file,
        }
    }

    fn batch_read(&self) -> Result<BatchRead> {
        let (file, offset) = (self.file().disk_file()?, self.place.offset());
        let buffer = vec![0; (self.end - offset) as usize];
        Ok(BatchRead { file, offset, buffer, result: Ok(()) })
    }

    /// The record in what was read from `base` on.
    fn prove(&self, owner: &SharedBytes, base: u64, sought: &Sought<'_>) -> Option<Proven> {
        match &self.home {
            Home::Segment(file) => prove_in_segment(file, owner, base, sought),
            Home::Table(_, table) => {
                let offset = self.place.offset();
                let (record, start) = table.record_in(owner, base, offset).ok()?;
                let rank = record.rank();
                let whose = (rank.keyspace, rank.key, rank.seq);
                let located = judge(whose, sought, || shared_value(&record, owner, start).ok())?;
                Some(Proven { offset, bytes: record.bytes() as u32, located })
            }
        }
    }
}

impl Proven {
    /// What the cache keeps it as.
    fn wanted<'a>(&self, place: &Place, sought: &Sought<'a>, seq: Seq) -> Wanted<'a> {
        let (offset, bytes) = (self.offset, self.bytes);
        let handle = Handle { file: place.container(), epoch: 0, offset, bytes };
        Wanted { handle, keyspace: sought.keyspace, key: sought.key, seq }
    }
}

/// The record that begins in the first unit of what was read of a segment from `base` on: at most
/// one begins there, and proves at which of its bytes.
fn prove_in_segment(
    file: &ValueFile,
    owner: &SharedBytes,
    base: u64,
    sought: &Sought<'_>,
) -> Option<Proven> {
    let read: &[u8] = owner;
    for skip in 0..UNIT_BYTES as usize {
        let rest = read.get(skip..).unwrap_or_default();
        if rest.first() != Some(&(Kind::PutSeparated as u8)) {
            continue;
        }
        let mut reader = Reader::new(rest.get(1..).unwrap_or_default());
        let Ok(record) = SeparatedRecord::decode_after_kind(rest, &mut reader) else { continue };
        let offset = base + skip as u64;
        if !record.holds_at(file.seed(), offset) {
            continue;
        }
        let whose = (record.keyspace, record.key, record.seq);
        let stored = record.stored_range();
        let value = || match record.value().ok()? {
            std::borrow::Cow::Borrowed(_) => {
                Some(Value::shared(owner.clone(), skip + stored.start..skip + stored.end))
            }
            std::borrow::Cow::Owned(value) => Some(Value::from(value)),
        };
        let located = judge(whose, sought, value)?;
        return Some(Proven { offset, bytes: record.bytes() as u32, located });
    }
    None
}

/// What a proven record means to whoever looks for a key (VL-1).
fn judge(
    (keyspace, key, seq): (KeyspaceId, &[u8], Seq),
    sought: &Sought<'_>,
    value: impl FnOnce() -> Option<Value>,
) -> Option<Located> {
    let is_the_keys = keyspace == sought.keyspace && key == sought.key;
    if !is_the_keys && !planted!("located_key_unchecked") {
        mark!("locator_other_key");
        return Some(Located::OtherKey);
    }
    if seq > sought.snapshot && !planted!("located_seq_unchecked") {
        mark!("locator_newer_than_snapshot");
        return Some(Located::Newer);
    }
    Some(Located::Value(seq, value()?))
}
