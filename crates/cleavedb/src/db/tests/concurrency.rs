//! Many threads at once, on real threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::Durability;

#[test]
fn writers_and_readers_on_all_sides() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    let done = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let (db, ks) = (&db, &ks);
                scope.spawn(move || {
                    for i in 0..3_000u64 {
                        let mut batch = db.batch();
                        batch.put(ks, format!("{writer}-a"), i.to_be_bytes());
                        batch.put(ks, format!("{writer}-b"), i.to_be_bytes());
                        batch.put(ks, format!("{writer}-{i:05}"), vec![0; 80]);
                        let durability =
                            if i % 500 == 0 { Durability::Sync } else { Durability::Buffered };
                        batch.commit(durability).unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let snapshot = db.snapshot();
                for writer in 0..4 {
                    let a = snapshot.get(&ks, format!("{writer}-a")).unwrap();
                    let b = snapshot.get(&ks, format!("{writer}-b")).unwrap();
                    assert_eq!(a.as_deref(), b.as_deref(), "a batch is seen whole or not at all");
                }
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(ks.iter().count(), 4 * 3_002);
    drop((db, ks));
    let db = small().open(&path).unwrap();
    assert_eq!(plain(&db).iter().count(), 4 * 3_002);
}

#[test]
fn compare_and_swap_loses_no_increment() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    ks.put("n", "0").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..250 {
                    loop {
                        let old = ks.get("n").unwrap().unwrap();
                        let new = std::str::from_utf8(&old).unwrap().parse::<u64>().unwrap() + 1;
                        let new = new.to_string();
                        if ks.compare_and_swap("n", Some(&old), Some(new.as_bytes())).unwrap() {
                            break;
                        }
                    }
                    if i % 100 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(ks.get("n").unwrap().unwrap(), "1000");
}
