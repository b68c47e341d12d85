//! Opening stores and keyspaces the way each command may: only some commands create.

use std::path::Path;

use cleavedb::{Db, ErrorKind, Keyspace, KeyspaceOptions, Options};

use crate::args::Creation;
use crate::failure::{Failure, Result};

/// Keyspace used where none is named.
pub const DEFAULT_KEYSPACE: &str = "default";

/// What a command may do to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read an existing store and change nothing in it.
    Read,
    /// Change an existing store.
    Write,
    /// Change a store, creating it where there is none.
    Create,
}

impl Creation {
    /// The options of a store that is created so, and must have been, where it is there already.
    pub fn options(&self) -> Options {
        match self.strategy {
            Some(strategy) => Options::new().strategy(strategy),
            None => Options::new(),
        }
    }
}

/// Opens the store in `dir`.
pub fn open(dir: &Path, access: Access) -> Result<Db> {
    open_with(Options::new(), dir, access)
}

/// Opens the store in `dir`, creating it where there is none.
pub fn create(dir: &Path, creation: &Creation) -> Result<Db> {
    open_with(creation.options(), dir, Access::Create)
}

/// Opens the store in `dir` with more options.
pub fn open_with(options: Options, dir: &Path, access: Access) -> Result<Db> {
    attempt(options, dir, access)?.map_err(|error| explain(dir, error))
}

/// Opens the store in `dir`, leaving it to the caller to judge the engine's refusal.
pub fn try_open(dir: &Path, access: Access) -> Result<cleavedb::Result<Db>> {
    attempt(Options::new(), dir, access)
}

fn attempt(options: Options, dir: &Path, access: Access) -> Result<cleavedb::Result<Db>> {
    let shown = dir.display();
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::usage(format!("'{shown}' is a file; name a store's directory")));
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if access == Access::Create && !dir.exists() && parent.is_some_and(|parent| !parent.is_dir()) {
        return Err(Failure::usage(format!(
            "the store '{shown}' cannot be created, the folder above it does not exist; make that \
             first"
        )));
    }
    Ok(options
        .create_if_missing(access == Access::Create)
        .read_only(access == Access::Read)
        .open(dir))
}

/// The failure for an error of opening, with what to do about it.
pub fn explain(dir: &Path, error: cleavedb::Error) -> Failure {
    let dir = dir.display();
    match error.kind() {
        ErrorKind::InUse => Failure::usage(format!(
            "the store in '{dir}' is open in another process; end that one first"
        )),
        ErrorKind::NotFound => Failure::usage(format!(
            "there is no store in '{dir}'; name another directory, or create one with \
             `cleave put {dir} KEY VALUE` or `cleave load {dir} FILE`"
        )),
        _ => Failure::from(error).context(&format!("opening the store in '{dir}'")),
    }
}

/// The keyspace for reading. `None` means that it is empty: the default keyspace always counts as
/// being there, another one must be.
pub fn existing(db: &Db, name: &str) -> Result<Option<Keyspace>> {
    let found = db.existing_keyspace(name)?;
    if found.is_none() && name != DEFAULT_KEYSPACE {
        return Err(no_keyspace(db, name));
    }
    Ok(found)
}

/// The keyspace for writing, created if need be.
pub fn created(db: &Db, name: &str) -> Result<Keyspace> {
    match db.existing_keyspace(name)? {
        Some(found) => Ok(found),
        None => Ok(db.keyspace(name, KeyspaceOptions::new())?),
    }
}

/// The failure for a keyspace that is not there, naming those that are.
pub fn no_keyspace(db: &Db, name: &str) -> Failure {
    let names: Vec<_> = db.keyspaces().into_iter().map(|info| info.name).collect();
    let known = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
    Failure::usage(format!("there is no keyspace '{name}'; the store has: {known}"))
}
