//! A cursor over disjoint tables in key order, each opened only when the walk reaches it.
//!
//! Owned by one thread at a time. Invariants: R1 it holds the tables it may read (C4). R2 versions
//! of a key stand in one table, so a table's end is a key's end.

use crate::base::cursor::{Cursor, Head};
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::index::CursorOptions;
use crate::index::context::IndexContext;
use crate::index::table_file::{Hull, TableFile};
use crate::io::Purpose;
use crate::table::cursor::{Readahead, TableCursor, TableCursorOptions};

/// A cursor over sorted, disjoint tables.
pub(crate) struct RunCursor {
    context: Arc<IndexContext>,
    files: Arc<Vec<Arc<TableFile>>>,
    options: TableCursorOptions,
    /// Number of the open table and its cursor.
    open: Option<(usize, TableCursor)>,
}

impl RunCursor {
    /// A cursor over these tables, not positioned.
    pub(crate) fn new(
        context: Arc<IndexContext>,
        files: Arc<Vec<Arc<TableFile>>>,
        options: TableCursorOptions,
    ) -> Self {
        Self { context, files, options, open: None }
    }

    /// Opens table `number` unless it is open; false if there is none.
    fn enter(&mut self, number: usize) -> Result<bool> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == number) {
            return Ok(true);
        }
        self.open = None;
        let Some(file) = self.files.get(number) else { return Ok(false) };
        let reader = self.context.reader(file)?;
        self.open = Some((number, reader.cursor(self.options)));
        Ok(true)
    }

    /// Makes a failed or finished walk invalid (C2).
    fn guard(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.open = None;
        }
        outcome
    }

    fn forward_from(&mut self, number: usize, target: Option<(&[u8], Seq)>) -> Result<()> {
        let mut number = number;
        let mut target = target;
        while self.enter(number)? {
            let Some((_, cursor)) = &mut self.open else { break };
            match target.take() {
                Some((key, seq)) => cursor.seek(key, seq)?,
                None => cursor.seek_first()?,
            }
            if cursor.valid() {
                break;
            }
            number += 1;
        }
        Ok(())
    }

    fn backward_from(&mut self, number: Option<usize>, target: Option<(&[u8], Seq)>) -> Result<()> {
        let mut at = number;
        let mut target = target;
        while let Some(number) = at {
            if !self.enter(number)? {
                break;
            }
            let Some((_, cursor)) = &mut self.open else { break };
            match target.take() {
                Some((key, seq)) => cursor.seek_before(key, seq)?,
                None => cursor.seek_last()?,
            }
            if cursor.valid() {
                return Ok(());
            }
            at = number.checked_sub(1);
        }
        self.open = None;
        Ok(())
    }
}

impl Cursor for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        let outcome = self.forward_from(0, None);
        self.guard(outcome)
    }

    fn seek_last(&mut self) -> Result<()> {
        let outcome = self.backward_from(self.files.len().checked_sub(1), None);
        self.guard(outcome)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let number = self.files.partition_point(|file| file.hull().ends_before(key));
        let outcome = self.forward_from(number, Some((key, seq)));
        self.guard(outcome)
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let after = self.files.partition_point(|file| *file.meta.smallest <= *key);
        let outcome = self.backward_from(after.checked_sub(1), Some((key, seq)));
        self.guard(outcome)
    }

    fn next(&mut self) -> Result<()> {
        let Some((number, cursor)) = &mut self.open else { return Ok(()) };
        let number = *number;
        let mut outcome = cursor.next();
        if outcome.is_ok() && !cursor.valid() {
            outcome = self.forward_from(number + 1, None);
        }
        self.guard(outcome)
    }

    fn prev(&mut self) -> Result<()> {
        let Some((number, cursor)) = &mut self.open else { return Ok(()) };
        let number = *number;
        let mut outcome = cursor.prev();
        if outcome.is_ok() && !cursor.valid() {
            outcome = self.backward_from(number.checked_sub(1), None);
        }
        self.guard(outcome)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, cursor)| cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.open.as_ref().map_or(&[], |(_, cursor)| cursor.key())
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.open.as_ref().map_or(SEQ_MAX, |(_, cursor)| cursor.seq())
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.open.as_ref().map_or(Kind::Delete, |(_, cursor)| cursor.kind())
    }

    #[inline]
    fn head(&self) -> Option<Head<'_>> {
        self.open.as_ref().and_then(|(_, cursor)| cursor.head())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.open.as_ref().map_or(&[], |(_, cursor)| cursor.value())
    }

    fn value_owned(&self) -> Value {
        self.open.as_ref().map_or_else(|| Value::copy_from(&[]), |(_, cursor)| cursor.value_owned())
    }
}

/// How a table is walked for a cursor with these options. Only what users read says how far scans
/// go: a verification walks every table to its end.
pub(crate) fn table_options(options: &CursorOptions) -> TableCursorOptions {
    let CursorOptions { purpose, fill_cache, .. } = options;
    let readahead = match purpose {
        Purpose::Read => Readahead::Usual,
        _ => Readahead::Growing,
    };
    TableCursorOptions { purpose: *purpose, fill_cache: *fill_cache, readahead }
}

/// The tables of a sorted run that have keys in common with the range of the options.
pub(crate) fn files_in_range(
    files: &Arc<Vec<Arc<TableFile>>>,
    options: &CursorOptions,
) -> Arc<Vec<Arc<TableFile>>> {
    let range = &options.range;
    let wanted = |file: &&Arc<TableFile>| Hull::overlaps_range(file.hull(), range);
    let count = files.iter().filter(wanted).count();
    if count == files.len() {
        return files.clone();
    }
    Arc::new(files.iter().filter(wanted).cloned().collect())
}

#[cfg(test)]
mod tests;
