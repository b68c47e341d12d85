//! Running the command and judging how it ended.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    /// It succeeded and said nothing on stderr; what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        String::from_utf8(self.stdout).unwrap()
    }

    /// It succeeded and printed one JSON value.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// It ended with `code` and one line on stderr that contains `part`.
    #[track_caller]
    pub fn fails(self, code: i32, part: &str) {
        let lines: Vec<_> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{self:?}");
        assert!(lines[0].starts_with("cleave: ") && lines[0].contains(part), "{self:?}");
        assert_eq!(self.code, code, "{self:?}");
    }
}

/// The command, to be run.
pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs the command.
pub fn cleave<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    let output = command(arguments).output().unwrap();
    Run {
        code: output.status.code().expect("not killed"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the command with something to read.
pub fn cleave_reading<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
    input: &[u8],
) -> Run {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().expect("not killed"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A directory for a store that does not exist yet, and room beside it.
pub struct Place {
    temporary: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { temporary: tempfile::tempdir().unwrap() }
    }

    /// Where the store is or will be.
    pub fn store(&self) -> PathBuf {
        self.beside("store")
    }

    /// A path beside the store.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// A file beside the store.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.beside(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs `cleave COMMAND STORE REST...`.
    pub fn run<S: AsRef<OsStr>>(&self, name: &str, rest: impl IntoIterator<Item = S>) -> Run {
        cleave(self.arguments(name, rest))
    }

    /// The arguments `COMMAND STORE REST...`.
    pub fn arguments<S: AsRef<OsStr>>(
        &self,
        name: &str,
        rest: impl IntoIterator<Item = S>,
    ) -> Vec<std::ffi::OsString> {
        let mut arguments = vec![name.into(), self.store().into()];
        arguments.extend(rest.into_iter().map(|argument| argument.as_ref().to_owned()));
        arguments
    }

    /// Puts some pairs.
    pub fn put(&self, pairs: &[(&str, &str)]) {
        for (key, value) in pairs {
            assert_eq!(self.run("put", [key, value]).ok(), "");
        }
    }

    /// The store's files with this extension.
    pub fn store_files(&self, extension: &str) -> Vec<PathBuf> {
        files(&self.store())
            .into_iter()
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect()
    }
}

/// Files of a directory, sorted.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
}

/// No arguments.
pub const NONE: [&str; 0] = [];
