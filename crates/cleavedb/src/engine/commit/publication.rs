//! Groups become visible in the order of their seqs, though their inserts end in any order.
//!
//! A group that is done before its predecessor leaves itself in a map and sleeps; whoever
//! publishes the predecessor publishes it too and wakes its leader. So a leader that loses its core
//! in the middle of its inserts costs each of those behind it one wake-up, however many they are.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::entry::Seq;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Condvar, Mutex, hint};
use crate::engine::commit::signal::{SPINS, Signal};
use crate::io::clock::Clock;

/// State of a signal whose group was published.
const PUBLISHED: u8 = 1;

/// The order of visibility. What is visible is the engine's `visible`; it is stored under this
/// lock only.
#[derive(Default)]
pub(crate) struct Publication {
    order: Mutex<Order>,
    turned: Condvar,
}

#[derive(Default)]
struct Order {
    /// Threads that wait for a seq and have no group of their own.
    sleepers: usize,
    /// Groups that are done before their turn, by their first seq.
    finished: BTreeMap<Seq, Finished>,
}

struct Finished {
    last_seq: Seq,
    signal: Arc<Signal>,
}

impl Publication {
    /// Makes the group of these seqs visible once everything before it is; for how long the caller
    /// slept. Terminates: each logged group comes here.
    pub(super) fn publish(
        &self,
        visible: &AtomicU64,
        (base_seq, last_seq): (Seq, Seq),
        clock: &dyn Clock,
    ) -> Duration {
        let before = base_seq - 1;
        spin_until(visible, before);
        let mut order = self.order.lock();
        if visible.load(Ordering::Acquire) < before {
            let signal = Arc::new(Signal::new());
            let finished = Finished { last_seq, signal: Arc::clone(&signal) };
            order.finished.insert(base_seq, finished);
            drop(order);
            let start = clock.now();
            signal.sleep();
            return clock.now().saturating_sub(start);
        }
        let mut last = last_seq;
        let mut published = Vec::new();
        while let Some(next) = order.finished.remove(&(last + 1)) {
            last = next.last_seq;
            published.push(next.signal);
        }
        visible.store(last, Ordering::Release);
        if order.sleepers > 0 {
            self.turned.notify_all();
        }
        drop(order);
        for signal in published {
            signal.set(PUBLISHED);
        }
        Duration::ZERO
    }

    /// Waits until everything up to `seq` is visible; for how long, if it had to sleep.
    pub(super) fn wait(&self, visible: &AtomicU64, seq: Seq, clock: &dyn Clock) -> Duration {
        if spin_until(visible, seq) {
            return Duration::ZERO;
        }
        let start = clock.now();
        let mut order = self.order.lock();
        order.sleepers += 1;
        while visible.load(Ordering::Acquire) < seq {
            self.turned.wait(&mut order);
        }
        order.sleepers -= 1;
        drop(order);
        clock.now().saturating_sub(start)
    }
}

/// Whether everything up to `seq` is visible before a short while is over.
fn spin_until(visible: &AtomicU64, seq: Seq) -> bool {
    for _ in 0..SPINS {
        if visible.load(Ordering::Acquire) >= seq {
            return true;
        }
        hint::spin_loop();
    }
    false
}
