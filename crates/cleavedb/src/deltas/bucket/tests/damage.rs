//! Damaged and hostile buckets: an error that names file and offset, or the right answer.

use super::*;
use crate::deltas::bucket::format::{CHUNK_FIXED_BYTES, CRC_BYTES, HEADER_BYTES, seal};
use crate::deltas::record::OwnedBound;

/// A bucket of these bytes, as an open finds it.
fn with_bytes(bench: &Bench, info: &BucketInfo, bytes: &[u8]) -> Bucket {
    bench.disk.replace(Bench::path(info.id.0), bytes).unwrap();
    bench.reopened(info)
}

#[test]
fn any_flip_is_an_error_or_changes_no_answer() {
    let bench = Bench::new();
    let info = some_bucket(&bench).info().clone();
    let bytes = bench.disk.contents(Bench::path(18));
    let mut unharmed = 0;
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        let bucket = with_bytes(&bench, &info, &damaged);
        unharmed += u64::from(check_answers(&bench, &bucket, true).is_ok());
        let bucket = bench.reopened(&info);
        let error = bucket.verify(Purpose::Verify).expect_err("verify reads every byte");
        assert_eq!(error.kind(), ErrorKind::Corruption, "bit {at}");
        assert!(error.file().is_some() && error.offset().is_some(), "bit {at}: {error}");
    }
    // Gets never look at the header.
    assert_eq!(unharmed, HEADER_BYTES as u64 * 8);
}

#[test]
fn a_flip_in_a_part_that_was_proved_before_is_found() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    check_answers(&bench, &bucket, false).unwrap();
    let bytes = bench.disk.contents(Bench::path(18));
    let pages = HEADER_BYTES..bucket.info().pages_end as usize;
    let chunks = bucket.info().sorted_bytes as usize..bytes.len();
    let loaded = bucket.load(Purpose::Verify).unwrap();
    let pieces: Vec<_> = loaded.chunks.iter().flat_map(|chunk| &chunk.pieces).collect();
    let mut heads = 0;
    for at in pages.clone().chain(chunks) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        bench.disk.replace(Bench::path(18), damaged).unwrap();
        // Nobody looks at the head of a chunk again.
        let is_read =
            pages.contains(&at) || pieces.iter().any(|piece| piece.range().contains(&(at as u64)));
        assert_eq!(check_answers(&bench, &bucket, true).is_err(), is_read, "byte {at}");
        heads += usize::from(!is_read);
    }
    assert_eq!(pieces.len(), 4, "a chunk has more than one");
    assert!((40..80).contains(&heads), "{heads} bytes in heads of chunks");
}

#[test]
fn a_bucket_that_is_cut_is_corruption() {
    let bench = Bench::new();
    let info = some_bucket(&bench).info().clone();
    let bytes = bench.disk.contents(Bench::path(18));
    for length in 0..bytes.len() {
        let bucket = with_bytes(&bench, &info, &bytes[..length]);
        let error = bucket.verify(Purpose::Verify).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{length} bytes: {error}");
        assert!(check_answers(&bench, &bucket, true).is_err(), "{length} bytes");
    }
    bench.disk.remove(Bench::path(18)).unwrap();
    let error = bench.get(&bench.reopened(&info), b"apple", 50).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn an_older_version_of_the_file_is_noticed() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    let info = bucket.info().clone();
    let bytes = bench.disk.contents(Bench::path(18));
    // As long as the committed one, but its last chunk is another one.
    let bench = Bench::new();
    let other = some_bucket(&bench);
    assert_eq!(bench.disk.contents(Bench::path(18)), bytes, "the same records, the same bytes");
    let short = BucketInfo { bytes: info.bytes - 1, ..info.clone() };
    assert!(bench.reopened(&short).verify(Purpose::Verify).is_err());
    for wrong in [
        BucketInfo { checksum: info.checksum ^ 1, ..info.clone() },
        BucketInfo { applied_seq: 40, ..info.clone() },
        BucketInfo { records: 3, ..info.clone() },
        BucketInfo { pages_end: info.pages_end - 1, ..info.clone() },
        BucketInfo { sorted_bytes: info.sorted_bytes + 1, ..info.clone() },
    ] {
        assert!(bench.reopened(&wrong).verify(Purpose::Verify).is_err(), "{wrong:?}");
        assert!(bench.get(&bench.reopened(&wrong), b"date", 50).is_err(), "{wrong:?}");
    }
    // Committed bytes of a version before are a bucket of their own.
    assert_eq!(other.info(), &info);
    let (at, _) = last_chunk(&bucket);
    let before = BucketInfo { bytes: at as u32, ..info };
    assert!(bench.reopened(&before).verify(Purpose::Verify).is_err(), "its checksum is another");
}

