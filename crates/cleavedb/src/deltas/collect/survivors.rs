//! The records of a collection that live on: the stripe rule, key by key.

use std::cmp::Ordering;

use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::merge_operator::SharedOperator;
use crate::base::merge_operator::combine::combine_operands;
use crate::deltas::bucket::scan::WholeBucket;
use crate::deltas::ranges::{self, Covers, RangeAnchor};
use crate::deltas::record::{Bound, DeltaKind, OPERAND_BYTES_MAX, OwnedBound, Record, group_bytes};

/// A record that owns its operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRecord {
    /// Its seq.
    pub(crate) seq: Seq,
    /// What it says.
    pub(crate) kind: DeltaKind,
    /// The operand; empty in an anchor.
    pub(crate) operand: Vec<u8>,
}

impl OwnedRecord {
    /// The same record, borrowed.
    pub(crate) fn as_ref(&self) -> Record<'_> {
        Record { seq: self.seq, kind: self.kind, operand: &self.operand }
    }
}

impl From<Record<'_>> for OwnedRecord {
    fn from(Record { seq, kind, operand }: Record<'_>) -> Self {
        Self { seq, kind, operand: operand.to_vec() }
    }
}

/// A key and its records, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRecords {
    /// Keyspace and key.
    pub(crate) bound: OwnedBound,
    /// At least one.
    pub(crate) records: Vec<OwnedRecord>,
}

impl KeyRecords {
    /// Bytes that they take in a bucket.
    pub(crate) fn bytes(&self) -> u64 {
        group_bytes(self.bound.as_ref(), self.records.iter().map(OwnedRecord::as_ref)) as u64
    }
}

impl KeyRecords {
    /// Whether operands that count now stand in the index: who was to apply them to the value may
    /// have been cut off by a close.
    pub(crate) fn has_strays(&self) -> bool {
        let newer = self.records.iter().take_while(|record| record.kind != DeltaKind::Anchor);
        newer.into_iter().any(|record| record.kind == DeltaKind::Elsewhere)
    }

    /// Memory held, with what tables take for it.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let records = self.records.iter();
        let records: usize =
            records.map(|record| record.operand.len() + size_of::<OwnedRecord>()).sum();
        (2 * (self.bound.key.len() + size_of::<OwnedBound>()) + records) as u64
    }
}

/// What becomes of a keyspace's records.
pub(crate) enum Fate {
    /// The keyspace was dropped: all of them die.
    Gone,
    /// They live by the stripe rule, combined by the operator where there is one.
    Lives(Option<SharedOperator>),
}

/// Tells the fate of a keyspace.
pub(crate) type FateOf<'a> = &'a dyn Fn(KeyspaceId) -> Fate;

/// What decides over life and death.
pub(crate) struct Rule<'a> {
    /// Live snapshots, ascending.
    pub(crate) snapshots: &'a [Seq],
    /// What becomes of each keyspace.
    pub(crate) fate_of: FateOf<'a>,
}

/// What lives on.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    /// Keys in order.
    pub(crate) keys: Vec<KeyRecords>,
    /// Range anchors in order.
    pub(crate) ranges: Vec<RangeAnchor>,
}

/// The live records of neighbouring buckets, in order, and of a flush that comes on top.
pub(crate) fn survivors(
    buckets: &[WholeBucket],
    flushed: &[KeyRecords],
    flushed_ranges: &[RangeAnchor],
    rule: &Rule<'_>,
) -> Survivors {
    let metas = buckets.iter().flat_map(|whole| &whole.loaded.meta.ranges);
    let chunks = buckets.iter().flat_map(|whole| &whole.loaded.chunks);
    let mut all: Vec<RangeAnchor> = metas
        .chain(chunks.flat_map(|chunk| &chunk.ranges))
        .chain(flushed_ranges)
        .filter(|anchor| matches!((rule.fate_of)(anchor.keyspace), Fate::Lives(_)))
        .cloned()
        .collect();
    ranges::sort(&mut all);
    ranges::thin(&mut all, rule.snapshots);
    let covers = Covers::new(all.iter());
    let mut keys = Vec::new();
    let mut old = buckets.iter().flat_map(key_groups).peekable();
    let mut new = flushed.iter().peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((bound, _)), Some(key)) => bound.cmp(&key.bound.as_ref()),
        };
        let (older, newer) = match order {
            Ordering::Less => (old.next(), None),
            Ordering::Greater => (None, new.next()),
            Ordering::Equal => (old.next(), new.next()),
        };
        let bound = newer.map(|key| key.bound.as_ref()).or(older.as_ref().map(|(bound, _)| *bound));
        let Some(bound) = bound else { break };
        let mut records: Vec<Record<'_>> =
            newer.iter().flat_map(|key| key.records.iter().map(OwnedRecord::as_ref)).collect();
        records.extend(older.into_iter().flat_map(|(_, records)| records));
        if let Fate::Lives(operator) = (rule.fate_of)(bound.keyspace) {
            let (snapshots, operator) = (rule.snapshots, operator.as_ref());
            let judge = Judge { covers: &covers, snapshots, operator, older_below: false };
            let records = judge.judge(bound, &records);
            if !records.is_empty() {
                keys.push(KeyRecords { bound: bound.to_owned(), records });
            }
        }
    }
    let mut survivors = Survivors { keys, ranges: all };
    survivors.drop_idle_ranges();
    survivors
}

