//! One thread waits, another says that something has happened.

use crate::base::sync::atomic::{AtomicU8, Ordering};
use crate::base::sync::{Condvar, Mutex, hint};

/// Spins before sleeping: about as long as one buffered append takes. (To the model checker each
/// is a step; one shows what there is to see.)
pub(super) const SPINS: usize = if cfg!(shuttle) { 1 } else { 200 };

/// Spins of the one whose turn is next: as long as several appends take. Were it asleep, whoever
/// lets it go on would pay for waking it, which costs more than an append, and it would be late.
pub(super) const NEXT_SPINS: usize = if cfg!(shuttle) { 1 } else { 1000 };

/// A state that one thread waits to see changed. It begins as `IDLE`.
pub(super) struct Signal {
    state: AtomicU8,
    is_asleep: Mutex<bool>,
    wake: Condvar,
}

impl Signal {
    /// The state in which the waiting thread waits.
    pub(super) const IDLE: u8 = 0;

    pub(super) fn new() -> Self {
        let (state, is_asleep) = (AtomicU8::new(Self::IDLE), Mutex::new(false));
        Self { state, is_asleep, wake: Condvar::new() }
    }

    /// Stores a state and wakes the waiting thread.
    pub(super) fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.wake();
    }

    /// Changes the state from one to another without waking anybody; whether it was the one.
    pub(super) fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Wakes the waiting thread to look at the state.
    pub(super) fn wake(&self) {
        if *self.is_asleep.lock() {
            self.wake.notify_one();
        }
    }

    /// Waits until the state is not `IDLE`: spins so many times, then sleeps.
    pub(super) fn wait(&self, spins: usize) -> u8 {
        for _ in 0..spins {
            let state = self.state.load(Ordering::Acquire);
            if state != Self::IDLE {
                return state;
            }
            hint::spin_loop();
        }
        self.sleep()
    }

    /// Waits until the state is not `IDLE`, asleep from the first.
    pub(super) fn sleep(&self) -> u8 {
        let mut is_asleep = self.is_asleep.lock();
        *is_asleep = true;
        let state = loop {
            let state = self.state.load(Ordering::Acquire);
            if state != Self::IDLE {
                break state;
            }
            self.wake.wait(&mut is_asleep);
        };
        *is_asleep = false;
        state
    }
}
