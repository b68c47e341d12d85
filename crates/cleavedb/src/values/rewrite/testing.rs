//! What the tests of rewrites share: segments and tables on a disk, a judge that notes what it was
//! asked, and the model: all records in a sorted list.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::base::checksum::{KeyedHash, file_seed};
use crate::base::compress::Compression;
use crate::base::runs::Run;
use crate::io::memory_disk::MemoryDisk;
use crate::io::meter::Meter;
use crate::log::footer::FooterBuilder;
use crate::log::format::FRAME_HEADER_BYTES;
use crate::log::punched::HeaderSum;
use crate::log::separated::{SeparatedPut, encode_separated};
use crate::log::testing::values::{ValueBatch, ValueLog, spec};
use crate::log::testing::{DIR, UUID, disk, io};
use crate::log::writer::SegmentWriter;
use crate::values::file::{OpenFiles, ValueContext};
use crate::values::table::reader::LoadedIndexes;
use crate::values::table::scan::TableScan;
use crate::values::table::testing::Item;
use crate::values::table::verify::verify;
use crate::values::table::writer::{GROUP_BYTES, TablePlace};

/// Number of the new container.
/// Bytes of a step where a test does not say.
pub(super) const STEP_BYTES: u64 = 4 << 20;
pub(super) const NEW: FileId = FileId(99);

/// One record of a frame: a separated put, or a small one without.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) keyspace: u32,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) how: Compression,
    pub(super) is_inline: bool,
}

pub(super) fn put(key: &[u8], value: &[u8]) -> Put {
    let (key, value) = (key.to_vec(), value.to_vec());
    Put { keyspace: 1, key, value, how: Compression::None, is_inline: false }
}

fn batch_of(puts: &[Put]) -> ValueBatch {
    let mut batch = ValueBatch::default();
    for Put { keyspace, key, value, how, is_inline } in puts {
        if *is_inline {
            batch = batch.inline(key, value);
            continue;
        }
        let keyspace = KeyspaceId(*keyspace);
        let hash = KeyedHash::new(&UUID).hash(keyspace, key);
        let put = SeparatedPut { keyspace, key, value, compression: *how, hash };
        let slot = encode_separated(&mut batch.payload, batch.count, &put, &mut Vec::new());
        batch.slots.push(slot);
        batch.count += 1;
    }
    batch
}

/// A source that was made.
#[derive(Clone)]
pub(super) enum Made {
    Segment { id: FileId, sealed: SealedValues, punched: Option<Arc<Punched>>, frames: Vec<Run> },
    Table(WrittenTable),
}

/// Sources on a disk, and what they hold.
pub(super) struct World {
    pub(super) io: Io,
    pub(super) context: Arc<ValueContext>,
    pub(super) made: Vec<Made>,
    /// Records by source.
    pub(super) items: Vec<Vec<Item>>,
    /// Bytes of a group of the new table: small ones, so that there are several.
    pub(super) group_bytes: u64,
}

impl World {
    pub(super) fn new() -> (Self, MemoryDisk) {
        let disk = disk();
        (Self::at(&io(&disk), PathBuf::from(DIR), false), disk)
    }

    pub(super) fn at(io: &Io, dir: PathBuf, direct_reads: bool) -> Self {
        let context = Arc::new(ValueContext {
            io: io.clone(),
            dir,
            uuid: UUID,
            obsolete: Default::default(),
            hole_block_bytes: 4096,
            table_indexes: crate::values::table::reader::LoadedIndexes::new(1 << 20),
            repairs: crate::values::repairs::Repairs::new(1 << 16),
            direct_reads,
            open_files: Arc::new(OpenFiles::new(2)),
            cache: crate::values::cache::ValueCache::new(&Arc::new(crate::table::BlockCache::new(
                1 << 20,
            ))),
        });
        let (made, items) = (Vec::new(), Vec::new());
        Self { io: io.clone(), context, made, items, group_bytes: 300 }
    }