/// The keys of a bucket, each with its records, newest first.
fn key_groups(whole: &WholeBucket) -> impl Iterator<Item = (Bound<'_>, Vec<Record<'_>>)> {
    let mut number = 0;
    std::iter::from_fn(move || {
        let (bound, first) = whole.record(number)?;
        let mut records = vec![first];
        number += 1;
        while let Some((_, record)) = whole.record(number).filter(|(other, _)| *other == bound) {
            records.push(record);
            number += 1;
        }
        Some((bound, records))
    })
}

impl Survivors {
    /// Leaves only range anchors over an older delta (DCL-3).
    pub(crate) fn drop_idle_ranges(&mut self) {
        let keys = &self.keys;
        self.ranges.retain(|anchor| {
            let start = Bound { keyspace: anchor.keyspace, key: &anchor.range.start };
            let from = keys.partition_point(|key| key.bound.as_ref() < start);
            let over = keys.iter().skip(from).take_while(|key| {
                key.bound.keyspace == anchor.keyspace && key.bound.key < anchor.range.end
            });
            let is_older = |record: &OwnedRecord| record.seq < anchor.range.seq;
            over.into_iter().any(|key| key.records.iter().any(is_older))
        });
    }
}

/// What judges the records of a key.
pub(crate) struct Judge<'a> {
    /// Range anchors.
    pub(crate) covers: &'a Covers,
    /// Live snapshots, ascending.
    pub(crate) snapshots: &'a [Seq],
    /// Combines deltas.
    pub(crate) operator: Option<&'a SharedOperator>,
    /// Whether older deltas of the key may stand elsewhere, so that its anchors are needed.
    pub(crate) older_below: bool,
}

impl Judge<'_> {
    /// The live records of one key, newest first, out of all of them, newest first.
    pub(crate) fn judge(&self, bound: Bound<'_>, records: &[Record<'_>]) -> Vec<OwnedRecord> {
        let stripe_of = |seq: Seq| self.snapshots.partition_point(|snapshot| *snapshot < seq);
        // Oldest first, so that it is known whether an anchor has anything below it.
        let mut live: Vec<OwnedRecord> = Vec::new();
        let stripes = records.chunk_by(|a, b| stripe_of(a.seq) == stripe_of(b.seq));
        for stripe in stripes.collect::<Vec<_>>().into_iter().rev() {
            let number = stripe.first().map_or(0, |record| stripe_of(record.seq));
            let top = self.snapshots.get(number).copied().unwrap_or(SEQ_MAX);
            let cover = self.covers.cover_seq(bound, top);
            let anchor = stripe.iter().find(|record| record.kind == DeltaKind::Anchor);
            let floor = anchor.map_or(0, |anchor| anchor.seq).max(cover);
            let has_older = self.older_below || !live.is_empty();
            if let Some(anchor) = anchor.filter(|anchor| anchor.seq >= cover && has_older) {
                live.push(OwnedRecord::from(*anchor));
            }
            let deltas = stripe.partition_point(|record| record.seq > floor);
            let deltas = stripe.get(..deltas).unwrap_or_default();
            combine_into(&mut live, bound.key, deltas, self.operator);
        }
        live.reverse();
        join_elsewhere(&mut live);
        live
    }
}

/// Of operands in the index that follow one another, newest first, leaves the oldest: who sees what
/// is above any of them sees it, too, and so keeps that apart from what is below.
pub(crate) fn join_elsewhere(records: &mut Vec<OwnedRecord>) {
    records.dedup_by(|older, newer| {
        let are_both = [&*older, &*newer].iter().all(|r| r.kind == DeltaKind::Elsewhere);
        if are_both {
            newer.seq = older.seq;
        }
        are_both
    });
}

/// Adds deltas, newest first, as few as the operator can make of them where none lies elsewhere
/// between two (DCL-4), and of none more than a bucket takes; oldest first.
fn combine_into(
    live: &mut Vec<OwnedRecord>,
    key: &[u8],
    deltas: &[Record<'_>],
    operator: Option<&SharedOperator>,
) {
    let is_delta = |record: &Record<'_>| record.kind == DeltaKind::Delta;
    let runs: Vec<_> = deltas.chunk_by(|a, b| is_delta(a) && is_delta(b)).collect();
    for run in runs.into_iter().rev() {
        let owned = run.iter().rev().copied().map(OwnedRecord::from);
        let Some(operator) = operator.filter(|_| run.len() > 1) else {
            live.extend(owned);
            continue;
        };
        let operands = owned.map(|record| (record.seq, record.operand));
        let combined = combine_operands(&**operator, key, operands, OPERAND_BYTES_MAX);
        let kind = DeltaKind::Delta;
        live.extend(combined.into_iter().map(|(seq, operand)| OwnedRecord { seq, kind, operand }));
    }
}
