//! The naive twin: one sorted run in one table, rewritten at each flush.
//!
//! Same trait, same stripe rule, nothing clever: the oracle of the LSM-tree. Any number of threads
//! read; flushes are prepared and installed one at a time. Invariant: N1 the run is the bottom, so
//! nothing older than its entries exists anywhere.

use std::any::Any;

use crate::base::codec::Reader;
use crate::base::cursor::BoxCursor;
use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::lookup::Lookup;
use crate::base::merging::MergingCursor;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::{Arc, RwLock};
use crate::base::tombstone::Fragments;
use crate::index::context::IndexContext;
use crate::index::outputs::{OutputPlan, Outputs};
use crate::index::run_cursor::{RunCursor, table_options};
use crate::index::stripes::{StripeRule, Survivors, surviving_tombstones};
use crate::index::table_file::TableFile;
use crate::index::verify::verify_file;
use crate::index::{
    Backlog, CursorOptions, FileRecord, FlushInput, IndexJob, IndexSpace, IndexView, KeyLookup,
    KeyRange, LevelSpace, OrderedIndex, Prepared, VerifySink, WorkReport, section_keyspace,
};
use crate::io::Purpose;
use crate::table::cursor::{Readahead, TableCursorOptions};
use crate::table::meta::TableMeta;

#[cfg(test)]
mod tests;

/// Version of the section. On disk: raised by every change.
const VERSION: u8 = 1;

/// A naive index of one keyspace.
pub(crate) struct NaiveIndex {
    context: Arc<IndexContext>,
    current: RwLock<Arc<NaiveView>>,
}

/// One state of the run.
struct NaiveView {
    context: Arc<IndexContext>,
    run: Option<Arc<TableFile>>,
}

/// A prepared change: the run that takes the place of the current one.
struct NaiveChange {
    run: Option<Arc<TableFile>>,
}

impl NaiveIndex {
    /// The index that these sections describe; the last one counts, none: an empty index.
    pub(crate) fn recover(context: IndexContext, sections: &[Section]) -> Result<Arc<Self>> {
        let context = Arc::new(context);
        let mut run = None;
        for section in sections.iter().filter(|section| section.tag == SectionTag::NAIVE) {
            if section_keyspace(section)? != context.keyspace {
                return Err(Error::corruption("a section of another keyspace"));
            }
            run = decode(section)?;
        }
        let run = run.map(|meta| {
            context.file_ids.at_least(FileId(meta.file.0.saturating_add(1)));
            let file = TableFile::new(meta, 0, 0, context.obsolete.clone());
            file.keep();
            file
        });
        let view = Arc::new(NaiveView { context: context.clone(), run });
        Ok(Arc::new(Self { context, current: RwLock::new(view) }))
    }

    fn current(&self) -> Arc<NaiveView> {
        self.current.read().clone()
    }

    fn section(&self, run: Option<&TableFile>) -> Section {
        let mut payload = self.context.keyspace.0.to_le_bytes().to_vec();
        payload.push(VERSION);
        payload.push(u8::from(run.is_some()));
        if let Some(run) = run {
            run.meta.encode(&mut payload);
        }
        Section { tag: SectionTag::NAIVE, payload }
    }
}

/// Layout: keyspace u32, version u8, 0 or 1 for whether there is a run, the run's table.
fn decode(section: &Section) -> Result<Option<TableMeta>> {
    let mut reader = Reader::new(&section.payload);
    reader.u32()?;
    let version = reader.u8()?;
    if version != VERSION {
        let message = format!("section of version {version}, this build knows {VERSION}");
        return Err(Error::new(crate::base::error::ErrorKind::Unsupported, message));
    }
    let run = match reader.u8()? {
        0 => None,
        1 => Some(TableMeta::decode(&mut reader)?),
        other => return Err(Error::corruption(format!("a naive index of {other} runs"))),
    };
    if !reader.is_empty() {
        return Err(Error::corruption("a section of a naive index holds more than it should"));
    }
    Ok(run)
}

impl NaiveView {
    fn cursor_with(&self, options: TableCursorOptions) -> Option<BoxCursor> {
        let files = Arc::new(vec![self.run.clone()?]);
        Some(Box::new(RunCursor::new(self.context.clone(), files, options)))
    }
}

impl OrderedIndex for NaiveIndex {
    fn view(&self) -> Arc<dyn IndexView> {
        self.current()
    }

