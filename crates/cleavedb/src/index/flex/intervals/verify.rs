//! Proving a view of the index: the space that it stands in, byte by byte on disk, then what the
//! bytes say: tags, range tombstones, directories, and all intervals with what is in them.
//!
//! Any thread. Invariant: VF-1 what the sink hears that was read has been read from the disk by
//! this walk, past the cache.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::checksum::key_hash;
use crate::base::error::{Error, Result};
use crate::index::VerifySink;
use crate::index::flex::intervals::anchors::{Anchors, Directory, Found, Group, Mark};
use crate::index::flex::intervals::run::Run;
use crate::index::flex::intervals::state::{Totals, decode_tombstones};
use crate::index::flex::intervals::view::FlexView;
use crate::io::Purpose;

/// Checks all of a view.
pub(super) fn verify(view: &FlexView, sink: &mut dyn VerifySink) {
    let space = &view.source.space;
    let damaged = space.verify(&view.state.space, &view.pins, sink);
    let mut proof = Proof { view, damaged, is_whole: true, sink };
    let end = view.source.anchors.last().map_or(view.tombstone_bytes, |last| last.range().end);
    if end != space.tree().length() {
        proof.problem(Error::corruption("a space that is longer than its intervals"));
    }
    proof.check(check_tags);
    proof.check(check_tombstones);
    for (offset, group) in view.source.anchors.starts() {
        proof.check(|view| check_directory(view, offset, group));
    }
    let totals = proof.intervals();
    if proof.is_whole && totals != view.state.totals {
        let message = format!("{totals:?}, the section says {:?}", view.state.totals);
        proof.problem(Error::corruption(message));
    }
    sink.read(0, totals.entries);
}

/// What a walk over a view finds.
struct Proof<'a> {
    view: &'a FlexView,
    /// Segments with blocks that do not hold: what stands in them has been told of.
    damaged: BTreeSet<PathBuf>,
    /// Whether all intervals could be read.
    is_whole: bool,
    sink: &'a mut dyn VerifySink,
}

impl Proof<'_> {
    fn problem(&mut self, error: Error) {
        if error.file().is_none_or(|file| !self.damaged.contains(file)) {
            self.sink.problem(error);
        }
    }

    fn check(&mut self, check: impl FnOnce(&FlexView) -> Result<()>) {
        if let Err(error) = check(self.view) {
            self.problem(error);
        }
    }

    /// Checks the intervals, each with all that is in it.
    fn intervals(&mut self) -> Totals {
        let mut totals = Totals::default();
        let view = self.view;
        for found in view.source.anchors.iter() {
            match view.source.read(&found, Purpose::Verify) {
                Ok(run) => {
                    totals.change(run.totals(), Totals::default());
                    self.check(|view| check_interval(view, &found, &run));
                }
                Err(error) => {
                    self.is_whole = false;
                    self.problem(error);
                }
            }
        }
        totals
    }
}

fn check_interval(view: &FlexView, found: &Found<'_>, run: &Run) -> Result<()> {
    if run.iter().any(|record| record.seq > view.state.largest_seq) {
        return Err(Error::corruption("an interval is newer than its index"));
    }
    if run.iter().any(|record| found.interval.lacks(key_hash(record.key))) {
        return Err(Error::corruption("a filter denies what its interval holds"));
    }
    Ok(())
}

/// The tags of the tree must be where the index has tombstones, groups and intervals, and nowhere
/// else; the tag of an interval bounds its tail.
fn check_tags(view: &FlexView) -> Result<()> {
    let tree = view.source.space.tree();
    let mut wanted = marks(view.tombstone_bytes, &view.source.anchors);
    for piece in tree.walk(0..tree.length())? {
        let Some(tag) = piece.extent.tag else { continue };
        let is_right = match (Mark::of(tag)?, wanted.next()) {
            (Mark::Interval(bound), Some((offset, Mark::Interval(tail)))) => {
                offset == piece.offset && tail <= bound
            }
            (mark, Some((offset, wanted))) => offset == piece.offset && mark == wanted,
            (_, None) => false,
        };
        if !is_right {
            let message = format!("a tag at {} of the space that the index has not", piece.offset);
            return Err(Error::corruption(message));
        }
    }
    match wanted.next() {
        Some((offset, _)) => {
            Err(Error::corruption(format!("no tag at {offset} of the space, where one should be")))
        }
        None => Ok(()),
    }
}

/// Where an index has what, in order.
fn marks<'a>(tombstone_bytes: u64, anchors: &'a Anchors) -> impl Iterator<Item = (u64, Mark)> + 'a {
    let tombstones = (tombstone_bytes > 0).then_some((0, Mark::Tombstones));
    let groups = anchors.starts().enumerate().flat_map(move |(number, (offset, group))| {
        let intervals = (0..group.intervals.len()).filter_map(move |interval| {
            let found = anchors.get(number, interval)?;
            Some((found.offset, Mark::Interval(found.interval.tail)))
        });
        std::iter::once((offset, Mark::Directory)).chain(intervals)
    });
    tombstones.into_iter().chain(groups)
}

fn check_tombstones(view: &FlexView) -> Result<()> {
    let range = 0..view.tombstone_bytes;
    let bytes = view.source.space.read_many(&[range], Purpose::Verify)?.concat();
    if decode_tombstones(&bytes)? != view.tombstones.tombstones() {
        return Err(Error::corruption("other range tombstones in the space than in force"));
    }
    Ok(())
}

/// A directory must name the anchors that are used.
fn check_directory(view: &FlexView, offset: u64, group: &Group) -> Result<()> {
    let range = offset..offset + group.directory_bytes;
    let bytes = view.source.space.read_many(&[range], Purpose::Verify)?.concat();
    let Directory { id, parent, anchors, .. } = Directory::decode(&bytes)?;
    let used = group.intervals.iter().map(|interval| &*interval.anchor);
    if (id, parent) != (group.id, group.parent) || !anchors.iter().map(|it| &**it).eq(used) {
        let message = format!("the directory of group {} is that of another one", group.id);
        return Err(Error::corruption(message));
    }
    Ok(())
}
