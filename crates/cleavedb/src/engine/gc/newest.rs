//! What the index knows of a key at one moment, memtables included.

use std::cell::RefCell;

use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::sync::Arc;
use crate::engine::Engine;
use crate::engine::read::look_up_in;
use crate::engine::view::View;
use crate::values::strategy::{Base, NewestBase};

/// One moment; remembers what the last lookup met.
pub(super) struct Moment<'a> {
    engine: &'a Engine,
    view: Arc<View>,
    /// Newest seq that is visible in it.
    pub(super) seq: Seq,
    last: RefCell<Option<Lookup>>,
}

impl<'a> Moment<'a> {
    /// Now.
    pub(super) fn now(engine: &'a Engine) -> Self {
        let (view, seq) = {
            let (view, seq) = engine.moment(None);
            (Arc::clone(&view), seq)
        };
        Self { engine, view, seq, last: RefCell::new(None) }
    }

    /// Everything about the key asked about last.
    pub(super) fn take_lookup(&self) -> Option<Lookup> {
        self.last.borrow_mut().take()
    }

    /// The newest seq of a key.
    pub(super) fn newest_seq(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Seq> {
        Ok(look_up_in(&self.view, keyspace, key, self.seq)?.newest_seq)
    }
}

impl NewestBase for Moment<'_> {
    fn newest_base(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Base>> {
        if !self.view.indexes.contains_key(&keyspace) {
            return Ok(None);
        }
        let lookup = look_up_in(&self.view, keyspace, key, self.seq)?;
        let newest_seq = lookup.newest_seq;
        let base = match &lookup.found {
            Some(found) if found.kind == Kind::PutSeparated => {
                let handle = Some(self.engine.strategy.resolve(&found.value)?);
                Some(Base { seq: found.seq, handle, newest_seq })
            }
            Some(found) if found.kind.holds_value() => {
                Some(Base { seq: found.seq, handle: None, newest_seq })
            }
            _ => None,
        };
        *self.last.borrow_mut() = Some(lookup);
        Ok(base)
    }
}
