//! What one flush, one part of a compaction or one collection says about facts. Owned by its job's
//! thread.

use crate::base::checksum::KeyedHash;
use crate::base::codec::varint_len;
use crate::base::entry::{FileId, KeyspaceId, SEQ_MAX, Seq};
use crate::base::marks::mark;
use crate::base::names::FILE_ID_MAX;
use crate::base::section::Section;
use crate::values::drops::edit::{Discard, FactsEdit, FileRun};
use crate::values::drops::run::{LINE_BYTES_MAX, Line, Run};
use crate::values::drops::subject::{FactKind, SUBJECT_BYTES_MAX, Subject};

/// Bytes at which a section is ended and the next one begun. An edit may be a thousand times as
/// long; but a replay holds a whole section, and a run of a file is not longer than one.
const SECTION_BYTES: usize = 1 << 20;

/// Bytes in front of a run: the step to its file, its count and its smallest seq.
const RUN_HEADER_BYTES_MAX: usize = 9 + 10 + 8;

/// Bytes of a fact as it is added, about, and twice that while the list grows; packed, a dozen.
const UNPACKED_BYTES: u64 = 64;

/// Facts that wait to be packed in any case, and most that do: few at once take more than they did,
/// and more than many are not packed any better.
const UNPACKED: std::ops::RangeInclusive<u64> = 16..=8 << 10;

/// One fact, its subject in the arena.
#[derive(Clone, Copy, Debug)]
struct Collected {
    file: FileId,
    seq: Seq,
    at: usize,
    length: u8,
}

/// Facts on their way into an edit.
#[derive(Clone, Debug)]
pub(crate) struct FactBatch {
    hash: KeyedHash,
    /// The subjects, one after the other.
    subjects: Vec<u8>,
    facts: Vec<Collected>,
    /// Facts that were packed on the way, how many they are and the bytes they take: asked for with
    /// each fact that is added, so neither is summed up then.
    packed: Vec<Section>,
    packed_facts: u64,
    packed_bytes: usize,
    discards: Vec<Discard>,
    dropped: Vec<FileId>,
}

impl FactBatch {
    /// Nothing yet; `hash` is that of the database.
    pub(crate) fn new(hash: KeyedHash) -> Self {
        Self {
            hash,
            subjects: Vec::new(),
            facts: Vec::new(),
            packed: Vec::new(),
            packed_facts: 0,
            packed_bytes: 0,
            discards: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// A durable version `superseding` of the key exists, and a record of the key that it
    /// supersedes may be in the file's container (rules R1, R2). Durable: with the edit, at the
    /// latest.
    pub(crate) fn add(&mut self, file: FileId, keyspace: KeyspaceId, key: &[u8], superseding: Seq) {
        self.put(FactKind::Superseded, file, keyspace, key, superseding);
    }

    /// Exactly this record was copied elsewhere out of the container that holds the file, and the
    /// edit's entries name the copy (rule R7).
    pub(crate) fn add_moved(&mut self, file: FileId, keyspace: KeyspaceId, key: &[u8], seq: Seq) {
        self.put(FactKind::Moved, file, keyspace, key, seq);
    }

    /// Packs the facts if they take more than so many bytes, or more than it helps to let wait: for
    /// a job that meets more of them than there is memory for. Nothing but facts may be added to
    /// such a batch, and none is renamed.
    pub(crate) fn pack_beyond(&mut self, bytes_max: u64) {
        let facts_max = (bytes_max / UNPACKED_BYTES).clamp(*UNPACKED.start(), *UNPACKED.end());
        if self.facts.len() as u64 >= facts_max {
            mark!("facts_packed_on_the_way");
            self.pack();
        }
    }

    /// Hash of the database.
    pub(crate) fn hash(&self) -> KeyedHash {
        self.hash
    }

    /// Gives facts that were added under the number of a container that of a file in it; those
    /// of a container that is gone go, too (rule R2).
    pub(crate) fn rename(&mut self, mut file_in: impl FnMut(FileId) -> Option<FileId>) {
        debug_assert!(self.packed.is_empty(), "packed facts keep their files");
        self.facts.retain_mut(|fact| match file_in(fact.file) {
            Some(file) => {
                fact.file = file;
                true
            }
            None => false,
        });
    }

    /// A collection has read these facts; those of a file that is dropped as well need not be
    /// said.
    pub(crate) fn discard(&mut self, discards: &[Discard]) {
        self.discards.extend_from_slice(discards);
    }

    /// The file is gone with this edit: its facts go, those of this batch too.
    pub(crate) fn drop_file(&mut self, file: FileId) {
        self.dropped.push(file);
    }

    /// Whether there is nothing to say.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.facts() == 0 && self.discards.is_empty() && self.dropped.is_empty()
    }

    /// How many facts were added, repetitions among them.
    pub(crate) fn facts(&self) -> u64 {
        self.facts.len() as u64 + self.packed_facts
    }

    /// Bytes that the batch holds: what bounds it.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.subjects.capacity()
            + self.facts.capacity() * size_of::<Collected>()
            + self.packed.capacity() * size_of::<Section>()
            + self.packed_bytes
    }

