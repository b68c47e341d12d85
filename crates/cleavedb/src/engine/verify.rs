//! Verification: every byte of every file in force, and what must hold across structures, while
//! the database stays usable.

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::commit::{Task, Work};
use crate::engine::lane::Segment;
use crate::engine::view::View;
use crate::index::VerifySink;
use crate::io::Purpose;
use crate::log::format::Sealed;
use crate::log::reader::{ReadOptions, SegmentReader};
use crate::manifest::Manifest;

mod values;

/// What verification saw.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) problems: Vec<Error>,
}

/// Collects findings and reports progress.
struct Collector<'a> {
    outcome: Outcome,
    total_bytes: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl VerifySink for Collector<'_> {
    fn checked(&mut self, _file: FileId, bytes: u64) {
        self.outcome.bytes += bytes;
        let total = self.total_bytes.max(self.outcome.bytes);
        (self.progress)(self.outcome.bytes, total);
    }

    fn read(&mut self, files: u64, entries: u64) {
        self.outcome.files += files;
        self.outcome.entries += entries;
    }

    fn problem(&mut self, error: Error) {
        self.outcome.problems.push(error);
    }
}

impl Engine {
    /// Verifies everything. The open journal segment is sealed first, so that all of it is checked.
    pub(crate) fn verify(self: &Arc<Self>, progress: &mut dyn FnMut(u64, u64)) -> Result<Outcome> {
        if !self.settings.read_only && !self.health.is_stopped() {
            self.commit(Work::control(Task::Roll))?;
        }
        let view = self.view.load_full();
        let segments = self.journal.segments();
        let tables: u64 = view.indexes.values().map(|index| index.space().disk_bytes).sum();
        let sealed: u64 = segments.iter().filter_map(|s| s.sealed).map(|s| s.bytes).sum();
        let values = view.values.iter().filter(|entry| entry.state.sealed.is_some());
        let values: u64 = values.map(|entry| entry.disk_bytes()).sum();
        let containers = view.values.containers().map(|entry| entry.container.sealed().bytes);
        let values = values + containers.sum::<u64>();
        let large: u64 = view.values.large().map(|entry| entry.file.readable()).sum();
        let facts = self.facts.load().disk_bytes();
        let total_bytes = tables + sealed + values + large + facts + view.deltas.bytes();
        let mut collector = Collector { outcome: Outcome::default(), total_bytes, progress };
        for index in view.indexes.values() {
            let before = collector.outcome.bytes;
            index.verify(&mut collector);
            // Of a file that grows, what nothing leads to is not read.
            let read = collector.outcome.bytes - before;
            let rest = collector.total_bytes.saturating_sub(index.space().disk_bytes);
            collector.total_bytes = rest.saturating_add(read);
        }
        for segment in &segments {
            self.verify_segment(segment, &mut collector);
        }
        for entry in view.values.iter() {
            self.verify_value_file(entry, &mut collector);
        }
        for entry in view.values.containers() {
            self.verify_container(entry, &view.values, &mut collector);
        }
        for bucket in view.deltas.iter() {
            match bucket.verify(Purpose::Verify) {
                Ok(()) => {
                    collector.outcome.files += 1;
                    collector.outcome.entries += bucket.info().records;
                    collector.checked(bucket.info().id, u64::from(bucket.info().bytes));
                }
                Err(error) => collector.problem(error),
            }
        }
        self.facts.load_full().verify(&mut |id, checked| match checked {
            Ok(bytes) => {
                collector.outcome.files += 1;
                collector.checked(id, bytes);
            }
            Err(error) => collector.problem(error),
        });
        for entry in view.values.large() {
            self.verify_large_file(entry, &mut collector);
        }
        self.verify_handles(&view, &mut collector);
        match self.verify_locator() {
            Ok(Some((id, bytes))) => {
                collector.outcome.files += 1;
                collector.checked(id, bytes);
            }
            Ok(None) => {}
            Err(error) => collector.problem(error),
        }
        self.verify_manifest(&mut collector);
        self.verify_seqs(&view, &mut collector);
        Ok(collector.outcome)
    }

    fn verify_segment(&self, segment: &Segment, collector: &mut Collector<'_>) {
        let Some(sealed) = segment.sealed else { return };
        match self.read_segment(sealed) {
            Ok(bytes) => {
                collector.outcome.files += 1;
                collector.checked(segment.id, bytes);
            }
            // A flush may have made the segment superfluous meanwhile.
            Err(_) if !self.journal.segments().iter().any(|s| s.id == segment.id) => {}
            Err(error) => collector.problem(error),
        }
    }

    fn read_segment(&self, sealed: Sealed) -> Result<u64> {
        let path = self.dir.join(file_name(FileKind::Journal, sealed.id));
        let options = ReadOptions {
            kind: FileKind::Journal,
            id: sealed.id,
            uuid: self.uuid,
            sealed: Some(sealed),
            contiguous: false,
            purpose: Purpose::Verify,
        };
        let mut reader = SegmentReader::open(&self.io, &path, options)?;
        while reader.next_frame()?.is_some() {}
        Ok(sealed.bytes)
    }

    /// Reads the manifest back under its lock, so that no edit is half-written.
    fn verify_manifest(&self, collector: &mut Collector<'_>) {
        let _edits_wait = self.manifest.lock();
        match Manifest::read_only(&self.io, &self.dir) {
            Ok(_) => collector.outcome.files += 2,
            Err(error) => collector.problem(error),
        }
    }

    /// What the counters say must fit together.
    fn verify_seqs(&self, view: &View, collector: &mut Collector<'_>) {
        let flushed = self.flushed.load(Ordering::Acquire);
        let visible = self.visible.load(Ordering::Acquire);
        let allocated = self.commits.allocated.load(Ordering::Acquire);
        // The view is older than `flushed`: nothing in it may be newer.
        if let Some(last) = view.indexes.values().map(|index| index.largest_seq()).max()
            && last > flushed
        {
            collector.problem(Error::corruption(format!(
                "seqs out of order: an index holds {last}, flushed is {flushed}"
            )));
        }
        if flushed > visible || visible > allocated {
            collector.problem(Error::corruption(format!(
                "seqs out of order: flushed {flushed}, visible {visible}, allocated {allocated}"
            )));
        }
    }
}
