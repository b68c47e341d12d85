//! What one flush or compaction does to the number of index entries that name each value file: the
//! exact counts of rule R8. Owned by one listener; its edits go into the same manifest edit as the
//! entries themselves (rule R6).

use std::collections::BTreeMap;

use crate::base::entry::FileId;
use crate::base::section::Section;
use crate::values::edit::ValuesEdit;
use crate::values::handle::Handle;

/// Changes by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefChanges {
    /// Entries, and bytes of the records that they name.
    by_file: BTreeMap<FileId, (i64, i64)>,
}

impl RefChanges {
    /// An entry with this handle comes into the index.
    pub(crate) fn born(&mut self, handle: &Handle) {
        self.add(handle, 1);
    }

    /// An entry with this handle leaves the index.
    pub(crate) fn died(&mut self, handle: &Handle) {
        self.add(handle, -1);
    }

    fn add(&mut self, handle: &Handle, sign: i64) {
        let (refs, bytes) = self.by_file.entry(handle.file).or_default();
        *refs += sign;
        *bytes += sign * i64::from(handle.bytes);
    }

    /// The edits, ascending by file; files whose changes cancel out are left out.
    pub(crate) fn edits(&self) -> Vec<ValuesEdit> {
        let changed = self.by_file.iter().filter(|(_, change)| **change != (0, 0));
        changed
            .map(|(&id, &(refs, ref_bytes))| ValuesEdit::Counted { id, refs, ref_bytes })
            .collect()
    }

    /// The section of these edits; `None` where nothing changes.
    pub(crate) fn encode(&self) -> Option<Section> {
        let edits = self.edits();
        (!edits.is_empty()).then(|| ValuesEdit::encode(&edits))
    }
}

#[cfg(test)]
mod tests;
