//! Buckets of deltas, on arbitrary bytes.

use crate::base::checksum::{KeyedHash, crc_at};
use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId, SEQ_MAX};
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::deltas::bucket::file::{BucketFile, DeltaContext, DeltaCounters};
use crate::deltas::bucket::format::{
    CHUNK_FIXED_BYTES, CRC_BYTES, Chunk, HEADER_BYTES, HEADER_PAGES_END_AT, Header, Meta, Reading,
    seal, stated_bytes,
};
use crate::deltas::bucket::reader::Asked;
use crate::deltas::bucket::scan::WholeBucket;
use crate::deltas::bucket::writer::{Append, BucketPlan, GroupBytes, SortedWriter};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::directory::Directory;
use crate::deltas::edit::{DeltasEdit, RemovedBucket};
use crate::deltas::record::{Bound, OwnedBound, Record};
use crate::io::{Io, Purpose};
use crate::values::file::OpenFiles;

use super::seeds::Seed;
use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// A bucket: all of it proved, each key looked up, as it is and with right checksums. What holds is
/// written again and has the same records.
pub fn bucket(data: &[u8]) -> bool {
    let accepted = is_whole(data);
    let mut mended = data.to_vec();
    mend_bucket(&mut mended, OURS);
    is_whole(&mended) || accepted
}

fn context_of(io: Io, path: &std::path::Path, page_bytes: usize) -> Arc<DeltaContext> {
    Arc::new(DeltaContext {
        io,
        dir: path.parent().unwrap_or(path).to_owned(),
        uuid: UUID,
        hash: KeyedHash::new(&UUID),
        obsolete: Arc::new(ObsoleteFiles::default()),
        open_files: Arc::new(OpenFiles::new(4)),
        direct_reads: false,
        page_bytes,
        counters: DeltaCounters::default(),
    })
}

/// What a manifest would say of a bucket with all these bytes.
fn info_of(bytes: &[u8]) -> Result<BucketInfo> {
    let header = bytes.get(..HEADER_BYTES).unwrap_or_default();
    let Header { pages_end, sorted_bytes } = Header::decode(header, &UUID, FILE)?;
    let meta = bytes.get(pages_end as usize..sorted_bytes as usize).unwrap_or_default();
    let seed = OURS.seed();
    let meta = Meta::decode(meta, seed, u64::from(pages_end))?;
    let mut info = BucketInfo {
        id: FILE,
        start: OwnedBound::lowest(),
        pages_end,
        sorted_bytes,
        bytes: bytes.len() as u32,
        checksum: meta.checksum,
        applied_seq: meta.applied_seq,
        records: meta.records + meta.ranges.len() as u64,
    };
    let mut offset = u64::from(sorted_bytes);
    while let Some(rest) = bytes.get(offset as usize..).filter(|rest| !rest.is_empty()) {
        let reading = Reading { hash: KeyedHash::new(&UUID), piece_bytes: 16 };
        let chunk = Chunk::decode(rest, (seed, offset, info.checksum), reading)?;
        info.checksum = chunk.checksum;
        info.applied_seq = chunk.totals.last_seq;
        info.records += chunk.totals.records;
        offset = chunk.end();
    }
    Ok(info)
}

fn open(bytes: &[u8]) -> Result<Bucket> {
    let info = info_of(bytes)?;
    let (io, _, path) = world(FileKind::Bucket, Some(bytes));
    let file = BucketFile::new(&context_of(io, &path, 4096), FILE);
    file.keep();
    Ok(Bucket::new(info, file))
}

fn is_whole(bytes: &[u8]) -> bool {
    let Ok(bucket) = open(bytes) else { return false };
    let whole = bucket.read_whole(Purpose::Recovery);
    if let Ok(whole) = &whole {
        look_up(&bucket, whole, SEQ_MAX);
    }
    if bucket.verify(Purpose::Recovery).is_err() {
        return false;
    }
    let Ok(whole) = whole else { return false };
    let all = records(&whole);
    let again = written_again(&bucket, &whole);
    let holds = again.and_then(|again| open(&again)).and_then(|again| {
        again.verify(Purpose::Recovery)?;
        again.read_whole(Purpose::Recovery)
    });
    assert!(holds.is_ok_and(|again| records(&again) == all), "other records, written again");
    true
}

