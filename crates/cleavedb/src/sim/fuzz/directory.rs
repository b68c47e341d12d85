//! A whole directory of arbitrary files: opened, read, verified, written to, closed and opened
//! again.

use std::path::Path;
use std::time::Duration;

use crate::base::entry::FileId;
use crate::base::error::{ErrorKind, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::{FileKind, file_name, parse_file_name};
use crate::base::widths::Widths;
use crate::db::{Db, Keyspace, KeyspaceOptions, Options};
use crate::io::memory_disk::MemoryDisk;
use crate::sim::{Environment, SimulatedClock, Stepper};

use super::{Identity, array_at, large, logs, tables, value_tables};

const FOLDER: &str = "/db";

/// Bytes in front of a file's contents: kind (1), number (2), length (4).
const HEAD_BYTES: usize = 7;

/// One file of an input.
struct Piece {
    name: String,
    kind: FileKind,
    id: FileId,
    bytes: Vec<u8>,
}

/// Files one after another: kind (one byte), number (two), length (four), contents. Offered
/// as they are, then with the identity of the first `CURRENT` and right checksums in each file.
pub fn open_directory(data: &[u8]) -> bool {
    let mut pieces = split(data);
    let accepted = visit(&pieces, true);
    let current = pieces.iter().find(|piece| piece.kind == FileKind::Current);
    let Some(uuid) = current.map(|current| logs::stated_uuid(&current.bytes)) else {
        return accepted;
    };
    for piece in &mut pieces {
        let identity = Identity { uuid, file: piece.id };
        match piece.kind {
            FileKind::Journal | FileKind::Manifest | FileKind::Value => {
                logs::mend_segment(&mut piece.bytes, piece.kind, identity);
            }
            FileKind::Table => tables::mend_table(&mut piece.bytes, identity),
            FileKind::Large => large::mend_large(&mut piece.bytes, identity),
            FileKind::ValueTable => {
                value_tables::mend_value_table(&mut piece.bytes, identity);
            }
            FileKind::Bucket => super::buckets::mend_bucket(&mut piece.bytes, identity),
            FileKind::Facts => super::facts_file::mend_facts(&mut piece.bytes, identity),
            FileKind::FlexLog => logs::mend_segment(&mut piece.bytes, piece.kind, identity),
            FileKind::FlexSegment => {
                super::flex_space::mend_space_segment(&mut piece.bytes, identity);
            }
            FileKind::FlexPages => super::flex_pages::mend_pages(&mut piece.bytes, identity),
            FileKind::Current => logs::mend_pointer(&mut piece.bytes),
            _ => {}
        }
    }
    visit(&pieces, false) || accepted
}

fn split(data: &[u8]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = data;
    while let Some((head, after)) = rest.split_at_checked(HEAD_BYTES) {
        let length = u32::from_le_bytes(array_at(head, 3)) as usize;
        let (bytes, next) = after.split_at(after.len().min(length));
        rest = next;
        let [kind] = array_at(head, 0);
        let Some(kind) = FileKind::from_u8(kind) else { continue };
        let id = FileId(u64::from(u16::from_le_bytes(array_at(head, 1))));
        let name = file_name(kind, id);
        if !pieces.iter().any(|piece| piece.name == name) {
            pieces.push(Piece { name, kind, id, bytes: bytes.to_vec() });
        }
    }
    pieces
}

/// The input of the files on a disk: how seeds are made.
pub(super) fn joined(disk: &MemoryDisk) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, _) in disk.files() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some((kind, id)) = parse_file_name(name) {
            let mut bytes = disk.contents(&path);
            if matches!(kind, FileKind::Journal | FileKind::Manifest | FileKind::Value) {
                // Space allocated ahead of the tail would only make the input long.
                let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                bytes.truncate(used);
            }
            out.push(kind as u8);
            out.extend_from_slice(&(id.0 as u16).to_le_bytes());
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&bytes);
        }
    }
    out
}

