//! Values come back from memory, from the page cache and past it, alone and many at once; what is
//! damaged or another entry's never does.

use super::*;
use crate::base::compress::Compression;
use crate::base::entry::FileId;
use crate::base::error::ErrorKind;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::io::context::native_io;
use crate::io::{Io, memory_disk::MemoryDisk};
use crate::log::testing::values::{KEYSPACE, ValueBatch, ValueLog, Written, path, spec};
use crate::log::testing::{UUID, disk, io};
use crate::log::writer::{AppendError, SegmentWriter};
use crate::table::BlockCache;
use crate::values::cache::ValueCache;
use crate::values::file::OpenFiles;
use crate::values::table::reader::LoadedIndexes;
use crate::values::testing::{context, growing, handle};
use proptest::prelude::*;

mod containers;
mod located;

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    let length = [0, 100, 5000, 70_000][number % 4] + number;
    let noise = |at: usize| if number.is_multiple_of(3) { at / 50 } else { at * (at + number) / 7 };
    (0..length).map(|at| noise(at) as u8).collect()
}

fn batch(number: usize) -> ValueBatch {
    let how = [Compression::None, Compression::Lz4, Compression::Zstd][number % 3];
    ValueBatch::of(&key(number), &value(number), how)
}

/// Two segments of values 0..20 and 20..40.
struct World {
    context: Arc<ValueContext>,
    files: ValueFiles,
    tail: TailBuffer,
    written: Vec<(u64, Written)>,
}

fn world(disk: &MemoryDisk, tail_bytes: usize) -> World {
    let io = io(disk);
    let tail = TailBuffer::new(tail_bytes);
    let (mut written, mut ends) = (Vec::new(), Vec::new());
    for (id, numbers) in [(15, 0..20), (16, 20..40)] {
        let mut log = ValueLog::create(&io, id);
        for number in numbers {
            let (range, records) = log.append(&[batch(number)]);
            tail.push(FileId(id), range.start, std::mem::take(&mut log.buffer));
            written.extend(records.into_iter().map(|record| (id, record)));
        }
        ends.push((id, log.writer.bytes()));
    }
    let context = context(&io, false);
    let files = growing(&context, &ends);
    World { context, files, tail, written }
}

impl World {
    fn reader(&self) -> ValueReader<'_> {
        ValueReader { context: &self.context, files: &self.files, tail: &self.tail }
    }

    fn wanted<'a>(&self, number: usize, key: &'a [u8]) -> Wanted<'a> {
        let (file, record) = &self.written[number];
        Wanted { handle: handle(*file, record), keyspace: KEYSPACE, key, seq: record.seq }
    }
}