/// Looks every key up: no answer is other than that of a scan, nor anything else than an error.
fn look_up(bucket: &Bucket, whole: &WholeBucket, snapshot: u64) {
    let hash = KeyedHash::new(&UUID);
    for number in 0..whole.len() {
        let Some((bound, record)) = whole.record(number) else { continue };
        let asked = Asked { bound, hash: hash.hash(bound.keyspace, bound.key), snapshot };
        let Ok(found) = bucket.get(&asked, Purpose::Read) else { continue };
        let is_newest = number == whole.position(bound, SEQ_MAX);
        let is_filtered = bucket.may_hold(bound, asked.hash) == Some(false);
        if is_newest && !is_filtered {
            let newest = found.operands.first().map_or(0, |(seq, _)| *seq);
            let is_seen = newest.max(found.anchor) >= record.seq;
            // A page that the index does not lead to is what `verify` finds.
            assert!(is_seen || bucket.verify(Purpose::Recovery).is_err(), "a key is not found");
        }
    }
}

type Owned = (OwnedBound, u64, u8, Vec<u8>);

fn records(whole: &WholeBucket) -> Vec<Owned> {
    let owned = |number| {
        let (bound, record): (Bound<'_>, Record<'_>) = whole.record(number)?;
        Some((bound.to_owned(), record.seq, record.kind as u8, record.operand.to_vec()))
    };
    (0..whole.len()).filter_map(owned).collect()
}

/// The file that the engine writes of the same records: sorted part, then the same chunks.
fn written_again(bucket: &Bucket, whole: &WholeBucket) -> Result<Vec<u8>> {
    let (io, disk, path) = world(FileKind::Bucket, None);
    let meta = &whole.loaded.meta;
    let plan = BucketPlan {
        id: FILE,
        start: bucket.info().start.clone(),
        applied_seq: meta.applied_seq,
        ranges: meta.ranges.clone(),
        capacity_bytes: u64::MAX,
        purpose: Purpose::Flush,
    };
    let mut writer = SortedWriter::new(&context_of(io, &path, 64), plan);
    let bytes = whole.bytes();
    for page in &meta.pages {
        let part = bytes.get(page.offset as usize..(page.offset + page.bytes) as usize);
        each_group(part.unwrap_or_default(), |bound, records| writer.add(bound, records))?;
    }
    let mut next = writer.write()?.sync()?;
    next.file().keep();
    for chunk in &whole.loaded.chunks {
        let from = (chunk.offset + chunk.groups_at) as usize;
        let part = bytes.get(from..chunk.end() as usize).unwrap_or_default();
        let mut groups = GroupBytes::default();
        each_group(part, |bound, records| groups.add(bound, records))?;
        assert_eq!(groups.bytes(), part, "one encoding only");
        let ranges = &chunk.ranges;
        let (capacity_bytes, purpose) = (u64::MAX, Purpose::Flush);
        let append = Append { groups: &groups, ranges, capacity_bytes, purpose };
        let Ok(appended) = next.append(&append)? else { break };
        next = appended.sync()?;
    }
    Ok(disk.contents(&path))
}

fn each_group(
    bytes: &[u8],
    mut add: impl FnMut(Bound<'_>, &[Record<'_>]) -> Result<()>,
) -> Result<()> {
    let mut groups = crate::deltas::record::Groups::new(bytes);
    while let Some(group) = groups.next_group()? {
        let (mut all, mut records) = (Vec::new(), group.records());
        while let Some(record) = records.next_record()? {
            all.push(record);
        }
        add(group.bound, &all)?;
    }
    Ok(())
}

