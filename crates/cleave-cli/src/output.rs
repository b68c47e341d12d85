//! Standard output, buffered, ending the command quietly when its reader has gone.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Locks standard output.
    pub fn new() -> Self {
        Self { out: BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()) }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl fmt::Display) -> Result<()> {
        writeln!(self.out, "{line}").map_err(|error| Failure::output(&error))
    }

    /// Writes one JSON object as a line.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::no(format!("encoding JSON failed: {error}")))?;
        self.line(text)
    }

    /// Hands everything to the reader; must end every successful command.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(|error| Failure::output(&error))
    }
}

/// Tells that a command without other output has succeeded: `{"ok":true}` with `--json`, nothing
/// otherwise.
pub fn done(json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
        out.line("{\"ok\":true}")?;
    }
    out.finish()
}
