//! Seeds of the corpus: what the engine's own writers make.

use crate::base::codec::put_bytes;
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Kind};
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::Arc;
use crate::base::tombstone::RangeTombstone;
use crate::db::KeyspaceOptions;
use crate::io::Purpose;
use crate::io::memory_disk::MemoryDisk;
use crate::log::batch::{encode_large_put, encode_record};
use crate::log::format::{FrameRef, Sealed};
use crate::log::writer::{SegmentSpec, SegmentWriter};
use crate::manifest::format::{Pointer, PointerKind};
use crate::manifest::{Edit, Manifest};
use crate::table::format::{FOOTER_BYTES, HEADER_BYTES, decode_footer, decode_section};
use crate::table::writer::{TableOptions, TableWriter};
use crate::values::handle::Handle;

use super::directory::{self, joined};
use super::{FILE, UUID, world};

mod values;

/// An entry's name, a file name and the bytes.
pub type Seed = (&'static str, &'static str, Vec<u8>);

/// All seeds that can be made; empty where a writer refuses, which the replay test notices.
pub fn seeds() -> Vec<Seed> {
    let mut all = Vec::new();
    all.extend(super::locator::seeds());
    all.extend(super::map::seeds());
    all.extend(super::facts::seeds());
    let buckets = |all: &mut Vec<Seed>| {
        all.extend(super::buckets::seeds()?);
        all.extend(super::facts_file::seeds()?);
        Ok(())
    };
    let flex = |all: &mut Vec<Seed>| {
        all.extend(super::flex_intervals::seeds());
        all.extend(super::flex_pages::seeds()?);
        all.extend(super::flex_space::seeds()?);
        Ok(())
    };
    let parts = [buckets, flex, logs, values::values, tables, sections, directories];
    let made = parts.into_iter().try_for_each(|part| part(&mut all));
    assert!(made.is_ok(), "a writer refuses: {made:?}");
    all
}

/// A batch with a record of every kind.
fn batch() -> (u32, Vec<u8>) {
    let records: [(Kind, &[u8], &[u8]); 5] = [
        (Kind::Put, b"apple", b"a fruit that grows on trees"),
        (Kind::Delete, b"banana", b""),
        (Kind::Merge, b"count", b"\x01\0\0\0\0\0\0\0"),
        (Kind::RangeDelete, b"d", b"e"),
        (Kind::Put, b"", &[0; 600]),
    ];
    let mut payload = Vec::new();
    for (number, (kind, key, value)) in records.into_iter().enumerate() {
        encode_record(&mut payload, kind, KeyspaceId(1 + number as u32 * 100), key, value);
    }
    let handle = Handle::of_large(FileId(4), 9 << 20).encode();
    encode_large_put(&mut payload, KeyspaceId(7), b"large", &handle);
    (records.len() as u32 + 1, payload)
}

fn edit() -> Edit {
    let section = |tag, payload: &[u8]| Section { tag, payload: payload.to_vec() };
    let sections = vec![
        section(SectionTag::ENGINE, &[1, 2, 3, 4]),
        section(SectionTag::KEYSPACES, b"\x01default"),
        section(SectionTag::LSM, &[0; 40]),
        section(SectionTag(0x8123), b"of a newer build"),
    ];
    Edit { sections }
}

