//! Roots and nodes that no store writes, with right checksums: refused, whatever they lead to.

use super::*;
use crate::index::flex::pages::format::{
    FileLine, HEADER_BYTES, RootPage, Stamp, encode_header, seal,
};
use crate::index::flex::tree::parts::Part;

const FILE: FileId = FileId(20);

/// Puts pages together that hold, whatever they say.
struct Forger {
    bytes: Vec<u8>,
    live_bytes: u64,
    stamp: Stamp,
}

impl Forger {
    fn new() -> Self {
        let stamp = Stamp { keyspace: OWNER.keyspace, checkpoint: 7 };
        Self { bytes: encode_header(&OWNER, FILE), live_bytes: 0, stamp }
    }

    fn page(&mut self, mut page: Vec<u8>) -> PageAddress {
        let (offset, bytes) = (self.bytes.len() as u64, page.len() as u32);
        let checksum = seal(&mut page, OWNER.seed(FILE), offset);
        self.bytes.extend_from_slice(&page);
        self.live_bytes += u64::from(bytes);
        PageAddress { file: FILE, offset, bytes, checksum }
    }

    fn leaf(&mut self, extents: &[Extent]) -> (u64, PageAddress) {
        let mut tree = Tree::new(TreeWidths::USUAL).unwrap();
        extents.iter().for_each(|extent| tree.append(*extent).unwrap());
        let leaf = tree.root();
        let (packed, count) = leaf.packed().unwrap();
        let page = self.stamp.leaf(packed, count, leaf.length());
        (leaf.length(), self.page(page))
    }

    fn inner(&mut self, children: &[(u64, PageAddress)]) -> (u64, PageAddress) {
        let page = self.stamp.inner(children);
        (children.iter().map(|(length, _)| length).sum(), self.page(page))
    }

    fn root_of(&self, (length, top): (u64, PageAddress), extents: u64, height: u64) -> RootPage {
        let line = FileLine { id: FILE, end: self.bytes.len() as u64, live_bytes: self.live_bytes };
        let (files, attached) = (vec![line], Vec::new());
        RootPage { widths: TINY, length, extents, height, top, files, attached }
    }

    fn store(mut self, root: &RootPage) -> (MemoryDisk, PageAddress) {
        let page = self.stamp.root(root);
        let address = self.page(page);
        let disk = disk();
        disk.replace(path(FILE.0), self.bytes).unwrap();
        (disk, address)
    }

    fn open(self, root: &RootPage) -> Result<PageStore> {
        let (disk, address) = self.store(root);
        PageStore::open(&context(&disk, SHORT), address, Purpose::Recovery)
    }
}

fn two(from: u64) -> [Extent; 2] {
    [apart(from), apart(from + 1)]
}

/// A sound tree of two levels, to be spoilt.
fn sound() -> (Forger, RootPage) {
    let mut forger = Forger::new();
    let children = [forger.leaf(&two(0)), forger.leaf(&two(2))];
    let top = forger.inner(&children);
    let root = forger.root_of(top, 4, 2);
    (forger, root)
}

fn refused(forger: Forger, root: &RootPage, what: &str) {
    let (disk, address) = forger.store(root);
    let opened = PageStore::open(&context(&disk, SHORT), address, Purpose::Recovery);
    let error = opened.err().unwrap_or_else(|| panic!("{what} is taken"));
    let found = verified(&disk, address).problems;
    assert!(!found.is_empty(), "{what} is no finding");
    for error in found.iter().chain([&error]) {
        assert!(
            matches!(error.kind(), ErrorKind::Corruption | ErrorKind::InvalidArgument),
            "{what}: {error}"
        );
        assert!(error.file().is_some() && error.offset().is_some(), "{what}: {error}");
    }
}

