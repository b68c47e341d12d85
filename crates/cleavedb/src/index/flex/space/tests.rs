//! A space beside a vector of bytes: operations, groups, damage, faults, reclaim, crashes.

use std::path::{Path, PathBuf};

use super::*;
use crate::base::entry::KeyspaceId;
use crate::base::error::ErrorKind;
use crate::base::names::{FileKind, file_name};
use crate::index::flex::pages::files::FileLimits;
use crate::index::flex::tree::extent::Tag;
use crate::index::testing::world::Findings;
use crate::io::Purpose;
use crate::io::memory_disk::MemoryDisk;
use crate::log::testing::{DIR, UUID, disk, io};

mod branches;
mod damage;
mod groups;
mod model;
mod pieces;
mod space_amplification;

/// Nodes so small that a few dozen extents make a tree of four levels.
const TINY: TreeWidths = TreeWidths { leaf_extents_max: 4, children_max: 4, window_bytes: 64 };

/// Segments, logs and page files so short that a few groups fill one.
pub(super) const SMALL: SpaceLimits =
    SpaceLimits { segment_blocks: 5, log_bytes_max: 1500, garbage_percent_max: 40 };

pub(super) fn context_over(io: Io, limits: SpaceLimits, next: u64) -> Arc<SpaceContext> {
    let owner = Owner { uuid: UUID, keyspace: KeyspaceId(3) };
    let page_limits = FileLimits { bytes_min: 2000, bytes_max: 6000 };
    SpaceContext::alone(io, PathBuf::from(DIR), (owner, FileId(next)), (TINY, limits, page_limits))
}

pub(super) fn context(disk: &MemoryDisk, limits: SpaceLimits) -> Arc<SpaceContext> {
    context_over(io(disk), limits, 20)
}

#[test]
fn a_segment_takes_a_part_of_the_reserve() {
    let bytes = |limits: SpaceLimits| (limits.segment_blocks + 1) * BLOCK_BYTES;
    for reserve_bytes in [512 << 10, 1 << 20, 5_000_000, 63 << 20] {
        let bytes = bytes(SpaceLimits::USUAL.beside(reserve_bytes));
        assert!((reserve_bytes / 17..=reserve_bytes / 16).contains(&bytes), "{reserve_bytes}");
    }
    assert_eq!(bytes(SpaceLimits::USUAL.beside(1)), 32 << 10, "what a header takes is a part");
    for reserve_bytes in [0, 64 << 20, u64::MAX] {
        let limits = SpaceLimits::USUAL.beside(reserve_bytes);
        assert_eq!(limits.segment_blocks, SpaceLimits::USUAL.segment_blocks, "{reserve_bytes}");
    }
    assert_eq!(SMALL.beside(4096).segment_blocks, SMALL.segment_blocks);
}

fn path(kind: FileKind, id: FileId) -> PathBuf {
    Path::new(DIR).join(file_name(kind, id))
}

/// Removes what is queued, as housekeeping does.
fn sweep(context: &SpaceContext) -> usize {
    let gone = context.obsolete.take();
    for (kind, id) in &gone {
        context.io.disk.remove_file(&path(*kind, *id)).unwrap();
    }
    gone.len()
}

fn all(space: &Space) -> Vec<u8> {
    space.read(0..space.tree().length(), Purpose::Read).unwrap()
}

/// Commits and publishes.
fn commit(space: &mut Space) -> SpaceState {
    let prepared = space.commit().unwrap();
    let state = prepared.state();
    space.publish(prepared).unwrap();
    state
}

fn checkpoint(space: &mut Space) -> SpaceState {
    let prepared = space.checkpoint().unwrap();
    let state = prepared.state();
    space.publish(prepared).unwrap();
    state
}

#[test]
fn bytes_are_put_in_taken_out_and_replaced() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    space.insert(0, b"one three", 1).unwrap();
    space.insert(4, b"two ", 1).unwrap();
    assert_eq!(all(&space), b"one two three");
    space.collapse(3..7).unwrap();
    space.update(4..9, b"forty", 1).unwrap();
    space.write(9, b"-four", 1).unwrap();
    space.write(0, b"ONE", 1).unwrap();
    assert_eq!(all(&space), b"ONE forty-four");
    space.set_tag(4, Tag::new(9)).unwrap();
    let state = commit(&mut space);
    let again = Space::open(&context, state).unwrap();
    assert_eq!((all(&again), again.state()), (b"ONE forty-four".to_vec(), space.state()));
    assert_eq!((again.tree().tag(4), again.tree().tag(5)), (Tag::new(9), None));
    space.defragment(0..14, 1).unwrap();
    assert_eq!((all(&space), space.tree().tag(4)), (b"ONE forty-four".to_vec(), Tag::new(9)));
    assert_eq!(space.tree().extents(), 2, "one piece, cut at its tag");
    for wrong in [space.insert(15, b"x", 1), space.collapse(3..15), space.set_tag(14, None)] {
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert!(space.read(10..15, Purpose::Read).is_err());
}

#[test]
fn states_round_trip() {
    // A segment and its header are what windows of 128 KiB divide.
    assert_eq!((SpaceLimits::USUAL.segment_blocks + 1) * 4096, SPAN_BYTES);
    let root = PageAddress { file: FileId(20), offset: 64, bytes: 100, checksum: 5 };
    let log = LogEnd { file: FileId(22), bytes: 300, group: 7, checksum: 9 };
    for (root, log) in
        [(None, None), (Some(root), None), (None, Some(log)), (Some(root), Some(log))]
    {
        let (state, mut bytes) = (SpaceState { root, log }, Vec::new());
        state.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(SpaceState::decode(&mut reader).unwrap(), state);
        assert!(reader.is_empty());
        for end in 0..bytes.len() {
            assert!(SpaceState::decode(&mut Reader::new(&bytes[..end])).is_err());
        }
    }
    assert!(SpaceState::decode(&mut Reader::new(&[4])).is_err());
}
