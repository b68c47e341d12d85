//! Garbage collection beside what changes the keys it moves.

use super::*;

/// Long enough that a file with one of two dead is worth collecting.
fn long(byte: u8) -> Vec<u8> {
    vec![byte; 600]
}

/// A world with one value file of two records, keys 7 and 8, of which 7 is dead.
fn half_dead(steps: Steps) -> (World, Keyspace) {
    let widths = Widths { value_segment_bytes: 1, value_tail_bytes: 0, ..widths() };
    let world = World::with(Arc::new(MemoryDisk::new()), steps, "/db", settings(), widths);
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

/// Collects beside `change`, which leaves key 8 as `after`; what was there first is `long(8)`.
fn beside(
    name: &'static str,
    after: Option<Vec<u8>>,
    change: impl Fn(&World, &Keyspace) + Clone + Send + Sync + 'static,
) {
    check(name, move || {
        // Two threads wait for background work: one alone could not run it for both.
        let (world, apart) = half_dead(Steps::Pool(1));
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