/// A segment of some frames, made by the writer.
fn segment(kind: FileKind, frames: &[FrameRef<'_>], preallocate_bytes: u64) -> Result<Vec<u8>> {
    let (io, disk, path) = world(kind, None);
    let spec = SegmentSpec {
        kind,
        id: FILE,
        uuid: UUID,
        predecessor: (kind == FileKind::Journal).then_some(Sealed {
            id: FileId(5),
            bytes: 4711,
            checksum: 0xabad_cafe,
        }),
        first_seq: 10,
        purpose: Purpose::Journal,
        preallocate_bytes,
    };
    let mut writer =
        SegmentWriter::create(&io, &path, &spec).map_err(|error| error.into_error())?;
    for frame in frames {
        writer.append_frames(&[*frame], frame.base_seq - 1).map_err(|error| error.into_error())?;
    }
    Ok(disk.contents(&path))
}

fn logs(all: &mut Vec<Seed>) -> Result<()> {
    let (count, payload) = batch();
    let frames = [
        FrameRef { base_seq: 10, count, payload: &payload },
        FrameRef { base_seq: 16, count, payload: &payload },
        FrameRef { base_seq: 22, count: 0, payload: &[] },
    ];
    let journal = segment(FileKind::Journal, &frames, 0)?;
    let torn = journal.get(..journal.len() - 30).unwrap_or_default().to_vec();
    let ahead = segment(FileKind::Journal, frames.get(..1).unwrap_or_default(), 2048)?;
    all.push(("segment", "journal", journal.clone()));
    all.push(("segment", "torn", torn.clone()));
    all.push(("segment", "preallocated", ahead.clone()));
    all.push(("dump", "journal", journal));
    all.push(("dump", "torn", torn));
    let mut counted = vec![count as u8];
    counted.extend_from_slice(&payload);
    all.push(("batch_payload", "every_kind", counted));
    all.push(("batch_payload", "empty", vec![0]));

    let edit = edit().encode()?;
    all.push(("manifest_edit", "sections", edit.clone()));
    let frame = |number| FrameRef { base_seq: number, count: 1, payload: &edit };
    let manifest = segment(FileKind::Manifest, &[frame(10), frame(11)], 0)?;
    all.push(("manifest_file", "two_edits", manifest.clone()));
    all.push(("manifest_file", "preallocated", segment(FileKind::Manifest, &[frame(10)], 1024)?));
    all.push(("dump", "manifest", manifest));
    for (name, kind) in [("current", PointerKind::Current), ("creating", PointerKind::Creating)] {
        let bytes = Pointer { uuid: UUID, manifest_id: FILE }.encode(kind);
        all.push(("pointer", name, bytes.clone()));
        all.push(("dump", name, bytes));
    }
    Ok(())
}

/// A table made by the writer: its bytes and what the manifest keeps of it.
fn table(compression: Compression, entries: u64, block_bytes: usize) -> Result<[Vec<u8>; 2]> {
    let (io, disk, path) = world(FileKind::Table, None);
    let options = TableOptions {
        uuid: UUID,
        file: FILE,
        keyspace: KeyspaceId(3),
        level: 1,
        block_bytes,
        restart_interval: 4,
        compression,
        purpose: Purpose::Flush,
        direct: false,
        limited: false,
    };
    let mut writer = TableWriter::create(&io, &path, options)?;
    for number in 0..entries {
        let key = format!("key{:04}", number / 3);
        let (kind, value) = match number % 7 {
            0 => (Kind::Delete, Vec::new()),
            1 => (Kind::Merge, number.to_le_bytes().to_vec()),
            _ => (Kind::Put, vec![b'v'; (number % 50) as usize]),
        };
        writer.add(key.as_bytes(), 1000 - number, kind, &value)?;
    }
    if entries.is_multiple_of(2) {
        let range = |start: &str, end: &str, seq| RangeTombstone {
            start: start.as_bytes().into(),
            end: end.as_bytes().into(),
            seq,
        };
        writer.add_tombstone(&range("key0001", "key0003", 500))?;
        writer.add_tombstone(&range("key0002", "zebra", 400))?;
    }
    let meta = writer.finish()?;
    let mut encoded = Vec::new();
    meta.encode(&mut encoded);
    Ok([disk.contents(&path), encoded])
}

fn tables(all: &mut Vec<Seed>) -> Result<()> {
    let forms = [
        ("plain", Compression::None, 40, 256),
        ("lz4", Compression::Lz4, 41, 1024),
        ("zstd", Compression::Zstd, 40, 4096),
        ("one_entry", Compression::None, 1, 4096),
    ];
    for (name, compression, entries, block_bytes) in forms {
        let [bytes, meta] = table(compression, entries, block_bytes)?;
        all.push(("table_meta", name, meta));
        parts(all, name, &bytes)?;
        all.push(("table_file", name, bytes.clone()));
        all.push(("dump", name, bytes));
    }
    let mut block = Vec::new();
    put_bytes(&mut block, b"not a block");
    all.push(("table_block", "no_block", block));
    Ok(())
}

/// The parts of a table as the entries of its sections want them.
fn parts(all: &mut Vec<Seed>, name: &'static str, bytes: &[u8]) -> Result<()> {
    let seed = crate::base::checksum::file_seed(&UUID, FILE.0);
    let at = bytes.len() - FOOTER_BYTES;
    let header = bytes.get(..HEADER_BYTES).unwrap_or_default();
    let footer = bytes.get(at..).unwrap_or_default();
    all.push(("table_footer", name, [&(at as u32).to_le_bytes(), header, footer].concat()));
    let footer = decode_footer(footer, seed, at as u64)?;
    let section = |extent: crate::table::format::Extent| {
        let stored = bytes.get(extent.offset as usize..extent.end() as usize);
        decode_section(stored.unwrap_or_default(), seed, extent.offset)
    };
    let blocks_end = footer.filter.offset as u32;
    let index = section(footer.index)?;
    all.push(("table_index", name, [&blocks_end.to_le_bytes(), index.as_slice()].concat()));
    all.push(("table_filter", name, section(footer.filter)?));
    all.push(("table_tombstones", name, section(footer.tombstones)?));
    all.push(("table_properties", name, section(footer.properties)?));
    let index = crate::table::block_index::decode_index(&index, footer.filter.offset)?;
    for number in 0..index.len().min(1) {
        all.push(("table_block", name, section(index.extent(number).unwrap_or_default())?));
    }
    Ok(())
}

fn sections(all: &mut Vec<Seed>) -> Result<()> {
    let disk = MemoryDisk::new();
    store(&disk, 2)?;
    let io = crate::io::Io::simulated(Arc::new(disk.clone()));
    let recovered = Manifest::read_only(&io, std::path::Path::new("/db"))?;
    for section in recovered.edits.iter().flat_map(|edit| &edit.sections) {
        let payload = section.payload.as_slice();
        let name = match section.tag {
            SectionTag::ENGINE => "engine",
            SectionTag::KEYSPACES => "keyspaces",
            SectionTag::LSM if payload.len() < 8 => "lsm_empty",
            SectionTag::LSM => "lsm",
            SectionTag::JOURNAL => "journal",
            // Behind the version, the kind of the first edit.
            SectionTag::VALUES => match payload.get(1) {
                Some(1) => "values_added",
                Some(2) => "values_sealed",
                Some(3) => "values_counted",
                _ => "values_removed",
            },
            _ => "other",
        };
        all.push(("manifest_sections", name, [&[section.tag.0 as u8], payload].concat()));
    }
    Ok(())
}

fn directories(all: &mut Vec<Seed>) -> Result<()> {
    for (name, rounds) in [("new", 0), ("unflushed", 1), ("flushed", 2), ("compacted", 3)] {
        let disk = MemoryDisk::new();
        store(&disk, rounds)?;
        all.push(("open_directory", name, joined(&disk)));
    }
    Ok(())
}

/// A database: 0 nothing in it, 1 only a journal, 2 tables too, 3 compacted.
fn store(disk: &MemoryDisk, rounds: u32) -> Result<()> {
    let (db, stepper) = directory::open(disk)?;
    let options = || KeyspaceOptions::new().merge_operator("append:,");
    for round in 0..rounds {
        let plain = db.keyspace("plain", KeyspaceOptions::default())?;
        let lists = db.keyspace("lists", options())?;
        let apart = db.keyspace("apart", KeyspaceOptions::new().separate_at(Some(8)))?;
        for number in 0..12 {
            plain.put(format!("key{number:02}"), vec![b'v'; number * 5 + round as usize])?;
            lists.merge(format!("list{}", number % 4), number.to_string())?;
            apart.put(format!("far{number:02}"), vec![b'w'; number * 5])?;
        }
        // In a file of its own, in chunks of which the last one is short.
        apart.put("large", vec![b'x'; 2500 + round as usize])?;
        plain.delete("key03")?;
        plain.delete_range("key05".."key07")?;
        if round > 0 {
            db.flush()?;
        }
        if round > 1 {
            db.compact()?;
        }
        plain.put("after", round.to_string())?;
    }
    stepper.run_all();
    db.close()
}
