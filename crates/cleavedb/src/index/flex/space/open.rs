//! Opening a space: the checkpoint's tree, then what the log says was done since.

use std::collections::BTreeMap;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::pages::PageStore;
use crate::index::flex::space::births::{self, Births};
use crate::index::flex::space::log::Log;
use crate::index::flex::space::record::Record;
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::place_of;
use crate::index::flex::space::{SegmentState, Space, SpaceContext, SpaceState};
use crate::index::flex::tree::Tree;
use crate::io::Purpose;

impl Space {
    /// The space of a state that is durably named. What an unfinished group, an unpublished state
    /// or a view has left behind stays in files that nothing leads to.
    ///
    /// # Errors
    /// `Corruption` that names file and offset where a page or a record that counts is not what was
    /// written. Data is proved when it is read.
    pub(crate) fn open(context: &Arc<SpaceContext>, state: SpaceState) -> Result<Self> {
        let mut space = Self::new(context)?;
        if let Some(root) = state.root {
            space.pages = PageStore::open(&context.pages, root, Purpose::Recovery)?;
            if let Some(tree) = space.pages.take_tree() {
                space.making.tree = tree;
            }
        }
        if space.making.tree.widths() != context.widths {
            return Err(Error::corruption("a tree of other widths than the space has"));
        }
        let (group, mut births) = match state.root {
            None => Default::default(),
            Some(_) => births::decode(space.pages.attached())?,
        };
        space.log = match state.log {
            None => Log::new(context, group),
            Some(end) => {
                let tree = &mut space.making.tree;
                tree.hold();
                Log::replay(context, group, &end, &mut |record| {
                    if let Record::Born { segment, birth } = record {
                        births.insert(*segment, *birth);
                    }
                    record.redo(tree)
                })?
            }
        };
        drop(space.making.begin_next());
        space.segments = segments_of(context, &space.making.before, &births)?.into();
        space.show_segments();
        space.state = state;
        Ok(space)
    }
}

/// The segments that a tree leads to, and what is live in them.
fn segments_of(
    context: &Arc<SpaceContext>,
    tree: &Tree,
    births: &Births,
) -> Result<BTreeMap<FileId, SegmentState>> {
    let mut live: BTreeMap<FileId, u64> = BTreeMap::new();
    for piece in tree.walk(0..tree.length())? {
        *live.entry(place_of(piece.extent.physical).0).or_default() +=
            u64::from(piece.extent.length);
    }
    let mut segments = BTreeMap::new();
    for (id, live_bytes) in live {
        let Some(birth) = births.get(&id) else {
            return Err(Error::corruption(format!("nothing says which segment {id} is meant")));
        };
        let segment = Segment::new(context, id, *birth);
        segment.keep();
        let bytes = segment.data_bytes(Purpose::Recovery)?.max(live_bytes);
        segments.insert(id, SegmentState { segment, bytes, live_bytes, is_named: true });
    }
    Ok(segments)
}