    /// The same sources by way of another disk.
    pub(super) fn over(&self, io: &Io) -> Self {
        let other = Self::at(io, self.context.dir.clone(), self.context.direct_reads);
        Self { made: self.made.clone(), items: self.items.clone(), ..other }
    }

    pub(super) fn path(&self, kind: FileKind, id: FileId) -> PathBuf {
        self.context.dir.join(file_name(kind, id))
    }

    /// Paths of the sources.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let path = |made: &Made| match made {
            Made::Segment { id, .. } => self.path(FileKind::Value, *id),
            Made::Table(written) => self.path(FileKind::ValueTable, written.sealed.id),
        };
        self.made.iter().map(path).collect()
    }

    /// Writes a segment of these frames.
    pub(super) fn segment(&mut self, id: u64, first_seq: Seq, frames: &[Vec<Put>]) {
        let path = self.path(FileKind::Value, FileId(id));
        let writer = SegmentWriter::create(&self.io, &path, &spec(id)).map_err(|e| e.into_error());
        let (footer, buffer) = (FooterBuilder::default(), Vec::new());
        let mut log = ValueLog { writer: writer.unwrap(), footer, next_seq: first_seq, buffer };
        let (mut items, mut runs) = (Vec::new(), Vec::new());
        for puts in frames.iter().filter(|puts| !puts.is_empty()) {
            for (put, seq) in puts.iter().zip(log.next_seq..).filter(|(put, _)| !put.is_inline) {
                let Put { keyspace, key, value, how, .. } = put.clone();
                items.push(Item { keyspace, key, seq, file: id, value, how });
            }
            let range = log.append(&[batch_of(puts)]).0;
            runs.push(Run { start: range.start, end: range.end });
        }
        let (totals, last_seq) = (log.footer.totals(), log.next_seq - 1);
        let sealed = SealedValues { sealed: log.seal(), last_seq, totals };
        self.made.push(Made::Segment { id: FileId(id), sealed, punched: None, frames: runs });
        self.items.push(items);
    }

    /// Gives back the frames of the last segment that `is_gone` names by number; what is there then
    /// is anything.
    pub(super) fn punch(&mut self, disk: &MemoryDisk, is_gone: &dyn Fn(usize) -> bool) {
        let Some(Made::Segment { id, punched, frames, .. }) = self.made.last_mut() else { return };
        let path = self.context.dir.join(file_name(FileKind::Value, *id));
        let mut bytes = disk.contents(&path);
        let seed = file_seed(&UUID, id.0);
        let mut sum = HeaderSum::new(seed);
        sum.add_segment(&bytes);
        let mut runs: Vec<Run> = Vec::new();
        let (mut records, mut record_bytes) = (0, 0);
        let items = self.items.last_mut().unwrap();
        for (number, run) in frames.iter().enumerate() {
            if !is_gone(number) {
                sum.add_frame(&bytes[run.start as usize..]);
                continue;
            }
            let frame = &bytes[run.start as usize..run.end as usize];
            let header = crate::log::format::FrameHeader::decode(frame, seed, run.start).unwrap();
            let payload = &frame[FRAME_HEADER_BYTES..frame.len() - 1];
            let found = crate::log::batch::BatchReader::of_values(payload, header.count, None);
            for separated in found.filter_map(|record| record.unwrap().separated) {
                records += 1;
                record_bytes += separated.record.bytes() as u64;
                items.retain(|item| item.seq != separated.record.seq);
            }
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(*run),
            }
        }
        let footer_at = frames.last().map_or(80, |run| run.end);
        sum.add_frame(&bytes[footer_at as usize..]);
        if runs.is_empty() {
            return;
        }
        for run in &runs {
            bytes[run.start as usize..run.end as usize].fill(0xee);
        }
        disk.replace(&path, bytes).unwrap();
        let (runs, checksum) = (runs.into(), sum.value());
        *punched = Some(Arc::new(Punched { runs, records, record_bytes, checksum }));
    }

    /// Writes a table of these records.
    pub(super) fn table(&mut self, id: u64, mut items: Vec<Item>) {
        items.sort_by(|left, right| left.rank().cmp(&right.rank()));
        let mut files: Vec<_> = items.iter().map(|item| FileId(item.file)).collect();
        files.push(FileId(id + 1000));
        let options = ValueTableOptions {
            uuid: UUID,
            container: FileId(id),
            sources: files,
            group_bytes: GROUP_BYTES,
            purpose: Purpose::Other,
            direct: false,
            limited: false,
        };
        let path = self.path(FileKind::ValueTable, FileId(id));
        let mut writer = ValueTableWriter::create(&self.io, &path, &options).unwrap();
        for item in &items {
            item.add_to(&mut writer).unwrap();
        }
        self.made.push(Made::Table(writer.finish().unwrap()));
        self.items.push(items);
    }

    fn open_table(&self, written: &WrittenTable) -> Result<Arc<TableFile>> {
        let file = ValueFile::new(&self.context, FileKind::ValueTable, written.sealed.id);
        file.keep();
        let indexes = LoadedIndexes::new(1 << 20);
        TableFile::open(&file, Some(&written.sealed), &indexes, Purpose::Read).map(Arc::new)
    }

    pub(super) fn sources(&self) -> Result<Vec<Source>> {
        let source = |made: &Made| match made {
            Made::Segment { id, sealed, punched, .. } => {
                let file = ValueFile::new(&self.context, FileKind::Value, *id);
                file.keep();
                file.raise_readable(sealed.sealed.bytes);
                let punched = punched.as_ref().map(Arc::clone);
                Ok(Source::Segment { file, sealed: *sealed, punched })
            }
            Made::Table(written) => Ok(Source::Table { table: self.open_table(written)? }),
        };
        self.made.iter().map(source).collect()
    }

    /// All files of all sources.
    pub(super) fn files(&self) -> Vec<FileId> {
        let of = |made: &Made| match made {
            Made::Segment { id, .. } => vec![*id],
            Made::Table(written) => {
                written.properties.sources.iter().map(|source| source.file).collect()
            }
        };
        self.made.iter().flat_map(of).collect()
    }

    pub(super) fn begin(&self, memory_bytes_max: u64) -> Result<Rewrite> {
        self.begin_with(memory_bytes_max, false)
    }

    pub(super) fn begin_with(&self, memory_bytes_max: u64, direct: bool) -> Result<Rewrite> {
        let context = RewriteContext {
            io: self.io.clone(),
            directory: self.context.dir.clone(),
            uuid: UUID,
            group_bytes: self.group_bytes,
            step_bytes: STEP_BYTES,
            direct,
            limited: true,
            memory_bytes_max,
        };
        Rewrite::begin(&context, self.sources()?, NEW, self.files())
    }

    /// Begins and runs a rewrite in steps of so many bytes.
    pub(super) fn rewrite(
        &self,
        memory_bytes_max: u64,
        step_bytes: u64,
        keeper: &mut Keeper<'_>,
    ) -> Result<Rewritten> {
        let mut rewrite = self.begin(memory_bytes_max)?;
        rewrite.step_bytes = step_bytes;
        run(&mut rewrite, keeper)
    }

    /// All records that survive, in order.
    pub(super) fn expected(&self, keeps: Keeps<'_>) -> Vec<&Item> {
        let all = self.items.iter().flatten();
        let mut kept: Vec<_> = all.filter(|item| keeps(&item.rank())).collect();
        kept.sort_by(|left, right| left.rank().cmp(&right.rank()));
        kept
    }

    /// Compares what was written with the model.
    pub(super) fn check(&self, rewritten: &Rewritten, keeps: Keeps<'_>) {
        let expected = self.expected(keeps);
        let all = self.items.iter().map(Vec::len).sum::<usize>();
        assert_eq!(rewritten.records_kept, expected.len() as u64);
        assert_eq!(rewritten.records_dropped, (all - expected.len()) as u64);
        let path = self.path(FileKind::ValueTable, NEW);
        assert_eq!(self.io.disk.exists(&path).unwrap(), rewritten.written.is_some());
        let Some(written) = &rewritten.written else {
            assert!(expected.is_empty());
            return;
        };
        let table = self.open_table(written).unwrap();
        verify(&table, Purpose::Verify, &mut |_| Ok(())).unwrap();
        assert_eq!(table.properties(), &written.properties);
        assert_eq!(written.properties.sources.len(), self.files().len());
        let mut scan = TableScan::new(&table, 10_000, Purpose::Verify).unwrap();
        for item in &expected {
            let found = scan.next_record().unwrap().expect("a record more");
            assert_eq!(found.record.rank(), item.rank());
            assert!(*found.record.record.value().unwrap() == *item.value);
            let place = TablePlace { offset: 300, bytes: 30 };
            let found = table.find(&item.wanted(place), Purpose::Verify).unwrap().unwrap();
            assert!(*found.value().unwrap() == *item.value);
        }
        assert!(scan.next_record().unwrap().is_none());
        for item in self.items.iter().flatten().filter(|item| !keeps(&item.rank())) {
            let place = TablePlace { offset: 300, bytes: 30 };
            assert!(table.find(&item.wanted(place), Purpose::Verify).unwrap().is_none());
        }
    }

    /// Checks that the judge was asked once about each record.
    pub(super) fn check_asked(&self, keeper: &Keeper<'_>) {
        let mut wanted = BTreeMap::new();
        for (source, items) in self.items.iter().enumerate() {
            wanted.extend(items.iter().map(|item| (asked(source, &item.rank()), 1)));
        }
        assert!(keeper.asked == wanted, "asked once about each record");
    }
}

