//! Creating, finding and dropping keyspaces. Each change is an edit of its own, preceded by a sync
//! of the journal, so that no crash shows the change without the writes that came before it.

use crate::base::entry::{KeyspaceId, Kind};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::{KeyspaceEdit, KeyspaceState, check_name};
use crate::engine::settings::{Deltas, IndexKind, KeyspaceSettings};
use crate::engine::state::{Draft, Publication};
use crate::index::flex::intervals::{FlexIndex, FlexSizes};
use crate::index::lsm::LsmIndex;
use crate::index::naive::NaiveIndex;
use crate::index::{CursorOptions, IndexContext, IndexView, KeyRange, OrderedIndex};
use crate::io::Purpose;
use crate::values::ref_changes::RefChanges;

impl IndexKind {
    /// The index that `sections` describe.
    pub(crate) fn recover(
        self,
        context: IndexContext,
        sections: &[Section],
    ) -> Result<Arc<dyn OrderedIndex>> {
        Ok(match self {
            Self::Lsm => LsmIndex::recover(context, sections)?,
            Self::Naive => NaiveIndex::recover(context, sections)?,
            Self::Flex => {
                let sizes = FlexSizes::of(&context.widths).beside(context.reserve_bytes);
                FlexIndex::recover(context, &sizes, sections)?
            }
        })
    }
}

impl Engine {
    /// The keyspace of this name, created where it does not exist.
    pub(crate) fn keyspace(
        self: &Arc<Self>,
        name: &str,
        settings: KeyspaceSettings,
    ) -> Result<Arc<KeyspaceState>> {
        check_name(name)?;
        self.health.check_open()?;
        if let Some(found) = self.existing_keyspace(name)? {
            return check_settings(found, &settings);
        }
        if self.settings.read_only {
            let message = format!("there is no keyspace '{name}', and the database is read-only");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        if let Some(operator) = &settings.merge_operator {
            self.check_registered(operator)?;
        }
        self.create_keyspace(name, settings)
    }

    /// The keyspace of this name, if it exists.
    pub(crate) fn existing_keyspace(&self, name: &str) -> Result<Option<Arc<KeyspaceState>>> {
        self.health.check_open()?;
        let Some(found) = self.catalogue.lock().named(name) else { return Ok(None) };
        if let (Some(operator), None) = (&found.settings.merge_operator, &found.operator) {
            self.check_registered(operator)?;
        }
        Ok(Some(found))
    }

    fn check_registered(&self, operator: &str) -> Result<()> {
        if self.settings.operator(operator).is_some() {
            return Ok(());
        }
        let message =
            format!("merge operator '{operator}' is not registered; register it in the options");
        Err(Error::new(ErrorKind::NotFound, message))
    }

    fn create_keyspace(
        self: &Arc<Self>,
        name: &str,
        mut settings: KeyspaceSettings,
    ) -> Result<Arc<KeyspaceState>> {
        self.sync_logs()?;
        // Two threads may create at once: the number is taken and the name checked under one lock.
        let _creating = self.creating.lock();
        if let Some(found) = self.existing_keyspace(name)? {
            return check_settings(found, &settings);
        }
        let is_merged = settings.merge_operator.is_some();
        settings.deltas.get_or_insert(if is_merged { Deltas::Buckets } else { Deltas::Inline });
        let id = KeyspaceId(self.catalogue.lock().last_id + 1);
        let state = Arc::new(self.keyspace_state(id, name.to_owned(), settings.clone(), &[])?);
        let create = KeyspaceEdit::Create { id, name: name.to_owned(), settings };
        self.commit_edit(vec![KeyspaceEdit::encode(&[create])], |engine| {
            state.index.buckets_changed();
            engine.catalogue.lock().insert(Arc::clone(&state));
            let indexes = vec![(id, Some(state.index.view()))];
            Ok(Publication { indexes, flushed: None })
        })?;
        tracing::info!(keyspace = name, id = id.0, "keyspace created");
        Ok(state)
    }

    /// Drops a keyspace; its files go when the last reader lets go of them.
    pub(crate) fn drop_keyspace(self: &Arc<Self>, name: &str) -> Result<()> {
        self.health.check_writable()?;
        self.sync_logs()?;
        let _creating = self.creating.lock();
        let Some(state) = self.catalogue.lock().named(name) else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no keyspace '{name}'")));
        };
        while !self.commit_drop(&state)? {
            mark!("keyspace_counted_again_at_drop");
        }
        self.schedule_housekeeping();
        tracing::info!(keyspace = name, "keyspace dropped");
        Ok(())
    }

