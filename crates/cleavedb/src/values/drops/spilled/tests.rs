//! Files of facts: their bytes, what of damage is noticed, and how much is written in all.

use std::collections::BTreeMap;
use std::path::Path;

use super::dump::dump_facts;
use super::format::{
    HEADER_BYTES, PART_HEADER_BYTES, Part, TRAILER_BYTES, VERSION, check_header, encode_header,
};
use super::merge::{Spill, SpilledFigures, plan};
use super::named::SpilledFile;
use super::reader::FactsReader;
use crate::base::entry::FileId;
use crate::base::error::ErrorKind;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::io::memory_disk::MemoryDisk;
use crate::io::seeded::Seeded;
use crate::io::{Io, Purpose};
use crate::log::testing::{DIR, UUID, check_golden, check_page};
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::{FactsEdit, Generation};
use crate::values::drops::run::Run;
use crate::values::drops::subject::FactKind;
use crate::values::drops::testing::{after, batch, hash, line, long_key};
use crate::values::testing::context;

const FILE: FileId = FileId(23);

fn world() -> (Io, MemoryDisk) {
    let disk = MemoryDisk::new();
    let io = Io::simulated(Arc::new(disk.clone()));
    io.disk.create_dir(Path::new(DIR)).unwrap();
    (io, disk)
}

/// Writes all that is in memory.
fn written(io: &Io, facts: &Facts, part_bytes_max: usize) -> SpilledFile {
    let (dir, is_cancelled) = (Path::new(DIR), &|| false);
    // Nothing has written it before, or another test's file is to go.
    drop(io.disk.remove_file(&dir.join(file_name(FileKind::Facts, FILE))));
    let spill = Spill { io, dir, uuid: &UUID, id: FILE, part_bytes_max, is_cancelled };
    spill.write(facts, &[]).unwrap()
}

/// Facts about two value files, of two generations.
fn some_facts() -> Facts {
    let nothing = Facts::new(hash());
    let facts = after(&nothing, batch(&[(7, b"apple", 1002), (7, b"apple", 1400)]));
    after(&facts, batch(&[(7, b"apricot", 1501), (9, &long_key(1), 1003)]))
}

fn contents(disk: &MemoryDisk) -> Vec<u8> {
    disk.contents(Path::new(DIR).join(file_name(FileKind::Facts, FILE)))
}

fn put(disk: &MemoryDisk, bytes: &[u8]) {
    disk.replace(Path::new(DIR).join(file_name(FileKind::Facts, FILE)), bytes).unwrap();
}

fn reader(io: &Io) -> crate::base::error::Result<FactsReader> {
    FactsReader::open(io, Path::new(DIR), &UUID, FILE, Purpose::Verify)
}

#[test]
fn golden_file() {
    let (io, disk) = world();
    written(&io, &some_facts(), 1 << 20);
    let bytes = contents(&disk);
    let mut dump = String::new();
    dump_facts(&bytes, &mut dump);
    check_golden("facts-file", VERSION, &bytes, &dump);
    check_page(
        "facts-file",
        &[
            (0, 8, "magic"),
            (HEADER_BYTES - 2, 1, "kind of the file"),
            (PART_HEADER_BYTES - 8, 8, "how many facts"),
            (TRAILER_BYTES - 8, 4, "checksum of the trailer"),
        ],
    );
}

#[test]
fn a_file_of_facts_is_read_by_value_file() {
    let (io, disk) = world();
    let facts = some_facts();
    for part_bytes_max in [1, 60, 1 << 20] {
        let spilled = written(&io, &facts, part_bytes_max);
        assert_eq!(spilled.bytes, contents(&disk).len() as u64);
        assert_eq!((spilled.id, spilled.upto), (FILE, Generation(2)));
        let reader = reader(&io).unwrap();
        reader.check(&spilled).unwrap();
        let mut read: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
        for place in &spilled.parts {
            let runs = reader.runs(place).unwrap();
            let runs = runs.iter().map(|(of, run)| (of.0, run.lines().count()));
            read.entry(place.file.0).or_default().extend(runs);
        }
        let expected = [(7, vec![(1, 2), (2, 1)]), (9, vec![(2, 1)])];
        assert_eq!(read, BTreeMap::from(expected), "parts of {part_bytes_max}");
        let parts = if part_bytes_max == 1 << 20 { 2 } else { 3 };
        assert_eq!(spilled.parts.len(), parts);
    }
}

#[test]
fn what_a_collection_has_read_is_left_out() {
    let (io, _) = world();
    let mut spilled = written(&io, &some_facts(), 1 << 20);
    spilled.parts[0].after = Generation(1);
    let reader = reader(&io).unwrap();
    let runs = reader.runs(&spilled.parts[0]).unwrap();
    assert_eq!(runs.iter().map(|run| run.0.0).collect::<Vec<_>>(), [2]);
    reader.check(&spilled).unwrap();
}

