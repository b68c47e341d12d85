//! A tree read from its root: level by level, neighbouring pages in one read, many reads at once.
//!
//! Nothing is believed that is not proved: pages by their checksums, where they stand and what
//! names them; the tree by looking at all of it. No page is read twice, and no more bytes than the
//! files have, whatever a hostile root says.
//!
//! Verification reads the same pages node by node and holds none of them (`verify`).

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::pages::file::PageFile;
use crate::index::flex::pages::files::PageFiles;
use crate::index::flex::pages::format::{
    HEADER_BYTES, NODE_BYTES_MAX, NodePage, Page, PageAddress, RootPage,
};
use crate::index::flex::pages::{PageContext, PageStore, Published, SavedNode};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::parts::Part;
use crate::io::disk::BatchRead;
use crate::io::{DiskFile, Purpose};

/// Largest number of a checkpoint: far more than can be written.
const CHECKPOINT_MAX: u64 = 1 << 62;

/// Bytes that may lie between two pages which are read in one piece: less than another read costs.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Bytes of one read, one page of more excepted.
const RUN_BYTES_MAX: u64 = 1 << 20;
/// Reads at once.
const RUNS_MAX: usize = 8;

/// A file that is open while a tree is read.
struct Source {
    file: Arc<PageFile>,
    disk_file: Arc<dyn DiskFile>,
    /// Bytes that pages may take: what the file has.
    end: u64,
}

pub(super) struct Loader<'a> {
    context: &'a Arc<PageContext>,
    purpose: Purpose,
    /// Number of the checkpoint.
    number: u64,
    sources: BTreeMap<FileId, Source>,
    /// Files that could not be opened: what is in them is not told of page by page.
    lost: HashSet<FileId>,
    pub(super) files: PageFiles,
    /// Pages that something has named.
    named: HashSet<(FileId, u64)>,
}

/// Pages next to each other, by number in their level.
struct PageRun {
    file: FileId,
    start: u64,
    end: u64,
    members: Vec<usize>,
}

impl PageStore {
    /// The checkpoint of a root that is durably named.
    ///
    /// # Errors
    /// `Corruption` that names file and offset where a page is not what was written.
    pub(crate) fn open(
        context: &Arc<PageContext>,
        root: PageAddress,
        purpose: Purpose,
    ) -> Result<Self> {
        let (files, published, tree) = load(context, root, purpose)?;
        let (published, opened) = (Some(published), Some(tree));
        Ok(Self { context: Arc::clone(context), published, opened, files, open: None })
    }

    /// Reads all of the published checkpoint again and proves it.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn verify(&self) -> Result<()> {
        let Some(root) = self.root() else { return Ok(()) };
        load(&self.context, root, Purpose::Verify).map(drop)
    }
}

fn load(
    context: &Arc<PageContext>,
    root: PageAddress,
    purpose: Purpose,
) -> Result<(PageFiles, Published, Tree)> {
    let (mut loader, file, stated) = Loader::of_root(context, root, purpose)?;
    let mut wrong = Vec::new();
    loader.open_files(&stated, &root, &mut |error| wrong.push(error));
    let opened = wrong.into_iter().next().map_or(Ok(()), Err);
    let loaded = opened.and_then(|()| loader.tree(&stated));
    let (tree, nodes) = loaded.map_err(|e| file.damaged(root.offset, e))?;
    loader.files.born(&root);
    let (number, top) = (loader.number, tree.root().identity());
    let attached = stated.attached.into();
    Ok((loader.files, Published { number, root, top, nodes, attached }, tree))
}

impl<'a> Loader<'a> {
    /// Reads and proves the page of a root, and no other one.
    pub(super) fn of_root(
        context: &'a Arc<PageContext>,
        root: PageAddress,
        purpose: Purpose,
    ) -> Result<(Self, Arc<PageFile>, RootPage)> {
        let file = PageFile::new(context, root.file);
        file.keep();
        let (disk_file, _) = file.open(root.end(), purpose)?;
        let mut bytes = vec![0; root.bytes as usize];
        let read = disk_file.read_exact_at(&mut bytes, root.offset);
        context.io.meter.read(purpose, root.bytes.into());
        read.map_err(|e| file.unread(e, root.offset))?;
        let proved = Page::open(&bytes, &context.owner, &root).and_then(|page| {
            let decoded = RootPage::decode(&page)?;
            if page.header.checkpoint > CHECKPOINT_MAX {
                let message = "a checkpoint after which there is no number left";
                return Err(Error::corruption(message));
            }
            Ok((page.header.checkpoint, decoded))
        });
        let (number, stated) = proved.map_err(|e| file.damaged(root.offset, e))?;
        let loader = Self {
            context,
            purpose,
            number,
            sources: BTreeMap::new(),
            lost: HashSet::new(),
            files: PageFiles::default(),
            named: HashSet::new(),
        };
        Ok((loader, file, stated))
    }
}

