//! Files of facts, on arbitrary bytes.

use crate::base::checksum::KeyedHash;
use crate::base::checksum::Rolling;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::{Error, Result};
use crate::base::names::FileKind;
use crate::io::Purpose;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::{FactsEdit, Generation};
use crate::values::drops::spilled::format::{
    HEADER_BYTES, PART_COVERED_FROM, Part, PartHeader, TRAILER_BYTES, Trailer, encode_header,
    seal_part,
};
use crate::values::drops::spilled::merge::Spill;
use crate::values::drops::spilled::named::SpilledFile;
use crate::values::drops::spilled::reader::FactsReader;
use crate::values::drops::spilled::writer::FactsWriter;

use super::seeds::Seed;
use super::{FILE, Identity, OURS, UUID, overwrite, world};

/// A file of facts: all of it proved, as it is and with right checksums. What holds is written
/// again and must be the same, and each part is found where the edit would say.
pub fn facts_file(data: &[u8]) -> bool {
    let accepted = is_whole(data);
    let mut mended = data.to_vec();
    mend_facts(&mut mended, OURS);
    is_whole(&mended) || accepted
}

fn is_whole(bytes: &[u8]) -> bool {
    let Ok((reader, parts)) = read(bytes) else { return false };
    let again = written(&parts);
    assert!(again.as_ref().is_ok_and(|again| again.1 == bytes), "one encoding only");
    let Ok((spilled, _)) = again else { return false };
    assert!(reader.check(&spilled).is_ok(), "not what was written");
    for (place, part) in spilled.parts.iter().zip(&parts) {
        let runs = reader.runs(place);
        assert!(runs.is_ok_and(|runs| runs == part.runs), "a part is not found");
    }
    true
}

fn read(bytes: &[u8]) -> Result<(FactsReader, Vec<Part>)> {
    let (io, _, path) = world(FileKind::Facts, Some(bytes));
    let directory = path.parent().unwrap_or(&path);
    let reader = FactsReader::open(&io, directory, &UUID, FILE, Purpose::Verify)?;
    let mut parts: Vec<Part> = Vec::new();
    reader.walk(&mut |_, part| {
        if parts.last().is_some_and(|last| last.file > part.file) {
            return Err(Error::corruption("parts out of order"));
        }
        parts.push(part.clone());
        Ok(())
    })?;
    Ok((reader, parts))
}

/// The file that the engine writes of this.
fn written(parts: &[Part]) -> Result<(SpilledFile, Vec<u8>)> {
    let (io, disk, path) = world(FileKind::Facts, None);
    let directory = path.parent().unwrap_or(&path);
    let mut writer = FactsWriter::create(&io, directory, &UUID, FILE)?;
    parts.iter().try_for_each(|part| writer.part(part))?;
    let newest = parts.iter().map(Part::newest).max().unwrap_or_default();
    Ok((writer.finish(newest)?, disk.contents(&path)))
}

/// Makes header, checksums and trailer right where the lengths allow it.
pub(super) fn mend_facts(bytes: &mut [u8], identity: Identity) {
    if bytes.len() < HEADER_BYTES + TRAILER_BYTES {
        return;
    }
    overwrite(bytes, 0, &encode_header(&identity.uuid, identity.file));
    let (mut offset, end) = (HEADER_BYTES, bytes.len() - TRAILER_BYTES);
    let mut trailer = Trailer::default();
    let mut checksums = Rolling::new(identity.seed());
    while offset < end {
        let rest = bytes.get_mut(offset..end).unwrap_or_default();
        let Ok(header) = PartHeader::stated(rest) else { break };
        let Some(part) = rest.get_mut(..header.part_bytes()) else { break };
        seal_part(part, identity.seed(), offset as u64);
        checksums.update(part.get(..PART_COVERED_FROM).unwrap_or_default());
        trailer.parts += 1;
        trailer.facts = trailer.facts.saturating_add(header.facts);
        offset += header.part_bytes();
    }
    trailer.checksum = checksums.value();
    overwrite(bytes, end, &trailer.encode(identity.seed(), end as u64));
}

/// Facts of two sections.
fn facts() -> Result<Facts> {
    let mut facts = Facts::new(KeyedHash::new(&UUID));
    for seq in [900, 1000] {
        let mut batch = FactBatch::new(KeyedHash::new(&UUID));
        for (file, key) in [(5, "apple"), (5, "apricot"), (8, ""), (9, "a key that is in no fact")]
        {
            batch.add(FileId(file), KeyspaceId(3), key.as_bytes(), seq);
        }
        batch.add_moved(FileId(9), KeyspaceId(3), &[b'k'; 40], seq + 1);
        let edits: Result<Vec<_>> =
            batch.encode().iter().map(|section| FactsEdit::decode(&section.payload)).collect();
        facts = facts.apply(&edits?)?;
    }
    Ok(facts)
}

/// Files in which each value file has one part, and several; and the section that names one.
pub(super) fn seeds() -> Result<Vec<Seed>> {
    let mut seeds: Vec<Seed> = Vec::new();
    for (name, part_bytes_max) in [("whole_parts", 1 << 20), ("many_parts", 1)] {
        let (io, disk, path) = world(FileKind::Facts, None);
        let dir = path.parent().unwrap_or(&path);
        let is_cancelled = &|| false;
        let spill = Spill { io: &io, dir, uuid: &UUID, id: FILE, part_bytes_max, is_cancelled };
        let mut spilled = spill.write(&facts()?, &[])?;
        seeds.push(("facts_file", name, disk.contents(&path)));
        if let Some(first) = spilled.parts.first_mut().filter(|_| part_bytes_max > 1) {
            first.after = Generation(1);
            let generation = Some(spilled.upto);
            let named =
                FactsEdit { generation, spilled: vec![spilled.clone()], ..FactsEdit::default() };
            let merged = FactsEdit {
                spilled: vec![spilled],
                merged: vec![FileId(3), FileId(4)],
                ..FactsEdit::default()
            };
            for (name, edit) in [("facts_named", named), ("facts_merged", merged)] {
                let section = edit.encode();
                let tagged = [&[section.tag.0 as u8], section.payload.as_slice()].concat();
                seeds.push(("manifest_sections", name, tagged));
            }
        }
    }
    Ok(seeds)
}