fn disk_of(pieces: &[Piece]) -> MemoryDisk {
    use crate::io::disk::Disk;
    let disk = MemoryDisk::new();
    let mut made = disk.create_dir(Path::new(FOLDER)).is_ok();
    for piece in pieces {
        made &= disk.replace(Path::new(FOLDER).join(&piece.name), piece.bytes.clone()).is_ok();
    }
    assert!(made, "the memory disk refuses a file");
    disk
}

/// A world of its own for each opening.
pub(super) fn open(disk: &MemoryDisk) -> Result<(Db, Stepper)> {
    let stepper = Stepper::new(1);
    let environment = Environment::simulated(disk, &stepper, &SimulatedClock::new());
    let widths = Widths {
        memtable_bytes: 64 << 10,
        journal_segment_bytes: 16 << 10,
        value_segment_bytes: 16 << 10,
        value_tail_bytes: 4 << 10,
        value_order_bytes: 256,
        large_value_bytes: 2 << 10,
        large_chunk_bytes: 1 << 10,
        manifest_bytes_max: 4 << 10,
        block_bytes: 256,
        restart_interval: 4,
        table_bytes: 4 << 10,
        ..Widths::for_budget(1 << 20)
    };
    let options = Options::new()
        .environment(environment)
        .widths(widths)
        .memory_budget(1 << 20)
        .reserve_bytes(0)
        .write_timeout(Some(Duration::from_secs(1)));
    options.open(FOLDER).map(|db| (db, stepper))
}

/// `is_genuine`: every checksum is the writer's own. With forged ones contents need not agree with
/// one another, only every call must return.
fn visit(pieces: &[Piece], is_genuine: bool) -> bool {
    let disk = disk_of(pieces);
    let Ok((db, stepper)) = open(&disk) else { return false };
    let is_sound = db.verify(&mut |_, _| {}).is_ok_and(|report| report.problems.is_empty());
    for info in db.keyspaces().iter().take(8) {
        if let Ok(Some(keyspace)) = db.existing_keyspace(&info.name) {
            read_all(&keyspace, is_sound && is_genuine);
        }
    }
    let wrote = write(&db);
    stepper.run_all();
    if let Err(error) = &wrote {
        assert!(error.kind() != ErrorKind::InvalidArgument, "a plain write is refused: {error}");
    }
    let closed = db.close();
    // What a sound database acknowledged is there again.
    if is_sound && is_genuine && wrote.is_ok() && closed.is_ok() {
        let again = open(&disk);
        let found = again.as_ref().ok().map(|(db, _)| {
            let keyspace = db.keyspace("fuzz", KeyspaceOptions::default())?;
            keyspace.get("written")
        });
        let found = found.and_then(Result::ok).flatten();
        assert_eq!(
            found.as_deref(),
            Some(b"by the fuzzer".as_slice()),
            "a sound database lost a write: {:?}",
            again.err()
        );
    }
    is_sound
}

fn write(db: &Db) -> Result<()> {
    let keyspace = db.keyspace("fuzz", KeyspaceOptions::default())?;
    keyspace.put("written", "by the fuzzer")?;
    db.flush()?;
    db.compact()
}

/// Reads in every way; in a sound and genuine database the ways must agree.
fn read_all(keyspace: &Keyspace, must_agree: bool) {
    let forward: Result<Vec<_>> = keyspace.iter().collect();
    let backward: Result<Vec<_>> = keyspace.iter().rev().collect();
    let _ = (keyspace.contains("a"), keyspace.multi_get(["a", "key", "z"]));
    let (Ok(forward), Ok(mut backward)) = (forward, backward) else { return };
    backward.reverse();
    assert!(!must_agree || forward == backward, "the two directions differ");
    for (key, value) in forward.iter().take(64) {
        assert!(key.len() <= KEY_BYTES_MAX, "a key longer than any key");
        if let Ok(found) = keyspace.get(key) {
            assert!(!must_agree || found.as_ref() == Some(value), "get and scan differ");
        }
    }
}
