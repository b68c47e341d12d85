//! What the tests of logs and manifests share.

use std::path::{Path, PathBuf};

use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::io::disk::Disk;
use crate::io::memory_disk::MemoryDisk;
use crate::io::{Io, Purpose};
use crate::log::batch::encode_record;
use crate::log::format::{FrameRef, Sealed};
use crate::log::reader::{End, ReadOptions, SegmentReader};
use crate::log::writer::{SegmentSpec, SegmentWriter};

pub(crate) mod values;

/// Identity of the tests' database.
pub(crate) const UUID: [u8; 16] = *b"0123456789abcdef";

/// Directory of the tests' database.
pub(crate) const DIR: &str = "/db";

/// Environment variable with the name of a planted bug, for a child process that must fail.
#[cfg(feature = "planted")]
const PLANT: &str = "CLEAVE_TEST_PLANT";

/// A disk with an empty, durable [`DIR`].
pub(crate) fn disk() -> MemoryDisk {
    #[cfg(feature = "planted")]
    if let Ok(name) = std::env::var(PLANT) {
        crate::base::planted::plant(Some(&name));
    }
    let disk = MemoryDisk::new();
    disk.create_dir(Path::new(DIR)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

/// A context over any disk.
pub(crate) fn io_over(disk: impl Disk) -> Io {
    Io::simulated(Arc::new(disk))
}

/// A context over a disk in memory, which stays the same disk.
pub(crate) fn io(disk: &MemoryDisk) -> Io {
    io_over(disk.clone())
}

/// Path of journal segment `id`.
pub(crate) fn path(id: u64) -> PathBuf {
    Path::new(DIR).join(file_name(FileKind::Journal, FileId(id)))
}

/// A journal segment that begins with seq 1.
pub(crate) fn spec(id: u64, preallocate_bytes: u64) -> SegmentSpec {
    SegmentSpec {
        kind: FileKind::Journal,
        id: FileId(id),
        uuid: UUID,
        predecessor: None,
        first_seq: 1,
        purpose: Purpose::Journal,
        preallocate_bytes,
    }
}

/// How the tests read journal segment `id`.
pub(crate) fn options(id: u64, sealed: Option<Sealed>) -> ReadOptions {
    ReadOptions {
        kind: FileKind::Journal,
        id: FileId(id),
        uuid: UUID,
        sealed,
        contiguous: true,
        purpose: Purpose::Recovery,
    }
}

/// One frame as a test sees it: base seq, count, payload.
pub(crate) type Seen = (Seq, u32, Vec<u8>);

/// Reads a segment to its end.
pub(crate) fn read_all(io: &Io, path: &Path, options: ReadOptions) -> Result<(Vec<Seen>, End)> {
    let mut reader = SegmentReader::open(io, path, options)?;
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        frames.push((frame.header.base_seq, frame.header.count, frame.payload.to_vec()));
    }
    let end = reader.end().cloned().expect("the end is known");
    assert_eq!(reader.good_part().sealed.bytes, end.at());
    Ok((frames, end))
}

/// Reads a segment given as bytes.
pub(crate) fn read_bytes(bytes: &[u8], options: ReadOptions) -> Result<(Vec<Seen>, End)> {
    let disk = disk();
    let path = path(options.id.0);
    disk.replace(&path, bytes).unwrap();
    read_all(&io(&disk), &path, options)
}

/// A batch of puts with values of this length, as a payload.
pub(crate) fn batch(seq: Seq, count: u32, value_bytes: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    for number in seq..seq + u64::from(count) {
        let key = format!("key{number}");
        let value: Vec<u8> =
            (0..value_bytes).map(|i| 1 + ((i as u64 * 7 + number) % 250) as u8).collect();
        encode_record(&mut payload, Kind::Put, KeyspaceId(1), key.as_bytes(), &value);
    }
    payload
}

/// Appends one frame; the watermark says that everything before `durable + 1` is durable.
pub(crate) fn append(
    writer: &mut SegmentWriter,
    seq: Seq,
    count: u32,
    payload: &[u8],
    durable: Seq,
) {
    let frame = FrameRef { base_seq: seq, count, payload };
    writer.append_frames(&[frame], durable).map_err(|e| e.into_error()).unwrap();
}

/// Compares bytes and their dump with the golden files of this name, or writes these where
/// `UPDATE_DOCS` is set; also checks that the page shows the dump.
#[expect(clippy::disallowed_methods, reason = "golden files are the repository's, not a store's")]
pub(crate) fn check_golden(page: &str, version: u32, bytes: &[u8], dump: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format");
    let binary = folder.join(format!("golden/{page}-v{version}.bin"));
    let text = folder.join(format!("golden/{page}-v{version}.txt"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&binary, bytes).unwrap();
        std::fs::write(&text, dump).unwrap();
    }
    assert_eq!(std::fs::read(&binary).unwrap(), bytes, "{page}: the bytes changed");
    assert_eq!(std::fs::read_to_string(&text).unwrap(), dump, "{page}: the dump changed");
    assert!(read_page(page).contains(dump.trim_end()), "{page}.md does not show the dump");
}

/// Checks that a page has a table row for each (offset, size, first words of the meaning).
pub(crate) fn check_page(page: &str, rows: &[(usize, usize, &str)]) {
    let text = read_page(page);
    for (offset, size, meaning) in rows {
        let row = format!("| {offset} | {size} | {meaning}");
        assert!(text.contains(&row), "{page}.md has no row \"{row}\"");
    }
}

fn read_page(page: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format");
    std::fs::read_to_string(folder.join(format!("{page}.md"))).unwrap()
}

/// Each planted bug of logs and manifests makes a test fail that passes without it. In a process
/// of its own, because a plant holds for all threads.
#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_is_caught() {
    let flips = "log::reader::tests::any_flip_in_an_unsealed_segment_is_corruption";
    let crashes = "manifest::tests::every_crash_state_recovers_to_a_prefix";
    let faults = "manifest::tests::every_failing_call_ends_in_an_error_or_success_and_a_prefix";
    let sealed = "log::reader::tests::any_flip_in_a_sealed_segment_is_corruption";
    for (bug, test) in [
        ("skip_payload_checksum", flips),
        ("no_tear_rule", flips),
        ("no_tear_rule", "manifest::tests::any_flip_is_corruption"),
        ("bad_frame_in_sealed_log_is_tail", sealed),
        ("skip_manifest_sync", crashes),
        ("skip_manifest_sync", faults),
        ("skip_directory_sync", crashes),
        ("skip_directory_sync", faults),
    ] {
        let run = |bug: Option<&str>| {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args([test, "--exact", "--quiet"]).env_remove(PLANT);
            child.envs(bug.map(|bug| (PLANT, bug)));
            let output = child.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("running 1 test"), "{test} is not there: {text}");
            output.status.success()
        };
        assert!(!run(Some(bug)), "{bug} was not caught by {test}");
    }
}
