//! Proving what counts of a log where it stands: every frame and record of it, file by file, from
//! the newest to the oldest, for each says where the one before it ends. Nothing is done to a tree;
//! what the records come to in bytes is added up.

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::VerifySink;
use crate::index::flex::space::SpaceContext;
use crate::index::flex::space::log::{LogEnd, LogFile, open, read_file};
use crate::index::flex::space::record::Record;
use crate::io::Purpose;
use crate::log::format::Sealed;

/// What is known of where a file ends before it is read.
struct End {
    /// Its whole part that counts, as its successor or the state of the space says.
    sealed: Sealed,
    /// Number of its last group.
    group: u64,
}

/// Reads what counts of a log of these files, oldest first, which stand behind a checkpoint that
/// holds `group` as its last one, if anybody knows. Tells the sink what is wrong; returns by how
/// many bytes the space grew since, where nothing is.
pub(in crate::index::flex::space) fn verify(
    context: &Arc<SpaceContext>,
    group: Option<u64>,
    end: &LogEnd,
    files: &[Arc<LogFile>],
    sink: &mut dyn VerifySink,
) -> Option<i64> {
    let mut end = Some(End { sealed: end.sealed(), group: end.group });
    let (mut grown, mut is_whole) = (0i64, true);
    for (number, file) in files.iter().enumerate().rev() {
        let older = number.checked_sub(1).and_then(|number| files.get(number));
        let stated = end.take();
        let mut failed = |error: Error| {
            is_whole = false;
            sink.problem(error.in_file(&file.path()));
        };
        let (mut reader, predecessor) = match open(context, file, Purpose::Verify) {
            Ok(opened) => opened,
            Err(error) => {
                // Where the one before it ends, nobody can say now.
                failed(error);
                continue;
            }
        };
        let before = reader.next_seq().unwrap_or_default().saturating_sub(1);
        if predecessor.map(|sealed| sealed.id) != older.map(|older| older.id()) {
            failed(Error::corruption("a log goes on from another file than it did"));
        } else if older.is_none() && group.is_some_and(|group| group != before) {
            failed(Error::corruption("a log begins behind another group than the checkpoint"));
        }
        end = predecessor.map(|sealed| End { sealed, group: before });
        let Some(stated) = stated else { continue };
        let mut add = |record: &Record| {
            grown = grown.saturating_add(record.growth());
            Ok(())
        };
        let read = read_file(&mut reader, before, stated.sealed.bytes, &mut add);
        let good = reader.good_part().sealed;
        match read.and_then(|last| check_end(&stated, last, good)) {
            Ok(()) => {
                sink.read(1, 0);
                sink.checked(file.id(), stated.sealed.bytes);
            }
            Err(error) => failed(error),
        }
    }
    is_whole.then_some(grown)
}

/// What was read must be what the next file, or the state of the space, says of it.
fn check_end(stated: &End, last: u64, good: Sealed) -> Result<()> {
    if last != stated.group {
        let message = format!("a log's file of groups up to {last}, not {}", stated.group);
        return Err(Error::corruption(message));
    }
    if stated.sealed != good {
        return Err(Error::corruption("a log's file is not the one that was written"));
    }
    Ok(())
}