fn last_chunk(bucket: &Bucket) -> (usize, u32) {
    let loaded = bucket.load(Purpose::Verify).unwrap();
    let chunk = loaded.chunks.last().unwrap();
    (chunk.offset as usize, chunk.checksum)
}

#[test]
fn a_chunk_that_repeats_what_was_applied_is_refused() {
    let bench = Bench::new();
    let bucket = some_bucket(&bench);
    let (at, checksum) = last_chunk(&bucket);
    let mut bytes = bench.disk.contents(Bench::path(18));
    // The last chunk once more, behind itself and with right checksums.
    let mut chunk = bytes[at..].to_vec();
    let offset = bytes.len() as u64;
    chunk[CRC_BYTES + 4..CHUNK_FIXED_BYTES].copy_from_slice(&checksum.to_le_bytes());
    seal(&mut chunk, bucket.file().seed(), offset);
    let checksum = u32::from_le_bytes(*chunk.first_chunk().unwrap());
    bytes.extend_from_slice(&chunk);
    let info = BucketInfo {
        bytes: bytes.len() as u32,
        checksum,
        records: bucket.info().records + 2,
        ..bucket.info().clone()
    };
    let error = with_bytes(&bench, &info, &bytes).load(Purpose::Read).unwrap_err();
    assert!(error.message().contains("repeats what was applied"), "{error}");
}

/// A meta with one fault, right in its checksums.
fn with_meta(change: impl FnOnce(&mut format::Meta)) -> Result<()> {
    let bench = Bench::new();
    let bucket = bench.write(Bench::plan(18, start(b""), 12), &sorted_lines()).unwrap();
    let info = bucket.info().clone();
    let mut bytes = bench.disk.contents(Bench::path(18));
    let (at, seed) = (info.pages_end as usize, bucket.file().seed());
    let mut meta = format::Meta::decode(&bytes[at..], seed, at as u64).unwrap();
    change(&mut meta);
    let encoded = meta.encode(seed, at as u64);
    bytes.splice(at.., encoded.iter().copied());
    let length = bytes.len() as u32;
    let header = format::Header { pages_end: at as u32, sorted_bytes: length };
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode(&crate::log::testing::UUID, info.id));
    let checksum = u32::from_le_bytes(*encoded.first_chunk().unwrap());
    let records = meta.records + meta.ranges.len() as u64;
    let (applied_seq, sorted_bytes) = (meta.applied_seq, length);
    let info = BucketInfo { bytes: length, checksum, applied_seq, sorted_bytes, records, ..info };
    with_bytes(&bench, &info, &bytes).verify(Purpose::Verify)
}

#[test]
fn a_meta_that_is_not_that_of_its_pages_is_found() {
    with_meta(|_| {}).unwrap();
    let wrong: [fn(&mut format::Meta); 9] = [
        |meta| meta.keys += 1,
        |meta| meta.records += 1,
        |meta| meta.applied_seq = 4,
        |meta| meta.pages[0].bytes += 1,
        |meta| meta.pages[1].checksum ^= 1,
        |meta| meta.pages[1].bound = OwnedBound { key: b"appl".as_slice().into(), ..start(b"") },
        |meta| meta.pages.swap(1, 2),
        |meta| meta.filter = format::filter_of(vec![1, 2, 3]),
        |meta| meta.ranges = vec![range(b"a", b"b", 99)],
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let error = with_meta(change).expect_err(&format!("change {number}"));
        assert_eq!(error.kind(), ErrorKind::Corruption, "change {number}");
    }
}

#[test]
fn a_failing_read_is_that_error() {
    use crate::io::fault_disk::{Fault, FaultDisk, FaultPlan};
    let bench = Bench::new();
    let info = some_bucket(&bench).info().clone();
    for at in 1..6 {
        let disk = FaultDisk::over(&bench.disk);
        disk.set_plan(Some(FaultPlan { kind: None, at, fault: Fault::Eio, persistent: false }));
        let context = crate::deltas::testing::context_over(
            crate::log::testing::io_over(disk),
            std::path::Path::new(crate::log::testing::DIR),
        );
        let file = BucketFile::new(&context, info.id);
        file.keep();
        let bucket = Bucket::new(info.clone(), file);
        for _ in 0..3 {
            if let Err(error) = bench.get(&bucket, b"apple", 50) {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            }
        }
        check_answers(&bench, &bucket, false).unwrap();
    }
}
