//! Files on their way through containers.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::Purpose;
use crate::log::format::Sealed;
use crate::log::testing::{disk, io};
use crate::values::edit::SealedValues;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::testing::{applied, context};

fn sealed(id: u64) -> ValuesEdit {
    let totals = Totals {
        records: 9,
        record_bytes: 900,
        key_bytes: 9,
        value_bytes: 450,
        smallest_seq: 1,
        largest_seq: 9,
    };
    let sealed = Sealed { id: FileId(id), bytes: 2000, checksum: 1 };
    ValuesEdit::Sealed(SealedValues { sealed, last_seq: 9, totals })
}

fn info(container: u64, files: &[(u64, u32)]) -> Arc<ContainerInfo> {
    let totals = Totals {
        records: 4,
        record_bytes: 400,
        key_bytes: 4,
        value_bytes: 200,
        smallest_seq: 2,
        largest_seq: 3,
    };
    let sealed = Sealed { id: FileId(container), bytes: 1000, checksum: 2 };
    let files = files.iter().map(|&(id, epoch)| (FileId(id), epoch)).collect();
    Arc::new(ContainerInfo { sealed, totals, files })
}

fn rewritten(container: u64, files: &[(u64, u32)]) -> ValuesEdit {
    ValuesEdit::Rewritten(info(container, files))
}

fn counted(id: u64, refs: i64) -> ValuesEdit {
    ValuesEdit::Counted { id: FileId(id), refs, ref_bytes: refs * 100 }
}

fn added(ids: &[u64]) -> Vec<ValuesEdit> {
    let edits = |&id: &u64| [ValuesEdit::Added { id: FileId(id) }, sealed(id), counted(id, 5)];
    ids.iter().flat_map(edits).collect()
}

fn removed(id: u64) -> ValuesEdit {
    ValuesEdit::Removed { id: FileId(id) }
}

#[test]
fn files_are_merged_counted_and_removed() {
    let context = context(&io(&disk()), false);
    let table = applied(&context, &ValueFiles::default(), &added(&[3, 4, 5])).unwrap();
    let table = applied(&context, &table, &[rewritten(10, &[(3, 1)])]).unwrap();
    assert!(table.get(FileId(3)).is_none() && table.has_file(FileId(3)));
    assert_eq!(table.get_moved(FileId(3)).unwrap().refs, 5);
    let table = applied(&context, &table, &[rewritten(11, &[(3, 2), (4, 1)])]).unwrap();
    assert_eq!(table.containers().count(), 1);
    assert_eq!(table.refs_in(FileId(11)), (10, 1000));
    let table = applied(&context, &table, &[counted(4, -5)]).unwrap();
    let table = applied(&context, &table, &[removed(4)]).unwrap();
    assert_eq!(table.refs_in(FileId(11)), (5, 500));
    assert!(table.container(FileId(11)).is_some(), "its other file is there");
    let table = applied(&context, &table, &[counted(3, -5), removed(3)]).unwrap();
    assert_eq!((table.containers().count(), table.moved().count()), (0, 0));
    assert!(table.are_named() && table.get(FileId(5)).is_some());
}

#[test]
fn whole_containers_are_told_from_parts() {
    let context = context(&io(&disk()), false);
    let table = applied(&context, &ValueFiles::default(), &added(&[3, 4, 5])).unwrap();
    let takes = |table: &ValueFiles, ids: &[u64]| {
        table.takes_whole_containers(&ids.iter().copied().map(FileId).collect())
    };
    // Segments alone, then two of them in a container.
    assert!(takes(&table, &[3]) && takes(&table, &[3, 4]));
    let table = applied(&context, &table, &[rewritten(10, &[(3, 1), (4, 1)])]).unwrap();
    assert!(!takes(&table, &[3]) && !takes(&table, &[4, 5]));
    assert!(takes(&table, &[]) && takes(&table, &[5]) && takes(&table, &[3, 4, 5]));
}

