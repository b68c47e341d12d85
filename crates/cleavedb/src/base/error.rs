//! One public error type with a kind per thing a caller would do differently.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of every fallible operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an error. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is outside its range (key too long, range reversed): change the call.
    InvalidArgument,
    /// There is no database, keyspace or file by that name: create it or name another.
    NotFound,
    /// Something by that name is there already and the caller asked that it not be.
    AlreadyExists,
    /// Another process or handle has the database open: close that one first.
    InUse,
    /// Bytes on disk are not what was written: restore from a backup; other keys stay readable.
    Corruption,
    /// The operating system refused an operation; the outcome of a write is unknown.
    Io,
    /// The disk (or quota) is full: make room; deletes and reads still work.
    NoSpace,
    /// An earlier failed write or sync stopped all writes: reopen the database.
    Stopped,
    /// The database was opened read-only.
    ReadOnly,
    /// The files come from a newer version, or need a feature this build lacks.
    Unsupported,
    /// The stored setting (merge operator, strategy, comparator) differs from the one given.
    Mismatch,
    /// A conditional write met a newer version of its key: read again and retry.
    Conflict,
    /// The write waited longer than the caller allowed; nothing was written.
    Timeout,
    /// A merge operator failed or panicked on this key; the key's data is intact.
    MergeFailed,
    /// The value is too long to be handed over in one piece: read it with
    /// [`Keyspace::get_reader`](crate::Keyspace::get_reader).
    TooLarge,
    /// The handle was closed, or its keyspace dropped.
    Closed,
}

/// An error of the engine: a kind to act on, a message to read, and where it happened.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<std::io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Arc::new(Inner { kind, message, file: None, offset: None, source: None }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    pub(crate) fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// Wraps an error of the operating system; "no space" and quota errors get their own kind.
    pub(crate) fn io(action: &str, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Os;
        let kind = match source.kind() {
            Os::StorageFull | Os::QuotaExceeded | Os::FileTooLarge => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        };
        Self(Arc::new(Inner {
            kind,
            message: format!("{action} failed: {source}"),
            file: Some(path.to_owned()),
            offset: None,
            source: Some(source),
        }))
    }

    /// The same error with the file it concerns, unless it names one already.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        if self.0.file.is_some() {
            return self;
        }
        self.rebuild(|inner| inner.file = Some(path.to_owned()))
    }

    /// The same error with the byte offset in its file, unless it has one already.
    pub(crate) fn at_offset(self, offset: u64) -> Self {
        if self.0.offset.is_some() {
            return self;
        }
        self.rebuild(|inner| inner.offset = Some(offset))
    }

    /// The same error with another kind (for example an I/O error that stops the database).
    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        self.rebuild(|inner| inner.kind = kind)
    }

    /// The same error with `context` in front of its message.
    pub(crate) fn context(self, context: impl fmt::Display) -> Self {
        self.rebuild(|inner| inner.message = format!("{context}: {}", inner.message))
    }

    fn rebuild(self, change: impl FnOnce(&mut Inner)) -> Self {
        let old = &self.0;
        let source = old.source.as_ref().map(|s| match s.raw_os_error() {
            Some(code) => std::io::Error::from_raw_os_error(code),
            None => std::io::Error::new(s.kind(), s.to_string()),
        });
        let mut inner = Inner {
            kind: old.kind,
            message: old.message.clone(),
            file: old.file.clone(),
            offset: old.offset,
            source,
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without file and offset.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned, where there is one.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in [`Error::file`], where it is known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match (&self.0.file, self.0.offset) {
            (Some(file), Some(offset)) => write!(f, " ({} at offset {offset})", file.display()),
            (Some(file), None) => write!(f, " ({})", file.display()),
            (None, Some(offset)) => write!(f, " (at offset {offset})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|s| s as _)
    }
}
