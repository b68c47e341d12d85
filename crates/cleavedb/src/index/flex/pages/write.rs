//! A checkpoint: what changed of a tree, appended.
//!
//! Run by the one writer; the tree is a value, so that others may go on with the original
//! meanwhile. Pages gather in a buffer and leave in large writes under the limit of background
//! writes; files are synced before their root is handed out.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::index::flex::pages::file::PageFile;
use crate::index::flex::pages::files::PageFiles;
use crate::index::flex::pages::format::{
    FileLine, HEADER_BYTES, HEIGHT_MAX, NODE_BYTES_MAX, PageAddress, ROOT_BYTES_MAX, RootPage,
    Stamp, WIDTH_MAX, seal,
};
use crate::index::flex::pages::{PageContext, PageStore, Published, SavedNode};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::parts::Part;
use crate::io::{DiskFile, Purpose};

/// Bytes that gather before they are written.
const CHUNK_BYTES: usize = 256 << 10;

/// The file that grows.
pub(super) struct OpenFile {
    file: Arc<PageFile>,
    disk_file: Arc<dyn DiskFile>,
    /// Where the next byte goes that is handed to the disk.
    written: u64,
}

/// A checkpoint that is written and synced, and that nothing names yet.
pub(crate) struct Draft {
    pub(super) number: u64,
    pub(super) root: PageAddress,
    /// Identity of the topmost node.
    pub(super) top: usize,
    /// Nodes that have a page now, or another one than before.
    pub(super) fresh: HashMap<usize, SavedNode>,
    /// Nodes that the tree has no longer.
    pub(super) dead: Vec<usize>,
    pub(super) files: PageFiles,
    pub(super) attached: Arc<[u8]>,
    written_bytes: u64,
}

impl Draft {
    /// Address of the root: what the edit names that makes it count.
    pub(crate) fn root(&self) -> PageAddress {
        self.root
    }

    /// Pages of nodes that were written.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.fresh.len()
    }

    /// Bytes of all pages that were written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// The page files that it needs.
    #[cfg(test)]
    pub(crate) fn files(&self) -> &PageFiles {
        &self.files
    }
}

/// Appends pages to the file that grows, and to the next one when that is full.
struct PageWriter<'a> {
    context: &'a Arc<PageContext>,
    open: Option<OpenFile>,
    buffer: Vec<u8>,
    files: PageFiles,
    full_bytes: u64,
    written_bytes: u64,
    has_new_names: bool,
}

impl PageWriter<'_> {
    /// Appends a page.
    fn append(&mut self, mut page: Vec<u8>, bytes_max: u32) -> Result<PageAddress> {
        let bytes = u32::try_from(page.len()).ok().filter(|bytes| *bytes <= bytes_max);
        let bytes = bytes.ok_or_else(|| {
            Error::invalid(format!("a page of {} bytes, {bytes_max} at most", page.len()))
        })?;
        let (file, offset) = self.place()?;
        let checksum = seal(&mut page, self.context.owner.seed(file), offset);
        self.buffer.extend_from_slice(&page);
        self.written_bytes += u64::from(bytes);
        let address = PageAddress { file, offset, bytes, checksum };
        self.files.born(&address);
        if self.buffer.len() >= CHUNK_BYTES {
            self.write_out()?;
        }
        Ok(address)
    }

    /// Where the next page goes.
    fn place(&mut self) -> Result<(FileId, u64)> {
        if let Some(open) = &self.open {
            let offset = open.written + self.buffer.len() as u64;
            if offset < self.full_bytes {
                return Ok((open.file.id(), offset));
            }
            self.finish_file()?;
        }
        let file = PageFile::new(self.context, self.context.ids.next());
        let disk_file = file.create()?;
        self.has_new_names = true;
        self.files.grown(&file, HEADER_BYTES);
        let id = file.id();
        self.open = Some(OpenFile { file, disk_file, written: HEADER_BYTES });
        Ok((id, HEADER_BYTES))
    }

    fn write_out(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let bytes = self.buffer.len() as u64;
        self.context.io.limiter.acquire(bytes);
        let written = open.disk_file.write_all_at(&self.buffer, open.written);
        written.map_err(|e| Error::io("writing a page file", open.file.path(), e))?;
        self.context.io.meter.wrote(Purpose::Flush, bytes);
        open.disk_file.start_write_back(open.written, bytes);
        open.written += bytes;
        self.buffer.clear();
        self.files.grown(&open.file, open.written);
        Ok(())
    }

    /// Makes the file that grows durable as far as it is, and leaves it.
    fn finish_file(&mut self) -> Result<()> {
        self.write_out()?;
        let Some(open) = self.open.take() else { return Ok(()) };
        let synced = open.disk_file.sync_data();
        synced.map_err(|e| Error::io("syncing a page file", open.file.path(), e))
    }

    /// Makes all of it durable; the file may grow on.
    fn finish(&mut self) -> Result<()> {
        self.write_out()?;
        let is_synced = !planted!("flex_checkpoint_not_synced");
        if let Some(open) = self.open.as_ref().filter(|_| is_synced) {
            let synced = open.disk_file.sync_data();
            synced.map_err(|e| Error::io("syncing a page file", open.file.path(), e))?;
        }
        if self.has_new_names {
            let dir = &self.context.dir;
            let synced = self.context.io.disk.sync_dir(dir);
            synced.map_err(|e| Error::io("syncing the directory of page files", dir, e))?;
        }
        Ok(())
    }
}

