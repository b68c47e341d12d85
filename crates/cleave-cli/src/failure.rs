//! How a command ends when it does not end well: one line on stderr and an exit code.
//!
//! - 1: the answer is no (missing key, damage found) or the operation failed.
//! - 2: the call or its surroundings are wrong (unknown option, no store there, store in use).

use std::io;

use cleavedb::{Error, ErrorKind};

/// Exit code of "no" and of failed operations.
pub const EXIT_NO: u8 = 1;

/// Exit code of a wrong call or wrong surroundings.
pub const EXIT_USAGE: u8 = 2;

/// Result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command did not succeed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: Option<String>,
}

impl Failure {
    /// The answer is no, or the operation failed.
    pub fn no(message: impl Into<String>) -> Self {
        Self { code: EXIT_NO, message: Some(message.into()) }
    }

    /// The call or its surroundings are wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: EXIT_USAGE, message: Some(message.into()) }
    }

    /// Already told on stdout: only the exit code remains.
    pub fn told() -> Self {
        Self { code: EXIT_NO, message: None }
    }

    /// Writing to stdout failed. A closed pipe means that the reader has seen enough: not an
    /// error at all, but no reason to go on either.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { code: 0, message: None },
            _ => Self::no(format!("writing the output failed: {error}")),
        }
    }

    /// Reading or writing a named file failed.
    pub fn file(action: &str, path: &std::path::Path, error: &io::Error) -> Self {
        use io::ErrorKind as Os;
        let message = format!("{action} '{}' failed: {error}", path.display());
        match error.kind() {
            Os::NotFound | Os::PermissionDenied | Os::NotADirectory | Os::IsADirectory => {
                Self::usage(message)
            }
            _ => Self::no(message),
        }
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The line for stderr, if there is one.
    pub fn message(&self) -> Option<String> {
        self.message.as_ref().map(|message| {
            let words: Vec<_> = message.split(['\n', '\r']).map(str::trim).collect();
            words.join(" ").trim_end().to_owned()
        })
    }

    /// The same failure with `context` in front.
    #[must_use]
    pub fn context(mut self, context: &str) -> Self {
        self.message = self.message.map(|message| format!("{context}: {message}"));
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let advice = match error.kind() {
            ErrorKind::Corruption => "; `cleave verify` lists all damage, other keys stay readable",
            ErrorKind::Unsupported => "; use the version of cleave that wrote it",
            ErrorKind::MergeFailed => "; put or delete the key to make it readable again",
            _ => "",
        };
        let code = match error.kind() {
            ErrorKind::InvalidArgument
            | ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::InUse
            | ErrorKind::ReadOnly
            | ErrorKind::Unsupported
            | ErrorKind::Mismatch => EXIT_USAGE,
            _ => EXIT_NO,
        };
        Self { code, message: Some(format!("{error}{advice}")) }
    }
}
