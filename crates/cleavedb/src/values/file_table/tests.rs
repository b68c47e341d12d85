//! Random edits against plain maps; refusals; snapshots; files that go away, and when.

use std::collections::BTreeMap;

use super::*;
use crate::base::names::FileKind;
use crate::base::runs::Run;
use crate::io::Io;
use crate::log::footer::Totals;
use crate::log::format::Sealed;
use crate::log::testing::{disk, io};
use crate::values::edit::ContainerInfo;
use crate::values::file::ValueContext;
use crate::values::testing::{applied, context};
use proptest::prelude::*;

/// The same as a plain map.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    segments: BTreeMap<u64, FileState>,
    /// Ends of what was dropped, by segment.
    dropped: BTreeMap<u64, u64>,
    /// Files that were rewritten.
    moved: BTreeMap<u64, MovedFile>,
}

fn world() -> (Io, Arc<ValueContext>) {
    let io = io(&disk());
    let context = context(&io, false);
    (io, context)
}

fn sealed(id: u64, records: u64) -> SealedValues {
    let totals = Totals {
        records,
        record_bytes: records * 100,
        key_bytes: records,
        value_bytes: records * 50,
        smallest_seq: u64::from(records > 0),
        largest_seq: records,
    };
    let sealed = Sealed { id: FileId(id), bytes: 80 + records * 141, checksum: id as u32 };
    SealedValues { sealed, last_seq: records + 5, totals }
}

/// The first so many records of a file are dropped, one run for all.
fn holes(id: u64, records: u64) -> ValuesEdit {
    let run = Run { start: 80, end: 80 + (records + 1) * 141 };
    let punched = Punched { runs: [run].into(), records, record_bytes: records * 100, checksum: 7 };
    ValuesEdit::Punched { id: FileId(id), punched: Arc::new(punched) }
}

/// A container of this number with these files.
fn container(id: u64, files: &BTreeMap<u64, u32>) -> Arc<ContainerInfo> {
    let totals = sealed(id, 40).totals;
    let sealed = Sealed { id: FileId(id), bytes: 9000, checksum: id as u32 };
    let files = files.iter().map(|(&file, &epoch)| (FileId(file), epoch)).collect();
    Arc::new(ContainerInfo { sealed, totals, files })
}

/// What is to be done to the table.
#[derive(Clone, Debug)]
enum Step {
    /// This.
    Edit(ValuesEdit),
    /// Files in force, picked by the bits of a number, come into a container together with those
    /// that they are with already; the last one's epoch is so much too large.
    Rewrite { container: u64, picked: u64, too_large: u32 },
}

/// Steps of which many are right.
fn any_step() -> impl Strategy<Value = Step> {
    let count = |id, refs: i64| {
        let ref_bytes = if refs % 7 == 6 { refs } else { refs * 100 };
        ValuesEdit::Counted { id: FileId(id), refs, ref_bytes }
    };
    let files = proptest::collection::btree_map(1..6u64, 1..3u32, 1..3usize);
    let edit = prop_oneof![
        4 => (1..6u64).prop_map(|id| ValuesEdit::Added { id: FileId(id) }),
        3 => (1..6u64, 5..8u64).prop_map(|(id, n)| ValuesEdit::Sealed(sealed(id, n))),
        6 => (1..6u64, -4..9i64).prop_map(move |(id, refs)| count(id, refs)),
        3 => (1..6u64, 0..6u64).prop_map(|(id, n)| holes(id, n)),
        1 => (1..6u64).prop_map(|id| ValuesEdit::Removed { id: FileId(id) }),
        1 => (10..14u64, files.clone())
            .prop_map(|(id, files)| ValuesEdit::Held(container(id, &files))),
        1 => (10..14u64, files)
            .prop_map(|(id, files)| ValuesEdit::Rewritten(container(id, &files))),
    ];
    prop_oneof![
        19 => edit.prop_map(Step::Edit),
        4 => (10..14u64, 1..64u64, prop_oneof![9 => Just(0), 1 => 1..3u32]).prop_map(
            |(container, picked, too_large)| Step::Rewrite { container, picked, too_large }
        ),
    ]
}

