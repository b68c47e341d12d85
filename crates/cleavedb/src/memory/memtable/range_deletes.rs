//! The range deletes of one memtable: written one at a time, read through fragments.
//!
//! New tombstones wait in a list; the first read after that turns them into fragments. Fragments
//! are kept in runs of geometrically falling size, so that n range deletes with a read after each
//! cost O(n log^2 n) and not O(n^2).
//!
//! Invariants: D1 `count` is raised after the tombstone stands in the list, so a reader that finds
//! zero started before the insertion returned. D2 every tombstone is in `waiting` or in exactly
//! one run of its keyspace. D3 a run is more than twice as large as the one after it, or all are
//! one.

use std::collections::BTreeMap;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Arc, RwLock};
use crate::base::tombstone::{Fragments, RangeTombstone};

/// Runs of one keyspace, largest first.
type Runs = Vec<Arc<Fragments>>;

/// What stands behind the lock.
#[derive(Default)]
struct State {
    waiting: Vec<(KeyspaceId, RangeTombstone)>,
    runs: BTreeMap<KeyspaceId, Runs>,
}

/// All range deletes of a memtable.
pub(super) struct RangeDeletes {
    /// Number inserted (D1).
    count: AtomicUsize,
    /// Bytes of all tombstones and fragments.
    bytes: AtomicUsize,
    state: RwLock<State>,
    none: Arc<Fragments>,
}

impl RangeDeletes {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            state: RwLock::new(State::default()),
            none: Arc::new(Fragments::default()),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Adds one; `start` is below `end`.
    pub(super) fn insert(&self, keyspace: KeyspaceId, start: &[u8], end: &[u8], seq: Seq) {
        debug_assert!(start < end);
        let tombstone = RangeTombstone { start: start.into(), end: end.into(), seq };
        let bytes = start.len() + end.len() + size_of::<(KeyspaceId, RangeTombstone)>();
        let mut state = self.state.write();
        state.waiting.push((keyspace, tombstone));
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Largest seq not above `snapshot` of a range delete over the key; 0 for none.
    pub(super) fn cover_seq(&self, keyspace: KeyspaceId, key: &[u8], snapshot: Seq) -> Seq {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.read(|state| {
            let runs = state.runs.get(&keyspace).into_iter().flatten();
            runs.map(|run| run.cover_seq(key, snapshot)).max().unwrap_or(0)
        })
    }

    /// All of one keyspace as one set of fragments.
    pub(super) fn fragments(&self, keyspace: KeyspaceId) -> Arc<Fragments> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Arc::clone(&self.none);
        }
        let ready = self.read(|state| match state.runs.get(&keyspace).map(Vec::as_slice) {
            None | Some([]) => Some(Arc::clone(&self.none)),
            Some([one]) => Some(Arc::clone(one)),
            Some(_) => None,
        });
        ready.unwrap_or_else(|| {
            let mut state = self.state.write();
            state.absorb_waiting();
            let one = state.runs.get_mut(&keyspace).and_then(|runs| {
                if runs.len() > 1 {
                    *runs = vec![Arc::new(Fragments::merged(runs))];
                }
                runs.first().cloned()
            });
            self.bytes.store(state.bytes(), Ordering::Relaxed);
            one.unwrap_or_else(|| Arc::clone(&self.none))
        })
    }

    /// Keyspaces that have some, ascending.
    pub(super) fn keyspaces(&self) -> Vec<KeyspaceId> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.read(|state| state.runs.keys().copied().collect())
    }

    /// Bytes of memory held, without the struct itself.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Fragments>() + self.bytes.load(Ordering::Relaxed)
    }

    /// Reads the runs, after bringing them up to date if something waits.
    fn read<T>(&self, look: impl Fn(&State) -> T) -> T {
        {
            let state = self.state.read();
            if state.waiting.is_empty() || planted!("memtable_waiting_range_deletes_unread") {
                return look(&state);
            }
        }
        let mut state = self.state.write();
        state.absorb_waiting();
        self.bytes.store(state.bytes(), Ordering::Relaxed);
        look(&state)
    }
}

impl State {
    /// Turns what waits into runs, and joins runs until D3 holds.
    fn absorb_waiting(&mut self) {
        let mut fresh: BTreeMap<KeyspaceId, Vec<RangeTombstone>> = BTreeMap::new();
        for (keyspace, tombstone) in self.waiting.drain(..) {
            fresh.entry(keyspace).or_default().push(tombstone);
        }
        for (keyspace, tombstones) in fresh {
            let runs = self.runs.entry(keyspace).or_default();
            runs.push(Arc::new(Fragments::build(tombstones)));
            while let [.., larger, smaller] = runs.as_slice()
                && larger.len() <= 2 * smaller.len()
            {
                mark!("memtable_range_delete_runs_joined");
                let joined = Fragments::merged(&[Arc::clone(larger), Arc::clone(smaller)]);
                runs.truncate(runs.len() - 2);
                runs.push(Arc::new(joined));
            }
        }
    }

    /// Bytes held while nothing waits.
    fn bytes(&self) -> usize {
        debug_assert!(self.waiting.is_empty());
        let list = self.waiting.capacity() * size_of::<(KeyspaceId, RangeTombstone)>();
        list + self.runs.values().flatten().map(|run| run.memory_bytes()).sum::<usize>()
    }
}
