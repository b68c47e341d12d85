//! Work in the background: segments of much garbage are emptied, the tree is written so that the
//! log begins anew, what range tombstones cover is taken out, what reads found in fragments is
//! written in one piece, and so is what stands in fragments while nobody writes; and ranges are
//! tidied on demand.
//!
//! A job takes as long as a flush may have to wait for it: it does a part, and is picked again.
//! What is due is decided from figures that the last installed change left. Invariants: J-1 one job
//! at a time is picked of an index, until its change is installed or dropped. J-2 a job that can do
//! nothing for now is not picked again before something has changed.

use std::ops::Range;
use std::sync::Arc as ValueArc;
use std::time::Duration;

use crate::base::entry::Seq;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::{Arc, MutexGuard};
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::index::flex::intervals::anchors::Anchors;
use crate::index::flex::intervals::apply::{Applied, Applier};
use crate::index::flex::intervals::quiet::{Passed, Quiet};
use crate::index::flex::intervals::superseded::superseded_in;
use crate::index::flex::intervals::view::FlexView;
use crate::index::flex::intervals::{FlexChange, FlexLimits, Next, Shared, Work, Writer};
use crate::index::flex::space::reclaim::FULL_DISK_GARBAGE_PERCENT;
use crate::index::flex::space::{LOG_AGE_MAX, Prepared as PreparedSpace, Space, Sums};
use crate::index::stripes::surviving_tombstones;
use crate::index::{Backlog, IndexJob, JobContext, KeyRange, Listener, Prepared, WorkReport};
use crate::io::Purpose;

/// Garbage while a pass goes over nearly all intervals, by what is left alone at other times.
const PASS_GARBAGE_MAX: f64 = 2.0;

/// Figures of a space that decide what is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// In segments that are not written to any more.
    closed: Sums,
    /// In all segments.
    in_all: Sums,
    is_checkpoint_due: bool,
    log_since: Option<Duration>,
}

impl Figures {
    /// Those of a space as it is published.
    pub(super) fn of(space: &Space) -> Self {
        Self {
            closed: space.closed_sums(),
            in_all: space.sums(),
            is_checkpoint_due: space.is_checkpoint_due(),
            log_since: space.log_since(),
        }
    }
}

/// A range that is to be tidied.
#[derive(Debug)]
struct Request {
    ticket: u64,
    /// What is left of it.
    range: KeyRange,
}

/// What is due and what was asked for.
#[derive(Debug)]
pub(super) struct Plans {
    figures: Figures,
    garbage_percent_max: u64,
    is_picked: bool,
    requests: Vec<Request>,
    last_ticket: u64,
    /// Range tombstones that are there have to stay for now.
    tombstones_wait: bool,
    /// To get space back has cost as much as it brought: it would go on for ever.
    reclaim_waits: bool,
    /// To write intervals anew before a reclaim has failed since the last flush, as on a full disk.
    rewrites_wait: bool,
    /// What is done while nobody writes.
    quiet: Quiet,
}

/// What a change was, for the plans.
#[derive(Clone, Debug)]
pub(super) enum Done {
    /// Entries came in, of so many bytes.
    Flush(u64),
    /// The tree was written.
    Checkpoint,
    /// Space was got back; whether more than was written for it.
    Reclaim(bool),
    /// A part of a request was done, up to a key, or all of it.
    Part(u64, Option<Vec<u8>>),
    /// Range tombstones were applied, or had to stay all of them.
    Tombstones(bool),
    /// What reads had found in fragments stands in one piece.
    Gathered,
    /// While nobody wrote, intervals were passed up to a key, or all of them, and of those in
    /// fragments so many bytes were written in one piece.
    Passed(Option<Vec<u8>>, u64),
}

