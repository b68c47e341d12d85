//! Segments, batches, edits and pointer files on arbitrary bytes.

use crate::base::checksum::{crc_at, crc_of_parts, file_seed};
use crate::base::entry::{FileId, Kind, SEQ_MAX};
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::io::Purpose;
use crate::log::batch::{BatchReader, Record, encode_large_put, encode_record};
use crate::log::format::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_OVERHEAD_BYTES, FrameKind, FrameRef, PAYLOAD_BYTES_MAX,
    SEGMENT_HEADER_BYTES, Sealed, SegmentHeader, encode_frame_with, frame_offset, segment_offset,
};
use crate::log::reader::{ReadOptions, SegmentReader};
use crate::log::separated::{Binding, Slot, bind};
use crate::manifest::Manifest;
use crate::manifest::format::{Edit, POINTER_BYTES, Pointer, PointerKind, pointer_offset};

use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// A journal segment: every frame read, every batch in it decoded; then read again as what its
/// good part was sealed as, which must give the same.
pub fn segment(data: &[u8]) -> bool {
    let accepted = read_segment(data);
    let mut mended = data.to_vec();
    mend_segment(&mut mended, FileKind::Journal, OURS);
    read_segment(&mended) || accepted
}

fn read_segment(bytes: &[u8]) -> bool {
    let (io, disk, path) = world(FileKind::Journal, Some(bytes));
    let mut options = ReadOptions {
        kind: FileKind::Journal,
        id: FILE,
        uuid: UUID,
        sealed: None,
        contiguous: bytes.len().is_multiple_of(2),
        purpose: Purpose::Recovery,
    };
    let read = |options: ReadOptions| -> Result<(u64, Sealed)> {
        let mut reader = SegmentReader::open(&io, &path, options)?;
        let mut frames = 0u64;
        while let Some(frame) = reader.next_frame()? {
            frames += 1;
            let count = frame.header.count;
            let batch =
                BatchReader::new(frame.payload, count).filter(std::result::Result::is_ok).count();
            assert!(batch <= count as usize, "more records than the frame states");
        }
        assert!(reader.end().is_some(), "reading ended without saying how");
        Ok((frames, reader.good_part().sealed))
    };
    let Ok((frames, sealed)) = read(options) else { return false };
    assert!(sealed.bytes <= bytes.len() as u64, "the good part is longer than the file");
    options.sealed = Some(sealed);
    let cut = bytes.get(..sealed.bytes as usize).unwrap_or_default();
    assert!(disk.replace(&path, cut).is_ok(), "the memory disk refuses a file");
    if sealed.bytes > 0 {
        let again = read(options).ok();
        assert_eq!(again, Some((frames, sealed)), "the good part does not read as sealed");
    }
    frames > 0
}

/// Makes identity and checksums of a segment right, as far as its frames can be followed.
pub(super) fn mend_segment(bytes: &mut [u8], kind: FileKind, identity: Identity) {
    if bytes.len() < SEGMENT_HEADER_BYTES {
        return;
    }
    let before = FileId(u64::from_le_bytes(array_at(bytes, segment_offset::PREDECESSOR_ID)));
    let header = SegmentHeader {
        kind,
        uuid: identity.uuid,
        id: identity.file,
        predecessor: (before.0 != 0 && before < identity.file).then(|| Sealed {
            id: before,
            bytes: u64::from_le_bytes(array_at(bytes, segment_offset::PREDECESSOR_BYTES)),
            checksum: u32::from_le_bytes(array_at(bytes, segment_offset::PREDECESSOR_CHECKSUM)),
        }),
        first_seq: u64::from_le_bytes(array_at(bytes, segment_offset::FIRST_SEQ)) & SEQ_MAX,
    };
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    overwrite(bytes, 0, &encoded);
    let mut at = SEGMENT_HEADER_BYTES;
    while at + FRAME_OVERHEAD_BYTES <= bytes.len() {
        match mended_frame(bytes, at, header.seed()) {
            Some(frame) => {
                overwrite(bytes, at, &frame);
                at += frame.len();
            }
            None => break,
        }
    }
}

/// The frame at `at` with right checksums; `None` where its length leaves the file or zeros begin.
fn mended_frame(bytes: &[u8], at: usize, seed: u32) -> Option<Vec<u8>> {
    let rest = bytes.get(at..)?;
    let field = |offset: usize| u32::from_le_bytes(array_at(rest, offset));
    let wide = |offset: usize| u64::from_le_bytes(array_at(rest, offset));
    let payload_bytes = field(frame_offset::PAYLOAD_BYTES) as usize;
    let is_blank = !rest.starts_with(&FRAME_MAGIC) && payload_bytes == 0;
    if is_blank || payload_bytes > PAYLOAD_BYTES_MAX {
        return None;
    }
    let payload = rest.get(FRAME_HEADER_BYTES..)?.get(..payload_bytes)?;
    rest.get(FRAME_HEADER_BYTES + payload_bytes)?;
    let kinds = [FrameKind::Synced, FrameKind::Footer];
    let stated = |kind: &FrameKind| rest.get(frame_offset::KIND) == Some(&(*kind as u8));
    let kind = kinds.into_iter().find(stated).unwrap_or(FrameKind::Data);
    let frame = FrameRef {
        base_seq: wide(frame_offset::BASE_SEQ),
        count: field(frame_offset::COUNT),
        payload,
    };
    let durable_seq = wide(frame_offset::DURABLE_SEQ);
    let mut out = Vec::new();
    encode_frame_with(kind, frame, durable_seq, seed, at as u64, &mut out, |payload, place| {
        let place = Binding { seed, payload_offset: place, base_seq: frame.base_seq };
        rebind(payload, frame.count, place);
        Ok(())
    })
    .ok()?;
    Some(out)
}

