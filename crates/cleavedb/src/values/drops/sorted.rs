//! Facts of many runs merged into one sorted, packed list that can be searched: what a collection
//! judges by. Owned by the collection's thread.
//!
//! Lines as in a run, in blocks whose first line shares nothing with the one before, so that a
//! search can begin at any of them. A repetition, from another file or generation, is left out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::codec::Reader;
use crate::base::entry::Seq;
use crate::values::drops::run::{Line, LineReader, RunLines, put_line};
use crate::values::drops::subject::{FactKind, Subject};

/// Lines of a block: what a search reads at most beyond those of its subject.
const BLOCK_LINES: u64 = 16;

/// Facts of one kind, sorted.
#[derive(Debug, Default)]
pub(crate) struct SortedFacts {
    bytes: Vec<u8>,
    /// Where each block begins.
    blocks: Vec<usize>,
    facts: u64,
    smallest: Seq,
    /// One bit for each fact: whether a record met it.
    met: Vec<u64>,
}

impl SortedFacts {
    /// Merges the facts of one kind out of runs.
    pub(crate) fn merge<'a>(
        kind: FactKind,
        runs: impl Iterator<Item = &'a RunLines<'a>> + Clone,
    ) -> Self {
        let smallest = runs.clone().map(RunLines::smallest).min().unwrap_or(0);
        let mut merged = Self { smallest, ..Self::default() };
        let mut sources: Vec<_> =
            runs.map(|run| run.clone().filter(move |line| line.0.kind() == kind)).collect();
        let mut heap = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            heap.extend(source.next().map(|line| Reverse((line, number))));
        }
        let mut before: Line = (Subject::EMPTY, 0);
        while let Some(Reverse((line, number))) = heap.pop() {
            if line != before {
                merged.push(&before.0, &line);
                before = line;
            }
            let next = sources.get_mut(number).and_then(Iterator::next);
            heap.extend(next.map(|line| Reverse((line, number))));
        }
        merged.met = vec![0; merged.facts.div_ceil(64) as usize];
        merged.bytes.shrink_to_fit();
        merged.blocks.shrink_to_fit();
        merged
    }

    /// How many facts.
    pub(crate) fn facts(&self) -> u64 {
        self.facts
    }

    /// How many of them no record has met.
    pub(crate) fn unmet(&self) -> u64 {
        let met: u64 = self.met.iter().map(|word| u64::from(word.count_ones())).sum();
        self.facts - met
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let bytes = self.bytes.capacity()
            + self.blocks.capacity() * size_of::<usize>()
            + self.met.capacity() * size_of::<u64>();
        bytes as u64
    }

    /// The smallest seq above `seq` that a fact about the subject has. A record meets all facts
    /// of a larger seq.
    pub(crate) fn smallest_above(&mut self, subject: &Subject, seq: Seq) -> Option<Seq> {
        let mut found = None;
        self.visit(subject, |of_fact| {
            // Strictly: a version does not supersede itself (rule R1).
            let is_met = of_fact > seq;
            if is_met && found.is_none() {
                found = Some(of_fact);
            }
            is_met
        });
        found
    }

    /// Whether a fact is about exactly this subject and seq.
    pub(crate) fn has(&mut self, subject: &Subject, seq: Seq) -> bool {
        let mut found = false;
        self.visit(subject, |of_fact| {
            found |= of_fact == seq;
            of_fact == seq
        });
        found
    }

    /// Shows the seqs of the facts about a subject, ascending; notes which were met.
    fn visit(&mut self, subject: &Subject, mut meets: impl FnMut(Seq) -> bool) {
        // Facts about the subject may begin in the block before the first that begins with it.
        let behind = self.blocks.partition_point(|&at| self.subject_at(at) < *subject);
        let block = behind.saturating_sub(1);
        let Some(&at) = self.blocks.get(block) else { return };
        let mut lines = LineReader::new(Reader::new(self.bytes.get(at..).unwrap_or_default()));
        let mut number = block as u64 * BLOCK_LINES;
        while !lines.is_empty() {
            let Ok(line) = lines.next_line() else { break };
            if lines.subject > *subject {
                break;
            }
            if lines.subject == *subject
                && meets(self.smallest + line.seq_delta)
                && let Some(word) = self.met.get_mut((number / 64) as usize)
            {
                *word |= 1 << (number % 64);
            }
            number += 1;
        }
    }

    fn subject_at(&self, at: usize) -> Subject {
        let mut lines = LineReader::new(Reader::new(self.bytes.get(at..).unwrap_or_default()));
        let read = lines.next_line();
        debug_assert!(read.is_ok(), "a block begins with a line");
        lines.subject
    }

    fn push(&mut self, before: &Subject, line: &Line) {
        let is_first = self.facts.is_multiple_of(BLOCK_LINES);
        if is_first {
            self.blocks.push(self.bytes.len());
        }
        let before = if is_first { &Subject::EMPTY } else { before };
        put_line(&mut self.bytes, before, &line.0, line.1.saturating_sub(self.smallest));
        self.facts += 1;
    }
}
