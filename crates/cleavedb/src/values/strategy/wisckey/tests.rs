//! Each decision of the strategy alone.

use std::cell::Cell;

use super::*;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::ErrorKind;
use crate::values::strategy::Base;

const HANDLE: Handle = Handle { file: FileId(15), epoch: 0, offset: 120, bytes: 40 };

/// An index that knows one key.
struct One(Cell<Option<Base>>);

impl NewestBase for One {
    fn newest_base(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Base>> {
        assert_eq!((keyspace, key), (KeyspaceId(1), &b"k"[..]));
        Ok(self.0.get())
    }
}

#[test]
fn a_record_is_live_iff_it_is_its_keys_value() {
    let record = RecordPlace { keyspace: KeyspaceId(1), key: b"k", seq: 41, handle: HANDLE };
    let ask = |base| Wisckey.liveness(&record, &One(Cell::new(base))).unwrap();
    let base = Base { seq: 41, handle: Some(HANDLE), newest_seq: 41 };
    assert_eq!(ask(Some(base)), Liveness::Live { newest_seq: 41, is_merged: false });
    let merged = Base { newest_seq: 50, ..base };
    assert_eq!(ask(Some(merged)), Liveness::Live { newest_seq: 50, is_merged: true });
    assert_eq!(ask(None), Liveness::Dead, "deleted");
    assert_eq!(ask(Some(Base { seq: 42, newest_seq: 42, ..base })), Liveness::Dead, "put again");
    let inline = Base { seq: 42, handle: None, newest_seq: 42 };
    assert_eq!(ask(Some(inline)), Liveness::Dead, "put again, small");
    let elsewhere = Base { handle: Some(Handle { offset: 160, ..HANDLE }), ..base };
    assert_eq!(ask(Some(elsewhere)), Liveness::Dead, "another record of that seq");
}

#[test]
fn a_handle_with_an_epoch_is_refused() {
    assert_eq!(Wisckey.resolve(&HANDLE.encode()).unwrap(), HANDLE);
    let rewritten = Handle { epoch: 1, ..HANDLE };
    let error = Wisckey.resolve(&rewritten.encode()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(Wisckey.resolve(b"").is_err());
}

#[test]
fn it_asks_the_index_and_takes_the_oldest() {
    assert!(matches!(Wisckey.collection(), Collects::Index(_)));
    assert_eq!(Wisckey.victims(), VictimPolicy::plain(VictimOrder::OldestFirst));
}
