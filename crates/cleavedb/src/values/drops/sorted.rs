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
    /// One bit for each fact: whether a record met it, as the first one of its subject or, where
    /// facts are about exact records, as its own.
    met: Vec<u64>,
    /// Whether a record that meets a fact meets all later ones of its subject, too.
    #[cfg_attr(not(any(test, feature = "sim")), expect(dead_code, reason = "figures of tests"))]
    are_nested: bool,
}

impl SortedFacts {
    /// Merges the facts of one kind out of runs.
    pub(crate) fn merge<'a>(
        kind: FactKind,
        runs: impl Iterator<Item = &'a RunLines<'a>> + Clone,
    ) -> Self {
        let smallest = runs.clone().map(RunLines::smallest).min().unwrap_or(0);
        let are_nested = kind == FactKind::Superseded;
        let mut merged = Self { smallest, are_nested, ..Self::default() };
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

    /// How many of them no record has met. Walks over all.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn unmet(&self) -> u64 {
        let (mut unmet, mut before, mut is_met) = (0, Subject::EMPTY, false);
        for (number, (subject, _)) in (0_u64..).zip(self.read_at(0)) {
            let word = self.met.get((number / 64) as usize).copied().unwrap_or(0);
            is_met &= self.are_nested && subject == before;
            is_met |= word >> (number % 64) & 1 == 1;
            unmet += u64::from(!is_met);
            before = subject;
        }
        unmet
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
        // Strictly: a version does not supersede itself (rule R1).
        self.first_from(subject, seq.saturating_add(1))
    }

    /// Whether a fact is about exactly this subject and seq.
    pub(crate) fn has(&mut self, subject: &Subject, seq: Seq) -> bool {
        self.first_from(subject, seq) == Some(seq)
    }

    /// The smallest seq from `seq` on that a fact about the subject has; notes that it was met.
    fn first_from(&mut self, subject: &Subject, seq: Seq) -> Option<Seq> {
        // The fact stands in the last block that begins before it, or begins the next one.
        let wanted = (*subject, seq);
        let begins_before = |&at: &usize| self.read_at(at).next().is_some_and(|l| l < wanted);
        let block = self.blocks.partition_point(begins_before).saturating_sub(1);
        let number = block as u64 * BLOCK_LINES;
        let lines = self.read_at(*self.blocks.get(block)?);
        // One line more than the block's: all before it may be smaller.
        let found = lines.take(BLOCK_LINES as usize + 1).enumerate().find(|(_, l)| *l >= wanted);
        let (behind, (_, found)) = found.filter(|(_, line)| line.0 == *subject)?;
        let number = number + behind as u64;
        if let Some(word) = self.met.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
        Some(found)
    }

    /// The facts from the beginning of a block to its end, and the first one of the next block.
    fn read_at(&self, at: usize) -> impl Iterator<Item = Line> + '_ {
        let mut lines = LineReader::new(Reader::new(self.bytes.get(at..).unwrap_or_default()));
        std::iter::from_fn(move || {
            if lines.is_empty() {
                return None;
            }
            let line = lines.next_line();
            debug_assert!(line.is_ok(), "a block holds lines");
            Some((lines.subject, self.smallest + line.ok()?.seq_delta))
        })
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
