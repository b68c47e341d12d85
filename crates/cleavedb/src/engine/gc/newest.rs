//! What the index knows of keys at one moment, memtables included.

use crate::base::checksum::key_hash;
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::read::look_up_in;
use crate::engine::read::many::look_up_many_in;
use crate::engine::view::View;
use crate::index::KeyLookup;
use crate::values::strategy::{Base, NewestBase};

/// One moment.
pub(super) struct Moment<'a> {
    engine: &'a Engine,
    view: Arc<View>,
    /// Newest seq that is visible in it.
    pub(super) seq: Seq,
}

/// What was found of one key: what a strategy is told when it asks for that key.
pub(super) struct Known<'a> {
    moment: &'a Moment<'a>,
    pub(super) lookup: Lookup,
}

impl<'a> Moment<'a> {
    /// Now.
    pub(super) fn now(engine: &'a Engine) -> Self {
        let (view, seq) = {
            let (view, seq) = engine.moment(None);
            (Arc::clone(&view), seq)
        };
        Self { engine, view, seq }
    }

    /// What is known of each of these keys of a keyspace, in their order: asked for together,
    /// which costs less than one after the other, and least where they are sorted.
    pub(super) fn look_up_many<'k>(
        &'a self,
        keyspace: KeyspaceId,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Vec<Known<'a>>> {
        let lookup = |key: &'k [u8]| {
            let lookup = Lookup::new(self.seq);
            KeyLookup { key, hash: key_hash(key), lookup }
        };
        let mut lookups: Vec<KeyLookup<'_>> = keys.map(lookup).collect();
        let reads = &self.engine.metrics.collection.index_reads;
        reads.fetch_add(lookups.len() as u64, Ordering::Relaxed);
        look_up_many_in(&self.view, keyspace, &mut lookups)?;
        let known = |KeyLookup { lookup, .. }| Known { moment: self, lookup };
        Ok(lookups.into_iter().map(known).collect())
    }

    fn base_of(&self, keyspace: KeyspaceId, lookup: &Lookup) -> Result<Option<Base>> {
        if !self.view.indexes.contains_key(&keyspace) {
            return Ok(None);
        }
        let newest_seq = lookup.newest_seq;
        Ok(match &lookup.found {
            Some(found) if found.kind == Kind::PutSeparated => {
                let handle = Some(self.engine.strategy.resolve(&found.value)?);
                Some(Base { seq: found.seq, handle, newest_seq })
            }
            Some(found) if found.kind.holds_value() => {
                Some(Base { seq: found.seq, handle: None, newest_seq })
            }
            _ => None,
        })
    }
}

impl NewestBase for Moment<'_> {
    fn newest_base(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Base>> {
        let mut lookup = Lookup::new(self.seq);
        self.engine.metrics.collection.index_reads.fetch_add(1, Ordering::Relaxed);
        look_up_in(&self.view, keyspace, key, &mut lookup)?;
        self.base_of(keyspace, &lookup)
    }
}

impl NewestBase for Known<'_> {
    fn newest_base(&self, keyspace: KeyspaceId, _key: &[u8]) -> Result<Option<Base>> {
        self.moment.base_of(keyspace, &self.lookup)
    }
}