/// Every damaged bit, every cut and what is appended is noticed, by a check and by opening; a part
/// that is read is right or an error.
#[test]
fn damage_is_noticed() {
    let (io, disk) = world();
    let spilled = written(&io, &some_facts(), 1 << 20);
    let sound = contents(&disk);
    let check = |bytes: &[u8]| {
        put(&disk, bytes);
        reader(&io).and_then(|reader| reader.check(&spilled))
    };
    let right: Vec<_> = {
        put(&disk, &sound);
        let reader = reader(&io).unwrap();
        spilled.parts.iter().map(|part| reader.runs(part).unwrap()).collect()
    };
    for at in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let error = check(&bytes).unwrap_err();
        assert!(error.file().is_some(), "{error}");
        let Ok(reader) = reader(&io) else { continue };
        for (part, right) in spilled.parts.iter().zip(&right) {
            if let Ok(runs) = reader.runs(part) {
                assert_eq!(&runs, right, "bit {at}");
            }
        }
    }
    for length in 0..sound.len() {
        assert_eq!(check(&sound[..length]).unwrap_err().kind(), ErrorKind::Corruption);
    }
    for more in [&[0; 40][..], &sound, &sound[HEADER_BYTES..]] {
        let bytes = [&sound[..], more].concat();
        assert_eq!(check(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
    }
    check(&sound).unwrap();
    disk.remove(Path::new(DIR).join(file_name(FileKind::Facts, FILE))).unwrap();
    assert_eq!(reader(&io).err().map(|e| e.kind()), Some(ErrorKind::Corruption));
}

#[test]
fn a_header_is_of_one_file_of_one_database() {
    let header = encode_header(&UUID, FILE);
    check_header(&header, &UUID, FILE).unwrap();
    assert!(check_header(&header, &UUID, FileId(24)).is_err());
    assert!(check_header(&header, &[7; 16], FILE).is_err());
    assert!(check_header(&header[..HEADER_BYTES - 1], &UUID, FILE).is_err());
}

#[test]
fn parts_that_no_engine_writes_are_refused() {
    let run = |seq| Run::new(std::iter::once(line(FactKind::Superseded, b"key", seq)));
    let part = |generations: &[u64], file| {
        let runs = generations.iter().map(|&number| (Generation(number), run(number + 1)));
        Part { file: FileId(file), runs: runs.collect() }
    };
    let is_read = |part: Part| Part::decode(&part.encode(5, 64), 5, 64).is_ok();
    assert!(is_read(part(&[1, 2, 9], 7)));
    assert!(!is_read(part(&[1, 2, 2], 7)), "a generation twice");
    assert!(!is_read(part(&[2, 1], 7)), "generations that descend");
    assert!(!is_read(part(&[0, 1], 7)), "generation zero");
    assert!(!is_read(part(&[1], 0)), "about no file");
    let bytes = part(&[1], 7).encode(5, 64);
    assert!(Part::decode(&bytes, 5, 65).is_err(), "at another place");
    assert!(Part::decode(&bytes, 6, 64).is_err(), "of another file");
}

/// Damage that keeps all checksums of parts right: other parts, or the same elsewhere.
#[test]
fn a_file_of_other_facts_is_noticed() {
    let (io, disk) = world();
    let spilled = written(&io, &some_facts(), 1 << 20);
    let other = after(&some_facts(), batch(&[(9, b"other", 77)]));
    written(&io, &other, 1 << 20);
    assert!(reader(&io).unwrap().check(&spilled).is_err(), "another file of the number");
    let mut wrong = written(&io, &some_facts(), 1 << 20);
    put(&disk, &contents(&disk));
    wrong.parts[1].facts += 1;
    let reader = reader(&io).unwrap();
    assert!(reader.check(&wrong).is_err() && reader.runs(&wrong.parts[1]).is_err());
}

/// A store that spills over and over, of which each spill's facts die with this chance in a
/// thousand at each spill after it: bytes written for each spilled one, most files at a time, and
/// the most bytes of files for each that counts.
fn simulated(spills: u64, dies_in_1000: u64, seed: u64) -> (f64, usize, f64) {
    const BYTES: u64 = 1 << 20;
    let mut random = Seeded::new(seed);
    let mut files: Vec<(SpilledFigures, Vec<u64>)> = Vec::new();
    let (mut written, mut most, mut worst) = (0, 0, 1.0_f64);
    for number in 0..spills {
        let figures: Vec<_> = files.iter().map(|file| file.0).collect();
        let merged = plan(BYTES, true, BYTES, &figures).unwrap();
        let mut pieces = vec![BYTES];
        files.retain(|(figures, held)| {
            let is_merged = merged.contains(&figures.id);
            pieces.extend(held.iter().filter(|_| is_merged));
            !is_merged
        });
        let bytes = pieces.iter().sum();
        written += bytes;
        files.push((SpilledFigures { id: FileId(number + 1), bytes, live_bytes: bytes }, pieces));
        for (figures, held) in &mut files {
            held.retain(|_| random.below(1000) >= dies_in_1000);
            figures.live_bytes = held.iter().sum();
        }
        files.retain(|file| file.0.live_bytes > 0);
        most = most.max(files.len());
        let sum = |figure: &dyn Fn(&SpilledFigures) -> u64| {
            files.iter().map(|file| figure(&file.0)).sum::<u64>() as f64
        };
        let (all, live) = (sum(&|file| file.bytes), sum(&|file| file.live_bytes));
        worst = worst.max(all / (live + 4.0 * BYTES as f64));
    }
    (written as f64 / (spills * BYTES) as f64, most, worst)
}

/// What spills and merges write of a fact is bounded by the logarithm of how many there are, and so
/// is how many files there are, whether facts stay or go.
#[test]
fn merging_writes_a_logarithm() {
    let kept = [(16, 0), (256, 0), (4096, 0)];
    for (spills, dies_in_1000) in kept.into_iter().chain([(4096, 2), (4096, 20), (4096, 300)]) {
        let (each, files, space) = simulated(spills, dies_in_1000, spills + dies_in_1000);
        println!("{spills} spills, {dies_in_1000} of 1000 die: {each:.2}, {files}, {space:.2}");
        let classes = f64::from(spills.ilog(8)) + 1.0;
        assert!(each <= classes + 1.0, "{each} times after {spills}");
        assert!(files as f64 <= 7.0 * classes + 1.0, "{files} files after {spills}");
        assert!(space <= 2.5, "{space} times the bytes that count");
    }
}

#[test]
fn a_spill_is_due_for_facts_in_memory_or_for_waste() {
    let file = |id, bytes, live_bytes| SpilledFigures { id: FileId(id), bytes, live_bytes };
    assert_eq!(plan(100, false, 100, &[]), None);
    assert_eq!(plan(101, true, 100, &[]), Some(vec![]));
    let idle = |files: &[SpilledFigures]| plan(0, false, 100, files);
    assert_eq!(idle(&[file(1, 1000, 499)]), None, "as much counts as does not");
    assert_eq!(idle(&[file(1, 1000, 400)]), Some(vec![FileId(1)]));
    assert_eq!(idle(&[file(1, 1000, 400), file(2, 1000, 1000)]), None);
    let seven: Vec<_> = (1..8).map(|id| file(id, 100 + id, 100 + id)).collect();
    assert_eq!(plan(101, true, 100, &seven[1..]), Some(vec![]), "six wait for more");
    assert_eq!(plan(101, true, 100, &seven), Some((1..8).map(FileId).collect()));
    let with_large = [&seven[..], &[file(9, 6400, 6400)]].concat();
    assert_eq!(plan(101, true, 100, &with_large).map(|ids| ids.len()), Some(7));
    let with_sparse = [file(4, 1600, 700), file(5, 1600, 1600)];
    assert_eq!(plan(101, true, 100, &with_sparse), Some(vec![FileId(4)]));
}

/// What happens to facts between the writing of a file and the edit that names it (DF-5).
#[test]
fn a_late_edit_brings_nothing_back() {
    let (io, _) = world();
    let context = context(&io, false);
    let nothing = Facts::in_store(hash(), &context);
    let before = after(&nothing, batch(&[(7, b"apple", 10), (8, b"pear", 11), (9, b"fig", 12)]));
    let before = after(&before, batch(&[(7, b"plum", 13)]));
    let spilled = written(&io, &before, 1 << 20);
    // One file is read, one goes, one has facts more.
    let mut meanwhile = batch(&[(9, b"late", 20)]);
    meanwhile.discard(before.pin(&[[FileId(7)]]).unwrap().discards());
    meanwhile.drop_file(FileId(8));
    let now = after(&before, meanwhile);
    let edit = FactsEdit { spilled: vec![spilled], ..FactsEdit::default() };
    let next = now.apply(&[edit]).unwrap();
    next.settle(&now);
    assert_eq!(next.counts(), BTreeMap::from([(FileId(9), 2)]));
    let parts: Vec<_> = next.spilled().flat_map(|s| s.parts().map(|p| p.file.0)).collect();
    assert_eq!(parts, [9], "one part counts");
    assert_eq!(next.in_memory().count(), 1, "what came late");
    assert_eq!(next.pin(&[[FileId(7), FileId(8), FileId(9)]]).unwrap().counts().facts, 2);
    // Once that is read, too, the file goes, and no earlier.
    assert!(context.obsolete.is_empty());
    let mut discards = crate::values::drops::batch::FactBatch::new(hash());
    discards.discard(next.pin(&[[FileId(9)]]).unwrap().discards());
    let last = after(&next, discards);
    last.settle(&next);
    assert!(last.is_empty());
    drop((next, now));
    assert_eq!(context.obsolete.take(), [(FileKind::Facts, FILE)]);
}

#[test]
fn a_dump_ends_wherever_the_file_does() {
    let (io, disk) = world();
    written(&io, &some_facts(), 1 << 20);
    let whole = contents(&disk);
    for end in 0..=whole.len() {
        let mut out = String::new();
        dump_facts(&whole[..end], &mut out);
        assert!(out.lines().count() <= 64 + 2 * end, "{out}");
    }
}
