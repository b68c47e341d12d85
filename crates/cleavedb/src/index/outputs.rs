//! Writes a sorted stream of entries into one or more tables, and range tombstones cut to them.
//!
//! Owned by one thread. Invariants: O1 versions of one key stand in one table. O2 tables of one
//! stream are disjoint; where a range tombstone spans several, each holds its part of it. O3
//! dropped unfinished, nothing stays: the writer removes what it began, and tables that are
//! complete but named by no edit queue themselves.

use crate::base::entry::{Kind, Seq, key_prefix};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::tombstone::RangeTombstone;
use crate::index::context::IndexContext;
use crate::index::table_file::TableFile;
use crate::io::Purpose;
use crate::table::writer::{TableOptions, TableWriter};

/// A table may overlap this many tables' worth of the level below: else moving it down later
/// would be one huge job.
const OVERLAP_TABLES_MAX: u64 = 10;

/// How a stream is written.
#[derive(Clone, Debug)]
pub(crate) struct OutputPlan {
    /// Level the tables are for.
    pub(crate) level: usize,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
    /// Whether the rate limiter applies.
    pub(crate) limited: bool,
    /// Bytes at which the next table is begun.
    pub(crate) table_bytes: u64,
    /// See `FileShape::tick`.
    pub(crate) tick: u64,
    /// Smallest keys and bytes of the tables one level further down, ascending.
    pub(crate) below: Vec<(Box<[u8]>, u64)>,
    /// Smallest keys of tables of the same level that stay where they are, ascending: none of the
    /// stream's keys lies within them, and no table of the stream may reach over them.
    pub(crate) kept: Vec<Box<[u8]>>,
    /// The range of the stream's keys, where tables are to end at wide gaps in it.
    pub(crate) span: Option<KeySpan>,
}

/// A gap between two keys is wide if it takes this part of the range of all keys. So a stream is
/// cut at as many gaps at most.
const WIDE_GAPS_MAX: u64 = 16;
/// A table is worth ending at a gap with this part of a table's bytes.
const GAP_TABLE_PART: u64 = 64;

/// Measures how far apart keys of a range are, by the bytes behind what all of them begin with.
#[derive(Clone, Debug)]
pub(crate) struct KeySpan {
    shared_bytes: usize,
    wide_gap: u64,
}

impl KeySpan {
    /// The range from `smallest` to `largest`.
    pub(crate) fn new(smallest: &[u8], largest: &[u8]) -> Self {
        let pairs = smallest.iter().zip(largest);
        let shared_bytes = pairs.take_while(|(one, other)| one == other).count();
        let place = |key: &[u8]| key_prefix(key.get(shared_bytes..).unwrap_or_default());
        let range = place(largest).saturating_sub(place(smallest));
        Self { shared_bytes, wide_gap: (range / WIDE_GAPS_MAX).max(1) }
    }

    /// Whether two keys of the range, the greater one second, are far apart.
    fn is_wide_gap(&self, one: &[u8], next: &[u8]) -> bool {
        let place = |key: &[u8]| key_prefix(key.get(self.shared_bytes..).unwrap_or_default());
        place(next).saturating_sub(place(one)) >= self.wide_gap
    }
}

struct OpenTable {
    writer: TableWriter,
    hidden: u64,
    /// Bytes of the level below that the table overlaps so far.
    overlap_bytes: u64,
}

/// The tables of one stream.
pub(crate) struct Outputs {
    context: Arc<IndexContext>,
    plan: OutputPlan,
    open: Option<OpenTable>,
    finished: Vec<Arc<TableFile>>,
    /// Range tombstones not wholly written yet, by start.
    tombstones: Vec<RangeTombstone>,
    /// Where the current table begins; `None` is the beginning of the stream.
    lower: Option<Box<[u8]>>,
    last_key: Vec<u8>,
    /// Position in `plan.below`.
    below_at: usize,
    /// Position in `plan.kept`.
    kept_at: usize,
    entries: u64,
}

impl Outputs {
    /// A stream with these range tombstones, ordered by start.
    pub(crate) fn new(
        context: Arc<IndexContext>,
        plan: OutputPlan,
        tombstones: Vec<RangeTombstone>,
    ) -> Self {
        debug_assert!(tombstones.is_sorted_by(|a, b| a.start <= b.start));
        Self {
            context,
            plan,
            open: None,
            finished: Vec::new(),
            tombstones,
            lower: None,
            last_key: Vec::new(),
            below_at: 0,
            kept_at: 0,
            entries: 0,
        }
    }

