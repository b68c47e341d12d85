//! Verification of value files: every byte of them, and that index entries and records agree.

use std::collections::BTreeMap;

use crate::base::entry::{FileId, KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::mapping::find::Mapped;
use crate::engine::read::look_up_in;
use crate::engine::verify::Collector;
use crate::engine::view::View;
use crate::index::{CursorOptions, IndexView, KeyRange, VerifySink};
use crate::io::Purpose;
use crate::log::footer::Totals;
use crate::log::reader::ReadOptions;
use crate::values::edit::ValuesEdit;
use crate::values::file_table::{ContainerEntry, LargeEntry, TableEntry, ValueFiles};
use crate::values::handle::Handle;
use crate::values::large::reader::LargeFile;
use crate::values::reader::Wanted;
use crate::values::ref_changes::RefChanges;
use crate::values::segment::scan_punched;
use crate::values::table::verify::verify;

/// Values read at a time.
const BATCH: usize = 128;
/// Bytes of records read at a time, one record more at most.
const BATCH_BYTES: u64 = 4 << 20;

/// An index entry that names a record.
struct Named {
    key: Vec<u8>,
    seq: Seq,
    handle: Handle,
}

impl Engine {
    /// Reads a sealed value file whole; what its records come to must be what the manifest says.
    pub(super) fn verify_value_file(&self, entry: &TableEntry, collector: &mut Collector<'_>) {
        let Some(values) = entry.state.sealed else { return };
        let options = ReadOptions {
            kind: FileKind::Value,
            id: entry.file.id(),
            uuid: self.uuid,
            sealed: Some(values.sealed),
            contiguous: false,
            purpose: Purpose::Verify,
        };
        let holds = |found: &Totals| match &entry.punched {
            None => *found == values.totals,
            Some(_) => entry.records_left() == Some((found.records, found.record_bytes)),
        };
        match scan_punched(&self.io, entry.file.path(), options, entry.punched.as_ref()) {
            Ok(footer) if holds(&footer.totals()) => {
                collector.outcome.files += 1;
                collector.checked(entry.file.id(), entry.disk_bytes());
            }
            Ok(_) => {
                let error = Error::corruption("the manifest says otherwise what the file holds");
                collector.problem(error.in_file(entry.file.path()));
            }
            Err(error) => collector.problem(error),
        }
    }

    /// Reads a container whole; what it holds must be what the manifest says.
    pub(super) fn verify_container(
        &self,
        entry: &ContainerEntry,
        files: &ValueFiles,
        collector: &mut Collector<'_>,
    ) {
        let container = &entry.container;
        let checked = container.table(Purpose::Verify).and_then(|table| {
            verify(table, Purpose::Verify, &mut |_| Ok(()))?;
            let found = table.properties();
            let are_files = found
                .sources
                .iter()
                .map(|source| source.file)
                .eq(files.files_in(container.id()).map(|file| file.id));
            if found.totals == entry.totals && are_files {
                return Ok(());
            }
            let message = "the manifest says otherwise what the file holds";
            Err(Error::corruption(message).in_file(container.file().path()))
        });
        match checked {
            Ok(()) => {
                collector.outcome.files += 1;
                collector.checked(container.id(), container.sealed().bytes);
            }
            Err(error) => collector.problem(error),
        }
    }

    /// Reads a large value's file whole; what it holds must be what the manifest says, if it names
    /// the file already.
    pub(super) fn verify_large_file(&self, entry: &LargeEntry, collector: &mut Collector<'_>) {
        let file = &entry.file;
        let checked = LargeFile::open_stated(file, Purpose::Verify).and_then(|large| {
            large.check(&mut |_, _, _| Ok(()))?;
            let bytes = large.layout().file_bytes();
            let is_right = entry.info.is_none_or(|info| {
                info.value_bytes == large.value_bytes()
                    && info.sealed.bytes == bytes
                    && info.sealed.checksum == large.trailer().checksum
            });
            let message = "the manifest says otherwise what the file holds";
            let wrong = || Error::corruption(message).in_file(file.path());
            if is_right { Ok(bytes) } else { Err(wrong()) }
        });
        match checked {
            Ok(bytes) => {
                collector.outcome.files += 1;
                collector.checked(file.id(), bytes);
            }
            Err(error) => collector.problem(error),
        }
    }

    /// Every entry's handle must lead to the record of its key and seq, and as many entries name
    /// each file as the manifest counts.
    pub(super) fn verify_handles(&self, view: &View, collector: &mut Collector<'_>) {
        let mut found = RefChanges::default();
        for (&keyspace, index) in view.indexes.iter() {
            if let Err(error) =
                self.verify_keyspace(view, keyspace, &**index, &mut found, collector)
            {
                collector.problem(error);
                return;
            }
        }
        let counted: BTreeMap<FileId, (i64, i64)> = found
            .edits()
            .into_iter()
            .filter_map(|edit| match edit {
                ValuesEdit::Counted { id, refs, ref_bytes } => Some((id, (refs, ref_bytes))),
                _ => None,
            })
            .collect();
        let segments = view
            .values
            .iter()
            .map(|entry| (&entry.file, (entry.state.refs as i64, entry.state.ref_bytes as i64)));
        let large = view.values.large().filter_map(|entry| {
            let refs = entry.refs as i64;
            Some((&entry.file, (refs, refs * entry.info?.value_bytes as i64)))
        });
        let moved = view.values.moved().filter_map(|file| {
            let home = &view.values.container(file.container)?.container;
            Some((file.id, home.file(), (file.refs as i64, file.ref_bytes as i64)))
        });
        let own = segments.chain(large).map(|(file, stated)| (file.id(), file, stated));
        for (id, file, stated) in own.chain(moved) {
            let seen = counted.get(&id).copied().unwrap_or_default();
            if seen != stated {
                let message = format!("entries {seen:?} name file {id}, {stated:?} are counted");
                collector.problem(Error::corruption(message).in_file(file.path()));
            }
        }
    }

    fn verify_keyspace(
        &self,
        view: &View,
        keyspace: KeyspaceId,
        index: &dyn IndexView,
        found: &mut RefChanges,
        collector: &mut Collector<'_>,
    ) -> Result<()> {
        let mut entries = index.cursor(&CursorOptions {
            range: KeyRange::default(),
            purpose: Purpose::Verify,
            fill_cache: false,
        })?;
        let mut batch: Vec<Named> = Vec::new();
        let mut bytes = 0;
        entries.seek_first()?;
        while entries.valid() {
            if entries.kind() == Kind::PutBare {
                let (key, seq) = (entries.key(), entries.seq());
                if let Some(handle) = self.verify_bare(view, keyspace, key, seq)? {
                    bytes += u64::from(handle.bytes);
                    batch.push(Named { key: key.to_vec(), seq, handle });
                }
            } else if entries.kind() == Kind::PutSeparated {
                let handle = self.strategy.resolve(entries.value())?;
                let (key, seq) = (entries.key(), entries.seq());
                // Where only a part of its file is gone, the entry is counted for it still.
                self.strategy.born(&handle, found);
                let wanted = Wanted { handle, keyspace, key, seq };
                if self.may_dangle(view, &wanted)? {
                    mark!("verify_met_dangling_entry");
                    entries.next()?;
                    continue;
                }
                if handle.is_large() {
                    // The file has been read whole: what is left is whether it is this entry's.
                    let reader = self.value_reader(&view.values);
                    if let Err(error) = reader.open_large(&wanted, Purpose::Verify) {
                        collector.problem(error);
                    }
                    entries.next()?;
                    continue;
                }
                bytes += u64::from(handle.bytes);
                batch.push(Named { key: entries.key().to_vec(), seq: entries.seq(), handle });
            }
            if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                self.verify_batch(view, keyspace, &batch, collector);
                batch.clear();
                bytes = 0;
            }
            entries.next()?;
        }
        self.verify_batch(view, keyspace, &batch, collector);
        Ok(())
    }

    /// The handle of a bare entry's record, if it is its key's newest version. The map has to know
    /// that, unless something newer or a range delete hides the entry.
    fn verify_bare(
        &self,
        view: &View,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: Seq,
    ) -> Result<Option<Handle>> {
        let mapped = self.mapping.as_ref().map(|mapping| {
            let located = mapping.key(keyspace, key);
            mapping.handle_of(&view.values, &located, SEQ_MAX, seq)
        });
        match mapped {
            Some(Ok(handle)) => return Ok(Some(handle)),
            // A collection has moved it since the view was taken.
            Some(Err(Mapped::Elsewhere)) => return Ok(None),
            _ => {}
        }
        let mut lookup = Lookup::new(self.visible.load(Ordering::Acquire));
        look_up_in(&self.view.load(), keyspace, key, &mut lookup)?;
        match lookup.found {
            Some(found) if found.seq == seq => Err(self.has_no_record(key)),
            _ => Ok(None),
        }
    }

    /// Whether an entry names what is gone, a file or a part of it, and may: no view that is asked
    /// for now sees it (rule R19).
    fn may_dangle(&self, view: &View, wanted: &Wanted<'_>) -> Result<bool> {
        let Wanted { keyspace, key, seq, .. } = *wanted;
        // Damage is no absence: whoever reads the value tells of it.
        if self.value_reader(&view.values).has(wanted, Purpose::Verify).unwrap_or(true) {
            return Ok(false);
        }
        let snapshots = self.snapshots.stripes();
        let moments = snapshots.into_iter().chain([self.visible.load(Ordering::Acquire)]);
        for moment in moments.filter(|&moment| moment >= seq) {
            let mut lookup = Lookup::new(moment);
            look_up_in(view, keyspace, key, &mut lookup)?;
            let seen = lookup.found;
            if seen.is_some_and(|seen| seen.seq == seq) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn verify_batch(
        &self,
        view: &View,
        keyspace: KeyspaceId,
        batch: &[Named],
        collector: &mut Collector<'_>,
    ) {
        let wanted: Vec<Wanted<'_>> = batch
            .iter()
            .map(|Named { key, seq, handle }| Wanted { handle: *handle, keyspace, key, seq: *seq })
            .collect();
        for outcome in self.value_reader(&view.values).read_many(&wanted, Purpose::Verify) {
            if let Err(error) = outcome {
                collector.problem(error);
            }
        }
    }
}