/// Makes the proofs of the separated records of a payload right, as far as they can be followed.
pub(super) fn rebind(payload: &mut [u8], count: u32, place: Binding) {
    let copy = payload.to_vec();
    for (operation, record) in BatchReader::of_values(&copy, count, None).enumerate() {
        let Ok(record) = record else { return };
        let Some(separated) = record.separated else { continue };
        let (start, record) = (separated.start, separated.record);
        let slot = Slot {
            operation: operation as u32,
            start: start as u32,
            head_bytes: record.head_bytes() as u32,
            bytes: record.bytes() as u32,
            key_bytes: record.key.len() as u32,
            value_bytes: record.value_bytes,
            hash: 0,
        };
        let head = copy.get(start..start + record.head_bytes()).unwrap_or_default();
        let body = crc_of_parts(head, record.stored);
        let bound_at = start + record.head_bytes();
        overwrite(payload, bound_at, &[0; 8]);
        overwrite(payload, bound_at + 8, &body.to_le_bytes());
        let bound = bind(payload, &[slot], place);
        assert!(bound.is_ok(), "a record that was found cannot be bound");
    }
}

/// The payload of a journal frame, after its count in one byte. Records that decode are encoded
/// and decoded again.
pub fn batch_payload(data: &[u8]) -> bool {
    let Some((&count, payload)) = data.split_first() else { return false };
    let Ok(records) = BatchReader::new(payload, u32::from(count)).collect::<Result<Vec<_>>>()
    else {
        return false;
    };
    assert_eq!(records.len(), usize::from(count), "records are missing");
    let mut encoded = Vec::new();
    for &Record { kind, keyspace, key, value, .. } in &records {
        match kind {
            Kind::PutSeparated => encode_large_put(&mut encoded, keyspace, key, value),
            kind => encode_record(&mut encoded, kind, keyspace, key, value),
        }
    }
    assert!(encoded.len() <= payload.len(), "the encoding is not the shortest");
    let again = BatchReader::new(&encoded, u32::from(count)).collect::<Result<Vec<_>>>();
    assert_eq!(again.ok(), Some(records), "a batch changes when it is encoded again");
    true
}

/// The payload of a frame of the manifest.
pub fn manifest_edit(data: &[u8]) -> bool {
    let Ok(edit) = Edit::decode(data) else { return false };
    let encoded = edit.encode().unwrap_or_default();
    assert_eq!(encoded, data, "an edit has one encoding only");
    true
}

/// A manifest that `CURRENT` names.
pub fn manifest_file(data: &[u8]) -> bool {
    let read = |bytes: &[u8]| {
        let (io, disk, path) = world(FileKind::Manifest, Some(bytes));
        let folder = path.parent().unwrap_or(&path);
        let current = Pointer { uuid: UUID, manifest_id: FILE }.encode(PointerKind::Current);
        assert!(disk.replace(folder.join("CURRENT"), current).is_ok(), "no room for a file");
        let found = Manifest::read_only(&io, folder);
        if let Ok((manifest, recovered)) = Manifest::open(&io, folder) {
            let before = found.as_ref().map(|found| found.edits.clone()).ok();
            assert_eq!(before, Some(recovered.edits), "opening changes what was read");
            assert!(manifest.bytes() <= bytes.len() as u64, "the manifest grew");
        }
        found.is_ok()
    };
    let accepted = read(data);
    let mut mended = data.to_vec();
    mend_segment(&mut mended, FileKind::Manifest, OURS);
    read(&mended) || accepted
}

/// `CURRENT`, or the marker of an unfinished creation.
pub fn pointer(data: &[u8]) -> bool {
    let mut mended = data.to_vec();
    mend_pointer(&mut mended);
    let mut accepted = false;
    for kind in [PointerKind::Current, PointerKind::Creating] {
        let mut own = mended.clone();
        overwrite(&mut own, pointer_offset::MAGIC, &kind.magic());
        for bytes in [data, &own] {
            if let Ok(pointer) = Pointer::decode(bytes, kind) {
                assert_eq!(pointer.encode(kind), bytes, "a pointer has one encoding only");
                accepted = true;
            }
        }
    }
    accepted
}

/// The database that a pointer file names.
pub(super) fn stated_uuid(bytes: &[u8]) -> [u8; 16] {
    array_at(bytes, pointer_offset::UUID)
}

/// Makes the checksum of a pointer file right.
pub(super) fn mend_pointer(bytes: &mut [u8]) {
    let Some(tail) = bytes.get(pointer_offset::VERSION..POINTER_BYTES) else { return };
    let seed = file_seed(&stated_uuid(bytes), 0);
    let crc = crc_at(seed, pointer_offset::VERSION as u64, tail);
    overwrite(bytes, pointer_offset::CRC, &crc.to_le_bytes());
}
