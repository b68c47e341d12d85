//! The file table: which value files there are, what they hold, and how many index entries name
//! each. An immutable snapshot, pinned by every view together with the index (rule R12).
//!
//! Invariants: FT-1 counts are exact and change only by manifest edits (rule R8). FT-2 a table is
//! made of the one before and an edit without touching either: the engine makes the next one,
//! makes the edit durable, then publishes it and calls [`ValueFiles::settle`]. FT-3 an edit that
//! contradicts the table is refused as a whole.

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::runs::run_at;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::log::punched::Punched;
use crate::log::separated::SEPARATED_BYTES_MIN;
use crate::values::edit::{LargeInfo, SealedValues, ValuesEdit};
use crate::values::file::ValueFile;
use crate::values::handle::Handle;

mod containers;

pub(crate) use containers::{ContainerEntry, MovedFile};

/// What the manifest says of a value file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    /// What it holds; `None` while it grows.
    pub(crate) sealed: Option<SealedValues>,
    /// Index entries that name it.
    pub(crate) refs: u64,
    /// Bytes of the records that they name.
    pub(crate) ref_bytes: u64,
}

/// One file of the table.
#[derive(Clone)]
pub(crate) struct TableEntry {
    /// The file, pinned.
    pub(crate) file: Arc<ValueFile>,
    /// What the manifest says of it.
    pub(crate) state: FileState,
    /// What was given back of it.
    pub(crate) punched: Option<Arc<Punched>>,
}

impl TableEntry {
    /// Bytes that it takes of the disk once what was dropped of it is given back.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let sealed = self.state.sealed.map(|values| values.sealed.bytes);
        let freed = self.punched.as_ref().map_or(0, |punched| self.file.freed_by(&punched.runs));
        sealed.unwrap_or_else(|| self.file.readable()).saturating_sub(freed)
    }

    /// What is left of its records, by number and bytes; `None` while it grows.
    pub(crate) fn records_left(&self) -> Option<(u64, u64)> {
        let totals = self.state.sealed?.totals;
        let gone = self.punched.as_ref().map_or((0, 0), |p| (p.records, p.record_bytes));
        Some((totals.records.saturating_sub(gone.0), totals.record_bytes.saturating_sub(gone.1)))
    }

    /// Whether what a handle names there was dropped.
    pub(crate) fn has_dropped(&self, handle: &Handle) -> bool {
        self.punched.as_ref().is_some_and(|p| run_at(&p.runs, handle.offset).is_some())
    }
}

/// The file of one large value.
#[derive(Clone)]
pub(crate) struct LargeEntry {
    /// The file, pinned.
    pub(crate) file: Arc<ValueFile>,
    /// What the manifest says of it; `None` before the flush of its put: until then the log's
    /// record names it.
    pub(crate) info: Option<LargeInfo>,
    /// Index entries that name it: at most one, which moves through the levels.
    pub(crate) refs: u64,
}

impl LargeEntry {
    /// Whether the index knows its put, so that the file may go once nothing names it (rule R8).
    pub(crate) fn is_settled(&self, flushed: Seq) -> bool {
        self.info.is_some_and(|info| info.seq <= flushed)
    }

    /// Whether the file may be deleted unread.
    pub(crate) fn is_dead(&self, flushed: Seq) -> bool {
        self.refs == 0 && self.is_settled(flushed)
    }
}

/// A snapshot of the file table.
#[derive(Clone, Default)]
pub(crate) struct ValueFiles {
    /// Segments, ascending by number.
    entries: Vec<TableEntry>,
    /// Files of large values, ascending by number.
    large: Vec<LargeEntry>,
    /// Files that were rewritten, ascending by number: none of them is a segment any more.
    moved: Vec<MovedFile>,
    /// The containers that hold those, ascending by number.
    containers: Vec<ContainerEntry>,
}

/// Makes the file of an added number.
pub(crate) type FileOf<'a> = dyn FnMut(FileKind, FileId) -> Arc<ValueFile> + 'a;

