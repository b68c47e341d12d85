//! Which files the demo takes: regular ones, in path order, until the limit; never the store's.

use std::fs;
use std::path::{Path, PathBuf};

use cleavedb::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::failure::{Failure, Result};

/// The files to store.
#[derive(Default)]
pub struct Found {
    /// Paths.
    pub files: Vec<PathBuf>,
    /// Files left out: too large, beyond the limit, or in folders that cannot be listed.
    pub skipped: u64,
}

/// The folder that holds the current directory's repository, else the current directory.
pub fn repository() -> Result<PathBuf> {
    let current = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("no current directory ({error}); name one")))?;
    let root = current.ancestors().find(|dir| dir.join(".git").exists());
    Ok(root.map_or_else(|| current.clone(), Path::to_path_buf))
}

/// Files below `folder` with at most `bytes_max` together, leaving out what is below `store`.
pub fn find(folder: &Path, store: &Path, bytes_max: u64) -> Result<Found> {
    if !folder.is_dir() {
        return Err(Failure::usage(format!("there is no folder '{}'", folder.display())));
    }
    let store = std::path::absolute(store).unwrap_or_else(|_| store.to_path_buf());
    let mut found = Found::default();
    let mut room = bytes_max;
    // Reversed, so that the stack gives entries in path order.
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if std::path::absolute(&path).is_ok_and(|path| path == store) {
            continue;
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            found.skipped += 1;
            continue;
        };
        if metadata.is_dir() || path == folder {
            let Ok(entries) = fs::read_dir(&path) else {
                found.skipped += 1;
                continue;
            };
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort_unstable_by(|a, b| b.cmp(a));
            open.append(&mut paths);
        } else if metadata.is_file() {
            let fits = metadata.len() <= room
                && metadata.len() <= VALUE_BYTES_MAX as u64
                && path.as_os_str().len() <= KEY_BYTES_MAX;
            if fits {
                room -= metadata.len();
                found.files.push(path);
            } else {
                found.skipped += 1;
            }
        }
    }
    Ok(found)
}
