//! The one place where versions die: the stripe rule over one sorted run of entries.
//!
//! Owned by one thread, which drives it entry by entry; survivors come out in entry order.
//! Invariants: S1 seqs are never changed; what is combined carries its newest part's seq. S2 a
//! version dies only if no live snapshot lies in [its seq, superseding seq), where the superseding
//! seq is that of a newer put, delete or range delete of its key: merges do not supersede what they
//! need. S3 operands are combined only within one stripe, so every live snapshot sees the same
//! before and after. S4 a tombstone leaves only where nothing older may exist below it. S5 every
//! entry that dies is reported to the listener exactly once, before `advance` returns false.

use std::collections::VecDeque;

use crate::base::cursor::BoxCursor;
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::VALUE_BYTES_MAX;
use crate::base::marks::mark;
use crate::base::merge_operator::{self, SharedOperator};
use crate::base::planted::planted;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::tombstone::Fragments;
use crate::index::{Dead, Judged, Listener, Mended};

mod ranges;
#[cfg(test)]
mod tests;

pub(crate) use ranges::surviving_tombstones;

/// Bytes of operands of one key and stripe that are held in memory at once; what lies above is
/// written as it is (a newer part), and the rest is combined on its own.
const OPERAND_BYTES_MAX: usize = 16 << 20;

/// Entries between two looks at the flag that cancels.
const CANCEL_INTERVAL: u64 = 256;

/// Tells whether entries older than those of this run may exist for a key.
pub(crate) type OlderBelow<'a> = Box<dyn FnMut(&[u8]) -> bool + Send + 'a>;

/// What decides over life and death.
pub(crate) struct StripeRule<'a> {
    /// Live snapshots, ascending.
    pub(crate) snapshots: &'a [Seq],
    /// All range tombstones of the run.
    pub(crate) tombstones: &'a Fragments,
    /// Combines merge operands; without one they stay as they are.
    pub(crate) operator: Option<SharedOperator>,
    /// Whether anything older may exist below for a key.
    pub(crate) older_below: OlderBelow<'a>,
    /// Set from outside to end the walk early, with an error of kind `Closed`.
    pub(crate) cancelled: Option<&'a AtomicBool>,
}

/// Number of the stripe that a seq lies in: two seqs share one iff no live snapshot separates
/// them, that is: lies in [smaller, larger).
fn stripe_of(snapshots: &[Seq], seq: Seq) -> usize {
    if planted!("stripe_rule_oldest_snapshot") {
        return snapshots.iter().take(1).filter(|snapshot| **snapshot < seq).count();
    }
    snapshots.partition_point(|snapshot| *snapshot < seq)
}

/// Newest seq of the stripe that `seq` lies in.
fn stripe_top(snapshots: &[Seq], seq: Seq) -> Seq {
    snapshots.get(stripe_of(snapshots, seq)).copied().unwrap_or(SEQ_MAX)
}

/// An entry of the current key that is no longer, or not only, under the input cursor.
#[derive(Debug)]
struct Version {
    seq: Seq,
    kind: Kind,
    value: Vec<u8>,
}

/// Where the current survivor stands.
enum Current {
    /// Under the input cursor.
    Input,
    /// Under the input cursor, with another handle.
    Mended((Kind, Vec<u8>)),
    /// Out of the input already.
    Owned(Version),
}

/// The entries of a run that survive, in order.
pub(crate) struct Survivors<'a> {
    input: BoxCursor,
    end: Option<Vec<u8>>,
    rule: StripeRule<'a>,
    listener: &'a mut dyn Listener,
    /// Whether that hears of every version.
    tells_versions: bool,
    /// The key whose versions are being judged, if `open`.
    key: Vec<u8>,
    open: bool,
    /// Seq of the nearest newer put or delete of the key; 0 for none.
    superseder: Seq,
    /// Whether the key is known to have nothing older below; asked at most once per key.
    absent_below: Option<bool>,
    /// Live merge operands of one stripe, newest first, waiting for their base.
    operands: Vec<Version>,
    operand_bytes: usize,
    /// Deletes that vanish unless an older version of the key survives.
    held: Vec<Version>,
    ready: VecDeque<Version>,
    current: Current,
    /// Whether the input cursor must move on before the next look.
    consumed: bool,
    entries_in: u64,
}