impl ValueFiles {
    /// Whether the manifest names no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.containers.is_empty()
            && self.large.iter().all(|entry| entry.info.is_none())
    }

    /// All segments, ascending by number.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &TableEntry> {
        self.entries.iter()
    }

    /// The files of large values, ascending by number.
    pub(crate) fn large(&self) -> impl DoubleEndedIterator<Item = &LargeEntry> {
        self.large.iter()
    }

    /// Whether any index entry names any file.
    pub(crate) fn are_named(&self) -> bool {
        self.entries.iter().any(|entry| entry.state.refs > 0)
            || self.moved.iter().any(|file| file.refs > 0)
            || self.large.iter().any(|entry| entry.refs > 0)
    }

    /// The large value's file of this number.
    pub(crate) fn get_large(&self, id: FileId) -> Option<&LargeEntry> {
        self.find_large(id).ok().and_then(|at| self.large.get(at))
    }

    /// The table with one more file of a large value, which the manifest does not name yet.
    pub(crate) fn with_large(&self, file: &Arc<ValueFile>) -> Result<Self> {
        let id = file.id();
        let Err(at) = self.find_large(id) else { return Err(refused(id, "is added twice")) };
        let mut next = self.clone();
        next.large.insert(at, LargeEntry { file: Arc::clone(file), info: None, refs: 0 });
        Ok(next)
    }

    /// The table without a large value's file that the manifest never named.
    pub(crate) fn without_large(&self, id: FileId) -> Self {
        let mut next = self.clone();
        next.large.retain(|entry| entry.file.id() != id || entry.info.is_some());
        next
    }

    /// Whether what a handle names is there: its file, and that part of it. Of a file that was
    /// rewritten, only its value table knows.
    pub(crate) fn has(&self, handle: &Handle) -> bool {
        match handle.is_large() {
            true => self.get_large(handle.file).is_some(),
            false => match self.get(handle.file) {
                Some(entry) => !entry.has_dropped(handle),
                None => self.get_moved(handle.file).is_some(),
            },
        }
    }

    fn find_large(&self, id: FileId) -> Result<usize, usize> {
        self.large.binary_search_by_key(&id, |entry| entry.file.id())
    }

    /// The segment of this number.
    pub(crate) fn get(&self, id: FileId) -> Option<&TableEntry> {
        self.find(id).ok().and_then(|at| self.entries.get(at))
    }

    fn find(&self, id: FileId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.file.id())
    }

    /// The table after these edits. `file_of` makes the file of an added number, or hands out the
    /// one that the lane writes.
    pub(crate) fn apply(&self, edits: &[ValuesEdit], file_of: &mut FileOf<'_>) -> Result<Self> {
        let mut next = self.clone();
        for edit in edits {
            match *edit {
                ValuesEdit::Added { id } => next.add(id, file_of)?,
                ValuesEdit::Sealed(sealed) => next.seal(sealed)?,
                ValuesEdit::Counted { id, refs, ref_bytes } => next.count(id, refs, ref_bytes)?,
                ValuesEdit::Removed { id } => next.remove(id)?,
                ValuesEdit::AddedLarge(info) => next.add_large(info, file_of)?,
                ValuesEdit::Punched { id, ref punched } => next.punch(self, id, punched)?,
                ValuesEdit::Rewritten(ref info) => next.rewrite(info, file_of)?,
                ValuesEdit::Held(ref info) => next.hold(info, file_of)?,
            }
        }
        Ok(next)
    }

    /// Notes that this table is durable and published in the place of `before`: files that it
    /// names stay on disk, those it dropped go away with their last holder.
    pub(crate) fn settle(&self, before: &Self) {
        for entry in &before.entries {
            match self.get(entry.file.id()) {
                None => entry.file.doom(),
                Some(after) if Arc::ptr_eq(&after.file, &entry.file) => {}
                Some(TableEntry { file, punched, .. }) => {
                    let runs = punched.as_ref().map(|punched| Arc::clone(&punched.runs));
                    entry.file.followed_by(file, &runs.unwrap_or_default());
                }
            }
        }
        for entry in &self.entries {
            entry.file.keep();
        }
        self.settle_containers(before);
        for entry in &before.large {
            if self.get_large(entry.file.id()).is_none() {
                entry.file.doom();
            }
        }
        for entry in &self.large {
            entry.file.keep();
        }
    }

    /// The section that makes this table out of nothing.
    pub(crate) fn snapshot(&self) -> Section {
        ValuesEdit::encode(&self.edits())
    }

    /// The edits that make this table out of nothing.
    pub(crate) fn edits(&self) -> Vec<ValuesEdit> {
        let mut edits = Vec::with_capacity(3 * self.entries.len());
        for TableEntry { file, state, punched } in &self.entries {
            let id = file.id();
            edits.push(ValuesEdit::Added { id });
            edits.extend(state.sealed.map(ValuesEdit::Sealed));
            let punched = punched.as_ref().map(Arc::clone);
            edits.extend(punched.map(|punched| ValuesEdit::Punched { id, punched }));
            if state.refs > 0 {
                // Counts far below 2^63: a file of that many bytes cannot be.
                let (refs, ref_bytes) = (state.refs as i64, state.ref_bytes as i64);
                edits.push(ValuesEdit::Counted { id, refs, ref_bytes });
            }
        }
        self.add_container_edits(&mut edits);
        for LargeEntry { file, info, refs } in &self.large {
            // What the log's record names alone stays out: nothing of it need be durable.
            let Some(info) = *info else { continue };
            edits.push(ValuesEdit::AddedLarge(info));
            if *refs > 0 {
                let ref_bytes = info.value_bytes as i64;
                edits.push(ValuesEdit::Counted { id: file.id(), refs: *refs as i64, ref_bytes });
            }
        }
        edits
    }

    fn add_large(&mut self, info: LargeInfo, file_of: &mut FileOf<'_>) -> Result<()> {
        let id = info.sealed.id;
        let at = match self.find_large(id) {
            Ok(at) => at,
            Err(at) => {
                let file = file_of(FileKind::Large, id);
                self.large.insert(at, LargeEntry { file, info: None, refs: 0 });
                at
            }
        };
        let Some(entry) = self.large.get_mut(at).filter(|entry| entry.info.is_none()) else {
            return Err(refused(id, "is added twice"));
        };
        entry.info = Some(info);
        entry.file.raise_readable(info.sealed.bytes);
        Ok(())
    }

    /// Counts for a large value's file, if it is one: one entry names it, or none.
    fn count_large(&mut self, id: FileId, refs: i64, ref_bytes: i64) -> Option<Result<()>> {
        let at = self.find_large(id).ok()?;
        let entry = self.large.get_mut(at)?;
        let counted = entry.info.and_then(|info| {
            let refs = entry.refs.checked_add_signed(refs).filter(|&refs| refs <= 1)?;
            let before = entry.refs as i64 * info.value_bytes as i64;
            (before.checked_add(ref_bytes)? == refs as i64 * info.value_bytes as i64)
                .then_some(refs)
        });
        Some(match counted {
            Some(refs) => {
                entry.refs = refs;
                Ok(())
            }
            None => Err(refused(id, "of a large value is counted wrongly")),
        })
    }

    fn add(&mut self, id: FileId, file_of: &mut FileOf<'_>) -> Result<()> {
        let Some(at) = self.find(id).err().filter(|_| self.get_moved(id).is_none()) else {
            return Err(refused(id, "is added twice"));
        };
        let file = file_of(FileKind::Value, id);
        debug_assert_eq!(file.id(), id);
        self.entries.insert(at, TableEntry { file, state: FileState::default(), punched: None });
        Ok(())
    }

    /// The entry of a file that an edit names.
    fn named(&mut self, id: FileId) -> Result<&mut TableEntry> {
        let found = self.find(id).ok().and_then(|at| self.entries.get_mut(at));
        found.ok_or_else(|| refused(id, "is named before it is added"))
    }

    fn seal(&mut self, sealed: SealedValues) -> Result<()> {
        let id = sealed.sealed.id;
        let entry = self.named(id)?;
        if entry.state.sealed.is_some_and(|before| before != sealed) {
            return Err(refused(id, "is sealed twice, differently"));
        }
        entry.state.sealed = Some(sealed);
        entry.file.raise_readable(sealed.sealed.bytes);
        entry.state.check(id)
    }

    /// Drops runs of a file. Whoever holds the table `before` goes on reading the file as it was
    /// there, so that there is one more of it from here on.
    fn punch(&mut self, before: &Self, id: FileId, punched: &Arc<Punched>) -> Result<()> {
        let entry = self.named(id)?;
        let follows = entry.state.sealed.is_some_and(|SealedValues { sealed, totals, .. }| {
            punched.follows(entry.punched.as_deref(), sealed.bytes, &totals)
        });
        if !follows {
            return Err(refused(id, "has holes that it cannot have"));
        }
        let is_read = before.get(id).is_some_and(|known| Arc::ptr_eq(&known.file, &entry.file));
        if is_read {
            entry.file = entry.file.after_punch();
        }
        entry.punched = Some(Arc::clone(punched));
        Ok(())
    }

    fn count(&mut self, id: FileId, refs: i64, ref_bytes: i64) -> Result<()> {
        if let Some(counted) = self.count_large(id, refs, ref_bytes) {
            return counted;
        }
        if let Some(counted) = self.count_moved(id, refs, ref_bytes) {
            return counted;
        }
        let Ok(entry) = self.named(id) else {
            // Entries that no live view sees may name a file that is gone (rule R19); a compaction
            // drops them later, or gives them the place where it found their record while that was
            // there, which may take some bytes more.
            if refs <= 0 {
                mark!("values_count_of_a_gone_file");
                return Ok(());
            }
            return Err(refused(id, "is named by new entries, though it is gone"));
        };
        let state = &mut entry.state;
        let counts =
            state.refs.checked_add_signed(refs).zip(state.ref_bytes.checked_add_signed(ref_bytes));
        let Some(counts) = counts else {
            return Err(refused(id, "loses more entries than name it"));
        };
        (state.refs, state.ref_bytes) = counts;
        state.check(id)
    }

    fn remove(&mut self, id: FileId) -> Result<()> {
        if let Some(entry) = self.get_large(id) {
            if entry.info.is_none() {
                return Err(refused(id, "is removed before it is added"));
            }
            self.large.retain(|entry| entry.file.id() != id);
            return Ok(());
        }
        if self.remove_moved(id) {
            return Ok(());
        }
        if self.named(id)?.state.sealed.is_none() {
            return Err(refused(id, "is removed while it grows"));
        }
        self.entries.retain(|entry| entry.file.id() != id);
        Ok(())
    }
}

