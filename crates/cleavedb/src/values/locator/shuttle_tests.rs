//! A flush's touch, a reader's offer and a swing of garbage collection on one key, under a
//! scheduler that may switch threads at every step.

use std::collections::BTreeMap;

use super::*;
use crate::base::entry::FileId;
use crate::base::sync::schedules::check;
use crate::base::sync::{Arc, ArcSwap, Mutex, thread};

const KEY: LocatorKey<'static> = LocatorKey { keyspace: KeyspaceId(1), key: b"k", hash: 9 << 52 };
/// Another key with the same fingerprint.
const TWIN: LocatorKey<'static> =
    LocatorKey { keyspace: KeyspaceId(1), key: b"t", hash: 9 << 52 | 1 };

fn place(container: u64, number: u64) -> Place {
    Place::of(FileId(container), number * 1040, 1000).unwrap()
}

/// What is published: newest flushed version and place of both keys, containers that there are.
#[derive(Clone, Debug)]
struct View {
    places: [(Seq, Option<Place>); 2],
    containers: Vec<u64>,
}

struct Store {
    locator: Locator,
    view: ArcSwap<View>,
    /// Edits are published one after the other.
    edits: Mutex<()>,
    /// Which record stands where: key and seq. Never changes.
    records: BTreeMap<Place, (usize, Seq)>,
}

impl Store {
    fn new(guards: Guards) -> Self {
        let settings = Settings { shard_bits: 1, guards, ..Settings::for_budget(1 << 20) };
        let records = [
            (place(1, 0), (0, 1)),
            (place(1, 1), (1, 2)),
            (place(2, 0), (0, 3)),
            (place(3, 0), (0, 1)),
            (place(3, 1), (1, 2)),
        ];
        let places = [(1, Some(place(1, 0))), (2, Some(place(1, 1)))];
        let view = View { places, containers: vec![1, 2] };
        Self {
            locator: Locator::new(settings, Generation(0)),
            view: ArcSwap::from_pointee(view),
            edits: Mutex::new(()),
            records: records.into_iter().collect(),
        }
    }

    fn key(number: usize) -> LocatorKey<'static> {
        if number == 0 { KEY } else { TWIN }
    }

    fn edit(&self, change: impl FnOnce(&mut View)) {
        let edits = self.edits.lock();
        let mut view = View::clone(&self.view.load_full());
        change(&mut view);
        self.view.store(Arc::new(view));
        drop(edits);
    }

    /// A whole read. Nothing is in memtables: what the view has flushed is what it sees, and a
    /// record above that is too new.
    fn read(&self, number: usize) {
        let key = Self::key(number);
        let note = self.locator.note(&key);
        let view = self.view.load_full();
        let (seq, place) = view.places[number];
        let mut met = Vec::new();
        for found in self.locator.lookup(&key).iter() {
            if !view.containers.contains(&found.container().0) {
                met.push((found, Verdict::Gone));
                continue;
            }
            match self.records[&found] {
                (of, _) if of != number => met.push((found, Verdict::OtherKey)),
                (_, there) => assert!(there >= seq, "version {there}, and {seq} is flushed"),
            }
        }
        if let Some(place) = place {
            self.locator.offer(&key, note, place, &met);
        }
    }

    fn flush(&self, place: Option<Place>) {
        let mut touches = self.locator.begin_flush(None);
        touches.touch(&KEY, place, 3, &mut Vec::new());
        self.edit(|view| view.places[0] = (3, place));
        touches.publish(Generation(1));
    }

    /// Container 1 becomes container 3.
    fn collect(&self) {
        self.edit(|view| {
            for (number, (_, at)) in view.places.iter_mut().enumerate() {
                if *at == Some(place(1, number as u64)) {
                    *at = Some(place(3, number as u64));
                }
            }
            view.containers = vec![2, 3];
        });
        for number in 0..2 {
            let (old, new) = (place(1, number as u64), place(3, number as u64));
            self.locator.swing(&Self::key(number), &old, Some(new));
        }
    }
}

fn run(name: &'static str, flushed: Option<Place>, guards: Guards) {
    check(name, move || {
        let store = Arc::new(Store::new(guards));
        let spawn = |name, run: fn(&Store, Option<Place>)| {
            let store = Arc::clone(&store);
            thread::spawn(name, move || run(&store, flushed)).unwrap()
        };
        let threads = [
            spawn("reader", |store, _| [0, 0].into_iter().for_each(|key| store.read(key))),
            spawn("twin", |store, _| [1, 0].into_iter().for_each(|key| store.read(key))),
            spawn("flush", |store, place| store.flush(place)),
            spawn("collector", |store, _| store.collect()),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // And what is left serves nothing but the newest.
        store.read(0);
        store.read(1);
        store.read(0);
    });
}

#[test]
fn shuttle_offer_flush_and_swing_of_a_value() {
    run("locator_value", Some(place(2, 0)), Guards::default());
}

#[test]
fn shuttle_offer_flush_and_swing_of_a_removal() {
    run("locator_removal", None, Guards::default());
}

#[test]
fn shuttle_a_missing_guard_is_noticed() {
    for guard in [Guard::ShardVersion, Guard::OddUntilPublished, Guard::RemoveTouches] {
        let name = "locator_without_guard";
        let outcome = std::panic::catch_unwind(|| run(name, None, Guards::without(guard)));
        assert!(outcome.is_err(), "no schedule fails without {guard:?}");
    }
}
