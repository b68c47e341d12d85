//! The golden log, and dumps of damaged ones.

use super::*;
use crate::base::entry::FileId;
use crate::base::names::{FileKind, file_name};
use crate::index::flex::space::segment::format::physical_of;
use crate::index::flex::tree::extent::{Extent, Tag};
use crate::io::Purpose;
use crate::log::format::{FORMAT_VERSION, FrameRef};
use crate::log::testing::{DIR, UUID, check_golden, check_page, disk, io};
use crate::log::writer::{SegmentSpec, SegmentWriter};

/// A log of two groups.
fn golden() -> Vec<u8> {
    let disk = disk();
    let path = std::path::Path::new(DIR).join(file_name(FileKind::FlexLog, FileId(22)));
    let spec = SegmentSpec {
        kind: FileKind::FlexLog,
        id: FileId(22),
        uuid: UUID,
        predecessor: None,
        first_seq: 8,
        purpose: Purpose::Flush,
        preallocate_bytes: 0,
    };
    let mut writer =
        SegmentWriter::create(&io(&disk), &path, &spec).map_err(|e| e.into_error()).unwrap();
    let start = physical_of(FileId(21), 0);
    let extents = vec![Extent::new(start, 156), Extent::new(start + 4092, 30)];
    let groups = [
        vec![
            Record::Update { offset: 0, removed: 0, extents },
            Record::Tag { offset: 156, tag: Tag::new(3) },
        ],
        vec![
            Record::Update { offset: 10, removed: 20, extents: Vec::new() },
            Record::Moved { offset: 0, length: 10, old: start, new: start + 8184 },
        ],
    ];
    for (number, records) in (8..).zip(groups) {
        let mut payload = Vec::new();
        records.iter().for_each(|record| record.encode(&mut payload));
        let frame = FrameRef { base_seq: number, count: 1, payload: &payload };
        writer.append_frames(&[frame], number - 1).map_err(|e| e.into_error()).unwrap();
    }
    disk.contents(&path)
}

#[test]
fn golden_log() {
    let bytes = golden();
    let mut dump = String::new();
    dump_log(&bytes, &mut dump);
    assert!(dump.contains("10 bytes move"), "{dump}");
    check_golden("flex-log", FORMAT_VERSION, &bytes, &dump);
    check_page("flex-log", &[(0, 1, "kind")]);
}

#[test]
fn damaged_logs_are_dumped_as_far_as_they_go() {
    let bytes = golden();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        for shown in [&bytes[..at], &damaged] {
            let mut dump = String::new();
            dump_log(shown, &mut dump);
            assert!(dump.contains("end of file"));
        }
    }
}
