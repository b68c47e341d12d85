//! The steps: write, flush, compact, read, recover, and the background scheduler. They meet only
//! in the shared state.
//!
//! Lock order, outer to inner: `creating` > commit leadership > the turn to write >
//! `logs.syncing` > `manifest` > `catalogue` > an index's own > `publish` > a lane's `writer` and
//! `tail`, `logs.reach`, `snapshots`, what garbage collection knows.
//! Nothing here holds a lock while it runs user code.

pub(crate) mod background;
pub(crate) mod catalogue;
pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod commit;
pub(crate) mod conditional;
pub(crate) mod deltas;
pub(crate) mod described;
pub(crate) mod destroy;
pub(crate) mod directory;
pub(crate) mod effective;
pub(crate) mod facts;
pub(crate) mod flush;
pub(crate) mod gc;
pub(crate) mod health;
pub(crate) mod keyspaces;
pub(crate) mod lane;
pub(crate) mod large;
pub(crate) mod listener;
pub(crate) mod locate;
pub(crate) mod lock;
pub(crate) mod logs;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod moved_key;
pub(crate) mod pacing;
pub(crate) mod read;
pub(crate) mod reclaim;
pub(crate) mod recover;
mod relocate;
pub(crate) mod replay;
pub(crate) mod reserve;
pub(crate) mod room;
pub(crate) mod scan;
mod scattered;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod superseding;
pub(crate) mod timer;
pub(crate) mod touching;
pub(crate) mod verify;
pub(crate) mod view;

pub(crate) use state::Engine;
