//! Chains with missing, emptied, swapped and contradicting segments.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::memory_disk::MemoryDisk;
use crate::log::testing::{DIR, UUID, append, batch, disk, io, path, spec};
use crate::log::writer::{SegmentSpec, SegmentWriter};

/// Segments 2, 5 and 9 of two frames each, the last one unsealed.
fn sample() -> (MemoryDisk, Vec<Sealed>) {
    let disk = disk();
    let io = io(&disk);
    let mut sealed: Vec<Sealed> = Vec::new();
    let mut seq = 1;
    for id in [2, 5, 9] {
        let spec =
            SegmentSpec { predecessor: sealed.last().copied(), first_seq: seq, ..spec(id, 0) };
        let mut writer = SegmentWriter::create(&io, &path(id), &spec).unwrap();
        for _ in 0..2 {
            append(&mut writer, seq, 1, &batch(seq, 1, 50), 0);
            seq += 1;
        }
        sealed.push(writer.seal().unwrap());
    }
    sealed.pop();
    (disk, sealed)
}

fn check(disk: &MemoryDisk, found: &[u64], floor: u64, sealed: &[Sealed]) -> Result<Vec<Link>> {
    let found: Vec<FileId> = found.iter().map(|&id| FileId(id)).collect();
    let spec = ChainSpec {
        kind: FileKind::Journal,
        uuid: UUID,
        found: &found,
        floor: FileId(floor),
        sealed,
        purpose: Purpose::Recovery,
    };
    check_chain(&io(disk), Path::new(DIR), &spec)
}

fn assert_corrupt(result: Result<Vec<Link>>, file: u64) {
    let error = result.expect_err("the chain is broken");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(path(file).as_path()), "{error}");
}

#[test]
fn a_whole_chain_says_how_each_segment_was_sealed() {
    let (disk, sealed) = sample();
    for known in [&[][..], &sealed[..]] {
        let links = check(&disk, &[2, 5, 9], 2, known).unwrap();
        let found: Vec<_> = links.iter().map(|link| link.sealed).collect();
        assert_eq!(found, [Some(sealed[0]), Some(sealed[1]), None]);
        assert!(links.iter().all(|link| link.header.is_some()));
    }
    // Older ones may be gone, and the floor may lie between two segments.
    assert_eq!(check(&disk, &[5, 9], 5, &sealed).unwrap().len(), 2);
    assert_eq!(check(&disk, &[5, 9], 3, &sealed).unwrap().len(), 2);
    assert!(check(&disk, &[], 0, &[]).unwrap().is_empty());
}

#[test]
fn a_missing_segment_is_named() {
    let (disk, sealed) = sample();
    assert_corrupt(check(&disk, &[2, 9], 2, &[]), 5);
    assert_corrupt(check(&disk, &[5, 9], 2, &[]), 2);
    assert_corrupt(check(&disk, &[2], 2, &sealed), 5);
    assert_corrupt(check(&disk, &[], 9, &[]), 9);
}

#[test]
fn an_emptied_segment_is_damage_unless_it_was_never_used() {
    for (id, floor, fine) in [(2, 2, false), (5, 2, false), (9, 2, true), (9, 9, false)] {
        let (disk, _) = sample();
        disk.replace(path(id), Vec::new()).unwrap();
        let found: &[u64] = if floor == 9 { &[9] } else { &[2, 5, 9] };
        let result = check(&disk, found, floor, &[]);
        match result {
            Ok(links) => {
                assert!(fine);
                assert!(links[2].header.is_none());
                assert!(links[1].sealed.is_none(), "nobody says how it was sealed");
            }
            Err(error) => {
                assert!(!fine, "{error}");
                assert_eq!(error.file(), Some(path(id).as_path()));
            }
        }
    }
}

#[test]
fn swapped_copied_or_contradicting_segments_are_damage() {
    let (disk, mut sealed) = sample();
    let second = disk.contents(path(5));
    disk.replace(path(9), second).unwrap();
    assert!(check(&disk, &[2, 5, 9], 2, &[]).is_err());
    let (disk, _) = sample();
    sealed[1].checksum ^= 1;
    assert_corrupt(check(&disk, &[2, 5, 9], 2, &sealed), 5);
}

#[test]
fn a_segment_without_predecessor_starts_a_chain_only() {
    let (disk, _) = sample();
    let io = io(&disk);
    SegmentWriter::create(&io, &path(12), &spec(12, 0)).unwrap();
    assert_corrupt(check(&disk, &[2, 5, 9, 12], 2, &[]), 12);
    assert!(check(&disk, &[12], 12, &[]).is_ok());
}
