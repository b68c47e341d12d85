//! Facts of a section that decodes, taken in by a directory: part of `manifest_sections`.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::section::Section;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::{Discard, FactsEdit, Generation};

use super::UUID;
use super::seeds::Seed;

/// Keyspace of the seeds' keys.
const KEYSPACE: KeyspaceId = KeyspaceId(3);

/// Applies a section to an empty directory: refused, or its snapshot makes the same one, records
/// are judged by it, and what was pinned is discarded.
pub(super) fn apply(edit: &FactsEdit) {
    let empty = Facts::new(KeyedHash::new(&UUID));
    let Ok(facts) = empty.apply(std::slice::from_ref(edit)) else { return };
    let stated: u64 = edit.runs.iter().map(|stated| stated.run.facts()).sum();
    let spilled = edit.spilled.iter().flat_map(|spilled| &spilled.parts);
    let stated = stated + spilled.map(|part| part.facts).sum::<u64>();
    assert_eq!(facts.count(), stated, "facts are lost");
    let snapshot = facts.snapshot();
    let edits: Result<Vec<_>, _> =
        snapshot.iter().map(|section| FactsEdit::decode(&section.payload)).collect();
    let again = edits.and_then(|edits| empty.apply(&edits));
    assert_eq!(again.ok().map(|again| again.snapshot()), Some(snapshot), "another directory");
    let files: Vec<FileId> = facts.counts().into_keys().collect();
    // Of those in files there are none here: that is said, and no more.
    let Ok(mut pinned) = facts.pin(&[files]) else { return };
    for seq in [1, 7, 1 << 40] {
        pinned.judge(0, KEYSPACE, b"apple", seq, &[5]);
        pinned.judge(0, KEYSPACE, &[b'k'; 40], seq, &[]);
    }
    assert!(pinned.facts_unmet() <= stated, "more facts than there are");
    let mut discards = FactBatch::new(KeyedHash::new(&UUID));
    discards.discard(pinned.discards());
    let sections = discards.encode();
    let edits: Result<Vec<_>, _> =
        sections.iter().map(|section| FactsEdit::decode(&section.payload)).collect();
    let left = edits.and_then(|edits| facts.apply(&edits));
    assert_eq!(left.ok().map(|left| left.count()), Some(0), "a collection leaves facts");
}

/// A section with all parts, and one of a snapshot.
pub(super) fn seeds() -> Vec<Seed> {
    let mut batch = FactBatch::new(KeyedHash::new(&UUID));
    for (file, key, seq) in [(5, "apple", 900), (5, "apple", 950), (5, "apricot", 901), (8, "", 7)]
    {
        batch.add(FileId(file), KEYSPACE, key.as_bytes(), seq);
    }
    batch.add(FileId(8), KEYSPACE, &[b'k'; 40], 902);
    batch.add_moved(FileId(9), KEYSPACE, b"pear", 33);
    let stated = batch.clone().encode();
    batch.drop_file(FileId(3));
    batch.discard(&[Discard { file: FileId(4), upto: Generation(300) }]);
    let edits: Vec<_> =
        stated.iter().filter_map(|section| FactsEdit::decode(&section.payload).ok()).collect();
    let facts = Facts::new(KeyedHash::new(&UUID)).apply(&edits);
    let snapshot = facts.map(|facts| facts.snapshot()).unwrap_or_default();
    let seed = |name, sections: Vec<Section>| {
        let section = sections.into_iter().next()?;
        let tagged = [&[section.tag.0 as u8], section.payload.as_slice()].concat();
        Some(("manifest_sections", name, tagged))
    };
    let seeds =
        [seed("facts", batch.encode()), seed("facts_stated", stated), seed("facts_kept", snapshot)];
    seeds.into_iter().flatten().collect()
}