impl Step {
    /// The edit, where the files are these.
    fn edit(self, model: &Model) -> ValuesEdit {
        let (id, picked, too_large) = match self {
            Self::Edit(edit) => return edit,
            Self::Rewrite { container, picked, too_large } => (container, picked, too_large),
        };
        let is_picked = |file: &u64| picked >> file & 1 == 1;
        let segments = model.segments.iter().filter(|(_, state)| state.sealed.is_some());
        let segments = segments.map(|(&file, _)| file).filter(is_picked).map(|file| (file, 1));
        let chosen = model.moved.values().filter(|file| is_picked(&file.id.0));
        let homes: Vec<_> = chosen.map(|file| file.container).collect();
        let moved = model.moved.values().filter(|file| homes.contains(&file.container));
        let moved = moved.map(|file| (file.id.0, file.epoch + 1));
        let mut files: BTreeMap<u64, u32> = segments.chain(moved).collect();
        if let Some(mut last) = files.last_entry() {
            *last.get_mut() += too_large;
        }
        ValuesEdit::Rewritten(container(id, &files))
    }
}

impl Model {
    /// What an edit does to it; `None` where it contradicts it.
    fn apply(&mut self, edit: &ValuesEdit) -> Option<()> {
        match *edit {
            ValuesEdit::Added { id } => {
                let before = self.segments.insert(id.0, FileState::default());
                (before.is_none() && !self.moved.contains_key(&id.0)).then_some(())
            }
            ValuesEdit::Sealed(sealed) => {
                let state = self.segments.get_mut(&sealed.sealed.id.0)?;
                let same = state.sealed.is_none_or(|before| before == sealed);
                state.sealed = Some(sealed);
                (same
                    && state.refs <= sealed.totals.records
                    && state.ref_bytes <= sealed.totals.record_bytes)
                    .then_some(())
            }
            ValuesEdit::Counted { id, refs, ref_bytes } => self.count(id.0, refs, ref_bytes),
            ValuesEdit::Removed { id } => {
                self.dropped.remove(&id.0);
                if self.moved.remove(&id.0).is_some() {
                    return Some(());
                }
                self.segments.remove(&id.0)?.sealed.map(|_| ())
            }
            ValuesEdit::AddedLarge(_) => None,
            // Each drops more than the one before: what the first run holds says it all.
            ValuesEdit::Punched { id, ref punched } => {
                let state = self.segments.get(&id.0)?;
                let dropped = self.dropped.entry(id.0).or_default();
                let end = punched.runs[0].end;
                let fits = state.sealed.is_some_and(|s| {
                    end <= s.sealed.bytes && punched.records <= s.totals.records && *dropped <= end
                });
                *dropped = end;
                fits.then_some(())
            }
            ValuesEdit::Rewritten(ref info) => self.rewrite(info),
            ValuesEdit::Held(ref info) => {
                let is_new = |file: &(FileId, u32)| {
                    let id = file.0.0;
                    !self.segments.contains_key(&id) && !self.moved.contains_key(&id)
                };
                let is_right = info.files.iter().all(is_new) && !self.has_container(info);
                let (refs, ref_bytes, container) = (0, 0, info.sealed.id);
                for &(id, epoch) in &info.files {
                    let file = MovedFile { id, epoch, container, refs, ref_bytes };
                    self.moved.insert(id.0, file);
                }
                is_right.then_some(())
            }
        }
    }