    /// Drops a keyspace, and takes its entries off the counts of value files; false if its index
    /// changed while they were counted.
    fn commit_drop(&self, state: &Arc<KeyspaceState>) -> Result<bool> {
        // Buckets, which all keyspaces share, change all the time, and have no references.
        let view = state.index.view_of_entries();
        let mut sections = vec![KeyspaceEdit::encode(&[KeyspaceEdit::Drop { id: state.id }])];
        sections.extend(self.count_off(&*view)?.encode());
        // Before the edit (MO-5): a checkpoint from before it would bring the keys back (MO-4).
        let moves = self.begin_moves(&mut sections);
        let is_unchanged = || Arc::ptr_eq(&view, &state.index.view_of_entries());
        let draft = Draft { sections, condition: Some(&is_unchanged), ..Draft::default() };
        let outcome = self.commit_draft(draft, |engine| {
            state.dropped.store(true, Ordering::Release);
            engine.catalogue.lock().remove(&state.name);
            state.index.retire();
            engine.deltas.forget_keyspace(state.id);
            if let Some(mapping) = &engine.mapping {
                mapping.forget_keyspace(state.id);
            }
            Ok(Publication { indexes: vec![(state.id, None)], flushed: None })
        });
        if let Some((mapping, moves)) = self.mapping.as_ref().zip(moves) {
            moves.publish(mapping.generation());
        }
        outcome
    }

    /// What it does to the counts if every entry of an index goes away. Reads no values.
    fn count_off(&self, view: &dyn IndexView) -> Result<RefChanges> {
        let mut changes = RefChanges::default();
        if !self.view.load().values.are_named() {
            return Ok(changes);
        }
        let mut entries = view.cursor(&CursorOptions {
            range: KeyRange::default(),
            purpose: Purpose::Compaction,
            fill_cache: false,
        })?;
        entries.seek_first()?;
        while entries.valid() {
            if entries.kind() == Kind::PutSeparated {
                let handle = self.strategy.resolve(entries.value())?;
                self.strategy.died(&handle, &mut changes);
            }
            entries.next()?;
        }
        Ok(changes)
    }
}

/// What was recorded must match what is asked for, where something is asked for.
fn check_settings(
    found: Arc<KeyspaceState>,
    wanted: &KeyspaceSettings,
) -> Result<Arc<KeyspaceState>> {
    let name = &found.name;
    let mismatch = |what: String| Err(Error::new(ErrorKind::Mismatch, what));
    if found.settings.index != wanted.index {
        let (is, asked) = (found.settings.index, wanted.index);
        return mismatch(format!("keyspace '{name}' has index {is:?}, not {asked:?}"));
    }
    if let Some(asked) = &wanted.merge_operator
        && found.settings.merge_operator.as_ref() != Some(asked)
    {
        let is = found.settings.merge_operator.as_deref().unwrap_or("none");
        return mismatch(format!("keyspace '{name}' has merge operator '{is}', not '{asked}'"));
    }
    let deltas = found.settings.deltas.unwrap_or_default();
    if let Some(asked) = wanted.deltas.filter(|asked| *asked != deltas) {
        return mismatch(format!("keyspace '{name}' has its deltas {deltas:?}, not {asked:?}"));
    }
    Ok(found)
}