/// Writes the nodes that have no page, or one in a file that is to be emptied: level by level from
/// the leaves up, so that the pages of a level lie beside each other.
struct Walker<'a, 'b> {
    writer: &'a mut PageWriter<'b>,
    published: Option<&'a Published>,
    victims: &'a BTreeSet<FileId>,
    stamp: Stamp,
    /// Nodes of the published tree that were met, the topmost ones of what stays as it is.
    met: HashSet<usize>,
    fresh: HashMap<usize, SavedNode>,
}

impl Walker<'_, '_> {
    fn known(&self, part: &Part) -> Option<PageAddress> {
        self.published?.nodes.get(&part.identity()).map(|node| node.page)
    }

    /// Writes what must be written; returns the page of the topmost node.
    fn write(&mut self, top: &Part) -> Result<PageAddress> {
        let mut levels = vec![vec![top.clone()]];
        while let Some(level) = levels.last().filter(|level| !level.is_empty()) {
            let mut below = Vec::new();
            for part in level {
                if self.known(part).is_some() {
                    self.met.insert(part.identity());
                    // All below it is known, too; only where it stands may matter.
                    if self.victims.is_empty() {
                        continue;
                    }
                }
                below.extend(part.children());
            }
            levels.push(below);
        }
        for part in levels.iter().rev().flatten() {
            self.write_node(part)?;
        }
        self.page_of(top)
    }

    /// Where a node stands from now on.
    fn page_of(&self, part: &Part) -> Result<PageAddress> {
        let fresh = self.fresh.get(&part.identity()).map(|node| node.page);
        let page = fresh.or_else(|| self.known(part));
        page.ok_or_else(|| Error::corruption("a node of the tree has no page"))
    }

    /// Writes a node whose children have their pages, if it must be.
    fn write_node(&mut self, part: &Part) -> Result<()> {
        let stays = self.known(part).is_some_and(|page| !self.victims.contains(&page.file));
        let is_fresh = |child: &Part| self.fresh.contains_key(&child.identity());
        if stays && !part.children().any(|child| is_fresh(&child)) {
            return Ok(());
        }
        let page = match part.packed() {
            Some((packed, count)) => self.stamp.leaf(packed, count, part.length()),
            None => {
                let child = |child: Part| Ok((child.length(), self.page_of(&child)?));
                let children: Vec<_> = part.children().map(child).collect::<Result<_>>()?;
                self.stamp.inner(&children)
            }
        };
        let address = self.writer.append(page, NODE_BYTES_MAX)?;
        self.fresh.insert(part.identity(), SavedNode::new(part, address));
        Ok(())
    }