impl Loader<'_> {
    /// Opens the files that a root names, and tells of each that is not what it should be.
    pub(super) fn open_files(
        &mut self,
        stated: &RootPage,
        root: &PageAddress,
        problem: &mut dyn FnMut(Error),
    ) {
        for line in &stated.files {
            let file = PageFile::new(self.context, line.id);
            file.keep();
            match file.open(line.end, self.purpose) {
                Ok((disk_file, bytes)) => {
                    // What lies behind the end that the root knows, a torn write or a draft that
                    // was given up, takes room, too.
                    self.files.grown(&file, bytes);
                    self.sources.insert(line.id, Source { file, disk_file, end: line.end });
                }
                Err(error) => {
                    self.lost.insert(line.id);
                    problem(error);
                }
            }
        }
        let own = stated.files.iter().find(|line| line.id == root.file);
        if own.is_none_or(|line| line.end != root.offset) {
            problem(Error::corruption("a root does not know its own file"));
        }
    }

    /// What is wrong with what the root says of its files, all of whose pages have been met.
    pub(super) fn check_files(&self, stated: &RootPage) -> Result<()> {
        let counted = self.files.iter().map(|(id, state)| (id, state.live_bytes));
        if !stated.files.iter().map(|line| (line.id, line.live_bytes)).eq(counted) {
            return Err(Error::corruption("a root leads to another tree than it states"));
        }
        Ok(())
    }

    /// Reads the nodes, and proves that they are the tree that the root says.
    fn tree(&mut self, stated: &RootPage) -> Result<(Tree, HashMap<usize, SavedNode>)> {
        let mut levels: Vec<Vec<NodePage>> = Vec::new();
        let mut addresses: Vec<Vec<PageAddress>> = vec![vec![stated.top]];
        let mut lengths = vec![stated.length];
        for number in 1..=stated.height {
            let wanted = addresses.last().map_or(&[][..], Vec::as_slice);
            let mut wrong = Vec::new();
            let nodes = self.level(wanted, &lengths, number == stated.height, &mut |error| {
                wrong.push(error);
            });
            if let Some(error) = wrong.into_iter().next() {
                return Err(error);
            }
            let nodes: Vec<NodePage> = nodes.into_iter().flatten().collect();
            let (mut below, mut below_lengths) = (Vec::new(), Vec::new());
            for node in &nodes {
                if let NodePage::Inner(children) = node {
                    below.extend(children.iter().map(|(_, address)| *address));
                    below_lengths.extend(children.iter().map(|(length, _)| *length));
                }
            }
            levels.push(nodes);
            addresses.push(below);
            lengths = below_lengths;
        }
        let (root, nodes) = put_together(levels, &addresses)?;
        let tree = Tree::of_root(&root, stated.widths)?;
        if tree.extents() != stated.extents {
            return Err(Error::corruption("a root leads to another tree than it states"));
        }
        self.check_files(stated)?;
        Ok((tree, nodes))
    }

    /// Reads the pages of a level, given in the order of the space. Those that are not what they
    /// should be are missing, and told of.
    pub(super) fn level(
        &mut self,
        addresses: &[PageAddress],
        lengths: &[u64],
        is_last: bool,
        problem: &mut dyn FnMut(Error),
    ) -> Vec<Option<NodePage>> {
        let mut wanted = Vec::with_capacity(addresses.len());
        for (number, address) in addresses.iter().enumerate() {
            match self.admit(address) {
                Ok(()) => wanted.push((number, address)),
                Err(_) if self.lost.contains(&address.file) => {}
                Err(error) => problem(error),
            }
        }
        let mut nodes: Vec<Option<NodePage>> = vec![None; addresses.len()];
        for batch in runs(wanted).chunks(RUNS_MAX) {
            for (run, read) in batch.iter().zip(self.read(batch)) {
                let bytes = match read {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        problem(error);
                        continue;
                    }
                };
                for number in &run.members {
                    let (Some(address), Some(length), Some(place)) =
                        (addresses.get(*number), lengths.get(*number), nodes.get_mut(*number))
                    else {
                        continue;
                    };
                    match self.node(address, *length, is_last, run.start, &bytes) {
                        Ok(node) => *place = Some(node),
                        Err(error) => problem(self.damaged(address, error)),
                    }
                }
            }
        }
        nodes
    }

    /// Takes a page into account before it is read.
    fn admit(&mut self, address: &PageAddress) -> Result<()> {
        let Some(source) = self.sources.get(&address.file) else {
            return Err(Error::corruption(format!("a page in file {} of others", address.file)));
        };
        self.files.born(address);
        let live = self.files.iter().find(|(id, _)| *id == address.file);
        let is_too_much =
            live.is_none_or(|(_, state)| state.live_bytes > source.end - HEADER_BYTES);
        let is_sound = address.bytes <= NODE_BYTES_MAX
            && address.end() <= source.end
            && self.named.insert((address.file, address.offset))
            && !is_too_much;
        if !is_sound {
            let error = Error::corruption("a page is named twice, or lies behind the end");
            return Err(self.damaged(address, error));
        }
        Ok(())
    }

    pub(super) fn damaged(&self, address: &PageAddress, error: Error) -> Error {
        match self.sources.get(&address.file) {
            Some(source) => source.file.damaged(address.offset, error),
            None => error,
        }
    }

    /// Reads runs of pages.
    fn read(&self, runs: &[PageRun]) -> Vec<Result<Vec<u8>>> {
        let mut reads = Vec::with_capacity(runs.len());
        for run in runs {
            let Some(source) = self.sources.get(&run.file) else { continue };
            let (file, bytes) = (Arc::clone(&source.disk_file), run.end - run.start);
            self.context.io.meter.read(self.purpose, bytes);
            let buffer = vec![0; bytes as usize];
            reads.push(BatchRead { file, offset: run.start, buffer, result: Ok(()) });
        }
        self.context.io.disk.read_batch(&mut reads);
        let outcomes = reads.into_iter().zip(runs).map(|(read, run)| {
            let source = self.sources.get(&run.file);
            read.result.map(|()| read.buffer).map_err(|e| match source {
                Some(source) => source.file.unread(e, run.start),
                None => Error::corruption("a page file is missing"),
            })
        });
        outcomes.collect()
    }

    /// Proves and decodes one page of a run.
    fn node(
        &self,
        address: &PageAddress,
        length: u64,
        is_last: bool,
        start: u64,
        run: &[u8],
    ) -> Result<NodePage> {
        let from = (address.offset - start) as usize;
        let bytes = run.get(from..from + address.bytes as usize).unwrap_or_default();
        let page = Page::open(bytes, &self.context.owner, address)?;
        if page.header.checkpoint > self.number || page.header.length != length {
            return Err(Error::corruption("a page of another node than the one that is named"));
        }
        let node = NodePage::decode(&page)?;
        if matches!(node, NodePage::Leaf(_)) != is_last {
            return Err(Error::corruption("a node at another depth than the tree is high"));
        }
        Ok(node)
    }
}

