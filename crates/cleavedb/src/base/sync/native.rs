//! Production: parking_lot and the standard library.

pub(crate) use parking_lot::{Condvar, Mutex, RwLock};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic;

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