    fn count(&mut self, id: u64, refs: i64, ref_bytes: i64) -> Option<()> {
        let (now, room) = match (self.segments.get_mut(&id), self.moved.get_mut(&id)) {
            (Some(state), _) => {
                let totals = state.sealed.map(|sealed| sealed.totals);
                let room = totals.map(|totals| (totals.records, totals.record_bytes));
                ((&mut state.refs, &mut state.ref_bytes), room)
            }
            (None, Some(file)) => ((&mut file.refs, &mut file.ref_bytes), None),
            (None, None) => return (refs <= 0).then_some(()),
        };
        let (refs, bytes) = (*now.0 as i64 + refs, *now.1 as i64 + ref_bytes);
        (*now.0, *now.1) = (refs.max(0) as u64, bytes.max(0) as u64);
        (refs >= 0
            && bytes >= refs * SEPARATED_BYTES_MIN as i64
            && (refs > 0 || bytes == 0)
            && room.is_none_or(|room| refs <= room.0 as i64 && bytes <= room.1 as i64))
        .then_some(())
    }

    fn has_container(&self, info: &ContainerInfo) -> bool {
        self.moved.values().any(|file| file.container == info.sealed.id)
    }

    fn rewrite(&mut self, info: &ContainerInfo) -> Option<()> {
        let mut is_right = !info.files.is_empty() && !self.has_container(info);
        let mut left = Vec::new();
        for &(id, epoch) in &info.files {
            let before = match (self.segments.remove(&id.0), self.moved.get(&id.0)) {
                (Some(state), _) => {
                    is_right &= state.sealed.is_some();
                    (0, state.refs, state.ref_bytes)
                }
                (None, Some(file)) => {
                    left.push(file.container);
                    (file.epoch, file.refs, file.ref_bytes)
                }
                (None, None) => return None,
            };
            is_right &= before.0 + 1 == epoch;
            self.dropped.remove(&id.0);
            let (container, refs, ref_bytes) = (info.sealed.id, before.1, before.2);
            let file = MovedFile { id, epoch, container, refs, ref_bytes };
            self.moved.insert(id.0, file);
        }
        is_right &= !self.moved.values().any(|file| left.contains(&file.container));
        is_right.then_some(())
    }
}

/// What a table says, but for what was dropped.
fn states(table: &ValueFiles) -> (BTreeMap<u64, FileState>, BTreeMap<u64, MovedFile>) {
    let segments = table.iter().map(|entry| (entry.file.id().0, entry.state)).collect();
    (segments, table.moved().map(|file| (file.id.0, *file)).collect())
}

/// Containers say the same as the files in them.
fn assert_containers(table: &ValueFiles) {
    let mut homes: Vec<_> = table.moved().map(|file| file.container).collect();
    homes.sort_unstable();
    homes.dedup();
    assert!(table.containers().map(|entry| entry.container.id()).eq(homes.iter().copied()));
    for &home in &homes {
        let here = table.moved().filter(|file| file.container == home);
        assert!(table.files_in(home).eq(here));
        assert_eq!(table.container(home).unwrap().container.sealed().bytes, 9000);
    }
}

proptest! {
    #[test]
    fn edits_do_what_they_do_to_a_plain_map(steps in proptest::collection::vec(any_step(), 0..60)) {
        let (_io, context) = world();
        let mut table = ValueFiles::default();
        let mut model = Model::default();
        let mut edits = Vec::new();
        for step in steps {
            let edit = step.edit(&model);
            let mut next = model.clone();
            let wanted = next.apply(&edit);
            let pinned: Vec<_> = table.iter().map(|entry| entry.file.clone()).collect();
            match applied(&context, &table, std::slice::from_ref(&edit)) {
                Ok(after) => {
                    prop_assert!(wanted.is_some(), "{:?} is accepted", edit);
                    (model, table) = (next, after);
                }
                Err(error) => prop_assert!(wanted.is_none(), "{:?}: {}", edit, error),
            }
            prop_assert_eq!(states(&table), (model.segments.clone(), model.moved.clone()));
            assert_containers(&table);
            for file in pinned {
                if let Some(entry) = table.get(file.id()) {
                    let is_same = Arc::ptr_eq(&entry.file, &file);
                    let is_punched = matches!(edit, ValuesEdit::Punched { .. });
                    prop_assert!(is_same || is_punched, "a file is one object");
                }
            }
            edits.push(edit);
        }
        // A snapshot makes the same table out of nothing.
        let decoded = ValuesEdit::decode(&table.snapshot().payload).unwrap();
        let again = applied(&context, &ValueFiles::default(), &decoded).unwrap();
        prop_assert_eq!(states(&again), (model.segments, model.moved));
        assert_containers(&again);
        for entry in again.iter() {
            let end = entry.state.sealed.map_or(0, |sealed| sealed.sealed.bytes);
            prop_assert_eq!(entry.file.readable(), end);
        }
        // All in one edit, or not at all.
        let whole = applied(&context, &ValueFiles::default(), &edits);
        let mut model = Model::default();
        let wanted = edits.iter().all(|edit| model.apply(edit).is_some());
        prop_assert_eq!(whole.is_ok(), wanted);
    }
}

