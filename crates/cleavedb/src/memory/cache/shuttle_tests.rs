//! The block cache under a scheduler that may switch threads at every access.

use super::*;
use crate::base::error::{Error, ErrorKind};
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Order};
use crate::base::sync::schedules::check;
use crate::base::sync::{Arc, thread};

#[derive(Clone)]
struct Block(u64);

impl Cached for Block {
    fn memory_bytes(&self) -> u64 {
        1000
    }
}

fn key(number: u64) -> BlockKey {
    (FileId(1), number * 4096)
}

/// A device that notices two reads of one block at a time.
#[derive(Default)]
struct Device {
    reading: [AtomicBool; 3],
    reads: [AtomicUsize; 3],
}

impl Device {
    fn read(&self, number: u64) -> Block {
        let at = number as usize;
        assert!(!self.reading[at].swap(true, Order::SeqCst), "two reads of one block at a time");
        self.reads[at].fetch_add(1, Order::SeqCst);
        self.reading[at].store(false, Order::SeqCst);
        Block(number)
    }
}

#[test]
fn shuttle_one_reads_for_all() {
    check("cache_single_flight", || {
        let cache = Arc::new(BlockCache::<Block>::new(64 << 10));
        let device = Arc::new(Device::default());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (cache, device) = (Arc::clone(&cache), Arc::clone(&device));
                let run = move || {
                    for number in [0, 1] {
                        let block = cache.get_or_load(&key(number), || Ok(device.read(number)));
                        assert_eq!(block.unwrap().0, number);
                    }
                };
                thread::spawn("reader", run).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Room for all: nobody reads what another one has read.
        let reads = [0, 1].map(|at: usize| device.reads[at].load(Order::SeqCst));
        assert_eq!(reads, [1, 1]);
    });
}

#[test]
fn shuttle_reads_fail_and_blocks_are_evicted() {
    check("cache_eviction_and_failure", || {
        // Room for one block.
        let cache = Arc::new(BlockCache::<Block>::new(1500));
        let device = Arc::new(Device::default());
        let failed = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = [[0, 1], [1, 2], [2, 0]]
            .into_iter()
            .map(|numbers| {
                let (cache, device) = (Arc::clone(&cache), Arc::clone(&device));
                let failed = Arc::clone(&failed);
                let run = move || {
                    for number in numbers {
                        let outcome = cache.get_or_load(&key(number), || {
                            if number == 1 && !failed.swap(true, Order::SeqCst) {
                                return Err(Error::corruption("the first read of block 1 fails"));
                            }
                            Ok(device.read(number))
                        });
                        match outcome {
                            Ok(block) => assert_eq!(block.0, number),
                            Err(error) => assert_eq!((error.kind(), number), failure()),
                        }
                    }
                };
                thread::spawn("reader", run).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(cache.bytes() <= 1500, "{} bytes in a cache of 1500", cache.bytes());
        // Whoever failed left the block to others.
        let block = cache.get_or_load(&key(1), || Ok(device.read(1)));
        assert_eq!(block.unwrap().0, 1);
    });
}

/// The one failure there may be.
fn failure() -> (ErrorKind, u64) {
    (ErrorKind::Corruption, 1)
}