/// Makes header, checksums and links right where the lengths allow it.
pub(super) fn mend_bucket(bytes: &mut [u8], identity: Identity) {
    let end = bytes.len();
    if end <= HEADER_BYTES {
        return;
    }
    let field = |bytes: &[u8], at: usize| u32::from_le_bytes(array_at(bytes, at)) as usize;
    let pages_end = field(bytes, HEADER_PAGES_END_AT).clamp(HEADER_BYTES, end - 1);
    let sorted_bytes = field(bytes, HEADER_PAGES_END_AT + 4).clamp(pages_end + 1, end);
    let header = Header { pages_end: pages_end as u32, sorted_bytes: sorted_bytes as u32 };
    overwrite(bytes, 0, &header.encode(&identity.uuid, identity.file));
    let seed = identity.seed();
    mend_index(bytes, pages_end, sorted_bytes, seed);
    if let Some(meta) = bytes.get_mut(pages_end..sorted_bytes) {
        seal(meta, seed, pages_end as u64);
    }
    let (mut link_at, mut offset) = (pages_end, sorted_bytes);
    while let Some(Ok(length)) = bytes.get(offset..).map(stated_bytes) {
        let link: [u8; CRC_BYTES] = array_at(bytes, link_at);
        overwrite(bytes, offset + CHUNK_FIXED_BYTES - CRC_BYTES, &link);
        let Some(chunk) = bytes.get_mut(offset..offset + length as usize) else { break };
        seal(chunk, seed, offset as u64);
        (link_at, offset) = (offset, offset + length as usize);
    }
}

/// Makes the pages' checksums in the index right.
fn mend_index(bytes: &mut [u8], pages_end: usize, sorted_bytes: usize, seed: u32) {
    let mut places = Vec::new();
    let meta = bytes.get(pages_end + CRC_BYTES..sorted_bytes).unwrap_or_default();
    let mut reader = Reader::new(meta);
    let walked = (|| -> Result<()> {
        for _ in 0..4 {
            reader.varint()?;
        }
        let (count, mut page_at) = (reader.varint()?, HEADER_BYTES);
        for _ in 0..count {
            let length = reader.varint_u32()? as usize;
            places.push((sorted_bytes - reader.rest().len(), page_at, length));
            reader.u32()?;
            reader.varint()?;
            reader.bytes()?;
            page_at = page_at.saturating_add(length);
        }
        Ok(())
    })();
    let _ = walked;
    for (at, page_at, length) in places {
        let page = bytes.get(page_at..page_at.saturating_add(length)).unwrap_or_default();
        let crc = crc_at(seed, page_at as u64, page).to_le_bytes();
        overwrite(bytes, at, &crc);
    }
}

/// Applies a section to an empty directory: refused, or its snapshot makes the same one, in which
/// every bucket is found by where it begins.
pub(super) fn apply(edits: &[DeltasEdit]) {
    let (io, _, path) = world(FileKind::Bucket, None);
    let context = context_of(io, &path, 64);
    let empty = Directory::default();
    let Ok(changed) = empty.apply(&context, edits, &[]) else { return };
    let directory = changed.settle();
    let snapshot = directory.snapshot();
    let again = empty.apply(&context, &snapshot, &[]).map(|changed| changed.settle());
    assert!(again.is_ok_and(|again| again.snapshot() == snapshot), "another directory");
    for bucket in directory.iter() {
        let found = directory.find(bucket.info().start.as_ref());
        assert!(found.is_some_and(|found| Arc::ptr_eq(found, bucket)), "a bucket is not found");
    }
}

