//! Inodes, directories and everything a crash may still lose.
//!
//! Owned by the disk's one lock. What is *live* is what calls see; what is *durable* is what a
//! crash surely leaves; `pending` holds, in call order, what lies between.
//!
//! I1: applying all pending changes to the durable side gives the live side, except where a sync
//! was made to fail. I2: an inode that no name (live, durable or pending) and no open file refers
//! to is removed by the next sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::base::sync::Arc;
use crate::io::memory_disk::image::Image;

/// Number of an inode; never reused on one disk.
pub(super) type InodeId = u64;

/// The root directory.
pub(super) const ROOT: InodeId = 0;

/// Names in a directory.
pub(super) type Names = BTreeMap<String, InodeId>;

/// A change of a file that no sync covers yet.
#[derive(Clone, Debug)]
pub(super) struct DataChange {
    /// Number of the mutating call.
    pub(super) call: u64,
    pub(super) kind: DataKind,
}

#[derive(Clone, Debug)]
pub(super) enum DataKind {
    Write {
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// A cut, an extension or an allocation.
    SetLen(u64),
    /// Blocks given back.
    Punch {
        offset: u64,
        len: u64,
    },
}

impl DataKind {
    /// Carries the change out.
    pub(super) fn apply(&self, image: &mut Image) {
        match self {
            Self::Write { offset, bytes } => image.write(*offset, bytes),
            Self::SetLen(len) => image.set_len(*len),
            Self::Punch { offset, len } => image.punch(*offset, *len),
        }
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    pub(super) durable: Arc<Image>,
    pub(super) live: Arc<Image>,
    pub(super) pending: Vec<DataChange>,
    pub(super) open: usize,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryNode {
    pub(super) durable: Names,
    pub(super) live: Names,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(FileNode),
    Directory(DirectoryNode),
}

/// A place for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) directory: InodeId,
    pub(super) name: String,
}

/// A change of names that no directory sync covers yet.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    /// Number of the mutating call.
    pub(super) call: u64,
    /// Directories whose sync it still waits for.
    pub(super) unsynced: Vec<InodeId>,
    pub(super) kind: NameKind,
}

#[derive(Clone, Debug)]
pub(super) enum NameKind {
    Link { slot: Slot, inode: InodeId },
    Unlink { slot: Slot },
    Rename { from: Slot, to: Slot, inode: InodeId },
}

/// Everything on the disk.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<InodeId, Node>,
    pub(super) pending_names: Vec<NameChange>,
    /// Mutating calls so far.
    pub(super) calls: u64,
    /// Bytes that all named files together may have; `None` for no limit.
    pub(super) capacity: Option<u64>,
    next_inode: InodeId,
    sweep_at: usize,
}

/// Inodes at which the first sweep happens.
const SWEEP_NODES_MIN: usize = 64;

