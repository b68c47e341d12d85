//! Flips, cuts and missing files: an error that names file and offset, or the right tree.

use std::collections::HashSet;

use super::*;

/// A store of two files with some garbage.
fn some_store() -> (MemoryDisk, PageAddress, Vec<Placed>) {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut tree = scattered(TINY, 40);
    let mut store = PageStore::new(&context);
    save(&mut store, &tree);
    tree.set_tag(33, tag(5)).unwrap();
    save(&mut store, &tree);
    while store.files().iter().count() < 2 {
        tree.overwrite(100, apart(900 + store.checkpoint_number())).unwrap();
        save(&mut store, &tree);
    }
    (disk, store.root().unwrap(), all(&tree))
}

fn open(disk: &MemoryDisk, root: PageAddress) -> Result<PageStore> {
    PageStore::open(&context_over(io(disk), SHORT, 1 << 40), root, Purpose::Recovery)
}

#[test]
fn any_flip_is_found_or_lies_in_garbage() {
    let (disk, root, expected) = some_store();
    let live = open(&disk, root).unwrap().files().live_bytes();
    let (mut found, mut unharmed, mut headers) = (0, 0, 0);
    for (path, _) in disk.files() {
        let bytes = disk.contents(&path);
        headers += format::HEADER_BYTES;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.replace(&path, damaged).unwrap();
            let problems = verified(&disk, root).problems;
            match open(&disk, root) {
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
                        "{error}"
                    );
                    assert_eq!(error.file(), Some(path.as_path()), "byte {at}: {error}");
                    assert!(error.offset().is_some(), "byte {at}: {error}");
                    let first = problems.first().map(|problem| (problem.file(), problem.offset()));
                    assert_eq!(first, Some((error.file(), error.offset())), "byte {at}");
                    found += 1;
                }
                Ok(store) => {
                    assert_eq!(all(store.tree().unwrap()), expected, "byte {at}");
                    assert!(problems.is_empty(), "byte {at}: {problems:?}");
                    unharmed += 1;
                }
            }
        }
        disk.replace(&path, bytes).unwrap();
    }
    assert_eq!(found, live + headers, "every live byte is proved");
    assert!(unharmed > 0, "there was no garbage");
}

#[test]
fn a_file_that_is_cut_or_missing_is_corruption() {
    let (disk, root, _) = some_store();
    for (path, length) in disk.files() {
        let bytes = disk.contents(&path);
        for end in (0..length as usize).step_by(7) {
            disk.replace(&path, &bytes[..end]).unwrap();
            let error = open(&disk, root).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{end} bytes: {error}");
            assert_eq!(error.file(), Some(path.as_path()), "{end} bytes: {error}");
        }
        disk.remove(&path).unwrap();
        let error = open(&disk, root).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        disk.replace(&path, bytes).unwrap();
    }
    open(&disk, root).unwrap();
}

#[test]
fn another_root_is_not_taken_for_this_one() {
    let (disk, root, _) = some_store();
    for wrong in [
        PageAddress { checksum: root.checksum ^ 1, ..root },
        PageAddress { offset: root.offset + 1, ..root },
        PageAddress { bytes: root.bytes - 1, ..root },
        PageAddress { file: FileId(77), ..root },
    ] {
        let error = open(&disk, wrong).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{wrong:?}: {error}");
    }
    // Of another keyspace, or another database.
    for owner in [Owner { keyspace: KeyspaceId(4), ..OWNER }, Owner { uuid: [9; 16], ..OWNER }] {
        let ours = context(&disk, SHORT);
        let theirs = PageContext {
            owner,
            io: ours.io.clone(),
            dir: ours.dir.clone(),
            obsolete: Arc::clone(&ours.obsolete),
            ids: Arc::clone(&ours.ids),
            limits: SHORT,
        };
        assert!(PageStore::open(&Arc::new(theirs), root, Purpose::Recovery).is_err());
    }
}

/// What is wrong with one page or file does not hide what is wrong with the others.
#[test]
fn verify_goes_on_behind_what_is_damaged() {
    let (disk, root, _) = some_store();
    let whole = verified(&disk, root);
    assert!(whole.problems.is_empty(), "{:?}", whole.problems);
    let opened = open(&disk, root).unwrap();
    let live = opened.files().live_bytes();
    let files = opened.files().iter().count() as u64;
    assert_eq!((whole.files, whole.bytes), (files, live + files * format::HEADER_BYTES));
    // The leaves of the first and of the last extents: on either side of the tree.
    let leaves: Vec<PageAddress> = opened
        .published
        .as_ref()
        .unwrap()
        .nodes
        .values()
        .filter(|node| node.children.is_empty())
        .map(|node| node.page)
        .collect();
    assert!(leaves.len() > 5, "{}", leaves.len());
    for leaf in &leaves {
        let path = path(leaf.file.0);
        let mut bytes = disk.contents(&path);
        bytes[leaf.offset as usize + 45] ^= 1;
        disk.replace(&path, bytes).unwrap();
    }
    let problems = verified(&disk, root).problems;
    let place = |problem: &Error| (problem.file().unwrap().to_owned(), problem.offset().unwrap());
    let found: HashSet<_> = problems.iter().map(place).collect();
    let wanted = leaves.iter().map(|leaf| (path(leaf.file.0), leaf.offset)).collect();
    assert_eq!((found, problems.len()), (wanted, leaves.len()));
    // A file that is gone is one finding, and those in the other are told of still.
    let other = opened.files().iter().map(|(id, _)| id).find(|id| *id != root.file).unwrap();
    disk.remove(path(other.0)).unwrap();
    let problems = verified(&disk, root).problems;
    let gone: Vec<_> = problems.iter().filter(|it| it.file() == Some(&path(other.0))).collect();
    assert_eq!(gone.len(), 1, "{problems:?}");
    assert!(problems.iter().all(|it| it.kind() == ErrorKind::Corruption));
}

#[test]
fn verify_finds_what_has_rotted_since() {
    let (disk, root, _) = some_store();
    let store = open(&disk, root).unwrap();
    store.verify().unwrap();
    let path = path(root.file.0);
    let mut bytes = disk.contents(&path);
    bytes[root.offset as usize + 50] ^= 4;
    disk.replace(&path, bytes).unwrap();
    let error = store.verify().unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(root.offset)));
}