/// Which records survive.
pub(super) type Keeps<'a> = &'a dyn Fn(&crate::values::table::format::Rank<'_>) -> bool;

/// What a judge was asked: source, keyspace, key, seq, file.
type Asked = (usize, u32, Vec<u8>, Reverse<Seq>, u64);

fn asked(source: usize, rank: &crate::values::table::format::Rank<'_>) -> Asked {
    (source, rank.keyspace.0, rank.key.to_vec(), Reverse(rank.seq), rank.file.0)
}

/// A judge.
pub(super) struct Keeper<'a> {
    pub(super) keeps: Keeps<'a>,
    pub(super) asked: BTreeMap<Asked, u64>,
    /// Most memory that was held.
    pub(super) held_max: u64,
    meter: Arc<Meter>,
    /// After so many questions it fails.
    pub(super) fails_after: Option<u64>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(world: &World, keeps: Keeps<'a>) -> Self {
        let (asked, meter) = (BTreeMap::new(), Arc::clone(&world.io.meter));
        Self { keeps, asked, held_max: 0, meter, fails_after: None }
    }

    fn look(&mut self) {
        self.held_max = self.held_max.max(self.meter.bytes_held(Purpose::Collection));
    }
}

impl Judge for Keeper<'_> {
    fn keeps(&mut self, record: &JudgedRecord<'_>) -> Result<bool> {
        self.look();
        let JudgedRecord { keyspace, key, seq, file, source, .. } = *record;
        assert!(record.bytes() >= 17 + key.len() as u64);
        let rank = crate::values::table::format::Rank { keyspace, key, seq, file };
        *self.asked.entry(asked(source, &rank)).or_default() += 1;
        if self.fails_after == Some(self.asked.len() as u64) {
            return Err(Error::new(crate::base::error::ErrorKind::Closed, "enough"));
        }
        Ok((self.keeps)(&rank))
    }
}

/// Steps to the end.
pub(super) fn run(rewrite: &mut Rewrite, keeper: &mut Keeper<'_>) -> Result<Rewritten> {
    loop {
        let done = rewrite.step(keeper)?;
        keeper.look();
        if let Some(rewritten) = done {
            return Ok(rewritten);
        }
    }
}
