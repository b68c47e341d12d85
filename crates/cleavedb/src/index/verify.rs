//! Checks one table that an index names: every byte of it, and what the manifest says of it.

use crate::base::error::Result;
use crate::index::VerifySink;
use crate::index::context::IndexContext;
use crate::index::table_file::TableFile;
use crate::table::verify::VerifyEvent;

/// Reports findings about one table; an error means that it cannot even be opened.
pub(crate) fn verify_file(
    context: &IndexContext,
    file: &TableFile,
    sink: &mut dyn VerifySink,
) -> Result<()> {
    let reader = context.reader(file)?;
    sink.read(1, file.meta.entries);
    reader.verify(&mut |event| match event {
        VerifyEvent::Checked(bytes) => sink.checked(file.id(), bytes),
        VerifyEvent::Problem(error) => sink.problem(error),
    });
    Ok(())
}
