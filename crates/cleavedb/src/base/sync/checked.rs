//! Under shuttle: the same interface over shuttle's scheduler, which may switch threads at every
//! lock, atomic, wait and load of a view.
//!
//! A timed wait never times out here: who relies on its timeout to notice something has lost a
//! wake-up, and the model stops.

use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use quick_cache::sync::{Cache, GuardResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::sync::{Arc, Weak};

/// Mutual exclusion with parking_lot's interface.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// A locked [`Mutex`]; empty only while [`Condvar::wait`] has it.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        MutexGuard(Some(guard))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(Some(guard))),
            Err(std::sync::TryLockError::Poisoned(error)) => {
                Some(MutexGuard(Some(error.into_inner())))
            }
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(guard) => guard,
            None => unreachable!("a guard is used while its thread waits"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(guard) => guard,
            None => unreachable!("a guard is used while its thread waits"),
        }
    }
}

/// Condition variable with parking_lot's interface.
#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(owned) = guard.0.take() {
            let back = self.0.wait(owned).unwrap_or_else(std::sync::PoisonError::into_inner);
            guard.0 = Some(back);
        }
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        self.wait(guard);
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Reader-writer lock with parking_lot's interface.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn try_read(&self) -> Option<shuttle::sync::RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A shared pointer that is swapped whole, with arc_swap's interface. Each call is one step, as
/// it is there; what it replaces is dropped after the step.
pub(crate) struct ArcSwap<T>(std::sync::Mutex<Arc<T>>);

/// What [`ArcSwap::load`] gives.
pub(crate) struct ArcSwapGuard<T>(Arc<T>);

impl<T> Deref for ArcSwapGuard<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> Self {
        Self(std::sync::Mutex::new(Arc::new(value)))
    }

    pub(crate) fn load(&self) -> ArcSwapGuard<T> {
        ArcSwapGuard(self.load_full())
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        step();
        Arc::clone(&self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        step();
        let mut current = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, value);
        drop(current);
        drop(old);
    }
}

/// Another thread may come between here.
fn step() {
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

/// What the cache holds for `key`, or the right to put it there. A real wait would stop the
/// scheduler, so this one asks again and again; two threads that wait for each other take more
/// steps than a model may.
pub(crate) fn value_or_guard<'a, K, V, W, L>(
    cache: &'a Cache<K, V, W, DefaultHashBuilder, L>,
    key: &K,
    wait: bool,
) -> GuardResult<'a, K, V, W, DefaultHashBuilder, L>
where
    K: Eq + Hash + Clone,
    V: Clone,
    W: Weighter<K, V> + Clone,
    L: Lifecycle<K, V> + Clone,
{
    step();
    loop {
        match cache.get_value_or_guard(key, Some(Duration::ZERO)) {
            GuardResult::Timeout if wait => thread::yield_now(),
            outcome => return outcome,
        }
    }
}

/// Threads of the model.
pub(crate) mod thread {
    pub(crate) use shuttle::thread::{JoinHandle, current, scope, yield_now};

    pub(crate) fn spawn<T: Send + 'static>(
        _name: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        Ok(shuttle::thread::spawn(run))
    }

    pub(crate) fn spawn_scoped<'scope, 'env, T: Send + 'scope>(
        scope: &'scope shuttle::thread::Scope<'scope, 'env>,
        _name: &str,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<shuttle::thread::ScopedJoinHandle<'scope, T>> {
        Ok(scope.spawn(run))
    }
}

/// Spinning lets another thread of the model run.
pub(crate) mod hint {
    pub(crate) use shuttle::hint::spin_loop;
}
