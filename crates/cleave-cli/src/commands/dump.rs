//! `dump`: files of a store in words, read-only, whatever state they are in.

use std::fs;
use std::path::{Path, PathBuf};

use cleavedb::ErrorKind;

use crate::failure::{Failure, Result};
use crate::output::Output;

/// `cleave dump`
pub fn dump(path: &Path) -> Result<()> {
    let metadata = fs::metadata(path).map_err(|error| Failure::file("reading", path, &error))?;
    let files = if metadata.is_dir() { files_of(path)? } else { vec![path.to_path_buf()] };
    let alone = !metadata.is_dir();
    let mut out = Output::new();
    let mut failure = None;
    for file in files {
        let mut text = String::new();
        match cleavedb::dump::dump_file(&file, &mut text) {
            Ok(()) => {
                out.line(format_args!("== {}", file.display()))?;
                out.bytes(text.as_bytes())?;
            }
            // Beside a store's own files others may lie.
            Err(error) if !alone && error.kind() == ErrorKind::InvalidArgument => {
                out.line(format_args!("== {}: {}", file.display(), error.message()))?;
            }
            Err(error) => {
                failure.get_or_insert(Failure::from(error));
            }
        }
    }
    out.finish()?;
    failure.map_or(Ok(()), Err)
}

fn files_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let told = |error: std::io::Error| Failure::file("reading", dir, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(told)? {
        let entry = entry.map_err(told)?;
        if entry.file_type().map_err(told)?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    Ok(files)
}
