//! Page files: grown, emptied, removed; and never overwritten.

use std::collections::BTreeMap;

use super::*;
use crate::base::obsolete::ObsoleteFiles;

/// Removes what is queued, as housekeeping does.
fn sweep(context: &PageContext, queue: &ObsoleteFiles, disk: &MemoryDisk) -> usize {
    let gone = queue.take();
    for (kind, id) in &gone {
        assert_eq!(*kind, FileKind::FlexPages);
        context.io.disk.remove_file(&path(id.0)).unwrap();
    }
    assert!(disk.files().len() < 100);
    gone.len()
}

#[test]
fn garbage_is_bounded_and_nothing_is_overwritten() {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut store = PageStore::new(&context);
    let mut random = Seeded::new(11);
    let mut tree = scattered(TINY, 300);
    let (mut before, mut removed): (BTreeMap<PathBuf, Vec<u8>>, _) = (BTreeMap::new(), 0);
    for round in 0..400 {
        (0..5).for_each(|_| change(&mut tree, &mut random));
        let draft = store.checkpoint(&tree, b"").unwrap();
        let written = draft.written_bytes();
        store.publish(draft).unwrap();
        removed += sweep(&context, &context.obsolete, &disk);
        let (live, bytes) = (store.files().live_bytes(), store.files().bytes());
        let bound = 2 * live + SHORT.full_bytes(live) + 2 * written;
        assert!(bytes <= bound, "round {round}: {bytes} bytes of files, {live} live");
        let names: Vec<_> = disk.files().into_iter().collect();
        assert_eq!(names.iter().map(|(_, length)| length).sum::<u64>(), bytes, "none but these");
        for (path, _) in names {
            let now = disk.contents(&path);
            let old = before.insert(path, now.clone()).unwrap_or_default();
            assert!(now.starts_with(&old), "bytes that were written have changed");
        }
        if round % 50 == 49 {
            store = reopened(&context, store.root().unwrap());
            assert_eq!(all(store.tree().unwrap()), all(&tree));
        }
    }
    assert!(removed > 20, "only {removed} files were emptied");
    // A store that shrinks gives its files back.
    tree.collapse(0..tree.length()).unwrap();
    (0..10).for_each(|_| assert!(save(&mut store, &tree) < 3));
    sweep(&context, &context.obsolete, &disk);
    assert!(store.files().bytes() < 3000, "{} bytes for nothing", store.files().bytes());
}

#[test]
fn a_file_stays_while_it_is_pinned() {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut store = PageStore::new(&context);
    let mut tree = scattered(TINY, 100);
    save(&mut store, &tree);
    let (root, pins, before) = (store.root().unwrap(), store.pins(), all(&tree));
    let pinned: Vec<FileId> = pins.iter().map(|pin| pin.id()).collect();
    for number in 0..100 {
        tree.overwrite(10 * number, apart(1000 + number)).unwrap();
        save(&mut store, &tree);
        for (_, id) in context.obsolete.take() {
            assert!(!pinned.contains(&id), "{id} is pinned");
            context.io.disk.remove_file(&path(id.0)).unwrap();
        }
    }
    assert!(pinned.iter().all(|id| !store.files().has(*id)), "all of it was written again");
    assert_eq!(all(reopened(&context, root).tree().unwrap()), before);
    drop(pins);
    let mut gone: Vec<FileId> = context.obsolete.take().into_iter().map(|(_, id)| id).collect();
    gone.sort_unstable();
    assert_eq!(gone, pinned);
}

#[test]
fn what_a_checkpoint_no_longer_needs_is_told() {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut store = PageStore::new(&context);
    let mut known: Vec<FileId> = Vec::new();
    let mut random = Seeded::new(2);
    let mut tree = scattered(TINY, 100);
    for _ in 0..100 {
        (0..9).for_each(|_| change(&mut tree, &mut random));
        let draft = store.checkpoint(&tree, b"").unwrap();
        let wanted: Vec<FileId> = draft.files().iter().map(|(id, _)| id).collect();
        let gone = store.publish(draft).unwrap();
        assert!(gone.iter().all(|id| known.contains(id) && !wanted.contains(id)));
        known = wanted;
    }
}

#[test]
fn victims_are_half_dead_or_short() {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut files = PageFiles::default();
    let page = |file, bytes| PageAddress { file: FileId(file), offset: 64, bytes, checksum: 0 };
    for (id, bytes, live) in [(1, 6000, 2999), (2, 6000, 3000), (3, 700, 700), (4, 6000, 0)] {
        files.grown(&PageFile::new(&context, FileId(id)), bytes);
        files.born(&page(id, live));
    }
    // 6,699 live bytes: a file is full at 6,000, and short below 750.
    let victims = |growing| files.victims(growing, &SHORT).into_iter().map(|id| id.0);
    assert_eq!(victims(None).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!(victims(Some(FileId(3))).collect::<Vec<_>>(), [1, 4]);
    assert_eq!([0, 1500, 9000].map(|live| SHORT.full_bytes(live)), [2000, 3000, 6000]);
    files.forget_empty(FileId(1));
    assert!(files.has(FileId(1)) && !files.has(FileId(4)));
}