    /// The sections for the edit, in the order in which they are to be applied; none if there is
    /// nothing to say.
    pub(crate) fn encode(self) -> Vec<Section> {
        self.encode_in(SECTION_BYTES)
    }

    fn put(&mut self, kind: FactKind, file: FileId, keyspace: KeyspaceId, key: &[u8], seq: Seq) {
        debug_assert!((1..=SEQ_MAX).contains(&seq) && keyspace.0 > 0);
        debug_assert!((1..=FILE_ID_MAX).contains(&file.0));
        let subject = Subject::new(self.hash, kind, keyspace, key);
        let at = self.subjects.len();
        self.subjects.extend_from_slice(&subject);
        self.facts.push(Collected { file, seq, at, length: subject.len() as u8 });
    }

    fn pack(&mut self) {
        debug_assert!(
            self.discards.is_empty() && self.dropped.is_empty(),
            "facts and nothing else"
        );
        self.packed_facts += self.facts.len() as u64;
        self.sort_facts();
        for mut section in self.encode_facts(FactsEdit::default(), SECTION_BYTES) {
            section.payload.shrink_to_fit();
            self.packed_bytes += section.payload.capacity();
            self.packed.push(section);
        }
        self.facts.clear();
        self.subjects.clear();
    }

    fn encode_in(mut self, section_bytes: usize) -> Vec<Section> {
        debug_assert!(self.packed.is_empty() || self.dropped.is_empty(), "packed facts stay");
        self.dropped.sort_unstable();
        self.dropped.dedup();
        self.settle_discards();
        self.sort_facts();
        let edit = FactsEdit {
            dropped: std::mem::take(&mut self.dropped),
            discards: std::mem::take(&mut self.discards),
            ..FactsEdit::default()
        };
        let mut sections = std::mem::take(&mut self.packed);
        sections.append(&mut self.encode_facts(edit, section_bytes));
        sections
    }

    /// The sections of sorted facts, the first of which begins with what `edit` says.
    fn encode_facts(&self, mut edit: FactsEdit, section_bytes: usize) -> Vec<Section> {
        let mut bytes = 20 * (edit.dropped.len() + edit.discards.len());
        let mut sections = Vec::new();
        let mut rest = self.facts.as_slice();
        while let Some(first) = rest.first() {
            if bytes + RUN_HEADER_BYTES_MAX + LINE_BYTES_MAX > section_bytes && !edit.is_empty() {
                sections.push(std::mem::take(&mut edit).encode());
                bytes = 0;
            }
            bytes += RUN_HEADER_BYTES_MAX;
            let mut count = 0;
            for fact in rest.iter().take_while(|fact| fact.file == first.file) {
                let more = 2 + usize::from(fact.length) + varint_len(fact.seq);
                if count > 0 && bytes + more > section_bytes {
                    break;
                }
                (bytes, count) = (bytes + more, count + 1);
            }
            let (now, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            let run = Run::new(now.iter().map(|fact| self.line(fact)));
            edit.runs.push(FileRun { file: first.file, run });
            if later.first().is_some_and(|next| next.file == first.file) {
                sections.push(std::mem::take(&mut edit).encode());
                bytes = 0;
            }
            rest = later;
        }
        if !edit.is_empty() {
            sections.push(edit.encode());
        }
        sections
    }

    /// Sorts the facts, and leaves out repetitions and those of files that are dropped.
    fn sort_facts(&mut self) {
        let mut facts = std::mem::take(&mut self.facts);
        facts.retain(|fact| self.dropped.binary_search(&fact.file).is_err());
        facts.sort_unstable_by(|a, b| self.order(a).cmp(&self.order(b)));
        facts.dedup_by(|a, b| self.order(a) == self.order(b));
        self.facts = facts;
    }

    /// Sorts the discards: one for each file, as far as any goes.
    fn settle_discards(&mut self) {
        let dropped = &self.dropped;
        self.discards.retain(|discard| dropped.binary_search(&discard.file).is_err());
        self.discards
            .sort_unstable_by_key(|discard| (discard.file, std::cmp::Reverse(discard.upto)));
        self.discards.dedup_by_key(|discard| discard.file);
    }

    fn order(&self, fact: &Collected) -> (FileId, &[u8], Seq) {
        let bytes = self.subjects.get(fact.at..fact.at + usize::from(fact.length));
        (fact.file, bytes.unwrap_or_default(), fact.seq)
    }

    fn line(&self, fact: &Collected) -> Line {
        let mut subject = Subject::EMPTY;
        let (_, bytes, seq) = self.order(fact);
        debug_assert!(bytes.len() <= SUBJECT_BYTES_MAX);
        // Made by a subject, so it fits one.
        let _ = subject.replace_tail(0, bytes);
        (subject, seq)
    }
}

#[cfg(test)]
mod tests;