pub(super) fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl State {
    /// An empty disk: a root directory.
    pub(super) fn new() -> Self {
        Self::with_nodes(BTreeMap::from([(ROOT, Node::Directory(DirectoryNode::default()))]), 1)
    }

    /// A disk of these inodes with nothing pending.
    pub(super) fn with_nodes(nodes: BTreeMap<InodeId, Node>, next_inode: InodeId) -> Self {
        let sweep_at = 2 * nodes.len() + SWEEP_NODES_MIN;
        Self { nodes, pending_names: Vec::new(), calls: 0, capacity: None, next_inode, sweep_at }
    }

    pub(super) fn next_inode(&self) -> InodeId {
        self.next_inode
    }

    /// Counts a mutating call and gives its number.
    pub(super) fn begin_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    pub(super) fn file(&self, inode: InodeId) -> io::Result<&FileNode> {
        match self.nodes.get(&inode) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }

    pub(super) fn file_mut(&mut self, inode: InodeId) -> io::Result<&mut FileNode> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }

    pub(super) fn directory(&self, inode: InodeId) -> io::Result<&DirectoryNode> {
        match self.nodes.get(&inode) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(not_found()),
        }
    }

    pub(super) fn directory_mut(&mut self, inode: InodeId) -> io::Result<&mut DirectoryNode> {
        match self.nodes.get_mut(&inode) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(not_found()),
        }
    }

    /// The directory a path's last name lies in, and that name.
    pub(super) fn slot(&self, path: &Path) -> io::Result<Slot> {
        let mut names = components(path);
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut directory = ROOT;
        for part in names {
            directory = *self.directory(directory)?.live.get(&part).ok_or_else(not_found)?;
        }
        self.directory(directory)?;
        Ok(Slot { directory, name })
    }

    /// The inode in a slot.
    pub(super) fn in_slot(&self, slot: &Slot) -> io::Result<InodeId> {
        self.directory(slot.directory)?.live.get(&slot.name).copied().ok_or_else(not_found)
    }

    /// The inode of a path.
    pub(super) fn lookup(&self, path: &Path) -> io::Result<InodeId> {
        if components(path).is_empty() {
            return Ok(ROOT);
        }
        self.in_slot(&self.slot(path)?)
    }

    /// Adds an inode.
    pub(super) fn add_node(&mut self, node: Node) -> InodeId {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.nodes.insert(inode, node);
        inode
    }

    /// Changes names live, and remembers the change as pending.
    pub(super) fn change_names(&mut self, call: u64, kind: NameKind) {
        apply_name(&mut self.nodes, &kind, Side::Live);
        let unsynced = match &kind {
            NameKind::Link { slot, .. } | NameKind::Unlink { slot } => vec![slot.directory],
            NameKind::Rename { from, to, .. } if from.directory == to.directory => {
                vec![to.directory]
            }
            NameKind::Rename { from, to, .. } => vec![from.directory, to.directory],
        };
        self.pending_names.push(NameChange { call, unsynced, kind });
        if self.nodes.len() > self.sweep_at {
            self.sweep();
        }
    }

    /// Makes the names of a directory durable. A rename between two directories becomes durable
    /// once both are synced: until then it may be lost as a whole.
    pub(super) fn sync_directory(&mut self, inode: InodeId) {
        let nodes = &mut self.nodes;
        self.pending_names.retain_mut(|change| {
            change.unsynced.retain(|&directory| directory != inode);
            if change.unsynced.is_empty() {
                apply_name(nodes, &change.kind, Side::Durable);
            }
            !change.unsynced.is_empty()
        });
    }

    /// Bytes that files may still grow by. As on a real disk, an unlinked file takes no room, nor
    /// does a hole.
    pub(super) fn room(&self) -> u64 {
        let Some(capacity) = self.capacity else { return u64::MAX };
        let mut used = 0;
        self.visit_files(&mut |_, _, file| used += file.live.allocated_bytes());
        capacity.saturating_sub(used)
    }

    /// Removes inodes that nothing refers to.
    pub(super) fn sweep(&mut self) {
        let mut reached = BTreeSet::new();
        let mut open: Vec<InodeId> = vec![ROOT];
        for change in &self.pending_names {
            match &change.kind {
                NameKind::Link { slot, inode } => open.extend([slot.directory, *inode]),
                NameKind::Unlink { slot } => open.push(slot.directory),
                NameKind::Rename { from, to, inode } => {
                    open.extend([from.directory, to.directory, *inode]);
                }
            }
        }
        while let Some(inode) = open.pop() {
            if !reached.insert(inode) {
                continue;
            }
            if let Some(Node::Directory(directory)) = self.nodes.get(&inode) {
                open.extend(directory.live.values().chain(directory.durable.values()));
            }
        }
        self.nodes.retain(|inode, node| {
            reached.contains(inode) || matches!(node, Node::File(file) if file.open > 0)
        });
        self.sweep_at = 2 * self.nodes.len() + SWEEP_NODES_MIN;
    }

    /// Visits every live file below a directory, in order of path.
    pub(super) fn visit_files(&self, visit: &mut dyn FnMut(&Path, InodeId, &FileNode)) {
        self.visit_below(ROOT, Path::new("/"), &mut |path, inode, node| {
            if let Node::File(file) = node {
                visit(path, inode, file);
            }
        });
    }

    /// Visits every live inode below a directory, in order of path.
    pub(super) fn visit_below(
        &self,
        directory: InodeId,
        path: &Path,
        visit: &mut dyn FnMut(&Path, InodeId, &Node),
    ) {
        let Ok(names) = self.directory(directory) else { return };
        for (name, &inode) in &names.live {
            let path = path.join(name);
            let Some(node) = self.nodes.get(&inode) else { continue };
            visit(&path, inode, node);
            if matches!(node, Node::Directory(_)) {
                self.visit_below(inode, &path, visit);
            }
        }
    }
}

/// Which names of a directory a change goes to.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Live,
    Durable,
}

/// Carries a change of names out on one side. Tolerant: earlier changes it built on may be lost.
pub(super) fn apply_name(nodes: &mut BTreeMap<InodeId, Node>, kind: &NameKind, side: Side) {
    let mut edit = |slot: &Slot, edit: &dyn Fn(&mut Names, &str)| {
        if let Some(Node::Directory(directory)) = nodes.get_mut(&slot.directory) {
            let names = match side {
                Side::Live => &mut directory.live,
                Side::Durable => &mut directory.durable,
            };
            edit(names, &slot.name);
        }
    };
    match kind {
        NameKind::Link { slot, inode } => {
            edit(slot, &|names, name| {
                names.insert(name.to_owned(), *inode);
            });
        }
        NameKind::Unlink { slot } => {
            edit(slot, &|names, name| {
                names.remove(name);
            });
        }
        NameKind::Rename { from, to, inode } => {
            edit(from, &|names, name| {
                if names.get(name) == Some(inode) {
                    names.remove(name);
                }
            });
            edit(to, &|names, name| {
                names.insert(name.to_owned(), *inode);
            });
        }
    }
}

/// The names of a path from the root; relative paths start there too.
fn components(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => {
                names.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

/// The absolute form of a path.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let mut whole = PathBuf::from("/");
    whole.extend(components(path));
    whole
}
