//! Version chains: places that a flush took out of the table while a snapshot may still need them.
//!
//! Owned by a shard, under its lock. A link says: if the record at this place is the key's, it is
//! what a snapshot S sees that is not older than the record and older than the link's seq (rule
//! R16). That seq is the smallest one of the key in the flush, so whatever other links are gone,
//! a link never hides a version. Capped; the link that came first goes first.

use std::collections::{BTreeMap, VecDeque};

use crate::base::entry::Seq;
use crate::values::locator::guards::{Guard, Guards};
use crate::values::locator::place::Place;

/// Bytes of a link, about: it stands in a tree and in a queue.
const LINK_BYTES: usize = 96;

/// Which link: by hash, then by the seq from which on it serves no more, then by number.
type LinkId = (u64, Seq, u64);

/// The links of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    links: BTreeMap<LinkId, Place>,
    order: VecDeque<LinkId>,
    made: u64,
    evicted: u64,
}

impl Chains {
    /// Notes that the place served the hash's key, if it is that key's, up to `superseding`.
    pub(crate) fn push(&mut self, hash: u64, superseding: Seq, place: Place, links_max: usize) {
        if links_max == 0 {
            return;
        }
        while self.links.len() >= links_max {
            let Some(first) = self.order.pop_front() else { break };
            self.evicted += u64::from(self.links.remove(&first).is_some());
        }
        self.made += 1;
        let id = (hash, superseding, self.made);
        self.links.insert(id, place);
        self.order.push_back(id);
    }

    /// Places that may serve a snapshot, those superseded first in front.
    pub(crate) fn at(
        &self,
        hash: u64,
        snapshot: Seq,
        guards: Guards,
    ) -> impl Iterator<Item = Place> {
        let interval = guards.hold(Guard::ChainInterval);
        let from = if interval { snapshot.saturating_add(1) } else { 0 };
        self.links.range((hash, from, 0)..=(hash, Seq::MAX, u64::MAX)).map(|(_, place)| *place)
    }

    /// A record was moved.
    pub(crate) fn swing(&mut self, hash: u64, old: &Place, new: Option<Place>) {
        let mut gone = None;
        for (id, place) in self.links.range_mut((hash, 0, 0)..=(hash, Seq::MAX, u64::MAX)) {
            if place.is_at(old) {
                match new {
                    Some(new) => *place = new,
                    None => gone = Some(*id),
                }
            }
        }
        if let Some(id) = gone {
            self.links.remove(&id);
        }
    }

    /// Drops what no live snapshot needs, the oldest being this one.
    pub(crate) fn prune(&mut self, oldest_snapshot: Option<Seq>) {
        let Some(oldest) = oldest_snapshot else {
            self.clear();
            return;
        };
        self.links.retain(|(_, superseding, _), _| *superseding > oldest);
        self.order.retain(|id| self.links.contains_key(id));
    }

    /// Links in it.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.links.len() * LINK_BYTES
    }

    /// Links that went for others so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self { evicted: self.evicted, made: self.made, ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
