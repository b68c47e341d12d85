//! Production: parking_lot and the standard library.

use std::hash::Hash;
use std::time::Duration;

use quick_cache::sync::{Cache, GuardResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

pub(crate) use arc_swap::ArcSwap;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use std::sync::atomic;
pub(crate) use std::sync::{Arc, Weak};

/// Threads, by name.
pub(crate) mod thread {
    pub(crate) use std::thread::{JoinHandle, current, scope, yield_now};

    /// Starts a named thread.
    pub(crate) fn spawn<T: Send + 'static>(
        name: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(run)
    }

    /// Starts a named thread that ends with `scope`.
    pub(crate) fn spawn_scoped<'scope, 'env, T: Send + 'scope>(
        scope: &'scope std::thread::Scope<'scope, 'env>,
        name: &str,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<std::thread::ScopedJoinHandle<'scope, T>> {
        std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run)
    }
}

/// Hints to the processor while spinning.
pub(crate) mod hint {
    pub(crate) use std::hint::spin_loop;
}

/// What the cache holds for `key`, or the right to put it there. With `wait`, waits for another
/// thread that has that right; without, that is a `Timeout`.
#[inline]
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
    cache.get_value_or_guard(key, if wait { None } else { Some(Duration::ZERO) })
}
