//! Seeds of value segments and of their parts, by the engine's own writer.

use crate::base::checksum::KeyedHash;
use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId, Kind};
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::base::runs::Run;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::io::Purpose;
use crate::log::batch::encode_record;
use crate::log::footer::{FooterBuilder, Totals};
use crate::log::format::{FRAME_HEADER_BYTES, FrameRef, Sealed};
use crate::log::group::ValueFrame;
use crate::log::punched::Punched;
use crate::log::separated::{Binding, SeparatedPut, Slot, encode_separated};
use crate::log::writer::{AppendError, SegmentSpec, SegmentWriter};
use crate::values::edit::{ContainerInfo, LargeInfo, SealedValues, ValuesEdit};
use crate::values::handle::Handle;
use crate::values::large::format::LargeHeader;
use crate::values::strategy::kind::StrategyKind;

use super::Seed;
use crate::sim::fuzz::large::written;
use crate::sim::fuzz::value_tables::{Moved, written_table};
use crate::sim::fuzz::{FILE, UUID, world};

const KEYSPACE: KeyspaceId = KeyspaceId(300);

/// A separated put at the end of `payload`.
fn put(payload: &mut Vec<u8>, operation: u32, key: &[u8], value: &[u8], how: Compression) -> Slot {
    let hash = KeyedHash::new(&UUID).hash(KEYSPACE, key);
    let put = SeparatedPut { keyspace: KEYSPACE, key, value, compression: how, hash };
    encode_separated(payload, operation, &put, &mut Vec::new())
}

/// Two frames, of which the first holds a small record, too; the second is compressed.
fn batches() -> [(u32, Vec<u8>, Vec<Slot>); 2] {
    let mut first = Vec::new();
    let plain = put(&mut first, 0, b"apple", b"a value for the log", Compression::None);
    encode_record(&mut first, Kind::Put, KEYSPACE, b"pear", b"small");
    let mut second = Vec::new();
    let packed = put(&mut second, 0, b"plum", &[b'x'; 300], Compression::Zstd);
    [(2, first, vec![plain]), (1, second, vec![packed])]
}

/// A segment with its footer, and without.
fn segments() -> Result<[Vec<u8>; 2]> {
    let (io, disk, path) = world(FileKind::Value, None);
    let spec = SegmentSpec {
        kind: FileKind::Value,
        id: FILE,
        uuid: UUID,
        predecessor: None,
        first_seq: 10,
        purpose: Purpose::Journal,
        preallocate_bytes: 0,
    };
    let mut writer = SegmentWriter::create(&io, &path, &spec).map_err(AppendError::into_error)?;
    let (mut footer, mut seq, mut buffer) = (FooterBuilder::default(), 10, Vec::new());
    for (count, payload, slots) in &batches() {
        let frame = FrameRef { base_seq: seq, count: *count, payload };
        let range = writer
            .append_values(&[ValueFrame { frame, slots }], seq - 1, &mut buffer)
            .map_err(AppendError::into_error)?;
        let payload_offset = range.start + FRAME_HEADER_BYTES as u64;
        footer.add_frame(slots, Binding { seed: writer.seed(), payload_offset, base_seq: seq });
        // The other lane takes some seqs.
        seq += u64::from(*count) + 3;
    }
    let open = disk.contents(&path);
    let footer = footer.encode().unwrap_or_default();
    writer.append_footer(seq, seq - 1, &footer).map_err(AppendError::into_error)?;
    Ok([disk.contents(&path), open])
}

/// Files of large values: the last chunk short, full, and the only one.
fn large_values(all: &mut Vec<Seed>) -> Result<()> {
    for (name, chunk_bytes, value_bytes) in
        [("short_end", 64, 200), ("full_end", 50, 200), ("one_chunk", 1 << 20, 300)]
    {
        let header = LargeHeader { keyspace: KEYSPACE, key: b"plum".to_vec(), chunk_bytes };
        let value: Vec<u8> = (0..value_bytes).map(|at| at as u8).collect();
        let chunks: Vec<_> = value.chunks(chunk_bytes as usize).map(<[u8]>::to_vec).collect();
        let bytes = written(&header, &chunks)?;
        all.push(("large_value", name, bytes.clone()));
        all.push(("dump", name, bytes));
    }
    Ok(())
}

/// Value tables: one group and many, versions of a key over two groups, a moved copy, nothing.
fn value_tables(all: &mut Vec<Seed>) -> Result<()> {
    let mut records = Vec::new();
    for (number, how) in [Compression::None, Compression::Lz4, Compression::Zstd]
        .into_iter()
        .cycle()
        .take(40)
        .enumerate()
    {
        let (key, seq) = (format!("key{:02}", number / 3), 100 - number as u64);
        let value: Vec<u8> = (0..20 + 9 * number).map(|byte| (byte / 8) as u8).collect();
        let mut bytes = Vec::new();
        put(&mut bytes, 0, key.as_bytes(), &value, how);
        let file = FileId(4 + number as u64 % 2);
        records.push(Moved { file, seq, bytes: bytes.clone() });
        if number == 7 {
            records.push(Moved { file: FileId(9), seq, bytes });
        }
    }
    for (name, count, group_bytes) in [
        ("one_group", 5, 8192),
        ("many_groups", 41, 64),
        ("some_groups", 30, 400),
        ("no_records", 0, 64),
    ] {
        let records = records.get(..count).unwrap_or_default();
        let bytes = written_table(records, &[FileId(4), FileId(5), FileId(9)], group_bytes)?;
        all.push(("value_table", name, bytes.clone()));
        all.push(("dump", name, bytes));
    }
    Ok(())
}