/// Pages as they lie on disk, near ones joined.
fn runs(mut order: Vec<(usize, &PageAddress)>) -> Vec<PageRun> {
    order.sort_unstable_by_key(|(_, address)| (address.file, address.offset));
    let mut runs: Vec<PageRun> = Vec::new();
    for (number, address) in order {
        if let Some(run) = runs.last_mut()
            && run.file == address.file
            && address.offset.saturating_sub(run.end) <= GAP_BYTES_MAX
            && address.end().saturating_sub(run.start) <= RUN_BYTES_MAX
        {
            run.end = run.end.max(address.end());
            run.members.push(number);
            continue;
        }
        let (start, end) = (address.offset, address.end());
        runs.push(PageRun { file: address.file, start, end, members: vec![number] });
    }
    runs
}

/// Makes nodes of levels, from the last one up.
fn put_together(
    levels: Vec<Vec<NodePage>>,
    addresses: &[Vec<PageAddress>],
) -> Result<(Part, HashMap<usize, SavedNode>)> {
    let mut saved = HashMap::new();
    let mut below: Vec<Part> = Vec::new();
    for (nodes, addresses) in levels.into_iter().zip(addresses).rev() {
        let mut rest = below.into_iter();
        let mut parts = Vec::with_capacity(nodes.len());
        for (node, address) in nodes.into_iter().zip(addresses) {
            let part = match node {
                NodePage::Leaf(part) => part,
                NodePage::Inner(children) => {
                    Part::inner(rest.by_ref().take(children.len()).collect())?
                }
            };
            saved.insert(part.identity(), SavedNode::new(&part, *address));
            parts.push(part);
        }
        below = parts;
    }
    let root = below.pop().ok_or_else(|| Error::corruption("a root without a tree"))?;
    Ok((root, saved))
}