#[test]
fn what_can_be_deleted_unread() {
    let state = |refs, is_sealed: bool| FileState {
        sealed: is_sealed.then(|| sealed(1, 10)),
        refs,
        ref_bytes: refs * 100,
    };
    assert!(state(0, true).is_dead(15));
    assert!(!state(0, true).is_dead(14), "a later seq is not flushed yet (R9)");
    assert!(!state(1, true).is_dead(15), "an entry names it (R8)");
    assert!(state(1, true).is_settled(15));
    assert!(!state(0, false).is_dead(15), "it grows");
}

#[test]
fn a_removed_file_goes_away_with_its_last_reader() {
    let (_io, context) = world();
    let edits: Vec<_> = [1, 2]
        .into_iter()
        .flat_map(|id| [ValuesEdit::Added { id: FileId(id) }, ValuesEdit::Sealed(sealed(id, 3))])
        .collect();
    let table = applied(&context, &ValueFiles::default(), &edits).unwrap();
    let view = table.clone();
    let removed = [ValuesEdit::Removed { id: FileId(1) }];
    let next = applied(&context, &table, &removed).unwrap();
    drop(table);
    assert!(context.obsolete.is_empty(), "a view reads it still");
    drop(view);
    assert_eq!(context.obsolete.take(), [(FileKind::Value, FileId(1))]);
    drop(next);
    assert!(context.obsolete.is_empty(), "a live file is never queued");
}

#[test]
fn a_file_that_no_edit_named_goes_away() {
    let (_io, context) = world();
    let file = ValueFile::new(&context, FileKind::Value, FileId(7));
    let mut hand_out = |_, _| Arc::clone(&file);
    let added = [ValuesEdit::Added { id: FileId(7) }];
    let table = ValueFiles::default().apply(&added, &mut hand_out).unwrap();
    assert!(Arc::ptr_eq(&table.get(FileId(7)).unwrap().file, &file));
    drop((table, file));
    // The edit never became durable.
    assert_eq!(context.obsolete.take(), [(FileKind::Value, FileId(7))]);
}

#[test]
fn a_refused_edit_leaves_the_table_as_it_was() {
    let (_io, context) = world();
    let added = [ValuesEdit::Added { id: FileId(1) }];
    let table = applied(&context, &ValueFiles::default(), &added).unwrap();
    let edits = [
        ValuesEdit::Counted { id: FileId(1), refs: 3, ref_bytes: 300 },
        ValuesEdit::Counted { id: FileId(1), refs: -4, ref_bytes: -300 },
    ];
    let error = applied(&context, &table, &edits).map(|_| ()).unwrap_err();
    assert!(error.message().contains("000001"), "{error}");
    assert_eq!(table.get(FileId(1)).unwrap().state, FileState::default());
}

#[test]
fn entries_of_a_gone_file_come_to_nothing_but_none_comes_in() {
    let (_io, context) = world();
    let added = [
        ValuesEdit::Added { id: FileId(1) },
        ValuesEdit::Sealed(sealed(1, 9)),
        ValuesEdit::Counted { id: FileId(1), refs: 2, ref_bytes: 200 },
        ValuesEdit::Removed { id: FileId(1) },
    ];
    let table = applied(&context, &ValueFiles::default(), &added).unwrap();
    let counted = |refs, ref_bytes| {
        applied(&context, &table, &[ValuesEdit::Counted { id: FileId(1), refs, ref_bytes }])
    };
    // One dies, one is written anew with a handle of more bytes, and both.
    for (refs, ref_bytes) in [(-1, -100), (0, 2), (-1, 2)] {
        assert!(counted(refs, ref_bytes).unwrap().is_empty());
    }
    let error = counted(1, 100).map(|_| ()).unwrap_err();
    assert!(error.message().contains("gone"), "{error}");
}

