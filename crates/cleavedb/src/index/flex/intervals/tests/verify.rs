//! Verification of an index: what is read, what is noticed, and that a finding hides no other one.

use super::*;
use crate::base::error::ErrorKind;
use crate::base::names::{FileKind, file_name};
use crate::index::flex::space::segment::format::{block_offset, place_of};
use crate::io::memory_disk::MemoryDisk;

/// An index after flushes, jobs, an open and range deletes, on a disk to be damaged.
fn some_index() -> (MemoryDisk, World, Arc<FlexIndex>) {
    let disk = MemoryDisk::new();
    let world = World::on(Arc::new(disk.clone()));
    let mut index = recover(&world, &[]);
    for round in 0..12u64 {
        let list = keys((0..200).filter(|number| u64::from(number % 7) == round % 7));
        let seqs = 1 + 1000 * round..;
        let put = |(key, seq): (&String, u64)| put(key, seq, &format!("value {seq}"));
        flush(&index, list.iter().zip(seqs).map(put).collect(), vec![]);
        work(&index, &[], 20);
        if round == 9 {
            index = recover(&world, &index.snapshot_sections());
        }
    }
    // A snapshot keeps the tombstone.
    let tombstones = vec![range_delete("key00050", "key00060", 20_000)];
    let prepared = index.apply_flush(input(vec![], tombstones, &[19_000])).unwrap();
    index.install(prepared.change).unwrap();
    (disk, world, index)
}

fn findings(index: &FlexIndex) -> Findings {
    let mut findings = Findings::default();
    index.view().verify(&mut findings);
    findings
}

/// Changes a byte of a file; returns how it was.
fn change(disk: &MemoryDisk, path: &std::path::Path, at: u64) -> Vec<u8> {
    let good = disk.contents(path);
    let mut bytes = good.clone();
    bytes[at as usize] ^= 16;
    disk.replace(path, bytes).unwrap();
    good
}

#[test]
fn verify_counts_what_it_has_read() {
    let (_disk, world, index) = some_index();
    let whole = findings(&index);
    assert!(whole.problems.is_empty(), "{:?}", whole.problems);
    let view = index.shared.current();
    assert_eq!(whole.files as usize, view.pins.files.len());
    assert_eq!(whole.entries, view.state.totals.entries);
    let of_disk = view.pins.files.iter().map(|(_, _, bytes)| *bytes).sum::<u64>();
    assert!((1..=of_disk).contains(&whole.bytes), "{} of {of_disk}", whole.bytes);
    let before = world.io.meter.bytes_read(Purpose::Verify);
    findings(&index);
    assert!(world.io.meter.bytes_read(Purpose::Verify) - before >= whole.bytes);
}

/// A byte of a page, of the log, of tombstones, of a directory with its anchors, of an interval.
#[test]
fn a_byte_in_each_kind_of_file_is_noticed_and_named() {
    let (disk, world, index) = some_index();
    let view = index.shared.current();
    let root = view.state.space.root.expect("a checkpoint");
    let log = view.state.space.log.expect("a log behind it");
    let dir = world.context().dir;
    let mut places = vec![
        (FileKind::FlexPages, root.file, root.offset + 9, root.offset),
        (FileKind::FlexLog, log.file, 20, 0),
        (FileKind::FlexLog, log.file, log.bytes - 1, 0),
    ];
    let (group, _) = view.source.anchors.starts().nth(2).unwrap();
    let interval = view.source.anchors.get(2, 1).unwrap().offset;
    assert!(view.tombstone_bytes > 0 && group < interval);
    for offset in [0, group, interval] {
        let physical = view.source.space.tree().find(offset).unwrap().extent.physical;
        let (id, position) = place_of(physical);
        let block = block_offset(position);
        places.push((FileKind::FlexSegment, id, block + position % 4092, block));
    }
    for (kind, id, at, from) in places {
        let path = dir.join(file_name(kind, id));
        let good = change(&disk, &path, at);
        let problems = findings(&index).problems;
        // One finding, for what stands in a bad block is not told of again.
        let [problem] = &problems[..] else { panic!("{kind:?} {at}: {problems:?}") };
        assert_eq!((problem.kind(), problem.file()), (ErrorKind::Corruption, Some(&*path)));
        assert!((from..=at).contains(&problem.offset().unwrap()), "{kind:?} {at}: {problem}");
        disk.replace(&path, good).unwrap();
    }
    assert!(findings(&index).problems.is_empty());
}

/// Blocks that hold, and what is in force is something else.
#[test]
fn what_the_bytes_say_must_be_what_is_in_force() {
    let (_disk, world, index) = some_index();
    let view = index.shared.current();
    let altered = |anchors: Anchors, tombstones: Vec<RangeTombstone>, largest_seq: Seq| FlexView {
        source: Arc::new(Source {
            space: view.source.space.clone(),
            cache: Arc::clone(&view.source.cache),
            gathering: Arc::clone(&view.source.gathering),
            anchors: Arc::new(anchors),
        }),
        pins: index.shared.writer.lock().space.pins(),
        tombstones: Arc::new(Fragments::build(tombstones)),
        tombstone_bytes: view.tombstone_bytes,
        state: FlexState { largest_seq, ..view.state },
    };
    let groups = || view.source.anchors.groups().to_vec();
    let anchors = |groups| Anchors::new(groups, view.tombstone_bytes);
    let (tombstones, newest) = (view.tombstones.tombstones(), view.state.largest_seq);
    verify(&altered(anchors(groups()), tombstones.clone(), newest));
    let told = |view: FlexView, what: &str| {
        let mut findings = Findings::default();
        IndexView::verify(&view, &mut findings);
        let is_told = findings.problems.iter().any(|problem| problem.message().contains(what));
        assert!(is_told, "{what}: {:?}", findings.problems);
    };
    told(altered(anchors(groups()), vec![], newest), "other range tombstones");
    told(altered(anchors(groups()), tombstones.clone(), 5), "newer than its index");
    let spoilt = |spoil: &dyn Fn(&mut anchors::Group)| {
        let mut groups = groups();
        let mut group = (*groups[1]).clone();
        spoil(&mut group);
        groups[1] = group.sealed();
        altered(anchors(groups), tombstones.clone(), newest)
    };
    told(spoilt(&|group| group.id += 1), "that of another one");
    told(spoilt(&|group| group.intervals[1].anchor = (*b"key").into()), "that of another one");
    told(spoilt(&|group| group.intervals[0].tail = 200), "a tag at");
    told(
        spoilt(&|group| {
            group.intervals[0].bytes += 1;
            group.intervals[1].bytes -= 1;
        }),
        "a tag at",
    );
    drop(world);
}
