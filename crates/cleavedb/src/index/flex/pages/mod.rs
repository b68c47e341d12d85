//! The tree of extents on disk: its nodes as pages, written copy-on-write.
//!
//! A checkpoint appends the nodes that changed since the one before to page files, children before
//! parents and a root last; the root's address stands for the whole tree. A node is clean iff it
//! was in the last published tree: a trace of each is kept, so that it is copied or moved before it
//! is changed, identity tells, and whatever changed has new nodes all the way to the root. What the
//! published tree held is not kept. Nothing that was written is ever overwritten (rule F9): what a
//! checkpoint no longer leads to is garbage in its file, counted by file, and a file goes when it
//! holds nothing else. Files that are half garbage are emptied by writing their live pages again.
//!
//! A tree is read as a whole when it is opened, level by level, with neighbouring pages in one
//! read: it takes some 3 % of the data, lives in memory anyway, and whatever is damaged shows at
//! once and not in the middle of an operation, which could not fail otherwise.
//!
//! Owned by one writer; any thread may hold pins. Invariants: FC-1 the checkpoint that is published
//! stays readable until another one is published, and its files until their last pin is gone. FC-2
//! a checkpoint that was not published leaves nothing but garbage behind the published ends. FC-3
//! every byte of every page is proved when it is read. `docs/format/flex-pages.md` has the bytes.

pub(crate) mod dump;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod format;
mod read;
mod verify;
mod write;

use std::collections::HashMap;
use std::path::PathBuf;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::file_ids::FileIds;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::index::flex::pages::file::PageFile;
use crate::index::flex::pages::files::{FileLimits, PageFiles};
use crate::index::flex::pages::format::{Owner, PageAddress};
use crate::index::flex::pages::write::OpenFile;
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::parts::{Part, Trace};
use crate::io::Io;

pub(crate) use verify::verify;
pub(crate) use write::Draft;

/// What pages are given to work with.
pub(crate) struct PageContext {
    /// Disk, limiter and meter.
    pub(crate) io: Io,
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Whose pages these are.
    pub(crate) owner: Owner,
    /// Where files go that nobody needs any more.
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// Where file numbers come from.
    pub(crate) ids: Arc<FileIds>,
    /// Sizes of files.
    pub(crate) limits: FileLimits,
}

/// The last published checkpoint.
struct Published {
    /// How many there have been.
    number: u64,
    /// Page of the root.
    root: PageAddress,
    /// Identity of the topmost node.
    top: usize,
    /// The tree's nodes as they were then, by identity.
    nodes: HashMap<usize, SavedNode>,
    /// What the owner kept beside the tree.
    attached: Arc<[u8]>,
}

/// A node that has a page.
struct SavedNode {
    page: PageAddress,
    /// Identities of its children.
    children: Box<[usize]>,
    /// Keeps its identity from others.
    _trace: Trace,
}

impl SavedNode {
    fn new(part: &Part, page: PageAddress) -> Self {
        let children = part.children().map(|child| child.identity()).collect();
        Self { page, children, _trace: part.trace() }
    }
}

/// The pages of one tree.
pub(crate) struct PageStore {
    context: Arc<PageContext>,
    published: Option<Published>,
    /// The tree that an open has read, until it is taken.
    opened: Option<Tree>,
    files: PageFiles,
    /// The file that grows; none after an open or a failed write, whose ends nobody knows.
    open: Option<OpenFile>,
}

impl PageStore {
    /// A store without a checkpoint.
    pub(crate) fn new(context: &Arc<PageContext>) -> Self {
        Self {
            context: Arc::clone(context),
            published: None,
            opened: None,
            files: PageFiles::default(),
            open: None,
        }
    }

    /// Address of the last published root.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn root(&self) -> Option<PageAddress> {
        self.published.as_ref().map(|published| published.root)
    }

    /// Number of the last published checkpoint; 0 before the first one.
    pub(crate) fn checkpoint_number(&self) -> u64 {
        self.published.as_ref().map_or(0, |published| published.number)
    }

    /// The tree of the checkpoint that was opened: to be taken once.
    pub(crate) fn take_tree(&mut self) -> Option<Tree> {
        self.opened.take()
    }

    /// The tree of the checkpoint that was opened, until it is taken.
    #[cfg(test)]
    pub(crate) fn tree(&self) -> Option<&Tree> {
        self.opened.as_ref()
    }

    /// Bytes of memory for what is known of the published tree.
    pub(crate) fn memory_bytes(&self) -> usize {
        /// Of each node: an entry of a map that is between half and seven eighths full, and its
        /// place among the children of another.
        const NODE_BYTES: usize =
            (size_of::<usize>() + size_of::<SavedNode>()) * 4 / 3 + size_of::<usize>();
        self.published.as_ref().map_or(0, |published| published.nodes.len()) * NODE_BYTES
    }

    /// What the owner kept beside that tree.
    pub(crate) fn attached(&self) -> &[u8] {
        self.published.as_ref().map_or(&[], |published| &published.attached)
    }

    /// The page files in force, and what is live in them.
    pub(crate) fn files(&self) -> &PageFiles {
        &self.files
    }

    /// Keeps all files that the published root needs for as long as the pins live: for whoever
    /// copies them.
    pub(crate) fn pins(&self) -> Vec<Arc<PageFile>> {
        self.files.iter().map(|(_, state)| Arc::clone(&state.file)).collect()
    }

    /// Takes over a checkpoint whose root is durably named. It must be the last one that was
    /// written, from what is published now. Returns the files that it no longer needs.
    pub(crate) fn publish(&mut self, draft: Draft) -> Result<Vec<FileId>> {
        if draft.number != self.checkpoint_number() + 1 {
            let message = "a checkpoint of the tree is published out of order";
            return Err(Error::invalid(message));
        }
        let mut nodes = self.published.take().map(|published| published.nodes).unwrap_or_default();
        for identity in &draft.dead {
            nodes.remove(identity);
        }
        nodes.extend(draft.fresh);
        for (_, state) in draft.files.iter() {
            state.file.keep();
        }
        let gone: Vec<_> = self.files.iter().filter(|(id, _)| !draft.files.has(*id)).collect();
        gone.iter().for_each(|(_, state)| state.file.doom());
        let gone = gone.into_iter().map(|(id, _)| id).collect();
        self.files = draft.files;
        let (number, root, top) = (draft.number, draft.root, draft.top);
        self.published = Some(Published { number, root, top, nodes, attached: draft.attached });
        Ok(gone)
    }
}

#[cfg(test)]
mod tests;