impl Plans {
    /// Nothing asked for.
    pub(super) fn new(figures: Figures, garbage_percent_max: u64) -> Self {
        Self {
            figures,
            garbage_percent_max,
            is_picked: false,
            requests: Vec::new(),
            last_ticket: 0,
            tombstones_wait: false,
            reclaim_waits: false,
            rewrites_wait: false,
            quiet: Quiet::default(),
        }
    }

    /// Nobody writes; whether there is something to do among so many bytes of data.
    pub(super) fn note_quiet(&mut self, limits: &FlexLimits, data_bytes: u64) -> bool {
        self.quiet.begin(limits, data_bytes)
    }

    /// It is so late now; whether a checkpoint is due for the age of the log. A change that comes
    /// before it makes that forgotten until the time is told again.
    pub(super) fn note_time(&mut self, now: Duration) -> bool {
        let age = self.figures.log_since.map(|since| now.saturating_sub(since));
        let is_old = age.is_some_and(|age| age >= LOG_AGE_MAX);
        self.figures.is_checkpoint_due |= is_old;
        is_old && !self.is_picked
    }

    /// A change is in force.
    pub(super) fn installed(&mut self, figures: Option<Figures>, done: &Done) {
        self.figures = figures.unwrap_or(self.figures);
        // What changes entries changes what is garbage.
        self.reclaim_waits = match done {
            Done::Reclaim(is_gain) => !is_gain,
            Done::Checkpoint | Done::Passed(_, 0) => self.reclaim_waits,
            Done::Flush(_)
            | Done::Part(..)
            | Done::Tombstones(_)
            | Done::Gathered
            | Done::Passed(..) => false,
        };
        match done {
            Done::Flush(bytes) => {
                (self.tombstones_wait, self.rewrites_wait) = (false, false);
                self.quiet.flushed(*bytes);
            }
            Done::Passed(next, bytes) => self.quiet.passed(next.clone(), *bytes),
            Done::Checkpoint | Done::Reclaim(_) | Done::Gathered => {}
            Done::Tombstones(wait) => self.tombstones_wait = *wait,
            Done::Part(ticket, next) => {
                let is_it = |request: &&mut Request| request.ticket == *ticket;
                let request = self.requests.iter_mut().find(is_it);
                match (request, next) {
                    (Some(request), Some(next)) => request.range.start = Some(next.clone()),
                    _ => self.requests.retain(|request| request.ticket != *ticket),
                }
            }
        }
    }

    /// To write intervals anew has failed, as on a full disk: a reclaim is to have its turn.
    fn rewrite_failed(&mut self) {
        self.rewrites_wait = true;
        self.quiet.give_up();
    }

    /// What kept range tombstones may be gone.
    pub(super) fn look_again(&mut self) {
        self.tombstones_wait = false;
    }

    /// Asks for a range to be tidied; returns a ticket.
    pub(super) fn request(&mut self, range: KeyRange) -> u64 {
        self.last_ticket += 1;
        self.requests.push(Request { ticket: self.last_ticket, range });
        self.last_ticket
    }

    /// Whether a request is fulfilled.
    pub(super) fn is_done(&self, ticket: u64) -> bool {
        self.requests.iter().all(|request| request.ticket != ticket)
    }

    /// Getting space back, if that is due: on a full disk, nearly all that can be.
    fn reclaim_due(&self, is_disk_full: bool, limits: &FlexLimits) -> Option<(Task, f64)> {
        let (garbage, most) = if is_disk_full {
            let percent = self.garbage_percent_max.min(FULL_DISK_GARBAGE_PERCENT);
            (garbage_score(self.figures.in_all, percent), 1.0)
        } else {
            (self.garbage_score(), self.garbage_left_alone(limits))
        };
        (garbage > most && !self.reclaim_waits).then_some((Task::Reclaim(is_disk_full), garbage))
    }

    /// Garbage beyond what is left alone must be got back.
    pub(super) fn backlog(&self) -> Backlog {
        if self.reclaim_waits {
            return Backlog::default();
        }
        let Sums { bytes, garbage_bytes } = self.figures.closed;
        let left_alone = bytes / 100 * self.garbage_percent_max;
        let pending_bytes = garbage_bytes.saturating_sub(left_alone);
        Backlog { level0_runs: 0, pending_bytes }
    }

