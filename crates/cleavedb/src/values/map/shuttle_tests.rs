//! Reads beside a flush and a swing of garbage collection on one key, under a scheduler that may
//! switch threads at every step.

use std::collections::BTreeMap;

use super::*;
use crate::base::entry::FileId;
use crate::base::sync::schedules::check;
use crate::base::sync::{Arc, ArcSwap, Mutex, thread};

const KEYSPACE: KeyspaceId = KeyspaceId(1);

fn place(container: u64) -> Place {
    let container = FileId(container);
    Place { container, file: container, offset: 24, bytes: 1000 }
}

/// What is published: the newest flushed version, and whether the index has it without handle.
#[derive(Clone, Debug)]
struct View {
    seq: Seq,
    is_bare: bool,
}

struct Store {
    map: Map,
    hash: u64,
    view: ArcSwap<View>,
    /// The newest seq that reads see, and the snapshots that are registered: one moment for both.
    visible: Mutex<(Seq, Vec<Seq>)>,
    /// Which seq stands in which container; those that are gone are taken out.
    records: Mutex<BTreeMap<u64, Seq>>,
}

impl Store {
    fn new(guards: Guards) -> Self {
        let settings = Settings { shard_bits: 1, guards, ..Settings::for_budget(1 << 20) };
        let keyed = KeyedHash::new(b"threads of tests");
        let store = Self {
            map: Map::new(settings, keyed, Generation(0)),
            hash: keyed.hash(KEYSPACE, b"k"),
            view: ArcSwap::from_pointee(View { seq: 1, is_bare: true }),
            visible: Mutex::new((1, Vec::new())),
            records: Mutex::new([(1, 1)].into_iter().collect()),
        };
        store.touch(Snapshots::default(), Flushed { seq: 1, place: Some(place(1)) });
        store
    }

    fn key(&self) -> LocatorKey<'static> {
        LocatorKey { keyspace: KEYSPACE, key: b"k", hash: self.hash }
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.visible.lock().1.clone())
    }

    fn touch(&self, snapshots: Snapshots, version: Flushed) -> FlushTouches<&Map> {
        let mut touches = self.map.begin_flush(snapshots);
        let touched = touches.touch(&self.key(), &[version], &mut Vec::new());
        assert_eq!(touched, Touched::Taken);
        touches
    }

    /// A whole read, whose snapshot stays.
    fn read(&self) {
        let mut visible = self.visible.lock();
        let snapshot = visible.0;
        visible.1.push(snapshot);
        drop(visible);
        self.read_at(snapshot);
    }

    /// Of what was written and not flushed it sees nothing, for it asks the memtable of its view
    /// first.
    fn read_at(&self, snapshot: Seq) {
        let view = self.view.load_full();
        // In the memtable: seq 2, until it is in the index.
        if snapshot >= 2 && view.seq < 2 {
            return;
        }
        for _ in 0..10 {
            match self.map.lookup(&self.key(), snapshot) {
                Answer::Found(version) => {
                    assert_eq!(version.seq, snapshot.min(2), "another version than it sees");
                    let container = version.place.container.0;
                    if let Some(seq) = self.records.lock().get(&container) {
                        assert_eq!(*seq, version.seq, "another record");
                        return;
                    }
                }
                Answer::Absent { .. } => {
                    let view = self.view.load_full();
                    let is_bare = view.is_bare && view.seq <= snapshot;
                    assert!(!is_bare && snapshot >= 2, "bare at {snapshot} and not in the map");
                    return;
                }
                Answer::Waiting => panic!("nothing waits here"),
            }
        }
        panic!("its record is gone for good");
    }

    /// The key is written with seq 2, and flushed.
    fn flush(&self, place: Option<Place>) {
        if let Some(place) = place {
            self.records.lock().insert(place.container.0, 2);
        }
        self.visible.lock().0 = 2;
        let touches = self.touch(self.snapshots(), Flushed { seq: 2, place });
        self.view.store(Arc::new(View { seq: 2, is_bare: place.is_some() }));
        touches.publish(Generation(1));
    }

    /// Container 1 becomes container 3, if anybody needs what is in it.
    fn collect(&self) {
        let held = self.map.holds(&self.key(), &place(1), || self.snapshots());
        if held != Held::Not {
            self.records.lock().insert(3, 1);
            let moves = self.map.begin_moves().unwrap();
            moves.swing(&self.key(), &place(1), place(3));
            moves.publish(Generation(2));
        }
        self.records.lock().remove(&1);
    }
}

fn run(name: &'static str, flushed: Option<Place>, reads: usize, guards: Guards) {
    check(name, move || {
        let store = Arc::new(Store::new(guards));
        let spawn = |name, run: fn(&Store, Option<Place>)| {
            let store = Arc::clone(&store);
            thread::spawn(name, move || run(&store, flushed)).unwrap()
        };
        let mut threads = vec![
            spawn("flush", |store, place| store.flush(place)),
            spawn("collector", |store, _| store.collect()),
        ];
        threads.extend((0..reads).map(|_| spawn("reader", |store, _| store.read())));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        store.read();
        let snapshots = store.visible.lock().1.clone();
        snapshots.into_iter().for_each(|snapshot| store.read_at(snapshot));
    });
}

#[test]
fn shuttle_lookups_flush_and_swing_of_a_value() {
    run("map_value", Some(place(2)), 3, Guards::default());
}

#[test]
fn shuttle_lookups_flush_and_swing_of_a_removal() {
    run("map_removal", None, 3, Guards::default());
}

#[test]
fn shuttle_a_missing_guard_is_noticed() {
    for guard in [
        Guard::Versions,
        Guard::ExactSwing,
        Guard::SwingChains,
        Guard::SnapshotsAfterMap,
        Guard::RemoveTouches,
    ] {
        let name = "map_without_guard";
        let removal = guard == Guard::RemoveTouches;
        let flushed = (!removal).then(|| place(2));
        let outcome = std::panic::catch_unwind(|| run(name, flushed, 1, Guards::without(guard)));
        assert!(outcome.is_err(), "no schedule fails without {guard:?}");
    }
}