#[test]
fn what_cannot_be_is_refused() {
    let context = context(&io(&disk()), false);
    let table = applied(&context, &ValueFiles::default(), &added(&[3, 4])).unwrap();
    let refuse = |table: &ValueFiles, edits: &[ValuesEdit]| {
        let error = applied(&context, table, edits).err().expect("a refusal");
        assert_eq!(error.kind(), ErrorKind::Corruption);
    };
    refuse(&table, &[rewritten(10, &[(3, 2)])]);
    refuse(&table, &[rewritten(10, &[(7, 1)])]);
    refuse(&table, &[rewritten(10, &[(3, 1), (3, 1)])]);
    refuse(&table, &[ValuesEdit::Held(info(10, &[(3, 1)]))]);
    let growing = [ValuesEdit::Added { id: FileId(6) }, rewritten(10, &[(6, 1)])];
    refuse(&table, &growing);
    let merged = applied(&context, &table, &[rewritten(10, &[(3, 1), (4, 1)])]).unwrap();
    refuse(&merged, &[rewritten(11, &[(3, 2)])]);
    refuse(&merged, &[rewritten(10, &[(3, 2), (4, 2)])]);
    refuse(&merged, &[rewritten(11, &[(3, 1), (4, 1)])]);
    refuse(&merged, &[counted(3, -6)]);
    refuse(&merged, &[ValuesEdit::Counted { id: FileId(3), refs: -5, ref_bytes: -400 }]);
    refuse(&merged, &[ValuesEdit::Added { id: FileId(3) }]);
    refuse(&merged, &[sealed(3)]);
}

#[test]
fn a_snapshot_makes_the_same_table() {
    let context = context(&io(&disk()), false);
    let mut edits = added(&[3, 4, 5, 6]);
    edits.extend([rewritten(10, &[(3, 1), (5, 1)]), counted(5, -5), rewritten(11, &[(6, 1)])]);
    edits.push(rewritten(12, &[(3, 2), (5, 2)]));
    let table = applied(&context, &ValueFiles::default(), &edits).unwrap();
    let section = table.snapshot();
    let read = ValuesEdit::decode(&section.payload).unwrap();
    assert_eq!(read, table.edits());
    let again = applied(&context, &ValueFiles::default(), &read).unwrap();
    assert_eq!(again.edits(), table.edits());
    assert_eq!(again.get_moved(FileId(3)), table.get_moved(FileId(3)));
    assert_eq!(again.container(FileId(12)).unwrap().totals.records, 4);
}

#[test]
fn a_container_goes_away_with_its_last_view_and_no_earlier() {
    let context = context(&io(&disk()), false);
    let nothing = ValueFiles::default();
    let first = applied(&context, &nothing, &added(&[3])).unwrap();
    first.settle(&nothing);
    let second = applied(&context, &first, &[rewritten(10, &[(3, 1)])]).unwrap();
    second.settle(&first);
    drop(first);
    assert_eq!(context.obsolete.take(), [(FileKind::Value, FileId(3))]);
    let third = applied(&context, &second, &[rewritten(11, &[(3, 2)])]).unwrap();
    third.settle(&second);
    assert_eq!(context.obsolete.take(), []);
    drop(second);
    assert_eq!(context.obsolete.take(), [(FileKind::ValueTable, FileId(10))]);
    drop(third);
    assert_eq!(context.obsolete.take(), [], "in force");
}

#[test]
fn a_handle_is_there_while_its_file_is() {
    let context = context(&io(&disk()), false);
    let table = applied(&context, &ValueFiles::default(), &added(&[3])).unwrap();
    let table = applied(&context, &table, &[rewritten(10, &[(3, 1)])]).unwrap();
    let handle = |file, epoch| Handle { file: FileId(file), epoch, offset: 128, bytes: 100 };
    assert!(table.has(&handle(3, 0)) && table.has(&handle(3, 1)));
    assert!(!table.has(&handle(10, 0)), "containers are not named by handles");
    // Nothing is opened before somebody reads.
    let container = Arc::clone(&table.container(FileId(10)).unwrap().container);
    assert!(container.table(Purpose::Read).is_err(), "there is no such file");
    let file = ValueFile::new(&context, FileKind::ValueTable, FileId(12));
    drop(file);
    assert_eq!(context.obsolete.take(), [(FileKind::ValueTable, FileId(12))], "never named");
}