#[test]
fn values_come_back_alone() {
    for tail_bytes in [0, 100_000, 1 << 30] {
        let world = world(&disk(), tail_bytes);
        for number in 0..40 {
            let key = key(number);
            let found = world.reader().read(&world.wanted(number, &key), Purpose::Read).unwrap();
            assert!(found == value(number), "value {number}");
        }
        let calls = world.context.io.meter.read_calls(Purpose::Read);
        match tail_bytes {
            0 => assert_eq!(calls, 40, "one read a value"),
            100_000 => assert!((1..40).contains(&calls), "{calls}"),
            _ => assert_eq!(calls, 0, "all in memory"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn values_come_back_together(
        numbers in proptest::collection::vec(0..40usize, 0..60),
        tail_bytes in prop_oneof![Just(0), 0..200_000usize],
    ) {
        let world = world(&disk(), tail_bytes);
        let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
        let wanted: Vec<_> =
            numbers.iter().zip(&keys).map(|(&number, key)| world.wanted(number, key)).collect();
        let mut ahead = world.reader().begin(&wanted, Purpose::Read, false);
        let calls = world.context.io.meter.read_calls(Purpose::Read);
        prop_assert!(calls <= numbers.len() as u64);
        for ((at, one), &number) in wanted.iter().enumerate().zip(&numbers) {
            prop_assert!(ahead.value(at, one).unwrap() == value(number), "value {}", number);
        }
        let found = world.reader().read_many(&wanted, Purpose::Read);
        prop_assert_eq!(found.len(), numbers.len());
        for (found, &number) in found.into_iter().zip(&numbers) {
            prop_assert!(found.unwrap() == value(number), "value {}", number);
        }
        let more = world.context.io.meter.read_calls(Purpose::Read) - calls;
        prop_assert!(more <= numbers.len() as u64);
    }
}

#[test]
fn neighbours_are_read_in_one_piece() {
    let world = world(&disk(), 0);
    let keys: Vec<_> = (0..20).map(key).collect();
    let wanted: Vec<_> = (0..20).rev().map(|number| world.wanted(number, &keys[number])).collect();
    let found = world.reader().read_many(&wanted, Purpose::Read);
    assert!(found.into_iter().zip((0..20).rev()).all(|(found, n)| found.unwrap() == value(n)));
    let meter = &world.context.io.meter;
    assert_eq!(meter.read_calls(Purpose::Read), 1);
    let (first, last) = (&world.written[0].1, &world.written[19].1);
    let span = last.offset + u64::from(last.bytes) - first.offset;
    assert_eq!(meter.bytes_read(Purpose::Read), span);
}

/// Neither does a read bring what nobody asked for, nor does a value pin more than a piece.
#[test]
fn what_is_far_apart_is_read_apart_and_pieces_are_bounded() {
    let disk = disk();
    let io = io(&disk);
    let mut log = ValueLog::create(&io, 15);
    let value = |number: usize| vec![number as u8 + 1; 70_000];
    let keys: Vec<_> = (0..40).map(key).collect();
    let batch = |number: usize| ValueBatch::of(&keys[number], &value(number), Compression::None);
    let written: Vec<_> = (0..40).flat_map(|number| log.append(&[batch(number)]).1).collect();
    let context = context(&io, false);
    let files = growing(&context, &[(15, log.writer.bytes())]);
    let tail = TailBuffer::new(0);
    let reader = ValueReader { context: &context, files: &files, tail: &tail };
    let read = |numbers: &[usize]| {
        let wanted: Vec<_> = numbers
            .iter()
            .map(|&number| Wanted {
                handle: handle(15, &written[number]),
                keyspace: KEYSPACE,
                key: &keys[number],
                seq: written[number].seq,
            })
            .collect();
        let before = io.meter.read_calls(Purpose::Read);
        for (found, &number) in reader.read_many(&wanted, Purpose::Read).iter().zip(numbers) {
            assert!(found.clone().unwrap() == value(number), "value {number}");
        }
        io.meter.read_calls(Purpose::Read) - before
    };
    assert_eq!(read(&[0, 2, 4, 6]), 4, "more than 64 KiB lie between");
    assert_eq!(read(&[0, 1, 4, 5, 6]), 2);
    // Fourteen records are less than a piece of 1 MiB, fifteen are more.
    assert_eq!(read(&(0..14).collect::<Vec<_>>()), 1);
    assert_eq!(read(&(0..15).collect::<Vec<_>>()), 2);
    assert_eq!(read(&(0..40).collect::<Vec<_>>()), 3);
    assert_eq!(read(&[3, 3, 3]), 1, "the same one is read once");
}

#[test]
fn an_error_of_one_leaves_the_others() {
    let disk = disk();
    let world = world(&disk, 0);
    let mut bytes = disk.contents(path(15));
    let hurt = world.written[5].1;
    bytes[hurt.offset as usize + hurt.bytes as usize - 1] ^= 1;
    disk.replace(path(15), bytes).unwrap();
    let keys: Vec<_> = (0..40).map(key).collect();
    let mut wanted: Vec<_> = (0..40).map(|number| world.wanted(number, &keys[number])).collect();
    wanted[7].handle.file = FileId(99);
    wanted[8].handle.offset = 1 << 40;
    wanted[9].key = b"another";
    for (number, found) in world.reader().read_many(&wanted, Purpose::Read).iter().enumerate() {
        match (number, found) {
            (5 | 7 | 8 | 9, Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert_eq!(error.offset(), Some(wanted[number].handle.offset));
                assert!(error.file().is_some());
            }
            (_, found) => assert!(found.clone().unwrap() == value(number), "value {number}"),
        }
    }
}

#[test]
fn only_the_entrys_own_record_is_handed_out() {
    let world = world(&disk(), 0);
    let key = key(6);
    let right = world.wanted(6, &key);
    let other = world.wanted(10, &key).handle;
    let moved = |by: u64| Handle { offset: right.handle.offset + by, ..right.handle };
    let longer = Handle { bytes: right.handle.bytes + 1, ..right.handle };
    let shorter = Handle { bytes: right.handle.bytes - 1, ..right.handle };
    for (what, wanted) in [
        ("another record", Wanted { handle: other, ..right }),
        ("another keyspace", Wanted { keyspace: KeyspaceId(2), ..right }),
        ("another key", Wanted { key: b"key7", ..right }),
        ("another seq", Wanted { seq: right.seq + 1, ..right }),
        ("the middle of a record", Wanted { handle: moved(1), ..right }),
        ("one byte more", Wanted { handle: longer, ..right }),
        ("one byte less", Wanted { handle: shorter, ..right }),
    ] {
        let read = || {
            let mut ahead = world.reader().begin(&[wanted], Purpose::Read, false);
            [
                world.reader().read(&wanted, Purpose::Read),
                world.reader().get(&wanted),
                world.reader().read_many(&[wanted], Purpose::Read).remove(0),
                ahead.value(0, &wanted),
            ]
        };
        let cold = read();
        // With the right one in memory, too.
        assert!(world.reader().get(&right).unwrap() == value(6));
        for error in cold.into_iter().chain(read()).map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
            assert_eq!(error.offset(), Some(wanted.handle.offset), "{what}");
            assert_eq!(error.file(), Some(&*path(wanted.handle.file.0)), "{what}");
        }
        world.context.cache.clear();
    }
    assert!(world.reader().read(&right, Purpose::Read).unwrap() == value(6));
}

/// Neither the length in a handle nor the length of the file is believed without the other.
#[test]
fn nothing_is_read_beyond_what_was_written() {
    let mut world = world(&disk(), 0);
    let key = key(6);
    let wanted = world.wanted(6, &key);
    let (file, end) = (wanted.handle.file.0, wanted.handle.end());
    let huge = Wanted { handle: Handle { bytes: 250 << 20, ..wanted.handle }, ..wanted };
    let read = |world: &World, wanted| world.reader().read(wanted, Purpose::Read);
    assert!(read(&world, &huge).unwrap_err().message().contains("an entry names"));
    world.files = growing(&world.context, &[(file, end - 1)]);
    assert!(read(&world, &wanted).unwrap_err().message().contains("an entry names"));
    world.files.get(FileId(file)).unwrap().file.raise_readable(end);
    assert!(read(&world, &wanted).unwrap() == value(6));
}

#[test]
fn every_flip_of_a_record_is_an_error() {
    let disk = disk();
    let world = world(&disk, 0);
    let good = disk.contents(path(15));
    for number in [1, 3] {
        let record = world.written[number].1;
        let key = key(number);
        let wanted = world.wanted(number, &key);
        for at in (record.offset..record.offset + u64::from(record.bytes)).take(150) {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at as usize] ^= 1 << bit;
                disk.replace(path(15), bad).unwrap();
                world.files.get(FileId(15)).unwrap().file.close();
                let error = world.reader().read(&wanted, Purpose::Read).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at} bit {bit}: {error}");
            }
        }
    }
}

