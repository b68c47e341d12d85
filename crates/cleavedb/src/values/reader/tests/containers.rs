//! Values of files that were rewritten, beside those of segments: by handles of now and of before.

use super::*;
use crate::values::edit::{ContainerInfo, ValuesEdit};
use crate::values::table::testing::Item;
use crate::values::table::writer::{ValueTableOptions, ValueTableWriter};
use crate::values::testing::applied;

/// Which file a value is in: a segment, two files of one container, or one of another.
const FILES: [u64; 4] = [15, 16, 17, 18];

fn file_of(number: usize) -> u64 {
    FILES[number / 3 % 4]
}

/// Values 0..80, of which those of file 15 stand in a segment.
pub(super) struct Mixed {
    pub(super) disk: MemoryDisk,
    pub(super) context: Arc<ValueContext>,
    pub(super) files: ValueFiles,
    pub(super) tail: TailBuffer,
    /// Handles of now, and seqs.
    pub(super) now: Vec<(Handle, Seq)>,
}

fn table(io: &Io, id: u64, files: &[u64], items: &[(usize, Item)]) -> (ContainerInfo, Vec<Handle>) {
    let options = ValueTableOptions {
        uuid: UUID,
        container: FileId(id),
        sources: files.iter().map(|&file| FileId(file)).collect(),
        group_bytes: 3000,
        purpose: Purpose::Other,
        direct: false,
        limited: false,
    };
    let name = crate::base::names::file_name(FileKind::ValueTable, FileId(id));
    let path = std::path::Path::new(crate::log::testing::DIR).join(name);
    let mut writer = ValueTableWriter::create(io, &path, &options).unwrap();
    let epoch = (id - 29) as u32;
    let handle = |(_, item): &(usize, Item)| {
        let place = item.add_to(&mut writer).unwrap();
        Handle { file: FileId(item.file), epoch, offset: place.offset, bytes: place.bytes }
    };
    let handles = items.iter().map(handle).collect();
    let written = writer.finish().unwrap();
    let files = files.iter().map(|&file| (FileId(file), epoch)).collect();
    let totals = written.properties.totals;
    (ContainerInfo { sealed: written.sealed, totals, files }, handles)
}

pub(super) fn mixed() -> Mixed {
    let disk = disk();
    let io = io(&disk);
    let mut log = ValueLog::create(&io, 15);
    let mut now = vec![None; 80];
    let in_segment = (0..80).filter(|&number| file_of(number) == 15);
    for number in in_segment {
        let record = log.append(&[batch(number)]).1.remove(0);
        now[number] = Some((handle(15, &record), record.seq));
    }
    let item = |number: usize| Item {
        keyspace: KEYSPACE.0,
        key: key(number),
        seq: 1000 + number as u64,
        file: file_of(number),
        value: value(number),
        how: [Compression::None, Compression::Lz4, Compression::Zstd][number % 3],
    };
    let mut edits = vec![ValuesEdit::Added { id: FileId(15) }];
    for (id, files) in [(30, &[16, 17][..]), (31, &[18])] {
        let here = (0..80).filter(|&number| files.contains(&file_of(number)));
        let mut items: Vec<_> = here.map(|number| (number, item(number))).collect();
        items.sort_by(|(_, left), (_, right)| left.rank().cmp(&right.rank()));
        let (info, handles) = table(&io, id, files, &items);
        for ((number, item), handle) in items.iter().zip(handles) {
            now[*number] = Some((handle, item.seq));
        }
        edits.push(ValuesEdit::Held(Arc::new(info)));
    }
    let context = context(&io, false);
    let files = applied(&context, &ValueFiles::default(), &edits).unwrap();
    files.get(FileId(15)).unwrap().file.raise_readable(log.writer.bytes());
    let now = now.into_iter().map(Option::unwrap).collect();
    Mixed { disk, context, files, tail: TailBuffer::new(0), now }
}