#[test]
fn decisions_see_what_the_table_knows() {
    use crate::values::strategy::space::{FileFigures, live_record_bytes};
    let (_io, context) = world();
    let edits = [
        ValuesEdit::Added { id: FileId(1) },
        ValuesEdit::Added { id: FileId(2) },
        ValuesEdit::Sealed(sealed(1, 10)),
        ValuesEdit::Counted { id: FileId(1), refs: 4, ref_bytes: 400 },
    ];
    let table = applied(&context, &ValueFiles::default(), &edits).unwrap();
    table.get(FileId(2)).unwrap().file.raise_readable(5000);
    let figures =
        |id, flushed| FileFigures::of(table.get(FileId(id)).unwrap(), flushed, None, false);
    let wanted = FileFigures {
        id: FileId(1),
        file_bytes: 80 + 1410,
        live_bytes: 400 + 4 * 16 + 320,
        is_dead: false,
        is_settled: true,
        is_taken: false,
        is_punched: false,
        rewrites: 0,
        newest_seq: 10,
    };
    assert_eq!(figures(1, 15), wanted);
    assert_eq!(figures(1, 14), FileFigures { is_settled: false, ..wanted });
    let estimated = FileFigures::of(table.get(FileId(1)).unwrap(), 15, Some(0.1), false);
    assert_eq!(estimated.live_bytes, 116 + 320, "a tenth of 1000 bytes and 10 lines");
    let growing = figures(2, 15);
    assert_eq!((growing.file_bytes, growing.is_settled), (5000, false));

    let entry = |id| table.get(FileId(id)).unwrap();
    let live = |id, flushed, share| live_record_bytes(entry(id), flushed, share);
    assert_eq!(live(1, 15, None), 400, "what the index names");
    assert_eq!(live(1, 15, Some(0.1)), 100, "less what was overwritten since");
    assert_eq!(live(1, 15, Some(0.9)), 400);
    assert_eq!(live(1, 14, Some(0.1)), 1000, "memtables name some of it");
    assert_eq!(live(2, 15, None), 5000);
}

fn large(id: u64, seq: Seq) -> LargeInfo {
    let sealed = Sealed { id: FileId(id), bytes: 1100, checksum: 7 };
    LargeInfo { sealed, value_bytes: 1000, seq }
}

