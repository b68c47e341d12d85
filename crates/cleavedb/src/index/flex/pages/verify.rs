//! Proving a checkpoint that is in force where it stands: every page that its root leads to, one
//! inner node's children at a time, so that nothing of the tree but a way down is held.
//!
//! What the whole comes to (extents, live bytes of files) is compared where no page is missing.

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::VerifySink;
use crate::index::flex::pages::PageContext;
use crate::index::flex::pages::file::PageFile;
use crate::index::flex::pages::format::{HEADER_BYTES, NodePage, PageAddress, RootPage};
use crate::index::flex::pages::read::Loader;
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::check::Checker;
use crate::io::Purpose;

/// A walk over the pages of a checkpoint.
struct Walk<'a> {
    loader: Loader<'a>,
    /// File and offset of the root.
    root: (&'a PageFile, u64),
    checker: Checker<'a>,
    /// Levels of nodes.
    height: u64,
    sink: &'a mut dyn VerifySink,
    /// Whether a page was not what it should be.
    is_damaged: bool,
}

/// Reads all of a checkpoint and tells the sink what is wrong with it. Returns what its root says;
/// `None` where that could not be read.
pub(crate) fn verify(
    context: &Arc<PageContext>,
    root: PageAddress,
    sink: &mut dyn VerifySink,
) -> Option<RootPage> {
    let (mut loader, file, stated) = match Loader::of_root(context, root, Purpose::Verify) {
        Ok(opened) => opened,
        Err(error) => {
            sink.problem(error);
            return None;
        }
    };
    if let Err(error) = Tree::new(stated.widths) {
        sink.problem(file.damaged(root.offset, error));
        return None;
    }
    let mut is_damaged = false;
    loader.open_files(&stated, &root, &mut |error| {
        is_damaged = true;
        sink.problem(file.damaged(root.offset, error));
    });
    let checker = Checker::new(&stated.widths);
    let (height, place) = (stated.height, (&*file, root.offset));
    let mut walk = Walk { loader, root: place, checker, height, sink, is_damaged };
    walk.below(&[stated.top], &[stated.length], 1);
    if !walk.is_damaged
        && let Err(error) = walk.check_whole(&stated)
    {
        walk.sink.problem(file.damaged(root.offset, error));
    }
    walk.loader.files.born(&root);
    for (id, state) in walk.loader.files.iter() {
        walk.sink.read(1, 0);
        walk.sink.checked(id, HEADER_BYTES + state.live_bytes);
    }
    Some(stated)
}

impl Walk<'_> {
    /// Reads sibling nodes and all that lies below them. As deep as a root can state, 32 levels.
    fn below(&mut self, addresses: &[PageAddress], lengths: &[u64], depth: u64) {
        let (sink, is_damaged) = (&mut *self.sink, &mut self.is_damaged);
        let (file, offset) = self.root;
        let nodes = self.loader.level(addresses, lengths, depth == self.height, &mut |error| {
            *is_damaged = true;
            sink.problem(file.damaged(offset, error));
        });
        for (node, address) in nodes.into_iter().zip(addresses) {
            let Some(node) = node else {
                self.checker.pass_over();
                continue;
            };
            let checked = match &node {
                NodePage::Leaf(part) => self.checker.lone_leaf(part, depth as usize),
                NodePage::Inner(children) => {
                    self.checker.lone_inner(children.len(), depth as usize)
                }
            };
            if let Err(error) = checked {
                self.is_damaged = true;
                self.sink.problem(self.loader.damaged(address, error));
            }
            if let NodePage::Inner(children) = node {
                let (lengths, addresses): (Vec<u64>, Vec<PageAddress>) =
                    children.into_iter().unzip();
                self.below(&addresses, &lengths, depth + 1);
            }
        }
    }

    /// What the pages come to must be what the root says.
    fn check_whole(&self, stated: &RootPage) -> Result<()> {
        let extents = self.checker.shape().extents;
        if extents != stated.extents {
            let message = format!("{extents} extents, the root says {}", stated.extents);
            return Err(Error::corruption(message));
        }
        self.loader.check_files(stated)
    }
}