impl Mixed {
    fn reader(&self) -> ValueReader<'_> {
        ValueReader { context: &self.context, files: &self.files, tail: &self.tail }
    }

    /// What is wanted by a handle that is so many epochs old, where there are that many.
    fn wanted<'a>(&self, number: usize, key: &'a [u8], age: u32) -> Wanted<'a> {
        let (mut handle, seq) = self.now[number];
        if age > 0 && handle.epoch > 0 {
            handle.epoch = handle.epoch.saturating_sub(age);
            handle.offset = 100_000 * (number as u64 + 1);
        }
        Wanted { handle, keyspace: KEYSPACE, key, seq }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn values_come_back_by_handles_of_any_epoch(
        picked in proptest::collection::vec((0..80usize, 0..3u32), 0..90),
        is_warm: bool,
    ) {
        let mixed = mixed();
        let keys: Vec<_> = picked.iter().map(|&(number, _)| key(number)).collect();
        let wanted: Vec<_> = picked
            .iter()
            .zip(&keys)
            .map(|(&(number, age), key)| mixed.wanted(number, key, age))
            .collect();
        if is_warm {
            for one in wanted.iter().step_by(3) {
                mixed.reader().get(one).unwrap();
            }
        }
        let mut ahead = mixed.reader().begin(&wanted, Purpose::Read, false);
        for ((at, one), &(number, _)) in wanted.iter().enumerate().zip(&picked) {
            prop_assert!(ahead.value(at, one).unwrap() == value(number), "value {}", number);
        }
        let found = mixed.reader().read_many(&wanted, Purpose::Read);
        prop_assert_eq!(found.len(), picked.len());
        for (found, &(number, _)) in found.into_iter().zip(&picked) {
            prop_assert!(found.unwrap() == value(number), "value {}", number);
        }
        for (one, &(number, _)) in wanted.iter().zip(&picked) {
            prop_assert!(mixed.reader().read(one, Purpose::Verify).unwrap() == value(number));
            prop_assert!(mixed.reader().get(one).unwrap() == value(number));
        }
    }
}

/// Records of several groups, by place and by search, in one piece.
#[test]
fn neighbours_in_a_container_are_read_in_one_piece() {
    let mixed = mixed();
    let keys: Vec<_> = (0..80).map(key).collect();
    let in_container = |number: &usize| file_of(*number) == 18;
    let numbers: Vec<_> = (0..80).filter(in_container).collect();
    let wanted: Vec<_> = numbers
        .iter()
        .map(|&number| mixed.wanted(number, &keys[number], number as u32 % 3))
        .collect();
    // The index comes into memory.
    mixed.reader().read(&mixed.wanted(numbers[0], &keys[numbers[0]], 2), Purpose::Other).unwrap();
    let meter = &mixed.context.io.meter;
    let before = meter.read_calls(Purpose::Read);
    let found = mixed.reader().read_many(&wanted, Purpose::Read);
    for (found, &number) in found.into_iter().zip(&numbers) {
        assert!(found.unwrap() == value(number), "value {number}");
    }
    let calls = meter.read_calls(Purpose::Read) - before;
    assert!(calls <= 3, "{calls} reads of one table");
}

#[test]
fn an_error_of_one_leaves_the_others_in_containers_too() {
    let mixed = mixed();
    let (hurt, _) = mixed.now[6];
    let path = mixed.files.container(FileId(30)).unwrap().container.file().path().to_owned();
    assert_eq!(hurt.file, FileId(17));
    let mut bytes = mixed.disk.contents(&path);
    bytes[hurt.offset as usize + hurt.bytes as usize / 2] ^= 1;
    mixed.disk.replace(&path, bytes).unwrap();
    let keys: Vec<_> = (0..80).map(key).collect();
    for age in [0, 1] {
        let mut wanted: Vec<_> =
            (0..80).map(|number| mixed.wanted(number, &keys[number], age)).collect();
        // Of a file that is not there, of a later epoch, of another key, seq, or file.
        wanted[4].handle.file = FileId(99);
        wanted[5].handle.epoch = 3;
        wanted[7].key = b"another";
        wanted[10].seq += 1;
        wanted[16].handle.file = FileId(18);
        let wrong = [4, 5, 6, 7, 10, 16];
        let mut ahead = mixed.reader().begin(&wanted, Purpose::Read, false);
        let found = mixed.reader().read_many(&wanted, Purpose::Read);
        for (number, found) in found.into_iter().enumerate() {
            let ways = [found, ahead.value(number, &wanted[number])];
            for way in ways {
                match way {
                    Err(error) if wrong.contains(&number) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{number}: {error}");
                        assert!(error.file().is_some(), "{number}: {error}");
                    }
                    found => assert!(found.unwrap() == value(number), "value {number}"),
                }
            }
        }
    }
}
