//! What scans pay for values that stand apart: once their needless device reads come to as many as
//! it takes to put the values in order, that is done, without anybody asking (ski rental: at most
//! twice what would have been spent by one who knew the future).
//!
//! Invariants: SC-1 a keyspace is compacted for this at most once for each entry's worth of
//! needless reads. SC-2 nothing is asked for while the last such compaction is under way, nor after
//! one met a full disk.

use std::collections::BTreeMap;

use crate::base::entry::KeyspaceId;
use crate::base::marks::mark;
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::index::KeyRange;

/// Fewer needless reads than so many are nobody's trouble.
const READS_MIN: u64 = 512;

/// What scans of all keyspaces have paid.
#[derive(Default)]
pub(crate) struct Scattered {
    by_keyspace: Mutex<BTreeMap<KeyspaceId, Paid>>,
    /// Set once a compaction that put values in order met a full disk, until somebody asks for one.
    pub(crate) found_full: AtomicBool,
}

/// What scans of one keyspace have paid since its values were last put in order.
#[derive(Default)]
struct Paid {
    /// Needless device reads.
    reads: u64,
    /// How many are worth a look.
    looks_at: u64,
    /// First and last key that they were for.
    hull: Option<(Vec<u8>, Vec<u8>)>,
    /// The compaction that was asked for.
    ticket: Option<u64>,
}

impl Paid {
    fn note(&mut self, reads: u64, first: &[u8], last: &[u8]) {
        self.reads += reads;
        match &mut self.hull {
            None => self.hull = Some((first.to_vec(), last.to_vec())),
            Some((smallest, largest)) => {
                if first < smallest.as_slice() {
                    *smallest = first.to_vec();
                }
                if last > largest.as_slice() {
                    *largest = last.to_vec();
                }
            }
        }
    }

    /// The keys of the hull, and nothing paid from here on.
    fn take_range(&mut self) -> KeyRange {
        (self.reads, self.looks_at) = (0, 0);
        let Some((start, mut end)) = self.hull.take() else { return KeyRange::default() };
        // The first key behind the last one.
        end.push(0);
        KeyRange { start: Some(start), end: Some(end) }
    }
}

impl Engine {
    /// A scan needed so many more device reads for the values from `first` to `last` than if they
    /// stood side by side.
    pub(crate) fn note_scattered(
        self: &Arc<Self>,
        keyspace: KeyspaceId,
        reads: u64,
        (first, last): (&[u8], &[u8]),
    ) {
        let can_be_ordered = self.strategy.collection().moves_records();
        if reads == 0 || self.settings.read_only || !can_be_ordered {
            return;
        }
        let is_due = {
            let mut by_keyspace = self.scattered.by_keyspace.lock();
            let paid = by_keyspace.entry(keyspace).or_default();
            paid.note(reads, first, last);
            paid.reads >= paid.looks_at.max(READS_MIN)
        };
        if is_due {
            self.schedule_housekeeping();
        }
    }

    /// Has the values of keyspaces put in order for which scans have paid enough.
    pub(crate) fn order_scattered(self: &Arc<Self>) {
        let keyspaces: Vec<KeyspaceId> =
            self.scattered.by_keyspace.lock().keys().copied().collect();
        for id in keyspaces {
            let Some(keyspace) = self.catalogue.lock().numbered(id) else {
                self.scattered.by_keyspace.lock().remove(&id);
                continue;
            };
            if self.order_if_due(&keyspace) {
                mark!("values_ordered_for_scans");
                self.schedule();
            }
        }
    }

    fn order_if_due(&self, keyspace: &Arc<KeyspaceState>) -> bool {
        let price = keyspace.index.view().space().entries.max(READS_MIN);
        let orders = self.orders_values(keyspace) && !self.relocation_found_full();
        let mut by_keyspace = self.scattered.by_keyspace.lock();
        let Some(paid) = by_keyspace.get_mut(&keyspace.id) else { return false };
        match paid.ticket.map(|ticket| keyspace.index.compaction_done(ticket)) {
            None => {}
            Some(false) => {
                paid.looks_at = paid.reads.saturating_add(price);
                return false;
            }
            Some(true) => {
                // What was paid meanwhile was for the order of before.
                paid.ticket = None;
                paid.take_range();
            }
        }
        paid.looks_at = price;
        if paid.reads < price {
            return false;
        }
        let range = paid.take_range();
        if !orders {
            return false;
        }
        tracing::info!(keyspace = keyspace.name, "values are put in order for scans");
        paid.ticket = Some(keyspace.index.request_compaction(range, true));
        true
    }
}

#[cfg(test)]
mod tests;