    /// How much garbage is left alone, as a score: more while a pass over nearly all intervals is
    /// about to write the rest anew, for what is moved before that is written twice.
    fn garbage_left_alone(&self, limits: &FlexLimits) -> f64 {
        if self.quiet.passes_most(limits) { PASS_GARBAGE_MAX } else { 1.0 }
    }

    /// Whether a reclaim has intervals written anew first. It takes two jobs then; where garbage
    /// comes faster than it goes, what is nearly empty is emptied at once.
    fn may_rewrite(&self, limits: &FlexLimits) -> bool {
        let most = limits.rewrite_garbage_percent_max as f64 / 100.0;
        !self.rewrites_wait && self.garbage_score() <= most
    }

    fn garbage_score(&self) -> f64 {
        garbage_score(self.figures.closed, self.garbage_percent_max)
    }

    fn choose(&self, shared: &Shared, view: &FlexView) -> Option<(Task, f64)> {
        let is_disk_full = shared.is_disk_full();
        let reclaim = self.reclaim_due(is_disk_full, &shared.limits);
        // It takes room first: on a full disk what gives some goes before; a log may get longer.
        let due = (Task::Checkpoint, self.garbage_score().max(2.0));
        let checkpoint = self.figures.is_checkpoint_due.then_some(due);
        if checkpoint.is_some() && !is_disk_full {
            return checkpoint;
        }
        if reclaim.is_some() {
            return reclaim;
        }
        if let Some(request) = self.requests.first() {
            return Some((Task::Tidy(request.ticket, request.range.clone()), 1.0));
        }
        if !view.tombstones.is_empty() && !self.tombstones_wait {
            return Some((Task::Tombstones, 1.0));
        }
        if is_disk_full {
            // What follows takes room and gives none.
            return checkpoint;
        }
        if shared.gathering.is_due() {
            return Some((Task::Gather, 1.0));
        }
        let (start, fragments_min) = self.quiet.due(&shared.limits)?;
        Some((Task::Pass(start.to_vec(), fragments_min), 1.0))
    }
}

/// Garbage as a multiple of what is left alone of all data.
fn garbage_score(Sums { bytes, garbage_bytes }: Sums, percent_max: u64) -> f64 {
    let most = bytes as f64 * percent_max as f64 / 100.0;
    if garbage_bytes == 0 { 0.0 } else { garbage_bytes as f64 / most.max(1.0) }
}

/// What a job does.
#[derive(Clone, Debug)]
enum Task {
    /// Whether on a full disk.
    Reclaim(bool),
    Checkpoint,
    Tidy(u64, KeyRange),
    Tombstones,
    Gather,
    /// Of intervals from a key on, those in so many fragments.
    Pass(Vec<u8>, usize),
}

/// Keeps other jobs of the index from being picked.
pub(super) struct Picked(Arc<Shared>);

impl Drop for Picked {
    fn drop(&mut self) {
        self.0.plans.lock().is_picked = false;
    }
}

/// The job that is due.
pub(super) fn pick(shared: &Arc<Shared>) -> Option<Box<dyn IndexJob>> {
    let view = shared.current();
    pick_by(shared, |plans| plans.choose(shared, &view))
}

/// The same if it gets space back on a full disk.
pub(super) fn pick_reclaim(shared: &Arc<Shared>) -> Option<Box<dyn IndexJob>> {
    pick_by(shared, |plans| {
        plans.reclaim_due(true, &shared.limits).filter(|_| shared.is_disk_full())
    })
}

