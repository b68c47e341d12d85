//! Parts of a flush by key range, which run side by side.
//!
//! Each part has a share of the groups: it brings in what comes for them as if there were no
//! others, in a part of the group of operations that counts as a whole in the end. A key is in one
//! share, so that all its versions are judged together.
//!
//! Shares are even in groups: what comes is spread over the keys that there are, mostly. What is
//! put in order goes behind the last group, and is brought in by one part.
//!
//! Invariants: PA-1 shares are all groups, in order, and all keys. PA-2 a number is given out once.

use std::ops::Range;

use crate::base::cursor::BoxCursor;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::section::Section;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::anchors::{Anchors, Sealed};
use crate::index::flex::intervals::apply::{Applied, Applier, Judge};
use crate::index::flex::intervals::cache::IntervalCache;
use crate::index::flex::intervals::editor::{Edited, Editor};
use crate::index::flex::intervals::feed::Feed;
use crate::index::flex::intervals::fetched::Fetched;
use crate::index::flex::intervals::run::RunBuilder;
use crate::index::flex::intervals::view::Source;
use crate::index::flex::space::{Making, Space};
use crate::index::{KeyRange, Listener};
use crate::io::Purpose;
use crate::io::executor::{Parts, SharedExecutor, side_by_side};

/// Numbers that a change gives out.
pub(super) struct Numbers {
    group: AtomicU64,
    stamp: AtomicU64,
}

impl Numbers {
    /// Those behind the last ones that there were.
    pub(super) fn new(last_group: u64, last_stamp: u64) -> Self {
        Self { group: AtomicU64::new(last_group), stamp: AtomicU64::new(last_stamp) }
    }

    /// A number for a group.
    pub(super) fn group(&self) -> u64 {
        self.group.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A name for contents.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last ones: of groups, and of contents.
    pub(super) fn last(&self) -> (u64, u64) {
        (self.group.load(Ordering::Relaxed), self.stamp.load(Ordering::Relaxed))
    }
}

/// Groups that one part of a change has to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Their numbers.
    pub(super) groups: Range<usize>,
    /// Where the first of them begins.
    pub(super) offset: u64,
    /// Keys that belong to them.
    pub(super) keys: KeyRange,
}

impl Share {
    /// All groups, which begin at an offset.
    pub(super) fn whole(anchors: &Anchors, offset: u64) -> Self {
        Self { groups: 0..anchors.groups().len(), offset, keys: KeyRange::default() }
    }

    /// As many shares of them as that, or one for each group.
    pub(super) fn cut(anchors: &Anchors, offset: u64, count: usize) -> Vec<Self> {
        let groups = anchors.groups();
        let count = count.min(groups.len());
        if count < 2 {
            return vec![Self::whole(anchors, offset)];
        }
        let bound = |number: usize| groups.get(number).map(|group| group.first_anchor().to_vec());
        let mut end = offset;
        let share = |part: usize| {
            let own = part * groups.len() / count..(part + 1) * groups.len() / count;
            let start = end;
            end += groups.iter().take(own.end).skip(own.start).map(|it| it.bytes()).sum::<u64>();
            let keys = KeyRange {
                start: bound(own.start).filter(|_| part > 0),
                end: bound(own.end).filter(|_| part + 1 < count),
            };
            Self { groups: own, offset: start, keys }
        };
        (0..count).map(share).collect()
    }
}

/// What comes with a flush.
pub(super) struct Incoming<'a> {
    /// Its entries, for each part from the beginning.
    pub(super) entries: &'a (dyn Fn() -> BoxCursor + Sync),
    /// Makes a listener for each part but the first.
    pub(super) listeners: &'a (dyn Fn() -> Box<dyn Listener> + Sync),
    /// About its bytes.
    pub(super) bytes: u64,
    /// Whether writers wait for it.
    pub(super) is_waited_for: bool,
    /// Whether it is not to be cut into parts.
    pub(super) is_one_part: bool,
}

/// What all parts of a change have in common.
pub(super) struct Scene<'a> {
    /// The index as the change found it.
    pub(super) source: &'a Source,
    pub(super) limits: FlexLimits,
    pub(super) cache: &'a IntervalCache,
    pub(super) judge: Judge<'a>,
    pub(super) purpose: Purpose,
    pub(super) numbers: &'a Numbers,
    /// Where the first group begins by now.
    pub(super) first: u64,
    pub(super) executor: &'a SharedExecutor,
}

