//! Stores whose parts are whole, each with right checksums, but contradict each other.

use std::path::Path;

use super::*;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::section::{Section, SectionTag};
use crate::engine::catalogue::KeyspaceEdit;
use crate::engine::lane::JournalEdit;
use crate::engine::state::EngineEdit;
use crate::index::lsm::edit::DecodedEdit;
use crate::log::format::Sealed;
use crate::log::writer::AppendError;
use crate::manifest::Manifest;
use crate::{Error, ErrorKind, IndexKind};

const DIR: &str = "/db";

fn open(disk: &MemoryDisk, read_only: bool) -> crate::Result<Db> {
    small().read_only(read_only).open_in(world(disk), Path::new(DIR))
}

/// Two keyspaces, "plain" with two runs of level 0 that overlap, "other" with nothing.
fn store() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let db = open(&disk, false).unwrap();
    for value in ["old", "new"] {
        plain(&db).put("k", value).unwrap();
        db.flush().unwrap();
    }
    db.keyspace("other", KeyspaceOptions::new().index(IndexKind::Naive)).unwrap();
    db.close().unwrap();
    disk
}

/// Puts a manifest in force that says what the one before said, as changed by `forge`.
pub(super) fn forged(disk: &MemoryDisk, forge: impl FnOnce(&mut Vec<Section>)) {
    let io = world(disk);
    let (mut manifest, found) = Manifest::open(&io, Path::new(DIR)).unwrap();
    let mut sections: Vec<_> = found.edits.into_iter().flat_map(|edit| edit.sections).collect();
    forge(&mut sections);
    let next_id = FileId(5_000);
    manifest.roll(sections, next_id).map_err(AppendError::into_error).unwrap();
}

/// What both ways of opening say; they must agree.
fn refusal(disk: &MemoryDisk) -> Option<Error> {
    let reader = open(disk, true).err();
    let writer = open(disk, false).err();
    let kind = |error: &Option<Error>| error.as_ref().map(Error::kind);
    assert_eq!(kind(&reader), kind(&writer), "{reader:?} {writer:?}");
    writer
}

/// Asserts that a store forged so is refused as damaged, for the reason given.
fn assert_refused(reason: &str, forge: impl FnOnce(&mut Vec<Section>)) {
    let disk = store();
    forged(&disk, forge);
    let error = refusal(&disk).unwrap_or_else(|| panic!("not noticed: {reason}"));
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains(reason), "{error} instead of: {reason}");
}

/// Changes the engine's numbers in every edit.
fn renumber(sections: &mut [Section], change: impl Fn(&mut EngineEdit)) {
    for section in sections.iter_mut().filter(|section| section.tag == SectionTag::ENGINE) {
        let mut edit = EngineEdit::decode(&section.payload).unwrap();
        change(&mut edit);
        *section = edit.encode();
    }
}

/// The sections of the LSM index.
fn lsm(sections: &mut [Section]) -> Vec<&mut Section> {
    sections.iter_mut().filter(|section| section.tag == SectionTag::LSM).collect()
}

#[test]
fn a_manifest_written_anew_as_it_was_is_accepted() {
    let disk = store();
    forged(&disk, |_| {});
    assert!(refusal(&disk).is_none());
    let db = open(&disk, false).unwrap();
    assert_eq!(pairs(plain(&db).iter()), ["k=new"]);
}

#[test]
fn a_flushed_seq_below_a_tables_seqs_is_refused() {
    assert_refused("but 1 is flushed", |sections| {
        renumber(sections, |edit| edit.flushed_seq = edit.flushed_seq.min(1));
    });
}

#[test]
fn file_numbers_that_would_be_given_out_again_are_refused() {
    assert_refused("3 is the next number", |sections| {
        renumber(sections, |edit| edit.next_file_id = 3);
    });
}

#[test]
fn runs_of_level_0_in_the_wrong_order_are_refused() {
    assert_refused("order of their writing", |sections| {
        let mut runs = lsm(sections);
        let [old, new] = runs.as_mut_slice() else { panic!("two flushes") };
        std::mem::swap(*old, *new);
    });
}