    /// Nodes of the published tree that were not met: what was changed is on the way to them only.
    fn not_met(&self, identity: usize, nodes: &HashMap<usize, SavedNode>, dead: &mut Vec<usize>) {
        if !self.met.contains(&identity) {
            dead.push(identity);
            let children = nodes.get(&identity).map_or(&[][..], |node| &node.children);
            children.iter().for_each(|child| self.not_met(*child, nodes, dead));
        }
    }
}

/// Levels of nodes below and with a node.
fn height(part: &Part) -> u64 {
    let below = part.children().next().map_or(0, |child| height(&child));
    below + 1
}

impl PageStore {
    /// Writes what changed of a tree since the last published checkpoint, and syncs it. Nothing
    /// counts before an edit names its root and [`PageStore::publish`] is told so; until then it
    /// may be dropped, and is garbage.
    ///
    /// # Errors
    /// Those of the disk; the published checkpoint stays as it is, and the next one is written to a
    /// file of its own.
    pub(crate) fn checkpoint(&mut self, tree: &Tree, attached: &[u8]) -> Result<Draft> {
        let widths = tree.widths();
        if widths.leaf_extents_max as u64 > WIDTH_MAX || widths.children_max as u64 > WIDTH_MAX {
            return Err(Error::invalid(format!("no tree of these widths is saved: {widths:?}")));
        }
        let growing = self.open.take();
        let victims =
            self.files.victims(growing.as_ref().map(|open| open.file.id()), &self.context.limits);
        let mut files = self.files.clone();
        if let Some(open) = &growing {
            // A draft that was given up may have begun it.
            files.grown(&open.file, open.written);
        }
        let mut writer = PageWriter {
            context: &self.context,
            full_bytes: self.context.limits.full_bytes(self.files.live_bytes()),
            open: growing,
            buffer: Vec::new(),
            files,
            written_bytes: 0,
            has_new_names: false,
        };
        let keyspace = self.context.owner.keyspace;
        let stamp = Stamp { keyspace, checkpoint: self.checkpoint_number() + 1 };
        let published = self.published.as_ref();
        let draft = write(&mut writer, published, &victims, stamp, tree, attached)?;
        self.open = writer.open;
        Ok(draft)
    }
}

fn write(
    writer: &mut PageWriter<'_>,
    published: Option<&Published>,
    victims: &BTreeSet<FileId>,
    stamp: Stamp,
    tree: &Tree,
    attached: &[u8],
) -> Result<Draft> {
    let top = tree.root();
    let (met, fresh) = (HashSet::new(), HashMap::new());
    let mut walker = Walker { writer: &mut *writer, published, victims, stamp, met, fresh };
    let top_address = walker.write(&top)?;
    let mut dead = Vec::new();
    if let Some(published) = published {
        walker.not_met(published.top, &published.nodes, &mut dead);
    }
    let fresh = walker.fresh;
    if let Some(published) = published {
        // The old page of what is gone, and of what was written again.
        for node in
            dead.iter().chain(fresh.keys()).filter_map(|identity| published.nodes.get(identity))
        {
            writer.files.died(&node.page);
        }
        writer.files.died(&published.root);
    }
    let (own_file, _) = writer.place()?;
    writer.write_out()?;
    writer.files.forget_empty(own_file);
    let line = |(id, state): (FileId, &super::files::FileState)| FileLine {
        id,
        end: state.bytes,
        live_bytes: state.live_bytes,
    };
    let root = RootPage {
        widths: tree.widths(),
        length: tree.length(),
        extents: tree.extents(),
        height: height(&top).min(HEIGHT_MAX),
        top: top_address,
        files: writer.files.iter().map(line).collect(),
        attached: attached.to_vec(),
    };
    let root = writer.append(stamp.root(&root), ROOT_BYTES_MAX)?;
    debug_assert_eq!(root.file, own_file, "the root knows its own file");
    writer.finish()?;
    Ok(Draft {
        number: stamp.checkpoint,
        root,
        top: top.identity(),
        fresh,
        dead,
        files: writer.files.clone(),
        attached: attached.into(),
        written_bytes: writer.written_bytes,
    })
}
