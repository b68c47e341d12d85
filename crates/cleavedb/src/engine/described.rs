//! What the manifest's edits amount to, and whether they can all be true.
//!
//! Pure: no I/O, one thread. A checksum says that an edit is what was written, not that it should
//! have been; what contradicts an earlier edit is refused here, before it is acted on.

use std::collections::{BTreeMap, VecDeque};

use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::base::section::{Section, SectionTag};
use crate::deltas::edit::DeltasEdit;
use crate::engine::catalogue::{KeyspaceEdit, check_name};
use crate::engine::lane::{JournalEdit, Segment};
use crate::engine::locate::edit::{LocatorEdit, SavedLocator};
use crate::engine::settings::{IndexKind, KeyspaceSettings};
use crate::engine::state::EngineEdit;
use crate::index::section_keyspace;
use crate::manifest::Edit;
use crate::values::drops::edit::FactsEdit;
use crate::values::edit::ValuesEdit;
use crate::values::strategy::kind::StrategyKind;

/// The state that the edits describe.
#[derive(Default)]
pub(crate) struct Described {
    /// The engine's own numbers, as the edits have reached them.
    pub(crate) engine: EngineEdit,
    /// Largest number of a keyspace ever given out.
    pub(crate) last_keyspace: u32,
    /// Keyspaces in force, with name and settings.
    pub(crate) keyspaces: BTreeMap<KeyspaceId, (String, KeyspaceSettings)>,
    /// Journal segments in force, oldest first.
    pub(crate) segments: VecDeque<Segment>,
    /// What was said of value files, in order; the file table says whether it can be true.
    pub(crate) values: Vec<ValuesEdit>,
    /// What was said of records that nothing names, in order.
    pub(crate) facts: Vec<FactsEdit>,
    /// How separated values are kept.
    pub(crate) strategy: StrategyKind,
    /// A checkpoint of the locator that counts.
    pub(crate) locator: Option<SavedLocator>,
    /// What was said of buckets, in order; the directory says whether it can be true.
    pub(crate) deltas: Vec<DeltasEdit>,
    /// Sections of each keyspace's index, in order.
    pub(crate) indexes: BTreeMap<KeyspaceId, Vec<Section>>,
}

impl Described {
    /// Adds the edits up.
    pub(crate) fn from_edits(edits: Vec<Edit>) -> Result<Self> {
        // Where nothing says otherwise, the store is older than the choice.
        let mut state = Self { strategy: StrategyKind::Wisckey, ..Self::default() };
        for section in edits.into_iter().flat_map(|edit| edit.sections) {
            match section.tag {
                SectionTag::ENGINE => state.apply_engine(EngineEdit::decode(&section.payload)?)?,
                SectionTag::KEYSPACES => {
                    for edit in KeyspaceEdit::decode(&section.payload)? {
                        state.apply_keyspace(edit)?;
                    }
                }
                SectionTag::JOURNAL => {
                    for edit in JournalEdit::decode(&section.payload)? {
                        edit.apply(&mut state.segments)?;
                    }
                }
                SectionTag::FACTS => state.facts.push(FactsEdit::decode(&section.payload)?),
                SectionTag::STORE => state.strategy = StrategyKind::decode(&section.payload)?,
                SectionTag::VALUES => state.values.extend(ValuesEdit::decode(&section.payload)?),
                SectionTag::DELTAS => state.deltas.extend(DeltasEdit::decode(&section.payload)?),
                SectionTag::LOCATOR => {
                    state.locator = match LocatorEdit::decode(&section.payload)? {
                        LocatorEdit::Touched => None,
                        LocatorEdit::Saved(saved) => Some(saved),
                    }
                }
                SectionTag::LSM | SectionTag::NAIVE | SectionTag::FLEX => {
                    state.apply_index(section)?;
                }
                _ => {}
            }
        }
        Ok(state)
    }

    fn apply_engine(&mut self, edit: EngineEdit) -> Result<()> {
        if edit.flushed_seq < self.engine.flushed_seq {
            return Err(Error::corruption("the manifest takes a flush back"));
        }
        // A flush may have read the counter before another edit was written.
        let next_file_id = edit.next_file_id.max(self.engine.next_file_id);
        self.engine = EngineEdit { next_file_id, ..edit };
        Ok(())
    }

    fn apply_keyspace(&mut self, edit: KeyspaceEdit) -> Result<()> {
        match edit {
            KeyspaceEdit::Create { id, name, settings } => {
                check_name(&name).map_err(|error| Error::corruption(error.message()))?;
                let taken = self.keyspaces.values().any(|(other, _)| *other == name);
                if taken || self.keyspaces.contains_key(&id) {
                    let message = format!("keyspace '{name}', number {}, is created twice", id.0);
                    return Err(Error::corruption(message));
                }
                self.last_keyspace = self.last_keyspace.max(id.0);
                self.keyspaces.insert(id, (name, settings));
            }
            KeyspaceEdit::Drop { id } => {
                if self.keyspaces.remove(&id).is_none() {
                    let message = format!("keyspace {} is dropped but not there", id.0);
                    return Err(Error::corruption(message));
                }
                self.indexes.remove(&id);
            }
            KeyspaceEdit::LastId { id } => self.last_keyspace = self.last_keyspace.max(id),
        }
        Ok(())
    }

    fn apply_index(&mut self, section: Section) -> Result<()> {
        let id = section_keyspace(&section)?;
        let Some((name, settings)) = self.keyspaces.get(&id) else {
            // A flush or compaction may have ended after its keyspace was dropped.
            if id.0 <= self.last_keyspace {
                return Ok(());
            }
            let message = format!("an index of keyspace {}, which never was", id.0);
            return Err(Error::corruption(message));
        };
        let kind = match section.tag {
            SectionTag::LSM => IndexKind::Lsm,
            SectionTag::FLEX => IndexKind::Flex,
            _ => IndexKind::Naive,
        };
        if settings.index != kind {
            let message = format!("keyspace '{name}' has a section of another kind of index");
            return Err(Error::corruption(message));
        }
        self.indexes.entry(id).or_default().push(section);
        Ok(())
    }
}