impl FileState {
    /// Whether the numbers can be: each entry names a record of its own.
    fn check(&self, id: FileId) -> Result<()> {
        let least = self.refs.saturating_mul(SEPARATED_BYTES_MIN as u64);
        if (self.refs == 0) != (self.ref_bytes == 0) || self.ref_bytes < least {
            return Err(refused(id, "is named by entries without bytes, or bytes without entries"));
        }
        let fits = self.sealed.is_none_or(|SealedValues { totals, .. }| {
            self.refs <= totals.records && self.ref_bytes <= totals.record_bytes
        });
        if fits { Ok(()) } else { Err(refused(id, "is named by more entries than it has records")) }
    }

    /// Whether garbage collection may look at the file: it grows no more, and the index knows all
    /// that is in it (rules R8 and R9).
    pub(crate) fn is_settled(&self, flushed: Seq) -> bool {
        self.sealed.is_some_and(|sealed| sealed.last_seq <= flushed)
    }

    /// Whether the file may be deleted unread (rule R8).
    pub(crate) fn is_dead(&self, flushed: Seq) -> bool {
        self.refs == 0 && self.is_settled(flushed)
    }
}

fn refused(id: FileId, what: &str) -> Error {
    Error::corruption(format!("value file {id} {what}"))
}

#[cfg(test)]
mod tests;
