//! Checkpoints of trees: what is written, what comes back, what a crash, a fault or a flip does.

use std::path::{Path, PathBuf};

use super::*;
use crate::base::entry::KeyspaceId;
use crate::base::error::ErrorKind;
use crate::base::names::{FileKind, file_name};
use crate::index::flex::tree::TreeWidths;
use crate::index::flex::tree::extent::{Extent, Placed, Tag};
use crate::index::testing::world::Findings;
use crate::io::memory_disk::MemoryDisk;
use crate::io::seeded::Seeded;
use crate::io::{Io, Purpose};
use crate::log::testing::{DIR, UUID, disk, io};

mod damage;
mod faults;
mod hostile;
mod random;
mod space;

/// Nodes so small that a few dozen extents make a tree of four levels.
const TINY: TreeWidths = TreeWidths { leaf_extents_max: 4, children_max: 4, window_bytes: 64 };

/// Files so short that some checkpoints fill one.
const SHORT: FileLimits = FileLimits { bytes_min: 2000, bytes_max: 6000 };

const OWNER: Owner = Owner { uuid: UUID, keyspace: KeyspaceId(3) };

fn context_over(io: Io, limits: FileLimits, next: u64) -> Arc<PageContext> {
    Arc::new(PageContext {
        io,
        dir: PathBuf::from(DIR),
        owner: OWNER,
        obsolete: Arc::new(ObsoleteFiles::default()),
        ids: Arc::new(FileIds::new(FileId(next))),
        limits,
    })
}

fn context(disk: &MemoryDisk, limits: FileLimits) -> Arc<PageContext> {
    context_over(io(disk), limits, 20)
}

fn path(id: u64) -> PathBuf {
    Path::new(DIR).join(file_name(FileKind::FlexPages, FileId(id)))
}

/// What a walk over a checkpoint finds.
fn verified(disk: &MemoryDisk, root: PageAddress) -> Findings {
    let mut findings = Findings::default();
    verify(&context_over(io(disk), SHORT, 1 << 40), root, &mut findings);
    findings
}

fn tag(number: u16) -> Option<Tag> {
    Some(Tag::new(number).unwrap())
}

/// The n-th of extents that do not continue each other, 10 bytes in the middle of a window.
fn apart(number: u64) -> Extent {
    Extent::new(1024 * number + 10, 10)
}

/// A tree of so many of them.
fn scattered(widths: TreeWidths, count: u64) -> Tree {
    let mut tree = Tree::new(widths).unwrap();
    (0..count).for_each(|number| tree.append(apart(number)).unwrap());
    tree
}

fn all(tree: &Tree) -> Vec<Placed> {
    tree.walk(0..tree.length()).unwrap().collect()
}

/// Writes and publishes a checkpoint; returns the pages of nodes that were written.
fn save(store: &mut PageStore, tree: &Tree) -> usize {
    let draft = store.checkpoint(tree, b"beside").unwrap();
    let pages = draft.pages();
    store.publish(draft).unwrap();
    pages
}

fn reopened(context: &Arc<PageContext>, root: PageAddress) -> PageStore {
    PageStore::open(context, root, Purpose::Recovery).unwrap()
}

/// A change of the kind that a space makes, most of them small.
fn change(tree: &mut Tree, random: &mut Seeded) {
    let length = tree.length();
    let at = random.below(length + 1);
    let extent = Extent::new(random.below(1 << 30), 1 + random.below(100) as u32);
    let extent = extent.with_tag(Tag::new(random.below(5) as u16));
    let end = (at + random.below(80)).min(length);
    match random.below(10) {
        0..5 => tree.insert(at, extent).unwrap(),
        5 => tree.append(extent).unwrap(),
        6 => tree.collapse(at..end).unwrap(),
        7 => tree.update(at..end, &[extent, apart(random.below(1000))]).unwrap(),
        8 if at < length => tree.set_tag(at, Tag::new(random.below(3) as u16)).unwrap(),
        8 => {}
        _ if length > 4000 => tree.collapse(at..(at + random.below(3000)).min(length)).unwrap(),
        _ => tree.insert(at, extent).unwrap(),
    }
}

#[test]
fn a_tree_comes_back_as_it_was() {
    for (widths, count) in [(TINY, 0), (TINY, 1), (TINY, 200), (TreeWidths::USUAL, 30_000)] {
        let disk = disk();
        let context = context(&disk, FileLimits::USUAL);
        let mut tree = scattered(widths, count);
        if count > 0 {
            tree.set_tag(3, tag(700)).unwrap();
        }
        let mut store = PageStore::new(&context);
        assert_eq!((store.root(), store.checkpoint_number()), (None, 0));
        let written = save(&mut store, &tree);
        let shape = tree.check().unwrap();
        assert_eq!(written as u64, shape.leaves + shape.inner_nodes);
        let again = reopened(&context, store.root().unwrap());
        let read = again.tree().unwrap();
        assert_eq!((all(read), read.check().unwrap()), (all(&tree), shape));
        assert_eq!((read.widths(), again.checkpoint_number()), (widths, 1));
        assert_eq!(again.attached(), b"beside");
        assert_eq!(again.files().live_bytes(), store.files().live_bytes());
        assert_eq!(again.files().bytes(), store.files().bytes());
        again.verify().unwrap();
    }
}