#[test]
fn what_no_store_writes_is_refused() {
    let (forger, root) = sound();
    let (disk, address) = forger.store(&root);
    let found = verified(&disk, address);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    assert_eq!((found.files, found.bytes), (1, disk.files()[0].1), "nothing in it is garbage");
    let (forger, root) = sound();
    assert_eq!(forger.open(&root).unwrap().tree().unwrap().extents(), 4);
    let spoilt = |what: &str, change: fn(&mut RootPage)| {
        let (forger, mut root) = sound();
        change(&mut root);
        refused(forger, &root, what);
    };
    spoilt("too low", |root| root.height = 1);
    spoilt("too high", |root| root.height = 3);
    spoilt("no levels", |root| root.height = 0);
    spoilt("far too high", |root| root.height = 1000);
    spoilt("other extents", |root| root.extents = 5);
    spoilt("another length", |root| root.length += 1);
    spoilt("no widths", |root| root.widths.children_max = 3);
    spoilt("huge widths", |root| root.widths.leaf_extents_max = 1 << 30);
    spoilt("other windows", |root| root.widths.window_bytes = 16);
    spoilt("other live bytes", |root| root.files[0].live_bytes -= 1);
    spoilt("no files", |root| root.files.clear());
    spoilt("another end", |root| root.files[0].end -= 1);
    spoilt("an end beyond the file", |root| root.files[0].end += 1 << 40);
    spoilt("a file twice", |root| root.files.push(root.files[0]));
    spoilt("a file that is missing", |root| {
        root.files.push(FileLine { id: FileId(99), end: HEADER_BYTES, live_bytes: 0 });
    });
    spoilt("its own page as a node", |root| root.top.offset = root.files[0].end);
}

#[test]
fn nodes_are_named_once_and_by_who_is_above() {
    // A node named over and over would be a tree of any size.
    let mut forger = Forger::new();
    let mut below = forger.leaf(&two(0));
    for _ in 0..12 {
        below = forger.inner(&[below, below, below, below]);
    }
    let root = forger.root_of(below, 1 << 24, 13);
    refused(forger, &root, "a node that is named twice");
    let mut forger = Forger::new();
    let (left, (_, right)) = (forger.leaf(&two(0)), forger.leaf(&two(2)));
    let top = forger.inner(&[left, (19, right)]);
    let root = forger.root_of(top, 4, 2);
    refused(forger, &root, "a child of another length");
    // From a checkpoint that was not yet.
    let mut forger = Forger::new();
    forger.stamp.checkpoint = 8;
    let children = [forger.leaf(&two(0)), forger.leaf(&two(2))];
    forger.stamp.checkpoint = 7;
    let top = forger.inner(&children);
    let root = forger.root_of(top, 4, 2);
    refused(forger, &root, "a page of the future");
    // Leaves at different depths.
    let mut forger = Forger::new();
    let children = [forger.leaf(&two(0)), forger.leaf(&two(2))];
    let inner = forger.inner(&children);
    let leaf = forger.leaf(&two(4));
    let top = forger.inner(&[inner, leaf]);
    let root = forger.root_of(top, 6, 3);
    refused(forger, &root, "a leaf too high up");
}

#[test]
fn trees_that_break_an_invariant_are_refused() {
    for (what, first, second) in [
        ("too little in a leaf", vec![apart(0)], two(2).to_vec()),
        ("too much in a leaf", (0..5).map(apart).collect(), two(7).to_vec()),
        (
            "extents that are one",
            vec![apart(0), Extent::new(9, 1)],
            vec![Extent::new(10, 1), apart(3)],
        ),
        ("an extent in two windows", vec![apart(0), Extent::new(60, 10)], two(7).to_vec()),
    ] {
        let mut forger = Forger::new();
        let extents = (first.len() + second.len()) as u64;
        let children = [forger.leaf(&first), forger.leaf(&second)];
        let top = forger.inner(&children);
        let root = forger.root_of(top, extents, 2);
        refused(forger, &root, what);
    }
    let mut forger = Forger::new();
    let children: Vec<_> = (0..5).map(|number| forger.leaf(&two(2 * number))).collect();
    let top = forger.inner(&children);
    let root = forger.root_of(top, 10, 2);
    refused(forger, &root, "too many children");
    let mut forger = Forger::new();
    let child = forger.leaf(&two(0));
    let top = forger.inner(&[child]);
    let root = forger.root_of(top, 2, 2);
    refused(forger, &root, "a single child");
}

#[test]
fn leaves_that_nobody_packs_are_refused() {
    let tree = scattered(TreeWidths::USUAL, 3);
    let (packed, count) = tree.root().packed().map(|(packed, n)| (packed.to_vec(), n)).unwrap();
    assert_eq!(Part::leaf(&packed, count).unwrap().length(), 30);
    assert!(Part::leaf(&packed, count + 1).is_err() && Part::leaf(&packed, count - 1).is_err());
    assert!(Part::leaf(&packed, u32::MAX).is_err());
    for end in 0..packed.len() {
        assert!(Part::leaf(&packed[..end], count).is_err(), "{end} bytes");
    }
    // A length in more bytes than it needs, and an extent of no bytes.
    assert!(Part::leaf(&[0b01, 10, 0], 1).is_err());
    assert!(Part::leaf(&[0, 0], 1).is_err());
    assert!(Part::leaf(&[], 0).is_ok());
}
