//! Garbage collection beside what changes the keys it moves.

use super::*;
use crate::StrategyKind;

/// Long enough that a file with one of two dead is worth collecting.
fn long(byte: u8) -> Vec<u8> {
    vec![byte; 600]
}

/// A world with one value file of two records, keys 7 and 8, of which 7 is dead.
fn half_dead(steps: Steps, strategy: Option<StrategyKind>) -> (World, Keyspace) {
    let widths = Widths { value_segment_bytes: 1, value_tail_bytes: 0, ..widths() };
    // Room for the keys of a map, where there is one.
    let settings = Settings { strategy, memory_budget: 1 << 20, ..settings() };
    let world = World::with(Arc::new(MemoryDisk::new()), steps, "/db", settings, widths);
    let options =
        KeyspaceOptions::new().separate_at(Some(8)).merge_operator(crate::operators::APPEND);
    let apart = world.db.keyspace("apart", options).unwrap();
    let mut batch = world.db.batch();
    batch.put(&apart, [7], long(7)).put(&apart, [8], long(8));
    batch.commit(Durability::Buffered).unwrap();
    apart.put([7], long(17)).unwrap();
    world.db.flush().unwrap();
    (world, apart)
}

/// Removes files that nothing names, again and again, as housekeeping does.
fn keep_house_until(world: &World, is_done: &AtomicBool) {
    for _ in 0..50 {
        if is_done.load(Ordering::Acquire) {
            break;
        }
        world.engine().remove_dead_value_files().unwrap();
        thread::yield_now();
    }
}

/// Collects beside `change`, which leaves key 8 as `after`; what was there first is `long(8)`.
fn beside(
    name: &'static str,
    after: Option<Vec<u8>>,
    change: impl Fn(&World, &Keyspace) + Clone + Send + Sync + 'static,
) {
    check(name, move || {
        // Two threads wait for background work: one alone could not run it for both.
        let (world, apart) = half_dead(Steps::Pool(1), None);
        let snapshot = world.db.snapshot();
        let (reader, writer) = (apart.clone(), apart.clone());
        let (allowed, change) = ([Some(long(8)), after.clone()], change.clone());
        let threads = [
            world.spawn(|world| {
                world.db.reclaim(None, &mut |_| {}).unwrap();
            }),
            world.spawn(move |world| change(&world, &writer)),
            world.spawn(move |_| {
                let seen = reader.get([8]).unwrap().map(|value| value.to_vec());
                assert!(allowed.contains(&seen), "a value that never was");
                let then = snapshot.get(&reader, [8]).unwrap().unwrap();
                assert!(then == long(8), "the snapshot lost its value");
                drop(snapshot);
            }),
        ];
        join(threads);
        let now = apart.get([8]).unwrap().map(|value| value.to_vec());
        assert!(now == after, "the change is lost");
        world.db.reclaim(None, &mut |_| {}).unwrap();
        let now = apart.get([8]).unwrap().map(|value| value.to_vec());
        assert!(now == after, "the change is lost later");
        assert!(apart.get([7]).unwrap().unwrap() == long(17));
        drop(apart);
        world.close();
    });
}

#[test]
fn shuttle_collection_beside_a_put() {
    beside("gc_put", Some(long(9)), |_, keyspace| keyspace.put([8], long(9)).unwrap());
}

#[test]
fn shuttle_collection_beside_a_delete_that_is_compacted_away() {
    beside("gc_delete", None, |world, keyspace| {
        keyspace.delete([8]).unwrap();
        world.db.compact().unwrap();
    });
}

#[test]
fn shuttle_collection_beside_a_merge() {
    let after = [long(8), vec![9]].concat();
    beside("gc_merge", Some(after), |_, keyspace| keyspace.merge([8], [9]).unwrap());
}

#[test]
fn shuttle_collection_beside_a_swap() {
    beside("gc_swap", Some(long(9)), |_, keyspace| {
        assert!(keyspace.compare_and_swap([8], Some(&long(8)), Some(&long(9))).unwrap());
    });
}

/// Housekeeping removes what nothing names, and may do so to a file that has just been picked: that
/// is no failure of the collection.
#[test]
fn shuttle_a_victim_that_goes_away_is_no_failure() {
    check("gc_victim_gone", || {
        let (world, apart) = half_dead(Steps::Pool(2), Some(StrategyKind::Wisckey));
        let is_done = Arc::new(AtomicBool::new(false));
        let (done, writer) = (Arc::clone(&is_done), apart.clone());
        let threads = [
            world.spawn(move |world| {
                world.db.reclaim(None, &mut |_| {}).unwrap();
                done.store(true, Ordering::Release);
            }),
            world.spawn(move |world| {
                writer.delete([8]).unwrap();
                world.db.compact().unwrap();
            }),
            world.spawn(move |world| keep_house_until(&world, &is_done)),
        ];
        join(threads);
        assert_eq!(world.engine().gc.refused_files(), [], "what went away was refused");
        assert!(apart.get([7]).unwrap().unwrap() == long(17));
        assert_eq!(apart.get([8]).unwrap(), None);
        drop(apart);
        world.close();
    });
}

/// Between the edit that puts a rewritten file into force and what the map is told of it nothing is
/// counted in it, and nobody is to take it for dead.
#[test]
fn shuttle_what_is_rewritten_is_not_removed_before_the_map_knows() {
    check("gc_map_told", || {
        let (world, apart) = half_dead(Steps::Pool(1), Some(StrategyKind::Wayfinder));
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let threads = [
            world.spawn(move |world| {
                world.db.reclaim(None, &mut |_| {}).unwrap();
                done.store(true, Ordering::Release);
            }),
            world.spawn(move |world| keep_house_until(&world, &is_done)),
        ];
        join(threads);
        let stats = world.db.stats();
        assert_eq!(stats.values.map.keys, 2, "the map has no room");
        assert_eq!(stats.collection.records_moved, 1, "nothing was rewritten");
        assert!(apart.get([7]).unwrap().unwrap() == long(17));
        assert!(apart.get([8]).unwrap().unwrap() == long(8), "removed with its file");
        drop(apart);
        world.close();
    });
}

/// A look at the files that began before somebody asked is no answer to that.
#[test]
fn shuttle_what_is_asked_for_amid_a_look_is_done() {
    check("gc_asked", || {
        // One open segment, so that a look amid the call finds nothing to collect.
        let settings = Settings { strategy: Some(StrategyKind::Wisckey), ..settings() };
        let (disk, widths) = (Arc::new(MemoryDisk::new()), widths());
        let world = World::with(disk, Steps::Pool(1), "/db", settings, widths);
        let options = KeyspaceOptions::new().separate_at(Some(8));
        let apart = world.db.keyspace("apart", options).unwrap();
        for (key, byte) in [(7, 7), (8, 8), (7, 17)] {
            apart.put([key], long(byte)).unwrap();
        }
        world.db.reclaim(None, &mut |_| {}).unwrap();
        let collection = world.db.stats().collection;
        assert!(collection.records_moved > 0, "nothing was collected: {collection:?}");
        assert!(apart.get([7]).unwrap().unwrap() == long(17));
        assert!(apart.get([8]).unwrap().unwrap() == long(8));
        drop(apart);
        world.close();
    });
}