    /// Appends an entry; entries come in entry order.
    pub(crate) fn add(&mut self, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) -> Result<()> {
        let repeated = self.open.is_some() && self.last_key == key;
        if !repeated {
            self.pass_kept(Some(key))?;
            let overlap_bytes = self.pass_below(key);
            if self.is_full(overlap_bytes) || self.ends_at_gap(key) {
                self.cut(Some(key))?;
            }
            if let Some(open) = &mut self.open {
                open.overlap_bytes += overlap_bytes;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.entries += 1;
        let open = self.open_table()?;
        open.hidden += u64::from(repeated);
        open.writer.add(key, seq, kind, value)
    }

    /// Entries written so far.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Ends the stream: its tables, in key order, complete and durable with their names.
    pub(crate) fn finish(mut self) -> Result<Vec<Arc<TableFile>>> {
        self.pass_kept(None)?;
        self.cut(None)?;
        Ok(self.finished)
    }

    /// Moves past the tables below that begin at or before `key`; returns their bytes.
    fn pass_below(&mut self, key: &[u8]) -> u64 {
        let mut bytes = 0;
        while let Some((smallest, table_bytes)) = self.plan.below.get(self.below_at)
            && **smallest <= *key
        {
            bytes += table_bytes;
            self.below_at += 1;
        }
        bytes
    }

    /// Ends tables where a table that stays begins, for each one that begins before `key` (`None`:
    /// for all). A range tombstone behind it is then in a table behind it, too.
    fn pass_kept(&mut self, key: Option<&[u8]>) -> Result<()> {
        while let Some(smallest) = self.plan.kept.get(self.kept_at)
            && key.is_none_or(|key| **smallest < *key)
        {
            let smallest = smallest.clone();
            self.kept_at += 1;
            self.cut(Some(&smallest))?;
        }
        Ok(())
    }

    /// Whether the table should end because `key` is far from the last one: what grows at several
    /// places is then in tables of their own, and a merge at one place leaves the others alone.
    fn ends_at_gap(&self, key: &[u8]) -> bool {
        let (Some(span), Some(open)) = (&self.plan.span, &self.open) else { return false };
        span.is_wide_gap(&self.last_key, key)
            && open.writer.estimated_bytes() >= self.plan.table_bytes / GAP_TABLE_PART
    }

    fn is_full(&self, more_overlap: u64) -> bool {
        let overlap_max = self.plan.table_bytes.saturating_mul(OVERLAP_TABLES_MAX);
        self.open.as_ref().is_some_and(|open| {
            open.writer.estimated_bytes() >= self.plan.table_bytes
                || open.overlap_bytes + more_overlap > overlap_max
        })
    }

    fn open_table(&mut self) -> Result<&mut OpenTable> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.create_table()?,
        };
        Ok(self.open.insert(open))
    }

    fn create_table(&self) -> Result<OpenTable> {
        let context = &self.context;
        let id = context.file_ids.next();
        let options = TableOptions {
            uuid: context.uuid,
            file: id,
            keyspace: context.keyspace,
            level: self.plan.level,
            block_bytes: context.widths.block_bytes,
            restart_interval: context.widths.restart_interval,
            compression: context.compression_of(self.plan.level),
            purpose: self.plan.purpose,
            direct: context.direct_writes,
            limited: self.plan.limited,
        };
        let writer = TableWriter::create(&context.io, &context.table_path(id), options)?;
        Ok(OpenTable { writer, hidden: 0, overlap_bytes: 0 })
    }

    /// Ends the current table below `upper` (`None`: the end of the stream).
    fn cut(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let clipped = self.clip_tombstones(upper);
        if !clipped.is_empty() {
            self.open_table()?;
        }
        if let Some(mut open) = self.open.take() {
            for tombstone in &clipped {
                open.writer.add_tombstone(tombstone)?;
            }
            let meta = open.writer.finish()?;
            let obsolete = self.context.obsolete.clone();
            self.finished.push(TableFile::new(meta, open.hidden, self.plan.tick, obsolete));
        }
        self.lower = upper.map(Into::into);
        Ok(())
    }

    /// The parts of the range tombstones from where the current table begins up to `upper`.
    fn clip_tombstones(&mut self, upper: Option<&[u8]>) -> Vec<RangeTombstone> {
        let mut clipped = Vec::new();
        for tombstone in &self.tombstones {
            let mut part = tombstone.clone();
            if planted!("range_tombstone_not_truncated") {
                clipped.push(part);
                continue;
            }
            if let Some(lower) = self.lower.as_deref().filter(|lower| *lower > &*part.start) {
                part.start = lower.into();
            }
            if let Some(upper) = upper.filter(|upper| *upper < &*part.end) {
                part.end = upper.into();
            }
            if part.start < part.end {
                if part != *tombstone {
                    mark!("range_tombstone_split");
                }
                clipped.push(part);
            }
        }
        if let Some(upper) = upper {
            self.tombstones.retain(|tombstone| &*tombstone.end > upper);
        }
        clipped
    }
}

#[cfg(test)]
mod tests;
