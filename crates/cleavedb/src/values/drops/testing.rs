//! What the tests of facts share.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::section::Section;
use crate::log::testing::UUID;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::FactsEdit;
use crate::values::drops::run::Line;
use crate::values::drops::subject::{FactKind, Subject};

/// Hash of the tests' database.
pub(crate) fn hash() -> KeyedHash {
    KeyedHash::new(&UUID)
}

/// A keyspace of the tests.
pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(3);

/// A key of more bytes than a fact states.
pub(crate) fn long_key(number: u64) -> Vec<u8> {
    format!("a key too long to stand in a fact, {number:04}").into_bytes()
}

/// A fact's line.
pub(crate) fn line(kind: FactKind, key: &[u8], seq: Seq) -> Line {
    (Subject::new(hash(), kind, KEYSPACE, key), seq)
}

/// What sections decode to.
pub(crate) fn decoded(sections: &[Section]) -> Vec<FactsEdit> {
    sections.iter().map(|section| FactsEdit::decode(&section.payload).unwrap()).collect()
}

/// A batch of superseding facts.
pub(crate) fn batch(facts: &[(u64, &[u8], Seq)]) -> FactBatch {
    let mut batch = FactBatch::new(hash());
    for &(file, key, seq) in facts {
        batch.add(FileId(file), KEYSPACE, key, seq);
    }
    batch
}

/// The directory after a batch.
pub(crate) fn after(facts: &Facts, batch: FactBatch) -> Facts {
    facts.apply(&decoded(&batch.encode())).unwrap()
}

/// All that a directory holds, readable: generation, file, facts.
pub(crate) fn contents(facts: &Facts) -> Vec<(u64, u64, Vec<Line>)> {
    let mut found = Vec::new();
    for edit in decoded(&facts.snapshot()) {
        let generation = edit.generation.unwrap().0;
        for stated in edit.runs {
            found.push((generation, stated.file.0, stated.run.lines().collect()));
        }
    }
    found
}
