//! Segments and logs of a flexible space, on arbitrary bytes.

use std::collections::BTreeSet;

use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::index::flex::pages::files::FileLimits;
use crate::index::flex::pages::format::Owner;
use crate::index::flex::space::log::{Log, LogEnd};
use crate::index::flex::space::record::Record;
use crate::index::flex::space::segment::format::{
    BIRTH_AT, BLOCK_BYTES, DATA_BYTES, HEADER_BYTES, check_block, check_header, decode_summary,
    encode_blocks, encode_header, encode_summary, summary_bytes,
};
use crate::index::flex::space::{Space, SpaceContext, SpaceLimits, SpaceState};
use crate::index::flex::tree::{Tree, TreeWidths};
use crate::io::{Io, Purpose};
use crate::log::format::Sealed;
use crate::log::reader::{ReadOptions, SegmentReader};

use super::logs::mend_segment;
use super::seeds::Seed;
use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// Where the header of a segment states the keyspace.
const KEYSPACE_AT: usize = 40;

fn owner_of(bytes: &[u8]) -> Owner {
    let keyspace = KeyspaceId(u32::from_le_bytes(array_at(bytes, KEYSPACE_AT)).max(1));
    Owner { uuid: UUID, keyspace }
}

/// A segment of a space: all of it, as it is and with right checksums. What holds has one encoding.
pub fn flex_segment(data: &[u8]) -> bool {
    let accepted = is_whole(data, &owner_of(data)).is_ok();
    let mut mended = data.to_vec();
    mend_space_segment(&mut mended, OURS);
    is_whole(&mended, &owner_of(&mended)).is_ok() || accepted
}

fn is_whole(bytes: &[u8], owner: &Owner) -> Result<()> {
    let mut reader = Reader::new(bytes);
    let birth = check_header(reader.take(HEADER_BYTES)?, owner, FILE)?;
    reader.take(BLOCK_BYTES as usize - HEADER_BYTES)?;
    let trailer = bytes.last_chunk::<24>().map_or(&[][..], <[u8; 24]>::as_slice);
    let summary = summary_bytes(trailer).unwrap_or_default();
    let (mut data, mut offset) = (Vec::new(), BLOCK_BYTES);
    while (reader.rest().len() as u64) >= BLOCK_BYTES.saturating_add(summary) {
        let block = reader.take(BLOCK_BYTES as usize)?;
        data.extend_from_slice(check_block(block, owner, FILE, offset)?);
        offset += BLOCK_BYTES;
    }
    let mut again = encode_header(owner, FILE, birth);
    again.extend(encode_blocks(owner, FILE, 0, &data));
    if summary > 0 {
        let owners = decode_summary(reader.rest(), owner, FILE, offset)?;
        again.extend(encode_summary(&owners, owner, FILE, offset));
    }
    let fixed = |bytes: &[u8]| {
        let (header, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES));
        (header.to_vec(), rest.get(BLOCK_BYTES as usize - HEADER_BYTES..).map(<[u8]>::to_vec))
    };
    let ours = bytes.len() - if summary > 0 { 0 } else { reader.rest().len() };
    let read = bytes.get(..ours).unwrap_or_default();
    assert_eq!(fixed(&again), fixed(read), "a segment has one encoding only");
    Ok(())
}

/// Makes header, checksums of blocks and summary right.
pub(super) fn mend_space_segment(bytes: &mut [u8], identity: Identity) {
    let owner = Owner { uuid: identity.uuid, ..owner_of(bytes) };
    if bytes.len() < BLOCK_BYTES as usize {
        return;
    }
    let birth = u64::from_le_bytes(array_at(bytes, BIRTH_AT));
    overwrite(bytes, 0, &encode_header(&owner, identity.file, birth));
    let trailer = bytes.last_chunk::<24>().map_or(&[][..], <[u8; 24]>::as_slice);
    let summary = summary_bytes(trailer).unwrap_or_default();
    let end = (bytes.len() as u64).saturating_sub(summary);
    let mut offset = BLOCK_BYTES;
    while offset + BLOCK_BYTES <= end {
        let at = offset as usize;
        let data = bytes.get(at..at + DATA_BYTES as usize).unwrap_or_default();
        let position = (offset / BLOCK_BYTES - 1) * DATA_BYTES;
        let block = encode_blocks(&owner, identity.file, position, data);
        overwrite(bytes, at, &block);
        offset += BLOCK_BYTES;
    }
    if let Some(last) = bytes.len().checked_sub(4).filter(|last| *last as u64 >= offset) {
        let covered = bytes.get(offset as usize..last).unwrap_or_default();
        let crc = crate::base::checksum::crc_at(identity.seed(), offset, covered);
        overwrite(bytes, last, &crc.to_le_bytes());
    }
}