/// What a part made, or all of them.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) groups: Vec<Arc<Sealed>>,
    pub(super) carried: Vec<(u64, u64)>,
    pub(super) applied: Applied,
    /// What listeners of parts had to say.
    pub(super) sections: Vec<Section>,
}

impl Scene<'_> {
    /// Works on a share.
    pub(super) fn run(
        &self,
        space: &mut Making,
        share: &Share,
        listener: &mut dyn Listener,
        work: impl FnOnce(&mut Applier<'_>) -> Result<()>,
    ) -> Result<Outcome> {
        let anchors = &self.source.anchors;
        let mut applier = Applier {
            editor: Editor::new(space, self.limits, self.cache, anchors, share, self.numbers),
            judge: self.judge.clone(),
            listener,
            purpose: self.purpose,
            applied: Applied::default(),
            is_gathering: false,
            fetched: Fetched::new(self.source),
            tail_room: RunBuilder::default(),
        };
        work(&mut applier)?;
        let Applier { editor, applied, .. } = applier;
        let Edited { groups, carried } = editor.finish()?;
        Ok(Outcome { groups, carried, applied, sections: Vec::new() })
    }

    /// Brings in what comes, in as many parts as are worth it.
    pub(super) fn bring_in(
        &self,
        space: &mut Space,
        incoming: &Incoming<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Outcome> {
        let length = space.making()?.tree().length();
        let shares = Share::cut(&self.source.anchors, self.first, self.parts(incoming));
        let mut makings = space.fork(shares.len() - 1);
        let done = self.side_by_side(space.making()?, &mut makings, &shares, (incoming, listener));
        space.join(makings, length, done.is_ok())?;
        let mut all = Outcome::default();
        for part in done? {
            all.groups.extend(part.groups);
            all.carried.extend(part.carried);
            all.applied.add(&part.applied);
            all.sections.extend(part.sections);
        }
        Ok(all)
    }

    /// Parts that are worth it. Writers that wait for all of it leave their processors to it.
    fn parts(&self, incoming: &Incoming<'_>) -> usize {
        if incoming.is_one_part {
            return 1;
        }
        let by_bytes = incoming.bytes / self.limits.part_bytes_min.max(1);
        let by_groups = self.source.anchors.groups().len() / self.limits.part_groups_min.max(1);
        let for_each = if incoming.is_waited_for { 1 } else { self.limits.part_threads.max(1) };
        let threads = self.executor.parallelism() / for_each;
        let most = threads.min(by_groups);
        most.min(usize::try_from(by_bytes).unwrap_or(usize::MAX)).max(1)
    }

    /// Runs all parts; the first one has the space's own group.
    fn side_by_side(
        &self,
        first: &mut Making,
        rest: &mut [Making],
        shares: &[Share],
        (incoming, listener): (&Incoming<'_>, &mut dyn Listener),
    ) -> Result<Vec<Outcome>> {
        if let [share] = shares {
            return Ok(vec![self.bring_share(first, share, incoming, listener)?]);
        }
        mark!("flex_flush_in_parts");
        let listeners = std::iter::once(Some(listener)).chain(std::iter::repeat_with(|| None));
        let spaces = std::iter::once(first).chain(rest);
        let items: Vec<_> = shares.iter().zip(spaces).zip(listeners).collect();
        let fork_join = |parts: Parts<'_>| self.executor.fork_join(parts);
        side_by_side(items, shares.len(), &fork_join, &|((share, space), given)| {
            if let Some(listener) = given {
                return self.bring_share(space, share, incoming, listener);
            }
            let mut listener = (incoming.listeners)();
            let mut outcome = self.bring_share(space, share, incoming, &mut *listener)?;
            outcome.sections = listener.finish()?;
            Ok(outcome)
        })
    }

    fn bring_share(
        &self,
        space: &mut Making,
        share: &Share,
        incoming: &Incoming<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Outcome> {
        let feed = Feed::new((incoming.entries)(), &share.keys)?;
        self.run(space, share, listener, |applier| applier.apply(&Arc::new(Mutex::new(feed))))
    }
}

#[cfg(test)]
mod tests;
