//! Tests of the cache of open tables: both bounds, single opening.

use std::sync::Barrier;

use super::*;
use crate::base::compress::Compression;
use crate::base::entry::{Kind, SEQ_MAX};
use crate::base::error::ErrorKind;
use crate::table::testing::{Bench, UUID, get, item};

fn tables(bench: &Bench, count: u64) -> Vec<TableMeta> {
    let items: Vec<_> = (0..50u8).map(|n| item(&[n], 5, Kind::Put, &[n; 30])).collect();
    (1..=count)
        .map(|file| bench.write(Bench::options(file, Compression::None, 200), &items, &[]).unwrap())
        .collect()
}

fn cache(bench: &Bench, open_files_max: usize, budget_bytes: u64) -> TableCache {
    TableCache::new(
        &bench.io,
        "/db".into(),
        UUID,
        &bench.cache,
        open_files_max,
        budget_bytes,
        false,
    )
}

fn at_hand() -> Arc<AtHand> {
    Arc::default()
}

#[test]
fn the_number_of_open_tables_is_bounded() {
    let bench = Bench::new();
    let metas = tables(&bench, 30);
    let cache = cache(&bench, 8, 64 << 20);
    for _ in 0..3 {
        for meta in &metas {
            let table = cache.get(meta, &at_hand()).unwrap();
            assert_eq!(table.file_id(), meta.file);
            assert!(get(&table, &[7], SEQ_MAX).unwrap().1.is_some());
            drop(table);
            assert!(cache.open_files() <= 8);
        }
    }
    assert!(cache.open_files() >= 4, "{} tables are kept open", cache.open_files());
}

/// A table that the cache has pushed out is open as long as somebody reads it.
#[test]
fn pinned_tables_count_as_open() {
    let bench = Bench::new();
    let metas = tables(&bench, 30);
    let cache = cache(&bench, 8, 64 << 20);
    let pinned: Vec<_> = metas.iter().map(|meta| cache.get(meta, &at_hand()).unwrap()).collect();
    let bytes: u64 = pinned.iter().map(|table| table.memory_bytes()).sum();
    assert_eq!((cache.open_files(), cache.memory_bytes()), (30, bytes));
    drop(pinned);
    assert!(cache.open_files() <= 8 && cache.memory_bytes() < bytes);
    metas.iter().for_each(|meta| cache.evict(meta.file));
    assert_eq!((cache.open_files(), cache.memory_bytes()), (0, 0));
}

#[test]
fn the_memory_of_open_tables_is_bounded() {
    let bench = Bench::new();
    let metas = tables(&bench, 30);
    let one = bench.open(&metas[0]).unwrap().memory_bytes();
    let cache = cache(&bench, 1000, 5 * one);
    for meta in &metas {
        cache.get(meta, &at_hand()).unwrap();
        assert!(cache.memory_bytes() <= 5 * one);
    }
    assert!(cache.memory_bytes() >= 2 * one);
}

#[test]
fn a_table_is_opened_once_and_again_after_its_eviction() {
    let bench = Bench::new();
    let metas = tables(&bench, 2);
    let cache = cache(&bench, 8, 1 << 20);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                metas.iter().for_each(|meta| drop(cache.get(meta, &at_hand()).unwrap()));
            });
        }
    });
    assert_eq!(cache.opened(), 2);
    cache.evict(metas[0].file);
    assert_eq!(cache.open_files(), 1);
    cache.get(&metas[0], &at_hand()).unwrap();
    assert_eq!(cache.opened(), 3);
}

#[test]
fn a_missing_table_is_damage() {
    let bench = Bench::new();
    let metas = tables(&bench, 1);
    bench.disk.remove(Bench::path(1)).unwrap();
    let error = cache(&bench, 8, 1 << 20).get(&metas[0], &at_hand()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.file().is_some());
}

#[test]
fn what_is_at_hand_is_open_and_bounded() {
    let bench = Bench::new();
    let metas = tables(&bench, 30);
    let cache = cache(&bench, 8, 64 << 20);
    let files: Vec<_> = metas.iter().map(|meta| (meta, at_hand())).collect();
    for _ in 0..3 {
        for (meta, at_hand) in &files {
            let table = cache.get(meta, at_hand).unwrap();
            let reader = at_hand.load();
            assert!(reader.as_ref().as_ref().is_some_and(|reader| Arc::ptr_eq(reader, &table)));
            drop((table, reader));
            let count = files.iter().filter(|(_, at_hand)| at_hand.load().is_some()).count();
            assert!((1..=8).contains(&count) && cache.open_files() == count as u64);
        }
    }
    files.iter().for_each(|(meta, _)| cache.evict(meta.file));
    assert!(files.iter().all(|(_, at_hand)| at_hand.load().is_none()));
    assert_eq!(cache.open_files(), 0);
}

#[test]
fn what_many_threads_open_and_push_out_is_at_hand_only_while_it_is_open() {
    let bench = Bench::new();
    let metas = tables(&bench, 12);
    let cache = cache(&bench, 3, 64 << 20);
    let files: Vec<_> = metas.iter().map(|meta| (meta, at_hand())).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, files) = (&cache, &files);
            scope.spawn(move || {
                for round in 0..2000 {
                    let (meta, at_hand) = &files[(round * (thread + 3) + thread) % files.len()];
                    assert_eq!(cache.get(meta, at_hand).unwrap().file_id(), meta.file);
                }
            });
        }
    });
    let count = files.iter().filter(|(_, at_hand)| at_hand.load().is_some()).count();
    assert!(count <= 3 && cache.open_files() <= 3, "{count} of {}", cache.open_files());
    files.iter().for_each(|(meta, _)| cache.evict(meta.file));
    assert_eq!(cache.open_files(), 0);
}

/// A smaller budget closes tables at once, at hand or not; a larger one than the cache was made
/// with is not given.
#[test]
fn the_budget_can_shrink_and_grow_again() {
    let bench = Bench::new();
    let metas = tables(&bench, 12);
    let one = bench.open(&metas[0]).unwrap().memory_bytes();
    let cache = cache(&bench, 1000, 8 * one);
    let hands: Vec<_> = metas.iter().map(|_| at_hand()).collect();
    let open_all = || {
        for (meta, hand) in metas.iter().zip(&hands) {
            cache.get(meta, hand).unwrap();
        }
        assert!(cache.memory_bytes() <= 8 * one);
        hands.iter().filter(|hand| hand.load().is_some()).count()
    };
    let before = open_all();
    assert!(before >= 4, "{before} tables are open");
    cache.set_budget(2 * one);
    assert!(cache.memory_bytes() <= 2 * one);
    let at_hand = hands.iter().filter(|hand| hand.load().is_some()).count();
    assert!(at_hand <= 2, "{at_hand} tables are at hand");
    cache.set_budget(100 * one);
    assert_eq!(open_all(), before);
}
