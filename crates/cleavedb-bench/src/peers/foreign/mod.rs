//! Engines that are not written in Rust: the only place of this crate with `unsafe`.
//!
//! - F1: a library is opened once and never closed, for its threads may outlive every store.
//! - F2: every handle has one owner, which destroys it when it is dropped; a store outlives its
//!   iterators and batches because they borrow it.
//! - F3: what a library hands out is copied or shown to the caller before it is given back.

#![expect(unsafe_code, reason = "calls into engines written in C and C++")]

mod batch;
mod functions;
mod parts;
mod settings;
mod statistics;
mod store;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use heed::{Env, EnvFlags, EnvOpenOptions, WithoutTls};
use libloading::Library;

pub(super) use settings::{open_leveldb, open_rocksdb, open_rocksdb_blob, open_rocksdb_merge};

/// Names the folder with the shared libraries.
pub const LIBRARY_FOLDER: &str = "CLEAVEDB_PEERS";

/// Address space for LMDB's map; its file is as large as its contents.
const LMDB_MAP_BYTES: usize = 1 << 38;

/// Readers of LMDB at the same time.
const LMDB_READERS_MAX: u32 = 1_024;

/// A library that may be there.
pub(super) struct Foreign {
    /// File names it may have.
    files: &'static [&'static str],
    /// Libraries it links to that may stand beside it.
    needs: &'static [&'static str],
    library: OnceLock<std::result::Result<Library, String>>,
}

pub(super) static ROCKSDB: Foreign = Foreign {
    files: &["librocksdbjni-linux64.so", "librocksdb.so"],
    needs: &[],
    library: OnceLock::new(),
};

pub(super) static LEVELDB: Foreign = Foreign {
    files: &["libleveldb.so.1d", "libleveldb.so"],
    needs: &["libsnappy.so.1"],
    library: OnceLock::new(),
};

impl Foreign {
    /// The open library.
    fn get(&'static self) -> Result<&'static Library> {
        let library = self.library.get_or_init(|| self.open());
        library.as_ref().map_err(|why| anyhow::anyhow!("{why}"))
    }

    fn open(&self) -> std::result::Result<Library, String> {
        let folder = std::env::var_os(LIBRARY_FOLDER).map(PathBuf::from);
        let mut why = Vec::new();
        let place = |file: &str| folder.as_ref().map_or_else(|| file.into(), |dir| dir.join(file));
        for file in self.needs {
            // SAFETY: as for the library itself, below. Where it is not there, the system's own
            // is taken, or the library says what it lacks.
            if let Ok(needed) = unsafe { Library::new(place(file)) } {
                std::mem::forget(needed);
            }
        }
        for file in self.files {
            let path: PathBuf = place(file);
            // SAFETY: opening runs the library's initialisers. They are those of an engine that
            // the user has put there to be measured, and depend on nothing of this process.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Ok(library),
                // With its causes: the error itself does not name the file.
                Err(error) => why.push(format!("{:#}", anyhow::Error::from(error))),
            }
        }
        Err(format!("{} ({LIBRARY_FOLDER} names their folder)", why.join("; ")))
    }
}

/// Why the engine called `name` cannot be opened on this machine, if it cannot.
#[must_use]
pub fn absent(name: &str) -> Option<String> {
    let library = match name {
        "leveldb" => &LEVELDB,
        name if name.starts_with("rocksdb") => &ROCKSDB,
        _ => return None,
    };
    library.get().err().map(|error| format!("{error:#}"))
}

/// Opens an environment of LMDB in a folder that exists.
pub(super) fn open_lmdb(dir: &Path, sync: bool) -> Result<Env<WithoutTls>> {
    let mut flags = EnvFlags::NO_READ_AHEAD;
    if !sync {
        flags |= EnvFlags::NO_SYNC;
    }
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(LMDB_MAP_BYTES).max_readers(LMDB_READERS_MAX);
    // SAFETY: neither flag weakens what the process sees: there is no write map, so nothing but
    // LMDB writes to the pages, and without syncs only a power cut can damage the file, after
    // which nobody reads it.
    unsafe { options.flags(flags) };
    // SAFETY: the file is in a folder of this run alone; no other process changes it while it is
    // mapped, and this one opens it once (LMDB's own registry refuses a second time).
    unsafe { options.open(dir) }.context("LMDB")
}
