//! Proving a space where it stands: the pages of its checkpoint, the log behind it, and each block
//! of a segment that the tree leads to; and that what the writer counts is what the tree says.
//!
//! Any thread, with a view and the pins of the same state. Beside what is read at a time, it holds
//! a bit for each block of the segments and a line for each page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::index::VerifySink;
use crate::index::flex::pages;
use crate::index::flex::space::births;
use crate::index::flex::space::log;
use crate::index::flex::space::segment::Used;
use crate::index::flex::space::segment::format::place_of;
use crate::index::flex::space::{Pins, SpaceState, View, missing};
use crate::index::flex::tree::Tree;

impl View {
    /// Reads all that the state leads to, tells the sink what is wrong with it, and returns the
    /// segments in which something is.
    pub(crate) fn verify(
        &self,
        state: &SpaceState,
        pins: &Pins,
        sink: &mut dyn VerifySink,
    ) -> BTreeSet<PathBuf> {
        if let Err(error) = self.tree().check() {
            sink.problem(error);
        }
        self.verify_metadata(state, pins, sink);
        match used(self.tree()) {
            Ok(used) => self.verify_segments(&used, pins, sink),
            Err(error) => {
                sink.problem(error);
                BTreeSet::new()
            }
        }
    }

    /// Checkpoint and log; together they must come to a space as long as this one.
    fn verify_metadata(&self, state: &SpaceState, pins: &Pins, sink: &mut dyn VerifySink) {
        let root = state.root.map(|root| pages::verify(&pins.context.pages, root, sink));
        // Without a root it is an empty tree, behind no group.
        let (length, group) = match &root {
            None => (Some(0), Some(0)),
            Some(None) => (None, None),
            Some(Some(root)) => {
                let attached = births::decode(&root.attached).map_err(|error| match state.root {
                    Some(address) => {
                        let name = file_name(FileKind::FlexPages, address.file);
                        let error = error.in_file(&pins.context.dir.join(name));
                        sink.problem(error.at_offset(address.offset));
                    }
                    None => sink.problem(error),
                });
                (Some(root.length), attached.ok().map(|(group, _)| group))
            }
        };
        let grown = match &state.log {
            None => Some(0),
            Some(end) => log::verify(&pins.context, group, end, &pins.logs, sink),
        };
        if let (Some(length), Some(grown)) = (length, grown)
            && length.checked_add_signed(grown) != Some(self.tree().length())
        {
            let message = format!(
                "a checkpoint of {length} bytes and a log of {grown} for a space of {}",
                self.tree().length()
            );
            sink.problem(Error::corruption(message));
        }
    }

    fn verify_segments(
        &self,
        used: &BTreeMap<FileId, Used>,
        pins: &Pins,
        sink: &mut dyn VerifySink,
    ) -> BTreeSet<PathBuf> {
        let counted: BTreeMap<FileId, u64> = pins.live_bytes.iter().copied().collect();
        let mut damaged = BTreeSet::new();
        for (id, used) in used {
            let Some(segment) = self.segments.get(id) else {
                sink.problem(missing(*id));
                continue;
            };
            let (live, stated) = (used.live_bytes, counted.get(id).copied().unwrap_or_default());
            if live != stated {
                let message = format!("{live} live bytes in a segment, {stated} are counted");
                sink.problem(Error::corruption(message).in_file(segment.path()));
            }
            if !segment.verify(used, sink) {
                damaged.insert(segment.path().to_owned());
            }
        }
        // What nothing leads to is there for what will be written to it, or not at all.
        for (id, stated) in counted.into_iter().filter(|(id, _)| !used.contains_key(id)) {
            if stated > 0 {
                let message = format!("segment {id}: no live bytes, {stated} are counted");
                sink.problem(Error::corruption(message));
            }
        }
        damaged
    }
}

/// What a tree leads to, segment by segment.
fn used(tree: &Tree) -> Result<BTreeMap<FileId, Used>> {
    let mut all: BTreeMap<FileId, Used> = BTreeMap::new();
    for piece in tree.walk(0..tree.length())? {
        let (id, position) = place_of(piece.extent.physical);
        all.entry(id).or_default().add(position, piece.extent.length.into());
    }
    Ok(all)
}