#[test]
fn a_table_in_force_twice_is_refused() {
    assert_refused("twice in the levels", |sections| {
        let again = lsm(sections)[0].clone();
        sections.push(again);
    });
    let of_another_keyspace = |sections: &mut Vec<Section>| {
        let create = |id, name: &str| KeyspaceEdit::Create {
            id: KeyspaceId(id),
            name: name.to_owned(),
            settings: KeyspaceOptions::new().into_settings(),
        };
        let mut stolen = DecodedEdit::decode(lsm(sections)[0]).unwrap();
        stolen.keyspace = KeyspaceId(9);
        sections.extend([KeyspaceEdit::encode(&[create(9, "thief")]), stolen.encode()]);
    };
    assert_refused("twice", of_another_keyspace);
}

#[test]
fn an_index_of_no_keyspace_or_of_another_kind_is_refused() {
    assert_refused("never was", |sections| {
        let mut edit = DecodedEdit::decode(lsm(sections)[0]).unwrap();
        edit.keyspace = KeyspaceId(77);
        sections.push(edit.encode());
    });
    assert_refused("another kind of index", |sections| {
        let mut edit = DecodedEdit::decode(lsm(sections)[0]).unwrap();
        edit.keyspace = KeyspaceId(2);
        sections.push(edit.encode());
    });
}

#[test]
fn keyspaces_that_come_or_go_twice_are_refused() {
    assert_refused("created twice", |sections| {
        let twice = sections.iter().filter(|section| section.tag == SectionTag::KEYSPACES);
        let twice: Vec<_> = twice.cloned().collect();
        sections.extend(twice);
    });
    assert_refused("not there", |sections| {
        sections.push(KeyspaceEdit::encode(&[KeyspaceEdit::Drop { id: KeyspaceId(40) }]));
    });
}

#[test]
fn journals_out_of_order_or_sealed_twice_are_refused() {
    let journals = |sections: &[Section]| -> Vec<JournalEdit> {
        let sections = sections.iter().filter(|section| section.tag == SectionTag::JOURNAL);
        sections.flat_map(|section| JournalEdit::decode(&section.payload).unwrap()).collect()
    };
    assert_refused("after a newer one", |sections| {
        let added =
            journals(sections).into_iter().rfind(|e| matches!(e, JournalEdit::Added { .. }));
        sections.push(JournalEdit::encode(&[added.unwrap()]));
    });
    assert_refused("sealed twice", |sections| {
        let last = journals(sections).pop();
        let Some(JournalEdit::Sealed { sealed, last_seq }) = last else { panic!("was closed") };
        let sealed = Sealed { bytes: sealed.bytes + 1, ..sealed };
        sections.push(JournalEdit::encode(&[JournalEdit::Sealed { sealed, last_seq }]));
    });
}

/// An older copy of the manifest knows nothing of the journal that was begun after it.
#[test]
fn a_manifest_that_lost_its_end_is_refused_where_a_journal_shows_it() {
    let disk = store();
    let manifest = disk.files().into_iter().find(|(path, _)| path.ends_with("000001.man"));
    let (path, _) = manifest.expect("the first manifest");
    let older = disk.contents(&path);
    let db = open(&disk, false).unwrap();
    let empty = disk.deep_clone();
    plain(&db).put("later", "x").unwrap();
    let full = disk.deep_clone();
    drop(db);
    // The new segment holds no frame yet: nothing is lost with it.
    empty.replace(&path, older.clone()).unwrap();
    assert!(refusal(&empty).is_none());
    full.replace(&path, older).unwrap();
    let error = refusal(&full).expect("a write would be lost without a word");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("its end is lost"), "{error}");
}

/// A name that no counter reaches is no file of ours, and counting goes on below it.
#[test]
fn a_file_with_an_absurd_number_is_left_alone() {
    let disk = store();
    let stray = format!("{DIR}/{}.tbl", u64::MAX);
    disk.replace(&stray, *b"not ours").unwrap();
    assert!(refusal(&disk).is_none());
    assert!(refusal(&disk).is_none());
    assert_eq!(disk.contents(&stray), b"not ours");
}

/// A collection that a crash ended leaves a value table that no edit names.
#[test]
fn a_value_table_that_nothing_names_goes_away() {
    let disk = store();
    let stray = format!("{DIR}/000777.vtb");
    disk.replace(&stray, *b"half a table").unwrap();
    assert!(refusal(&disk).is_none());
    assert!(!disk.files().iter().any(|(path, _)| path == Path::new(&stray)));
}