fn pick_by(
    shared: &Arc<Shared>,
    choose: impl FnOnce(&Plans) -> Option<(Task, f64)>,
) -> Option<Box<dyn IndexJob>> {
    let mut plans = shared.plans.lock();
    if plans.is_picked {
        return None;
    }
    let (task, score) = choose(&plans)?;
    plans.is_picked = true;
    let picked = Arc::new(Picked(Arc::clone(shared)));
    Some(Box::new(FlexJob { shared: Arc::clone(shared), task, score, picked }))
}

struct FlexJob {
    shared: Arc<Shared>,
    task: Task,
    score: f64,
    picked: Arc<Picked>,
}

/// Intervals that a job looks at.
struct Stretch {
    anchors: Vec<ValueArc<[u8]>>,
    /// First key that belongs to them, and the first one that does not any more.
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl Stretch {
    /// Intervals of a range, up to these many bytes of them.
    fn of(anchors: &Anchors, range: &KeyRange, bytes_max: u64) -> Self {
        let mut stretch = Self { anchors: Vec::new(), start: Vec::new(), end: None };
        let start = range.start.as_deref().unwrap_or_default();
        let mut bytes = 0;
        let mut next = anchors.find(start);
        while let Some(found) = next {
            let anchor = &found.interval.anchor;
            let is_beyond = range.end.as_deref().is_some_and(|end| &**anchor >= end);
            if (is_beyond || bytes >= bytes_max) && !stretch.anchors.is_empty() {
                stretch.end = Some(anchor.to_vec());
                break;
            }
            let is_first = (found.group, found.number) == (0, 0);
            if stretch.anchors.is_empty() && !is_first {
                stretch.start = anchor.to_vec();
            }
            bytes += found.interval.bytes;
            stretch.anchors.push(anchor.clone());
            next = anchors.get(found.group, found.number + 1);
        }
        stretch
    }

    /// Whether all keys from one to another belong to them.
    fn contains(&self, start: &[u8], end: &[u8]) -> bool {
        let is_within = |own: &[u8]| end <= own || planted!("flex_range_delete_ends_early");
        *self.start <= *start && self.end.as_deref().is_none_or(is_within)
    }

    /// Tombstones cut where the stretch begins and ends.
    fn cut(&self, tombstones: Vec<RangeTombstone>) -> Vec<RangeTombstone> {
        let mut parts = Vec::with_capacity(tombstones.len() + 2);
        for mut tombstone in tombstones {
            for bound in [Some(&self.start), self.end.as_ref()].into_iter().flatten() {
                if *tombstone.start < **bound && **bound < *tombstone.end {
                    let start = std::mem::replace(&mut tombstone.start, bound.as_slice().into());
                    let (end, seq) = (bound.as_slice().into(), tombstone.seq);
                    parts.push(RangeTombstone { start, end, seq });
                }
            }
            parts.push(tombstone);
        }
        parts
    }
}

impl IndexJob for FlexJob {
    fn score(&self) -> f64 {
        self.score
    }

    fn run(&mut self, context: &JobContext) -> Result<Prepared> {
        match self.task.clone() {
            Task::Reclaim(is_disk_full) => {
                let anchors = self.superseded_in_victims(is_disk_full)?;
                if anchors.is_empty() {
                    return self.reclaim(is_disk_full);
                }
                self.or_leave(self.gather(context, (&anchors, 1), ("garbage", Done::Gathered)))
            }
            Task::Checkpoint => self.checkpoint(),
            Task::Tidy(ticket, range) => {
                self.sweep(context, &range, "manual", |next, _| Done::Part(ticket, next))
            }
            Task::Tombstones => self.apply_tombstones(context),
            Task::Gather => {
                let anchors = self.shared.gathering.take();
                let fragments_min = self.shared.limits.gathered_fragments_min;
                let told = ("read in fragments", Done::Gathered);
                self.gather(context, (&anchors, fragments_min), told)
            }
            Task::Pass(start, fragments_min) => {
                self.or_leave(self.pass(context, (&start, fragments_min)))
            }
        }
    }
}

impl FlexJob {
    fn prepared(
        &self,
        writer: MutexGuard<'_, Writer>,
        next: Next,
        done: Done,
        report: WorkReport,
    ) -> Prepared {
        let change = self.shared.hand_over(writer, next, done, Some(Arc::clone(&self.picked)));
        self.shared.described(change, report)
    }