#[test]
fn a_file_that_ends_early_or_is_missing_is_damage() {
    let disk = disk();
    let world = world(&disk, 0);
    let good = disk.contents(path(15));
    let key = key(19);
    let wanted = world.wanted(19, &key);
    disk.replace(path(15), &good[..good.len() - 30]).unwrap();
    let read = || world.reader().read(&wanted, Purpose::Read).unwrap_err();
    assert_eq!(read().kind(), ErrorKind::Corruption);
    let many = world.reader().read_many(&[wanted], Purpose::Read);
    assert_eq!(many[0].clone().unwrap_err().kind(), ErrorKind::Corruption);
    world.files.get(FileId(15)).unwrap().file.close();
    world.context.io.disk.remove_file(&path(15)).unwrap();
    assert!(read().message().contains("missing"));
}

#[test]
fn what_is_stored_as_it_is_is_not_copied() {
    let world = world(&disk(), 1 << 30);
    let key = key(6);
    let wanted = world.wanted(6, &key);
    let found = world.reader().read(&wanted, Purpose::Read).unwrap();
    let handle = wanted.handle;
    let (owner, range) = world.tail.get(handle.file, handle.offset, handle.bytes as usize).unwrap();
    let record = owner[range].as_ptr_range();
    assert!(record.contains(&found.as_bytes().as_ptr()), "it is the tail buffer's own");
}