/// Files on their way through containers: one alone, then both together; and a third of before.
fn containers(totals: Totals) -> Section {
    let sealed = |id, checksum| Sealed { id: FileId(id), bytes: 900, checksum };
    let info = |id, files: &[(u64, u32)]| {
        let files = files.iter().map(|&(file, epoch)| (FileId(file), epoch)).collect();
        Arc::new(ContainerInfo { sealed: sealed(id, 0xfade_d0ff), totals, files })
    };
    let added = |id| {
        let values = SealedValues { sealed: sealed(id, 0xabad_cafe), last_seq: 20, totals };
        let ref_bytes = totals.record_bytes as i64;
        [
            ValuesEdit::Added { id: FileId(id) },
            ValuesEdit::Sealed(values),
            ValuesEdit::Counted { id: FileId(id), refs: totals.records as i64, ref_bytes },
        ]
    };
    let last = [
        ValuesEdit::Held(info(9, &[(4, 3)])),
        ValuesEdit::Rewritten(info(11, &[(5, 1)])),
        ValuesEdit::Rewritten(info(12, &[(5, 2), (6, 1)])),
        ValuesEdit::Counted { id: FileId(5), refs: -1, ref_bytes: -40 },
        ValuesEdit::Removed { id: FileId(4) },
    ];
    let edits: Vec<_> = added(5).into_iter().chain(added(6)).chain(last).collect();
    ValuesEdit::encode(&edits)
}

pub(super) fn values(all: &mut Vec<Seed>) -> Result<()> {
    value_tables(all)?;
    let [sealed, open] = segments()?;
    all.push(("value_segment", "sealed", sealed.clone()));
    all.push(("value_segment", "torn", open.get(..open.len() - 20).unwrap_or_default().to_vec()));
    all.push(("value_segment", "open", open));
    all.push(("dump", "values", sealed));
    let value: Vec<u8> = (0..200u8).map(|byte| byte / 8).collect();
    for (name, how) in
        [("plain", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)]
    {
        let mut record = Vec::new();
        put(&mut record, 0, b"key", &value, how);
        all.push(("value_record", name, record));
    }
    let mut footer = FooterBuilder::default();
    all.push(("value_footer", "empty", footer.encode().unwrap_or_default()));
    let place = Binding { seed: 0, payload_offset: 120, base_seq: 10 };
    for (number, (_, _, slots)) in (0..).zip(batches()) {
        let payload_offset = place.payload_offset + 500 * number;
        footer.add_frame(&slots, Binding { payload_offset, base_seq: 10 + 4 * number, ..place });
    }
    all.push(("value_footer", "two_records", footer.encode().unwrap_or_default()));
    let handle = Handle { file: FILE, epoch: 3, offset: 70_000, bytes: 1058 };
    all.push(("value_handle", "usual", handle.encode().to_vec()));
    let far = Handle { file: FileId(1 << 40), epoch: 0, offset: 1 << 50, bytes: 100 << 20 };
    all.push(("value_handle", "far", far.encode().to_vec()));
    all.push(("value_handle", "large", Handle::of_large(FILE, 9 << 20).encode().to_vec()));
    large_values(all)?;
    let sealed = Sealed { id: FileId(5), bytes: 900, checksum: 0xabad_cafe };
    let totals = footer.totals();
    let sealed_large = Sealed { id: FileId(8), bytes: 1100, checksum: 0xabad_cafe };
    let large = LargeInfo { sealed: sealed_large, value_bytes: 1000, seq: 21 };
    let runs = [Run { start: 80, end: 200 }, Run { start: 300, end: 400 }].into();
    let punched = Punched { runs, records: 1, record_bytes: 40, checksum: 7 };
    let section = ValuesEdit::encode(&[
        ValuesEdit::Added { id: FileId(5) },
        ValuesEdit::Sealed(SealedValues { sealed, last_seq: 20, totals }),
        ValuesEdit::Counted { id: FileId(5), refs: 2, ref_bytes: totals.record_bytes as i64 },
        ValuesEdit::Punched { id: FileId(5), punched: Arc::new(punched) },
        ValuesEdit::Counted { id: FileId(4), refs: -1, ref_bytes: -60 },
        ValuesEdit::Added { id: FileId(6) },
        ValuesEdit::Counted { id: FileId(5), refs: -2, ref_bytes: -(totals.record_bytes as i64) },
        ValuesEdit::Removed { id: FileId(5) },
        ValuesEdit::AddedLarge(large),
        ValuesEdit::Counted { id: FileId(8), refs: 1, ref_bytes: 1000 },
    ]);
    let tagged = |section: Section| [&[section.tag.0 as u8], section.payload.as_slice()].concat();
    all.push(("manifest_sections", "values", tagged(section)));
    all.push(("manifest_sections", "containers", tagged(containers(totals))));
    for kind in StrategyKind::ALL {
        all.push(("manifest_sections", kind.name(), tagged(kind.encode())));
    }
    Ok(())
}
