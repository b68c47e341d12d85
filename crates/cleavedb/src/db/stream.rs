//! Reading one value piece by piece.

use std::io::{self, Read, Seek, SeekFrom};

use crate::base::error::{Error, ErrorKind, Result};
use crate::engine::read::Source;

/// A value that is read piece by piece, with one piece of at most 1 MiB in memory: what
/// [`Keyspace::get_reader`](crate::Keyspace::get_reader) returns.
///
/// It is the value of the moment it was asked for, whatever is written later, and holds its file
/// for as long as it lives. Errors of [`Read`] wrap an [`Error`]; a damaged piece is an error, and
/// the pieces around it stay readable by [`Seek`].
pub struct ValueStream {
    source: Source,
    position: u64,
    /// The piece read last, and its number.
    chunk: Vec<u8>,
    number: Option<u64>,
}

impl ValueStream {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, position: 0, chunk: Vec::new(), number: None }
    }

    /// Bytes of the value.
    pub fn len(&self) -> u64 {
        match &self.source {
            Source::Whole(value) => value.len() as u64,
            Source::Large(file) => file.value_bytes(),
        }
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What there is at the position without another read from disk than that of its piece.
    fn available(&mut self) -> Result<&[u8]> {
        if self.position >= self.len() {
            return Ok(&[]);
        }
        let file = match &self.source {
            Source::Whole(value) => {
                return Ok(value.get(self.position as usize..).unwrap_or_default());
            }
            Source::Large(file) => file,
        };
        let (number, start) = file.layout().place_of(self.position);
        if self.number != Some(number) {
            self.number = None;
            self.chunk.clear();
            file.read_chunk(number, &mut self.chunk)?;
            self.number = Some(number);
        }
        Ok(self.chunk.get(start..).unwrap_or_default())
    }
}

impl Read for ValueStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.available().map_err(into_io)?;
        let count = available.len().min(buffer.len());
        if let Some((to, from)) = buffer.get_mut(..count).zip(available.get(..count)) {
            to.copy_from_slice(from);
        }
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for ValueStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl std::fmt::Debug for ValueStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueStream({} of {} bytes)", self.position, self.len())
    }
}

fn into_io(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Corruption => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
