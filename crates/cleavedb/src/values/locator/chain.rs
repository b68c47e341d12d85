//! Version chains: places that a flush took out of the table while a snapshot may still need them.
//!
//! Owned by a shard, under its lock. A link says: if the record at this place is the key's, it is
//! what a snapshot S sees that is not older than the record and older than the link's seq (rule
//! R16). That seq is the smallest one of the key in the flush, so whatever other links are gone,
//! a link never hides a version. A link serves exactly the key whose flush made it: the place may
//! be another key's, which was not superseded. Capped; the link that came first goes first.

use std::collections::{BTreeMap, VecDeque};

use crate::base::entry::{KeyspaceId, Seq};
use crate::values::locator::LocatorKey;
use crate::values::locator::guards::{Guard, Guards};
use crate::values::locator::place::Place;

/// Bytes of a link besides its key, about: it stands in a tree and in a queue.
const LINK_BYTES: usize = 128;

/// Which link: by hash, then by the seq from which on it serves no more, then by number.
type LinkId = (u64, Seq, u64);

#[derive(Clone, Debug)]
struct Link {
    keyspace: KeyspaceId,
    key: Box<[u8]>,
    place: Place,
}

impl Link {
    fn is_of(&self, key: &LocatorKey<'_>) -> bool {
        self.keyspace == key.keyspace && *self.key == *key.key
    }
}

/// The links of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    links: BTreeMap<LinkId, Link>,
    order: VecDeque<LinkId>,
    key_bytes: usize,
    made: u64,
    evicted: u64,
}

impl Chains {
    /// Notes that the place served the key, if it is that key's, up to `superseding`.
    pub(crate) fn push(
        &mut self,
        key: &LocatorKey<'_>,
        superseding: Seq,
        place: Place,
        links_max: usize,
    ) {
        if links_max == 0 {
            return;
        }
        while self.links.len() >= links_max {
            let Some(first) = self.order.pop_front() else { break };
            self.evicted += u64::from(self.links.contains_key(&first));
            self.remove(first);
        }
        self.made += 1;
        let id = (key.hash, superseding, self.made);
        self.key_bytes += key.key.len();
        self.links.insert(id, Link { keyspace: key.keyspace, key: Box::from(key.key), place });
        self.order.push_back(id);
    }

    fn remove(&mut self, id: LinkId) {
        if let Some(link) = self.links.remove(&id) {
            self.key_bytes -= link.key.len();
        }
    }

    /// Places that may serve a snapshot, those superseded first in front.
    pub(crate) fn at(
        &self,
        key: &LocatorKey<'_>,
        snapshot: Seq,
        guards: Guards,
    ) -> impl Iterator<Item = Place> {
        let interval = guards.hold(Guard::ChainInterval);
        let from = if interval { snapshot.saturating_add(1) } else { 0 };
        let is_exact = guards.hold(Guard::ExactChain);
        let links = self.links.range((key.hash, from, 0)..=(key.hash, Seq::MAX, u64::MAX));
        let own = links.filter(move |(_, link)| link.is_of(key) || !is_exact);
        own.map(|(_, link)| link.place)
    }

    /// A record was moved.
    pub(crate) fn swing(&mut self, key: &LocatorKey<'_>, old: &Place, new: Option<Place>) {
        let mut gone = None;
        let ids = (key.hash, 0, 0)..=(key.hash, Seq::MAX, u64::MAX);
        for (id, link) in self.links.range_mut(ids) {
            if link.place.is_at(old) {
                match new {
                    Some(new) => link.place = new,
                    None => gone = Some(*id),
                }
            }
        }
        if let Some(id) = gone {
            self.remove(id);
        }
    }

    /// Drops what no live snapshot needs, the oldest being this one.
    pub(crate) fn prune(&mut self, oldest_snapshot: Option<Seq>) {
        let Some(oldest) = oldest_snapshot else {
            self.clear();
            return;
        };
        self.links.retain(|(_, superseding, _), _| *superseding > oldest);
        self.key_bytes = self.links.values().map(|link| link.key.len()).sum();
        self.order.retain(|id| self.links.contains_key(id));
    }

    /// Links in it.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.links.len() * LINK_BYTES + self.key_bytes
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