impl<'a> Survivors<'a> {
    /// Judges the entries from where `input` stands up to `end` (exclusive; `None`: all).
    pub(crate) fn new(
        input: BoxCursor,
        end: Option<Vec<u8>>,
        rule: StripeRule<'a>,
        listener: &'a mut dyn Listener,
    ) -> Self {
        debug_assert!(rule.snapshots.is_sorted());
        Self {
            input,
            end,
            rule,
            tells_versions: listener.wants_versions(),
            listener,
            key: Vec::new(),
            open: false,
            superseder: 0,
            absent_below: None,
            operands: Vec::new(),
            operand_bytes: 0,
            held: Vec::new(),
            ready: VecDeque::new(),
            current: Current::Input,
            consumed: false,
            entries_in: 0,
        }
    }

    /// Moves to the next survivor; false when there is none.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(version) = self.ready.pop_front() {
                self.current = Current::Owned(version);
                return Ok(true);
            }
            if self.consumed {
                self.input.next()?;
                self.consumed = false;
            }
            let at_end = !self.input.valid()
                || self.end.as_deref().is_some_and(|end| self.input.key() >= end);
            if self.open && (at_end || self.input.key() != self.key.as_slice()) {
                self.close_key();
                continue;
            }
            if at_end {
                return Ok(false);
            }
            if !self.open {
                self.begin_key();
            }
            self.check_cancelled()?;
            self.entries_in += 1;
            self.consumed = true;
            if self.judge()? {
                return Ok(true);
            }
        }
    }

    /// Key of the current survivor.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Its seq.
    pub(crate) fn seq(&self) -> Seq {
        match &self.current {
            Current::Owned(version) => version.seq,
            Current::Input | Current::Mended(_) => self.input.seq(),
        }
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> Kind {
        match &self.current {
            Current::Owned(version) => version.kind,
            Current::Mended((kind, _)) => *kind,
            Current::Input => self.input.kind(),
        }
    }

    /// Its value, operand or handle.
    pub(crate) fn value(&self) -> &[u8] {
        match &self.current {
            Current::Owned(version) => &version.value,
            Current::Mended((_, value)) => value,
            Current::Input => self.input.value(),
        }
    }

    /// Who hears of all this.
    pub(crate) fn listener(&mut self) -> &mut dyn Listener {
        self.listener
    }

    /// Entries read so far.
    pub(crate) fn entries_in(&self) -> u64 {
        self.entries_in
    }

    /// Looks at the flag now and then, also where entry after entry dies.
    fn check_cancelled(&self) -> Result<()> {
        if self.entries_in.is_multiple_of(CANCEL_INTERVAL)
            && self.rule.cancelled.is_some_and(|flag| flag.load(Ordering::Acquire))
        {
            mark!("compaction_cancelled");
            return Err(Error::new(ErrorKind::Closed, "compaction cancelled"));
        }
        Ok(())
    }

    fn begin_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.input.key());
        self.open = true;
        self.superseder = 0;
        self.absent_below = None;
    }

    /// Decides over the entry under the cursor; true if it is the next survivor as it stands.
    fn judge(&mut self) -> Result<bool> {
        let (seq, kind) = (self.input.seq(), self.input.kind());
        let superseded_by = self.superseded_by(seq);
        if self.tells_versions {
            let (value, is_superseded) = (self.input.value(), superseded_by.is_some());
            self.listener.version(&Judged { seq, kind, value, is_superseded });
        }
        if let Some(superseded_by) = superseded_by {
            self.report_input(superseded_by);
            // What an entry has hidden, its own superseder hides as well: named so, all versions
            // of a stripe die of the same one.
            if superseded_by != self.superseder {
                self.supersede(seq, kind);
            }
            return Ok(false);
        }
        if self.superseder != 0 {
            mark!("stripe_kept_version");
        }
        match kind {
            Kind::Merge if self.rule.operator.is_some() => {
                self.gather_operand(seq);
                self.supersede(seq, kind);
                Ok(false)
            }
            Kind::Merge => {
                if self.superseder == 0 {
                    self.listener.operand(&self.key, seq);
                }
                Ok(self.survives())
            }
            Kind::Put | Kind::PutSeparated | Kind::PutBare | Kind::Delete => {
                let folded = self.meet_base(seq, kind);
                self.supersede(seq, kind);
                if folded {
                    return Ok(false);
                }
                if kind == Kind::Delete && self.nothing_below() {
                    self.held.push(Version { seq, kind, value: Vec::new() });
                    return Ok(false);
                }
                Ok(self.survives())
            }
            Kind::RangeDelete | Kind::Relocation => Err(Error::corruption(format!(
                "a sorted run holds an entry of kind {kind:?} for key \"{}\"",
                self.key.escape_ascii()
            ))),
        }
    }

    /// The seq that kills a version of the current key, or `None` if the version lives.
    fn superseded_by(&self, seq: Seq) -> Option<Seq> {
        let top = stripe_top(self.rule.snapshots, seq);
        if self.superseder > seq && self.superseder <= top {
            return Some(self.superseder);
        }
        if self.rule.tombstones.is_empty() {
            return None;
        }
        let cover = self.rule.tombstones.cover_seq(&self.key, top);
        (cover > seq).then_some(cover)
    }

    /// Notes that this version hides the older ones of its key.
    fn supersede(&mut self, seq: Seq, kind: Kind) {
        if kind.is_base() || planted!("superseding_merge_kills_base") {
            self.superseder = seq;
        }
    }

    /// Reports the entry under the cursor as dead.
    fn report_input(&mut self, superseded_by: Seq) {
        let (seq, kind, value) = (self.input.seq(), self.input.kind(), self.input.value());
        let is_covered = superseded_by != self.superseder && kind.is_base();
        self.listener.dead(Dead { key: &self.key, seq, kind, value, superseded_by, is_covered });
    }

    /// Lets the entry under the cursor live; true if it can be handed out as it stands.
    fn survives(&mut self) -> bool {
        let (seq, kind) = (self.input.seq(), self.input.kind());
        let mended = if kind == Kind::PutSeparated {
            self.listener.survivor(&self.key, seq, self.input.value()).map(Mended::entry)
        } else {
            None
        };
        if self.ready.is_empty() && self.held.is_empty() {
            self.current = mended.map_or(Current::Input, Current::Mended);
            return true;
        }
        let (kind, value) = mended.unwrap_or_else(|| (kind, self.input.value().to_vec()));
        self.emit(Version { seq, kind, value });
        false
    }

    /// Queues a survivor behind the deletes that it keeps alive.
    fn emit(&mut self, version: Version) {
        self.ready.extend(self.held.drain(..));
        self.ready.push_back(version);
    }

    fn nothing_below(&mut self) -> bool {
        if planted!("drop_tombstone_above_bottom") {
            return true;
        }
        let Self { absent_below, rule, key, .. } = self;
        *absent_below.get_or_insert_with(|| !(rule.older_below)(key))
    }

    fn gather_operand(&mut self, seq: Seq) {
        let value = self.input.value().to_vec();
        let other_stripe = self.operands.first().is_some_and(|newest| {
            let snapshots = self.rule.snapshots;
            stripe_of(snapshots, newest.seq) != stripe_of(snapshots, seq)
        });
        if other_stripe {
            self.close_operands(seq);
        } else if self.operand_bytes + value.len() > OPERAND_BYTES_MAX {
            self.combine_operands();
        }
        self.operand_bytes += value.len();
        self.operands.push(Version { seq, kind: Kind::Merge, value });
    }

    /// A live put or delete ends the waiting operands; true if they swallowed it.
    fn meet_base(&mut self, seq: Seq, kind: Kind) -> bool {
        let Some(newest) = self.operands.first().map(|newest| newest.seq) else {
            return false;
        };
        let snapshots = self.rule.snapshots;
        let reached = stripe_of(snapshots, newest) == stripe_of(snapshots, seq);
        let base = match kind {
            Kind::Put if reached => Some(self.input.value().to_vec()),
            Kind::Delete if reached => None,
            _ => {
                self.close_operands(seq);
                return false;
            }
        };
        let folded = self.fold_operands(base.as_deref());
        if folded {
            self.report_input(newest);
        }
        folded
    }

    /// Ends the waiting operands where the next older live version (0: none) does not join them.
    fn close_operands(&mut self, next: Seq) {
        let (Some(newest), Some(oldest)) = (self.operands.first(), self.operands.last()) else {
            return;
        };
        let (newest, oldest) = (newest.seq, oldest.seq);
        let cover = self.rule.tombstones.cover_seq(&self.key, oldest.saturating_sub(1));
        let snapshots = self.rule.snapshots;
        let covered = cover > next && stripe_of(snapshots, cover) == stripe_of(snapshots, newest);
        let absent = covered
            || next == 0
                && self.nothing_below()
                && !self.listener.keeps_tombstone(&self.key, oldest);
        if absent {
            self.fold_operands(None);
        } else {
            self.combine_operands();
        }
    }

    /// Applies all waiting operands to their base. On failure they are queued as they are.
    fn fold_operands(&mut self, base: Option<&[u8]>) -> bool {
        let operands = std::mem::take(&mut self.operands);
        self.operand_bytes = 0;
        let (Some(operator), Some(newest)) = (&self.rule.operator, operands.first()) else {
            return false;
        };
        let slices: Vec<&[u8]> = operands.iter().rev().map(|o| o.value.as_slice()).collect();
        let folded = merge_operator::full_merge(operator.as_ref(), &self.key, base, &slices);
        let newest = newest.seq;
        match folded {
            Ok(value) if value.len() <= VALUE_BYTES_MAX => {
                mark!("merge_folded_in_compaction");
                for operand in operands.iter().skip(1) {
                    self.report(operand, newest);
                }
                self.emit(Version { seq: newest, kind: Kind::Put, value });
                true
            }
            _ => {
                mark!("operator_failed_in_compaction");
                operands.into_iter().for_each(|operand| self.emit(operand));
                false
            }
        }
    }

    /// Combines waiting operands with one another as far as the operator can.
    fn combine_operands(&mut self) {
        let mut operands = std::mem::take(&mut self.operands);
        self.operand_bytes = 0;
        let Some(operator) = self.rule.operator.clone() else { return };
        let mut combined: Vec<Version> = Vec::new();
        while let Some(newer) = operands.pop() {
            let merged = combined.last().and_then(|older| {
                merge_operator::partial_merge(
                    operator.as_ref(),
                    &self.key,
                    &older.value,
                    &newer.value,
                )
            });
            match (merged, combined.last_mut()) {
                (Some(value), Some(older)) if value.len() <= VALUE_BYTES_MAX => {
                    mark!("partial_merge_in_compaction");
                    let older = std::mem::replace(older, Version { value, ..newer });
                    self.report(&older, newer.seq);
                }
                _ => combined.push(newer),
            }
        }
        combined.into_iter().rev().for_each(|operand| self.emit(operand));
    }

    fn report(&mut self, version: &Version, superseded_by: Seq) {
        let Version { seq, kind, value } = version;
        let (seq, kind, is_covered) = (*seq, *kind, false);
        self.listener.dead(Dead { key: &self.key, seq, kind, value, superseded_by, is_covered });
    }

    /// Ends the current key: waiting operands go out, deletes that hide nothing vanish.
    fn close_key(&mut self) {
        self.close_operands(0);
        for delete in std::mem::take(&mut self.held) {
            if self.listener.keeps_tombstone(&self.key, delete.seq) {
                self.ready.push_back(delete);
            } else {
                mark!("bottom_tombstone_dropped");
                self.report(&delete, delete.seq);
            }
        }
        if self.tells_versions {
            self.listener.key_ended(&self.key);
        }
        self.open = false;
    }
}