fn native(io: &Io, dir: &std::path::Path, direct_reads: bool) -> (ValueContext, Vec<Written>, u64) {
    let name = dir.join("000015.val");
    let writer = SegmentWriter::create(io, &name, &spec(15)).map_err(AppendError::into_error);
    let mut log = ValueLog {
        writer: writer.unwrap(),
        footer: Default::default(),
        next_seq: 1,
        buffer: Vec::new(),
    };
    let written = (0..40).flat_map(|number| log.append(&[batch(number)]).1).collect();
    let sealed = log.seal();
    let context = ValueContext {
        io: io.clone(),
        dir: dir.to_owned(),
        uuid: UUID,
        obsolete: Arc::new(ObsoleteFiles::default()),
        direct_reads,
        open_files: Arc::new(OpenFiles::new(2)),
        cache: ValueCache::new(&Arc::new(BlockCache::new(1 << 20))),
        hole_block_bytes: 4096,
        table_indexes: LoadedIndexes::new(1 << 20),
        repairs: crate::values::repairs::Repairs::new(1 << 16),
    };
    (context, written, sealed.bytes)
}

#[test]
fn values_come_back_from_a_real_disk_direct_or_not() {
    for direct_reads in [false, true] {
        let io = native_io(1, 0).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (context, written, end) = native(&io, dir.path(), direct_reads);
        let context = Arc::new(context);
        let files = growing(&context, &[(15, end)]);
        let tail = TailBuffer::new(0);
        let reader = ValueReader { context: &context, files: &files, tail: &tail };
        let keys: Vec<_> = (0..40).map(key).collect();
        let wanted: Vec<_> = (0..40)
            .map(|number| Wanted {
                handle: handle(15, &written[number]),
                keyspace: KEYSPACE,
                key: &keys[number],
                seq: written[number].seq,
            })
            .collect();
        for (number, one) in wanted.iter().enumerate() {
            assert!(reader.read(one, Purpose::Read).unwrap() == value(number), "value {number}");
        }
        // Far enough apart for several reads at once.
        let sparse: Vec<_> = wanted.iter().copied().step_by(9).collect();
        for (found, number) in reader.read_many(&sparse, Purpose::Read).iter().zip((0..).step_by(9))
        {
            assert!(found.clone().unwrap() == value(number), "value {number}");
        }
        let opened = files.get(FileId(15)).unwrap().file.disk_file().unwrap();
        assert!(direct_reads || !opened.is_direct());
    }
}