/// Sections of the manifest: all kinds of edits.
fn section_seeds() -> Vec<Seed> {
    let start = |key: &[u8]| OwnedBound { keyspace: KeyspaceId(1), key: key.into() };
    let info = |id, key: &[u8]| BucketInfo {
        id: FileId(id),
        start: start(key),
        pages_end: 4000,
        sorted_bytes: 4300,
        bytes: 4300,
        checksum: 0xabad_cafe,
        applied_seq: 900,
        records: 31,
    };
    let grown = BucketInfo { bytes: 4500, applied_seq: 950, records: 33, ..info(15, b"k") };
    let removed = |info: &BucketInfo| RemovedBucket { id: info.id, bytes: info.bytes };
    let replaced = |key: &[u8], removed: Vec<RemovedBucket>, added: Vec<BucketInfo>| {
        DeltasEdit::Replaced { start: start(key), removed, added }
    };
    let first = BucketInfo { start: OwnedBound::lowest(), ..info(14, b"") };
    let added = vec![first, info(15, b"k")];
    let begun = DeltasEdit::Replaced { start: OwnedBound::lowest(), removed: Vec::new(), added };
    let edits = [
        begun.clone(),
        DeltasEdit::appended(&info(15, b"k"), &grown),
        replaced(b"k", vec![removed(&grown)], vec![info(16, b"k"), info(17, b"q")]),
        replaced(b"k", vec![removed(&info(16, b"k")), removed(&info(17, b"q"))], Vec::new()),
    ];
    let tagged = |edits: &[DeltasEdit]| {
        let section = DeltasEdit::encode(edits);
        [&[section.tag.0 as u8], section.payload.as_slice()].concat()
    };
    vec![
        ("manifest_sections", "deltas", tagged(&edits)),
        ("manifest_sections", "deltas_begun", tagged(&[begun])),
    ]
}

/// Buckets with and without an unsorted part.
pub(super) fn seeds() -> Result<Vec<Seed>> {
    let (io, disk, path) = world(FileKind::Bucket, None);
    let context = context_of(io, &path, 128);
    let plan = BucketPlan {
        id: FILE,
        start: OwnedBound::lowest(),
        applied_seq: 60,
        ranges: vec![range(b"key 02", b"key 05", 40)],
        capacity_bytes: 1 << 20,
        purpose: Purpose::Flush,
    };
    use crate::deltas::record::DeltaKind::{Anchor, Delta};
    let mut writer = SortedWriter::new(&context, plan);
    for number in 0..12_u64 {
        let key = format!("key {number:02}");
        let newest = Record { seq: 30 + number, kind: Delta, operand: b"\x01\0\0\0\0\0\0\0" };
        let anchor = Record { seq: 20, kind: Anchor, operand: b"" };
        let oldest = Record { seq: 10, kind: Delta, operand: &[b'o'; 30] };
        let all = [newest, anchor, oldest];
        let records = all.get(..1 + number as usize % 3).unwrap_or_default();
        writer.add(Bound { keyspace: KeyspaceId(1), key: key.as_bytes() }, records)?;
    }
    let bucket = writer.write()?.sync()?;
    bucket.file().keep();
    let sorted = disk.contents(&path);
    let mut next = bucket;
    for round in 1..4_u64 {
        let mut groups = GroupBytes::default();
        for number in [round, 5, 7 + round] {
            let key = format!("key {number:02}");
            let seq = 100 * round + number;
            let records = [Record { seq, kind: Delta, operand: b"\x02\0\0\0\0\0\0\0" }];
            groups.add(Bound { keyspace: KeyspaceId(1), key: key.as_bytes() }, &records)?;
        }
        let ranges = [range(b"key 07", b"key 08", 100 * round + 50)];
        let (capacity_bytes, purpose) = (1 << 20, Purpose::Flush);
        let append = Append { groups: &groups, ranges: &ranges, capacity_bytes, purpose };
        let Ok(appended) = next.append(&append)? else { break };
        next = appended.sync()?;
    }
    let grown = disk.contents(&path);
    let mut all = section_seeds();
    all.push(("bucket", "sorted_part", sorted));
    all.push(("bucket", "three_chunks", grown.clone()));
    all.push(("dump", "bucket", grown));
    Ok(all)
}

fn range(start: &[u8], end: &[u8], seq: u64) -> crate::deltas::ranges::RangeAnchor {
    let (start, end) = (start.into(), end.into());
    let range = crate::base::tombstone::RangeTombstone { start, end, seq };
    crate::deltas::ranges::RangeAnchor { keyspace: KeyspaceId(1), range }
}
