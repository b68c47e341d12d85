//! The registry of snapshots under a scheduler that may switch threads at every step.

use super::*;
use crate::base::sync::schedules::check;
use crate::base::sync::thread;

/// One key is written at every seq. A flush drops what no stripe needs; whoever holds a snapshot
/// must never see its version among what was dropped.
#[test]
fn shuttle_no_flush_misses_a_snapshot() {
    check("snapshot_registry", || {
        let registry = Arc::new(Snapshots::default());
        let visible = Arc::new(AtomicU64::new(1));
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = {
            let visible = Arc::clone(&visible);
            move || (2..5).for_each(|seq| visible.store(seq, Ordering::Release))
        };
        let reader = {
            let (registry, visible) = (Arc::clone(&registry), Arc::clone(&visible));
            let dropped = Arc::clone(&dropped);
            move || {
                for _ in 0..2 {
                    let first = registry.take(&visible);
                    let second = registry.take(&visible);
                    assert!(first.seq() <= second.seq());
                    for pin in [first, second] {
                        let gone = dropped.load(Ordering::Acquire) & (1 << pin.seq()) != 0;
                        assert!(!gone, "version {} went under its snapshot", pin.seq());
                    }
                }
            }
        };
        let flusher = {
            let (registry, visible) = (Arc::clone(&registry), Arc::clone(&visible));
            let dropped = Arc::clone(&dropped);
            move || {
                for _ in 0..2 {
                    let last = visible.load(Ordering::Acquire);
                    let stripes = registry.stripes();
                    assert!(stripes.is_sorted(), "{stripes:?}");
                    // A version lives while it is the newest at a stripe, or of all.
                    let dead = (1..last).filter(|seq| !stripes.contains(seq));
                    let bits = dead.fold(0, |bits, seq| bits | 1 << seq);
                    dropped.fetch_or(bits, Ordering::AcqRel);
                }
            }
        };
        let threads = [
            thread::spawn("writer", writer).unwrap(),
            thread::spawn("reader", reader.clone()).unwrap(),
            thread::spawn("reader", reader).unwrap(),
            thread::spawn("flusher", flusher).unwrap(),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(registry.stripes().is_empty(), "a snapshot that is gone is still listed");
    });
}