fn context_of(io: Io, path: &std::path::Path, limits: SpaceLimits) -> Arc<SpaceContext> {
    let owner = Owner { uuid: UUID, keyspace: KeyspaceId(300) };
    let dir = path.parent().unwrap_or(path).to_owned();
    let sizes = (TreeWidths::USUAL, limits, FileLimits::USUAL);
    SpaceContext::alone(io, dir, (owner, FILE), sizes)
}

/// A file of a logical log: all its groups are done to a tree, as they are and with right
/// checksums. What holds leaves a sound tree, and each record has one encoding.
pub fn flex_log(data: &[u8]) -> bool {
    let accepted = is_done(data).is_ok();
    let mut mended = data.to_vec();
    mend_segment(&mut mended, FileKind::FlexLog, OURS);
    is_done(&mended).is_ok() || accepted
}

fn is_done(bytes: &[u8]) -> Result<()> {
    let (io, _, path) = world(FileKind::FlexLog, Some(bytes));
    let options = ReadOptions {
        kind: FileKind::FlexLog,
        id: FILE,
        uuid: UUID,
        sealed: None,
        contiguous: true,
        purpose: Purpose::Recovery,
    };
    let mut reader = SegmentReader::open(&io, &path, options)?;
    let first = reader.header().map_or(0, |header| header.first_seq);
    let mut groups = 0;
    while let Some(frame) = reader.next_frame()? {
        let (mut records, mut again) = (Reader::new(frame.payload), Vec::new());
        while !records.is_empty() {
            Record::decode(&mut records)?.encode(&mut again);
        }
        assert_eq!(again, frame.payload, "a record has one encoding only");
        groups += 1;
    }
    let before = first.saturating_sub(1);
    let Sealed { bytes, checksum, .. } = reader.good_part().sealed;
    let end = LogEnd { file: FILE, bytes, group: before.saturating_add(groups), checksum };
    let context = context_of(io, &path, SpaceLimits::USUAL);
    let mut tree = Tree::new(TreeWidths::USUAL)?;
    Log::replay(&context, before, &end, &mut |record| record.redo(&mut tree))?;
    assert!(tree.check().is_ok(), "a log broke the tree");
    Ok(())
}

/// What a space writes: the first segment and the log of a few groups, whole and torn.
pub(super) fn seeds() -> Result<Vec<Seed>> {
    let mut all = Vec::new();
    let (io, disk, path) = world(FileKind::FlexSegment, None);
    let limits = SpaceLimits { segment_blocks: 2, log_bytes_max: 0, garbage_percent_max: 0 };
    let context = context_of(io, &path, limits);
    let mut space = Space::new(&context)?;
    let mut state = SpaceState::default();
    for number in 0..4u8 {
        space.insert(u64::from(number), &[number; 1500], u64::from(number) + 1)?;
        space.set_tag(0, crate::index::flex::tree::extent::Tag::new(u16::from(number)))?;
        space.collapse(20..40)?;
        let prepared = space.commit()?;
        state = prepared.state();
        space.publish(prepared)?;
    }
    let reclaimed = space.reclaim(1 << 20, &|_| None)?;
    debug_assert!(reclaimed.moved_bytes > 0 && state.log.is_some());
    let prepared = space.commit()?;
    space.publish(prepared)?;
    let contents = |kind: FileKind, id: FileId| {
        disk.contents(path.with_file_name(crate::base::names::file_name(kind, id)))
    };
    let first = contents(FileKind::FlexSegment, FILE);
    all.push(("flex_segment", "finished", first.clone()));
    all.push(("dump", "flex_segment", first));
    let owner = Owner { uuid: UUID, keyspace: KeyspaceId(300) };
    let mut open = encode_header(&owner, FILE, 5);
    open.extend(encode_blocks(&owner, FILE, 0, &[5; 100]));
    all.push(("flex_segment", "open", open.clone()));
    let offset = open.len() as u64;
    let many: BTreeSet<u64> = (0..300).map(|number| number * number).collect();
    open.extend(encode_summary(&many, &owner, FILE, offset));
    all.push(("flex_segment", "many_owners", open));
    let end = state.log.map_or(FILE, |end| end.file);
    all.extend(log_seeds(&contents(FileKind::FlexLog, end))?);
    Ok(all)
}

/// The log's groups in a file of the number that an entry reads.
fn log_seeds(log: &[u8]) -> Result<Vec<Seed>> {
    let mut bytes = log.to_vec();
    mend_segment(&mut bytes, FileKind::FlexLog, OURS);
    let torn = bytes.get(..bytes.len() - 9).unwrap_or_default().to_vec();
    is_done(&bytes)?;
    Ok(vec![
        ("flex_log", "groups", bytes.clone()),
        ("flex_log", "torn", torn),
        ("dump", "flex_log", bytes),
    ])
}