    fn apply_flush(&self, input: FlushInput<'_>) -> Result<Prepared> {
        let FlushInput { entries, tombstones, stripes, listeners, .. } = input;
        let mut listener = listeners();
        let old = self.current();
        let options = TableCursorOptions {
            purpose: Purpose::Flush,
            fill_cache: false,
            readahead: Readahead::Full,
        };
        let mut children = vec![entries()];
        children.extend(old.cursor_with(options));
        let mut all_tombstones = tombstones;
        all_tombstones.extend(IndexView::tombstones(&*old)?.tombstones());
        let fragments = Fragments::build(all_tombstones);
        let kept = surviving_tombstones(&fragments, stripes, |_, _| false, &mut *listener);
        let plan = OutputPlan {
            level: 0,
            purpose: Purpose::Flush,
            limited: false,
            table_bytes: u64::MAX,
            tick: 0,
            below: Vec::new(),
            kept: Vec::new(),
            span: None,
        };
        let mut outputs = Outputs::new(self.context.clone(), plan, kept);
        let mut merged: BoxCursor = Box::new(MergingCursor::new(children));
        merged.seek_first()?;
        let rule = StripeRule {
            snapshots: stripes,
            tombstones: &fragments,
            operator: self.context.operator.clone(),
            older_below: Box::new(|_| false),
            cancelled: None,
        };
        let mut survivors = Survivors::new(merged, None, rule, &mut *listener);
        while survivors.advance()? {
            outputs.add(survivors.key(), survivors.seq(), survivors.kind(), survivors.value())?;
        }
        let entries_in = survivors.entries_in();
        drop(survivors);
        let entries_out = outputs.entries();
        let run = outputs.finish()?.pop();
        let mut sections = vec![self.section(run.as_deref())];
        sections.extend(listener.finish()?);
        let report = WorkReport {
            kind: "flush",
            reason: "memtable".to_owned(),
            levels: (0, 0),
            parts: 1,
            bytes_read: old.run.as_ref().map_or(0, |run| run.meta.bytes),
            bytes_written: run.as_ref().map_or(0, |run| run.meta.bytes),
            entries_in,
            entries_out,
        };
        Ok(Prepared { sections, change: Box::new(NaiveChange { run }), report })
    }

    fn pick_job(&self) -> Option<Box<dyn IndexJob>> {
        None
    }

    fn install(&self, change: Box<dyn Any + Send>) -> Result<()> {
        let NaiveChange { run } = *change
            .downcast::<NaiveChange>()
            .map_err(|_| Error::invalid("a change of another kind of index"))?;
        if let Some(run) = &run {
            run.keep();
        }
        let next = Arc::new(NaiveView { context: self.context.clone(), run });
        let old = std::mem::replace(&mut *self.current.write(), next);
        if let Some(run) = &old.run {
            run.doom();
        }
        Ok(())
    }

    fn request_compaction(&self, _range: KeyRange, _orders: bool) -> u64 {
        0
    }

    fn compaction_done(&self, _ticket: u64) -> bool {
        true
    }

    fn backlog(&self) -> Backlog {
        Backlog::default()
    }

    fn snapshot_sections(&self) -> Vec<Section> {
        vec![self.section(self.current().run.as_deref())]
    }

    fn replay_floor(&self) -> Seq {
        0
    }

    fn retire(&self) {
        if let Some(run) = &self.current().run {
            run.doom();
        }
    }
}

impl IndexView for NaiveView {
    fn get(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        if let Some(run) = &self.run {
            self.context.reader(run)?.get(key, hash, lookup, Purpose::Read)?;
        }
        Ok(())
    }

    fn multi_get(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        for KeyLookup { key, hash, lookup } in keys.iter_mut() {
            if lookup.found.is_none() {
                self.get(key, *hash, lookup)?;
            }
        }
        Ok(())
    }

    fn cursors(&self, options: &CursorOptions) -> Result<Vec<BoxCursor>> {
        Ok(self.cursor_with(table_options(options)).into_iter().collect())
    }

    fn tombstones(&self) -> Result<Arc<Fragments>> {
        match &self.run {
            Some(run) => Ok(self.context.reader(run)?.tombstones().clone()),
            None => Ok(Arc::new(Fragments::default())),
        }
    }

    fn cover(&self, key: &[u8], snapshot: Seq) -> Result<Seq> {
        Ok(IndexView::tombstones(self)?.cover_seq(key, snapshot))
    }

    fn files(&self) -> Vec<FileRecord> {
        self.run.iter().map(|run| run.record()).collect()
    }

    fn largest_seq(&self) -> Seq {
        self.run.as_ref().map_or(0, |run| run.meta.largest_seq)
    }

    fn space(&self) -> IndexSpace {
        let Some(run) = &self.run else { return IndexSpace::default() };
        let meta = &run.meta;
        IndexSpace {
            levels: vec![LevelSpace {
                level: 0,
                files: 1,
                bytes: meta.bytes,
                target_bytes: 0,
                entries: meta.entries,
            }],
            disk_bytes: meta.bytes,
            live_bytes: meta.raw_key_bytes.saturating_add(meta.raw_value_bytes),
            entries: meta.entries,
            ..IndexSpace::default()
        }
    }

    fn verify(&self, sink: &mut dyn VerifySink) {
        if let Some(run) = &self.run
            && let Err(error) = verify_file(&self.context, run, sink)
        {
            sink.problem(error);
        }
    }
}