#[test]
fn a_large_value_comes_in_with_its_record_and_goes_with_its_entry() {
    let (_io, context) = world();
    let file = ValueFile::new(&context, FileKind::Large, FileId(4));
    let unnamed = ValueFiles::default().with_large(&file).unwrap();
    assert!(unnamed.with_large(&file).is_err());
    assert!(unnamed.is_empty() && unnamed.edits().is_empty(), "nothing names it yet");
    let removed = [ValuesEdit::Removed { id: FileId(4) }];
    assert!(applied(&context, &unnamed, &removed).is_err());
    let counted = |refs: i64, ref_bytes| ValuesEdit::Counted { id: FileId(4), refs, ref_bytes };
    assert!(applied(&context, &unnamed, &[counted(1, 1000)]).is_err());
    let named = [ValuesEdit::AddedLarge(large(4, 9)), counted(1, 1000)];
    let table = applied(&context, &unnamed, &named).unwrap();
    let entry = table.get_large(FileId(4)).unwrap();
    assert!(Arc::ptr_eq(&entry.file, &file) && entry.refs == 1);
    assert_eq!(table.edits(), named);
    assert_eq!(ValuesEdit::decode(&table.snapshot().payload).unwrap(), named);
    assert!(table.without_large(FileId(4)).get_large(FileId(4)).is_some(), "it is named");
    assert!(unnamed.without_large(FileId(4)).get_large(FileId(4)).is_none());
    for wrong in [counted(1, 1000), counted(-1, -999), counted(-2, -2000)] {
        assert!(applied(&context, &table, std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
    }
    assert!(applied(&context, &table, &[ValuesEdit::AddedLarge(large(4, 9))]).is_err());
    let unused = applied(&context, &table, &[counted(-1, -1000)]).unwrap();
    let entry = unused.get_large(FileId(4)).unwrap();
    assert!(entry.is_dead(9) && !entry.is_dead(8));
    let gone = applied(&context, &unused, &removed).unwrap();
    gone.settle(&unused);
    drop((unused, table, unnamed, file));
    assert_eq!(context.obsolete.take(), [(FileKind::Large, FileId(4))]);
}

#[test]
fn whoever_reads_a_file_reads_it_as_it_was() {
    let (_io, context) = world();
    let full = [ValuesEdit::Added { id: FileId(1) }, ValuesEdit::Sealed(sealed(1, 6))];
    let first = applied(&context, &ValueFiles::default(), &full).unwrap();
    let second = applied(&context, &first, &[holes(1, 0)]).unwrap();
    let third = applied(&context, &second, &[holes(1, 3)]).unwrap();
    let file_of = |table: &ValueFiles| table.get(FileId(1)).unwrap().file.clone();
    let files = [file_of(&first), file_of(&second), file_of(&third)];
    assert!(!Arc::ptr_eq(&files[0], &files[1]) && !Arc::ptr_eq(&files[1], &files[2]));
    assert_eq!(files[2].readable(), files[0].readable());
    let at = |offset| Handle { file: FileId(1), epoch: 0, offset, bytes: 20 };
    assert!(first.has(&at(100)) && !second.has(&at(100)) && second.has(&at(300)));
    assert!(!third.has(&at(300)) && third.has(&at(700)));
    let (left, again) = (third.get(FileId(1)).unwrap().records_left(), third.edits());
    assert_eq!(left, Some((3, sealed(1, 6).totals.record_bytes - 300)));
    let reopened = applied(&context, &ValueFiles::default(), &again).unwrap();
    assert_eq!(reopened.edits(), again);
    drop(reopened);
    assert!(context.obsolete.is_empty(), "a file that is read, or in force, stays whole");

    // A view in the middle ends first, then the oldest one: only then may anything go.
    let [oldest, middle, newest] = files;
    drop((second, middle));
    assert!(context.obsolete.is_empty());
    let held = newest.freed_by(&[Run { start: 0, end: 8192 }]);
    assert_eq!((held, newest.given_back_bytes()), (8192, 0));
    drop(first);
    assert!(context.obsolete.is_empty(), "somebody reads the oldest");
    drop(oldest);
    let ends: Vec<u64> = context.obsolete.take_runs().iter().map(|(_, r)| r[0].end).collect();
    assert_eq!(ends, [80 + 141, 80 + 4 * 141]);
    assert!(context.obsolete.take().is_empty());

    let gone = applied(&context, &third, &[ValuesEdit::Removed { id: FileId(1) }]).unwrap();
    drop((third, newest));
    assert_eq!(context.obsolete.take(), [(FileKind::Value, FileId(1))]);
    drop(gone);
}

#[test]
fn an_edit_that_comes_to_nothing_removes_no_file() {
    let (_io, context) = world();
    let full = [ValuesEdit::Added { id: FileId(1) }, ValuesEdit::Sealed(sealed(1, 6))];
    let table = applied(&context, &ValueFiles::default(), &full).unwrap();
    let next = table.apply(&[holes(1, 3)], &mut |_, _| panic!("it is there")).unwrap();
    drop(next);
    assert!(context.obsolete.is_empty(), "it was not durable");
    assert!(table.get(FileId(1)).unwrap().punched.is_none());
}