    /// A change of the space alone.
    fn of_space(&self, view: &FlexView, prepared: PreparedSpace) -> Next {
        let mut state = view.state;
        state.space = prepared.state();
        Next {
            prepared,
            anchors: Arc::clone(&view.source.anchors),
            tombstones: Arc::clone(&view.tombstones),
            tombstone_bytes: view.tombstone_bytes,
            state,
            carried: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Nothing to do after all.
    fn nothing(&self, done: Done) -> Prepared {
        let picked = Some(Arc::clone(&self.picked));
        let change =
            FlexChange { shared: Arc::clone(&self.shared), next: None, done, _picked: picked };
        let report = Applied::default().report("compaction", "nothing");
        Prepared { sections: Vec::new(), change: Box::new(change), report }
    }

    /// Work that a reclaim does not wait for if it failed.
    fn or_leave(&self, done: Result<Prepared>) -> Result<Prepared> {
        done.inspect_err(|_| self.shared.plans.lock().rewrite_failed())
    }

    /// Intervals that are better written anew than moved, if they make a job; a reclaim comes next.
    fn superseded_in_victims(&self, is_disk_full: bool) -> Result<Vec<ValueArc<[u8]>>> {
        // To write them takes room first.
        if is_disk_full || !self.shared.plans.lock().may_rewrite(&self.shared.limits) {
            return Ok(Vec::new());
        }
        let (view, victims) = {
            let writer = self.shared.wait_for_writer();
            (self.shared.current(), writer.space.victims(self.shared.limits.job_bytes_max))
        };
        let found = superseded_in(&view.source, &victims, &self.shared.limits)?;
        tracing::debug!(looked_at = found.looked_at, bytes = found.bytes, "superseded");
        let is_job = found.bytes >= self.shared.limits.gathered_bytes_min;
        Ok(if is_job { found.anchors } else { Vec::new() })
    }

    fn reclaim(&self, is_disk_full: bool) -> Result<Prepared> {
        let mut writer = self.shared.wait_for_writer();
        let view = self.shared.current();
        let homes = view.source.anchors.homes();
        let find = |owner: u64| -> Option<Range<u64>> {
            match owner {
                0 => Some(0..view.tombstone_bytes),
                id => homes(id),
            }
        };
        let reclaimed = match is_disk_full {
            true => writer.space.reclaim_on_full_disk(&find)?,
            false => writer.space.reclaim(self.shared.limits.job_bytes_max, &find)?,
        };
        let prepared = writer.space.commit()?;
        tracing::debug!(segments = reclaimed.segments, walks = reclaimed.walks, "reclaimed");
        let mut report = Applied::default().report("reclaim", "garbage");
        report.bytes_read = reclaimed.moved_bytes;
        report.bytes_written = reclaimed.moved_bytes;
        let done = Done::Reclaim(reclaimed.is_gain());
        Ok(self.prepared(writer, self.of_space(&view, prepared), done, report))
    }

    fn checkpoint(&self) -> Result<Prepared> {
        let mut writer = self.shared.wait_for_writer();
        let view = self.shared.current();
        let prepared = writer.space.checkpoint()?;
        let mut report = Applied::default().report("checkpoint", "logical log");
        report.bytes_written = prepared.page_bytes();
        Ok(self.prepared(writer, self.of_space(&view, prepared), Done::Checkpoint, report))
    }

    /// Takes out what a range tombstone covers that no snapshot keeps, or a part of it.
    fn apply_tombstones(&self, context: &JobContext) -> Result<Prepared> {
        let view = self.shared.current();
        let oldest = context.stripes.first().copied().unwrap_or(Seq::MAX);
        let tombstones = view.tombstones.tombstones();
        let Some(first) = tombstones.iter().find(|tombstone| tombstone.seq <= oldest) else {
            return Ok(self.nothing(Done::Tombstones(true)));
        };
        let range = KeyRange { start: Some(first.start.to_vec()), end: Some(first.end.to_vec()) };
        self.sweep(context, &range, "range delete", |_, is_same| Done::Tombstones(is_same))
    }

    /// Brings intervals of a range into order, each with all that it holds in sight.
    fn sweep(
        &self,
        context: &JobContext,
        range: &KeyRange,
        reason: &str,
        done: impl FnOnce(Option<Vec<u8>>, bool) -> Done,
    ) -> Result<Prepared> {
        let writer = self.shared.wait_for_writer();
        let view = self.shared.current();
        let stretch = Stretch::of(&view.source.anchors, range, self.shared.limits.job_bytes_max);
        let mut listener = context.listeners.listener(self.shared.context.keyspace);
        let before = view.tombstones.tombstones();
        let cut = Fragments::build(stretch.cut(before.clone()));
        let kept = surviving_tombstones(
            &cut,
            &context.stripes,
            |start, end| !stretch.contains(start, end),
            &mut *listener,
        );
        let is_same = kept == before;
        let end =
            stretch.end.filter(|next| range.end.as_deref().is_none_or(|end| next.as_slice() < end));
        let told = (reason, done(end, is_same));
        self.look_at(context, (writer, &view), listener, kept, told, |applier| {
            applier.each(&stretch.anchors, |applier, anchor| applier.tidy(anchor))
        })
    }

    /// Writes what stands in so many fragments in one piece.
    fn gather(
        &self,
        context: &JobContext,
        (anchors, fragments_min): (&[ValueArc<[u8]>], usize),
        told: (&str, Done),
    ) -> Result<Prepared> {
        let writer = self.shared.wait_for_writer();
        let view = self.shared.current();
        let listener = context.listeners.listener(self.shared.context.keyspace);
        let kept = view.tombstones.tombstones();
        self.look_at(context, (writer, &view), listener, kept, told, |applier| {
            applier.each(anchors, |applier, anchor| applier.gather(anchor, fragments_min))
        })
    }

    /// Passes intervals from a key on while nobody writes: those in so many fragments.
    fn pass(&self, context: &JobContext, from: (&[u8], usize)) -> Result<Prepared> {
        let source = Arc::clone(&self.shared.current().source);
        let Passed { anchors, bytes, next } = Passed::from(&source, from, &self.shared.limits)?;
        let done = Done::Passed(next, bytes);
        if anchors.is_empty() {
            return Ok(self.nothing(done));
        }
        mark!("interval_gathered_in_quiet");
        self.gather(context, (&anchors, from.1), ("quiet", done))
    }

    /// Looks at intervals, each with all that it holds in sight, nothing coming in.
    fn look_at(
        &self,
        context: &JobContext,
        (mut writer, view): (MutexGuard<'_, Writer>, &FlexView),
        mut listener: Box<dyn Listener>,
        kept: Vec<RangeTombstone>,
        (reason, done): (&str, Done),
        run: impl FnOnce(&mut Applier<'_>) -> Result<()>,
    ) -> Result<Prepared> {
        let work = Work {
            incoming: None,
            tombstones: &view.tombstones,
            fresh: &Fragments::default(),
            kept,
            stripes: &context.stripes,
            cancelled: Some(&context.cancelled),
            purpose: Purpose::Compaction,
            largest_seq: 0,
        };
        let (next, applied) = self.shared.prepare(&mut writer, view, work, &mut *listener, run)?;
        let report = applied.report("compaction", reason);
        let picked = Some(Arc::clone(&self.picked));
        let change = self.shared.hand_over(writer, next, done, picked);
        let facts = listener.finish()?;
        let mut prepared = self.shared.described(change, report);
        prepared.sections.extend(facts);
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests;
