//! What the tests of value files share.

use std::path::Path;

use crate::base::entry::FileId;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::io::Io;
use crate::log::testing::values::Written;
use crate::log::testing::{DIR, UUID};
use crate::table::BlockCache;
use crate::values::cache::ValueCache;
use crate::values::edit::ValuesEdit;
use crate::values::file::{OpenFiles, ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::table::reader::LoadedIndexes;

/// What files of the tests' database work with.
pub(crate) fn context(io: &Io, direct_reads: bool) -> Arc<ValueContext> {
    Arc::new(ValueContext {
        io: io.clone(),
        dir: Path::new(DIR).to_owned(),
        uuid: UUID,
        obsolete: Arc::new(ObsoleteFiles::default()),
        direct_reads,
        open_files: Arc::new(OpenFiles::new(2)),
        cache: ValueCache::new(&Arc::new(BlockCache::new(1 << 20))),
        hole_block_bytes: 4096,
        table_indexes: LoadedIndexes::new(1 << 20),
        repairs: crate::values::repairs::Repairs::new(1 << 16),
    })
}

/// The table after these edits, files made as at open.
pub(crate) fn applied(
    context: &Arc<ValueContext>,
    before: &ValueFiles,
    edits: &[ValuesEdit],
) -> crate::base::error::Result<ValueFiles> {
    let next = before.apply(edits, &mut |kind, id| ValueFile::new(context, kind, id))?;
    next.settle(before);
    Ok(next)
}

/// A table of files that grow, each readable to its end.
pub(crate) fn growing(context: &Arc<ValueContext>, files: &[(u64, u64)]) -> ValueFiles {
    let edits: Vec<_> = files.iter().map(|&(id, _)| ValuesEdit::Added { id: FileId(id) }).collect();
    let table = applied(context, &ValueFiles::default(), &edits).unwrap();
    for &(id, end) in files {
        table.get(FileId(id)).unwrap().file.raise_readable(end);
    }
    table
}

/// The handle of a record that a test wrote.
pub(crate) fn handle(file: u64, written: &Written) -> Handle {
    Handle { file: FileId(file), epoch: 0, offset: written.offset, bytes: written.bytes }
}
