//! Tests of the block cache: scans, bounds, single reads of what several want.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::base::error::Error;

#[derive(Clone)]
struct Bytes(Arc<Vec<u8>>);

impl Cached for Bytes {
    fn memory_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

fn block(len: usize) -> Bytes {
    Bytes(Arc::new(vec![7; len]))
}

fn key(number: u64) -> BlockKey {
    (FileId(1 + number / 1000), number % 1000 * 4096)
}

/// Rate of hits of one pass over the hot set, which is loaded where it is missing.
fn hot_pass(cache: &BlockCache<Bytes>, hot: u64) -> f64 {
    let before = cache.hits();
    for number in 0..hot {
        cache.get_or_load(&key(number), || Ok(block(4000))).unwrap();
    }
    (cache.hits() - before) as f64 / hot as f64
}

#[test]
fn a_full_scan_leaves_the_hot_set_in_place() {
    for capacity in [1u64 << 20, 16 << 20] {
        let cache = BlockCache::new(capacity);
        let blocks = capacity / 4096;
        let hot = blocks / 2;
        for _ in 0..4 {
            hot_pass(&cache, hot);
        }
        let before = hot_pass(&cache, hot);
        for number in 0..10 * blocks {
            cache.get_or_load(&key(1_000_000 + number), || Ok(block(4000))).unwrap();
        }
        let after = hot_pass(&cache, hot);
        assert!(before > 0.9, "hit rate {before} before the scan");
        assert!(after >= 0.9 * before, "hit rate {after} after a scan, {before} before it");
    }
}

#[test]
fn the_bytes_held_stay_within_the_capacity() {
    let cache = BlockCache::new(1 << 20);
    for number in 0..2000 {
        cache.insert(key(number), block(1000 + (number as usize * 37) % 9000));
        assert!(cache.bytes() <= cache.capacity());
    }
    assert!(cache.bytes() > cache.capacity() / 2);
    cache.set_capacity(100 << 10);
    assert!(cache.bytes() <= 100 << 10, "{} bytes are held", cache.bytes());
    // A block beyond the capacity is handed through but not kept.
    let held = cache.bytes();
    assert!(cache.get_or_load(&key(5000), || Ok(block(4 << 20))).is_ok());
    assert!(cache.peek(&key(5000)).is_none() && cache.bytes() <= held);
}

#[test]
fn a_cache_of_nothing_keeps_nothing() {
    let cache = BlockCache::new(0);
    cache.get_or_load(&key(1), || Ok(block(10))).unwrap();
    assert!(cache.get(&key(1)).is_none());
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn concurrent_misses_read_once() {
    let cache = BlockCache::new(1 << 20);
    let (loads, start) = (AtomicUsize::new(0), Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                for number in 0..200 {
                    let load = || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        Ok(block(100))
                    };
                    cache.get_or_load(&key(number), load).unwrap();
                }
            });
        }
    });
    assert_eq!(loads.into_inner(), 200);
    assert_eq!(cache.hits() + cache.misses(), 800);
}

#[test]
fn a_failed_load_is_not_kept_and_the_next_one_tries_again() {
    let cache = BlockCache::new(1 << 20);
    let failed = cache.get_or_load(&key(1), || Err(Error::corruption("bad")));
    assert!(failed.is_err());
    assert!(cache.get_or_load(&key(1), || Ok(block(10))).is_ok());
    assert!(cache.get(&key(1)).is_some());
}

#[test]
fn who_does_not_wait_is_told_that_another_reads() {
    let cache = BlockCache::<Bytes>::new(1 << 20);
    let Begin::Miss(guard) = cache.begin(&key(1), false) else { panic!("an empty cache hit") };
    assert!(matches!(cache.begin(&key(1), false), Begin::Busy));
    guard.insert(block(10));
    assert!(matches!(cache.begin(&key(1), false), Begin::Hit(_)));
}

#[test]
fn the_capacity_is_the_one_that_was_set() {
    let cache = BlockCache::<Bytes>::new(1 << 20);
    assert_eq!(cache.capacity(), 1 << 20);
    cache.set_capacity(3 << 20);
    assert_eq!(cache.capacity(), 3 << 20);
    for number in 0..2000 {
        cache.insert(key(number), block(4000));
    }
    assert!((2 << 20..=3 << 20).contains(&cache.bytes()), "{} bytes", cache.bytes());
}
