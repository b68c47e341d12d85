//! A run: the facts that one edit states of one file, sorted and packed. The same bytes stand in
//! the manifest and in memory.
//!
//! Layout, all varints but the two lengths: number of facts, smallest seq; then for each fact the
//! bytes that its subject shares with the one before (1 byte), the bytes it adds (1 byte), those,
//! and its seq less the smallest. Facts ascend by subject, then by seq.
//!
//! Invariant: RU-1 a [`Run`] was checked when it was made: walking over it does not fail.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::values::drops::subject::{SUBJECT_BYTES_MAX, Subject};

/// One fact: what it is about, and its seq.
pub(crate) type Line = (Subject, Seq);

/// Most bytes of one fact in a run: two lengths, a subject, and 56 bits as a varint.
pub(crate) const LINE_BYTES_MAX: usize = 2 + SUBJECT_BYTES_MAX + 8;

/// Appends one fact; `before` is the subject that its beginning is shared with.
pub(crate) fn put_line(out: &mut Vec<u8>, before: &Subject, subject: &Subject, seq_delta: u64) {
    let shared = subject.shared_with(before);
    let tail = subject.get(shared..).unwrap_or_default();
    out.push(shared as u8);
    out.push(tail.len() as u8);
    out.extend_from_slice(tail);
    put_varint(out, seq_delta);
}

/// Reads facts one after the other, as [`put_line`] wrote them.
#[derive(Clone)]
pub(crate) struct LineReader<'a> {
    reader: Reader<'a>,
    /// Subject of the fact read last.
    pub(crate) subject: Subject,
}

/// What was read of a line, besides the subject.
pub(crate) struct LineTail {
    /// Bytes shared with the subject before.
    shared: usize,
    /// Whether any were added.
    has_tail: bool,
    /// First byte added.
    first: u8,
    /// The seq, less the list's smallest.
    pub(crate) seq_delta: u64,
}

impl<'a> LineReader<'a> {
    /// Reads lines from here on.
    pub(crate) fn new(reader: Reader<'a>) -> Self {
        Self { reader, subject: Subject::EMPTY }
    }

    /// Whether there is nothing more.
    pub(crate) fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    /// The next line.
    pub(crate) fn next_line(&mut self) -> Result<LineTail> {
        let shared = usize::from(self.reader.u8()?);
        let length = usize::from(self.reader.u8()?);
        let tail = self.reader.take(length)?;
        self.subject.replace_tail(shared, tail)?;
        let first = tail.first().copied().unwrap_or(0);
        let seq_delta = self.reader.varint()?;
        Ok(LineTail { shared, has_tail: length > 0, first, seq_delta })
    }
}

/// The facts of one file, sorted and packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    bytes: Vec<u8>,
    facts: u64,
}

impl Run {
    /// Packs facts, which must ascend, without duplicates, and be one at least.
    pub(crate) fn new(lines: impl Iterator<Item = Line> + Clone) -> Self {
        let smallest = lines.clone().map(|(_, seq)| seq).min().unwrap_or(0);
        let facts = lines.clone().count() as u64;
        debug_assert!(facts > 0 && smallest > 0);
        let mut bytes = Vec::new();
        put_varint(&mut bytes, facts);
        put_varint(&mut bytes, smallest);
        let mut before = Subject::EMPTY;
        for (subject, seq) in lines {
            put_line(&mut bytes, &before, &subject, seq.saturating_sub(smallest));
            before = subject;
        }
        Self { bytes, facts }
    }

    /// Reads a run off the front; what could be written in another way is refused.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let all = reader.rest();
        let facts = reader.varint()?;
        let smallest = reader.varint()?;
        if facts == 0 || !(1..=SEQ_MAX).contains(&smallest) {
            return Err(Error::corruption("a run of no facts, or of a seq out of range"));
        }
        let mut lines = LineReader::new(*reader);
        let (mut before, mut seq_before) = (Subject::EMPTY, 0);
        let mut is_smallest_met = false;
        for _ in 0..facts {
            let line = lines.next_line()?;
            check_order(&before, &line, seq_before)?;
            lines.subject.check()?;
            if smallest.checked_add(line.seq_delta).is_none_or(|seq| seq > SEQ_MAX) {
                return Err(Error::corruption("a fact of a seq out of range"));
            }
            is_smallest_met |= line.seq_delta == 0;
            (before, seq_before) = (lines.subject, line.seq_delta);
        }
        if !is_smallest_met {
            return Err(Error::corruption("a run of facts whose smallest seq none has"));
        }
        *reader = lines.reader;
        let length = all.len() - reader.rest().len();
        let bytes = all.get(..length).unwrap_or_default().to_vec();
        Ok(Self { bytes, facts })
    }

    /// A run out of bytes that were checked before.
    pub(crate) fn checked(bytes: &[u8]) -> Self {
        let facts = Reader::new(bytes).varint().unwrap_or(0);
        Self { bytes: bytes.to_vec(), facts }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many facts.
    pub(crate) fn facts(&self) -> u64 {
        self.facts
    }

    /// The facts, in order.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> RunLines<'_> {
        RunLines::new(&self.bytes)
    }
}

/// Whether a line may follow: what is stated as shared is all that is shared, and (subject, seq)
/// ascends.
fn check_order(before: &Subject, line: &LineTail, seq_before: u64) -> Result<()> {
    let ascends = match before.get(line.shared) {
        Some(&byte) => line.has_tail && line.first > byte,
        None => line.has_tail || (!before.is_empty() && line.seq_delta > seq_before),
    };
    if ascends { Ok(()) } else { Err(Error::corruption("facts out of order")) }
}

/// Walks over the facts of a run (RU-1).
#[derive(Clone)]
pub(crate) struct RunLines<'a> {
    lines: LineReader<'a>,
    left: u64,
    smallest: Seq,
}

impl<'a> RunLines<'a> {
    /// Over the bytes of a [`Run`].
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut reader = Reader::new(bytes);
        let left = reader.varint().unwrap_or(0);
        let smallest = reader.varint().unwrap_or(0);
        Self { lines: LineReader::new(reader), left, smallest }
    }

    /// Smallest seq of the run.
    pub(crate) fn smallest(&self) -> Seq {
        self.smallest
    }
}

impl Iterator for RunLines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        self.left = self.left.checked_sub(1)?;
        let line = self.lines.next_line();
        debug_assert!(line.is_ok(), "RU-1");
        Some((self.lines.subject, self.smallest + line.ok()?.seq_delta))
    }
}

#[cfg(test)]
pub(crate) mod tests;