#[test]
fn only_what_changed_is_written() {
    let disk = disk();
    let context = context(&disk, FileLimits::USUAL);
    let mut tree = scattered(TreeWidths::USUAL, 40_000);
    let mut store = PageStore::new(&context);
    save(&mut store, &tree);
    let height = tree.check().unwrap().height;
    assert_eq!(save(&mut store, &tree), 0, "nothing changed: a root alone");
    for number in 0..20 {
        tree.overwrite(123_450 + number % 3, Extent::new(1 << 40, 3)).unwrap();
    }
    let draft = store.checkpoint(&tree, b"").unwrap();
    assert_eq!(draft.pages(), height, "one path, however often it was changed");
    assert!(draft.written_bytes() < 10_000, "{} bytes", draft.written_bytes());
    store.publish(draft).unwrap();
    // A store that was read again knows as well what has a page.
    let mut again = reopened(&context, store.root().unwrap());
    let mut tree = again.tree().unwrap().clone();
    tree.set_tag(77_770, tag(9)).unwrap();
    assert_eq!(save(&mut again, &tree), height);
    assert_eq!(all(reopened(&context, again.root().unwrap()).tree().unwrap()), all(&tree));
}

/// Traces of all nodes of a tree.
fn traces(part: &Part) -> Vec<Trace> {
    let below: Vec<Part> = part.children().collect();
    below.iter().flat_map(traces).chain([part.trace()]).collect()
}

/// As it is in memory anyway: with what changed since, it would be there twice.
#[test]
fn the_tree_of_a_checkpoint_is_not_held_beside_the_one_that_goes_on() {
    let disk = disk();
    let context = context(&disk, FileLimits::USUAL);
    let mut tree = scattered(TINY, 500);
    let mut store = PageStore::new(&context);
    for round in 0..2 {
        save(&mut store, &tree);
        let nodes = traces(&tree.root());
        assert!(nodes.len() > 150 && nodes.iter().all(Trace::is_held));
        (0..500).for_each(|number| tree.set_tag(10 * number, tag(round + 1)).unwrap());
        assert!(!nodes.iter().any(Trace::is_held), "nodes that nothing needs are held");
        // What became of them is in none of their places, so all of it is written.
        assert_eq!(save(&mut store, &tree), nodes.len());
        let root = store.root().unwrap();
        assert_eq!(all(reopened(&context, root).tree().unwrap()), all(&tree));
        // What a store has read is for who takes it.
        store = reopened(&context, root);
        tree = store.take_tree().unwrap();
    }
}

#[test]
fn a_view_is_saved_while_the_writer_goes_on() {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut tree = scattered(TINY, 100);
    let mut store = PageStore::new(&context);
    let mut random = Seeded::new(5);
    for _ in 0..50 {
        let view = tree.clone();
        let draft = store.checkpoint(&view, b"").unwrap();
        (0..20).for_each(|_| change(&mut tree, &mut random));
        store.publish(draft).unwrap();
        let read = reopened(&context, store.root().unwrap());
        assert_eq!(all(read.tree().unwrap()), all(&view));
    }
}

/// The prototype re-homed a changed node and left its clean parent with the old place of it: a
/// change below it was lost at the next open, and later a stranger's node stood there.
#[test]
fn a_change_below_a_clean_parent_survives_reopening() {
    let disk = disk();
    let context = context(&disk, FileLimits::USUAL);
    let mut tree = scattered(TINY, 5000);
    let mut store = PageStore::new(&context);
    save(&mut store, &tree);
    (5000..5003).for_each(|number| tree.append(apart(number)).unwrap());
    save(&mut store, &tree);
    let mut random = Seeded::new(1);
    for round in 1..50 {
        tree.set_tag(10 * random.below(5000), tag(round)).unwrap();
        save(&mut store, &tree);
        if round % 5 == 0 {
            store = reopened(&context, store.root().unwrap());
            assert_eq!(all(store.tree().unwrap()), all(&tree), "round {round}");
        }
    }
}

#[test]
fn a_draft_that_is_given_up_leaves_nothing_but_garbage() {
    let disk = disk();
    let context = context(&disk, SHORT);
    let mut tree = scattered(TINY, 50);
    let mut store = PageStore::new(&context);
    drop(store.checkpoint(&tree, b"").unwrap());
    assert_eq!((store.root(), store.files().bytes()), (None, 0));
    save(&mut store, &tree);
    let (root, before) = (store.root().unwrap(), all(&tree));
    for number in 0..30 {
        tree.overwrite(10 * number, apart(1000 + number)).unwrap();
        drop(store.checkpoint(&tree, b"").unwrap());
        assert_eq!(store.root(), Some(root));
        let read = reopened(&context, root);
        assert_eq!(all(read.tree().unwrap()), before);
    }
    save(&mut store, &tree);
    assert_eq!(all(reopened(&context, store.root().unwrap()).tree().unwrap()), all(&tree));
    // Two drafts from the same checkpoint: only one of them can follow it.
    let (first, second) =
        (store.checkpoint(&tree, b"").unwrap(), store.checkpoint(&tree, b"").unwrap());
    store.publish(second).unwrap();
    assert_eq!(store.publish(first).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn opening_reads_neighbours_in_one_piece() {
    let disk = disk();
    let context = context(&disk, FileLimits::USUAL);
    let tree = scattered(TreeWidths::USUAL, 200_000);
    let mut store = PageStore::new(&context);
    save(&mut store, &tree);
    let (live, root) = (store.files().live_bytes(), store.root().unwrap());
    let meter = Arc::clone(&context.io.meter);
    let before = (meter.bytes_read(Purpose::Recovery), meter.read_calls(Purpose::Recovery));
    reopened(&context, root);
    let bytes = meter.bytes_read(Purpose::Recovery) - before.0;
    let calls = meter.read_calls(Purpose::Recovery) - before.1;
    // Header twice, the root, three levels; runs of a megabyte.
    assert!(bytes < live + live / 8 + 1000, "{bytes} bytes read of {live}");
    assert!(calls < 12 + live / (1 << 20), "{calls} reads for {live} bytes");
    println!("{} extents: {live} bytes of pages, {calls} reads to open", tree.extents());
}
