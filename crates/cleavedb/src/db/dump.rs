//! Annotated dumps of any file of a database: offset, bytes, meaning. Reads only, never writes,
//! and goes on as far as it can in a damaged file.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! # cleavedb::Db::open(&path)?.close()?;
//! let mut text = String::new();
//! cleavedb::dump::dump_file(path.join("CURRENT"), &mut text)?;
//! assert!(text.contains("magic"));
//! # Ok::<(), cleavedb::Error>(())
//! ```

use std::path::Path;

use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, parse_file_name};
use crate::deltas::bucket::dump::dump_bucket;
use crate::index::flex::pages::dump::dump_pages;
use crate::index::flex::space::log::dump::dump_log;
use crate::index::flex::space::segment::dump::dump_space_segment;
use crate::io::context::native_io;
use crate::io::disk::OpenMode;
use crate::log::dump::dump_segment;
use crate::log::dump::values::dump_values;
use crate::manifest::dump::{dump_current, dump_manifest};
use crate::table::dump::dump_table;
use crate::values::drops::spilled::dump::dump_facts;
use crate::values::large::dump::dump_large;
use crate::values::locator::dump::dump_locator;
use crate::values::table::dump::dump_value_table;

/// Writes an annotated dump of one file to `out`. The file's name decides its kind; the database
/// may be open or damaged.
///
/// # Errors
/// `Io` where the file cannot be read, `InvalidArgument` where its name is not one of ours.
pub fn dump_file(path: impl AsRef<Path>, out: &mut String) -> Result<()> {
    let path = path.as_ref();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((kind, _)) = parse_file_name(name) else {
        let message = "not the name of a file of a database (000012.log, 000013.tbl, CURRENT, ..)";
        return Err(Error::invalid(message).in_file(path));
    };
    let bytes = read_whole(path)?;
    match kind {
        FileKind::Journal => dump_segment(&bytes, out),
        FileKind::Value => dump_values(&bytes, out),
        FileKind::Large => dump_large(&bytes, out),
        FileKind::ValueTable => dump_value_table(&bytes, out),
        FileKind::Locator => dump_locator(&bytes, out),
        FileKind::Bucket => dump_bucket(&bytes, out),
        FileKind::Facts => dump_facts(&bytes, out),
        FileKind::FlexPages => dump_pages(&bytes, out),
        FileKind::FlexSegment => dump_space_segment(&bytes, out),
        FileKind::FlexLog => dump_log(&bytes, out),
        FileKind::Manifest => dump_manifest(&bytes, out),
        FileKind::Current | FileKind::Creating => dump_current(&bytes, out),
        FileKind::Table => {
            // Writing to a string does not fail.
            let _ = dump_table(&bytes, out);
        }
        FileKind::Options => out.push_str(&String::from_utf8_lossy(&bytes)),
        FileKind::Lock => out.push_str("the lock: its contents mean nothing\n"),
        FileKind::Reserve => {
            let length = bytes.len();
            out.push_str(&format!("{length} bytes set aside for when the disk is full\n"));
        }
    }
    Ok(())
}

fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let failed = |cause| Error::io("reading the file", path, cause);
    let io = native_io(1, 0).map_err(failed)?;
    let read = || {
        let file = io.disk.open(path, OpenMode::default())?;
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let outcome = read().map_err(failed);
    io.executor.shutdown();
    outcome
}
