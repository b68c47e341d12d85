//! Under shuttle: the same interface over shuttle's scheduler.

pub(crate) use shuttle::sync::Arc;
pub(crate) use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic;

/// Mutual exclusion with parking_lot's interface.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Condition variable with parking_lot's interface.
#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

/// Outcome of a timed wait.
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        replace_guard(guard, |owned| {
            self.0.wait(owned).unwrap_or_else(std::sync::PoisonError::into_inner)
        });
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _timeout: std::time::Duration,
    ) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(false)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Runs `wait` on the guard behind the reference, as parking_lot's by-reference interface wants.
#[expect(unsafe_code, reason = "moves a guard out of a reference and back")]
fn replace_guard<'a, T>(
    guard: &mut MutexGuard<'a, T>,
    wait: impl FnOnce(MutexGuard<'a, T>) -> MutexGuard<'a, T>,
) {
    // SAFETY: the guard is read out and a new one written back before anyone can see the hole;
    // `wait` either returns a guard or unwinds the whole test execution, which aborts here.
    unsafe {
        let owned = std::ptr::read(guard);
        let back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait(owned)));
        match back {
            Ok(new) => std::ptr::write(guard, new),
            Err(_) => std::process::abort(),
        }
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

    pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Threads of the model.
pub(crate) mod thread {
    pub(crate) use shuttle::thread::{JoinHandle, current, scope, yield_now};

    pub(crate) fn park_timeout(_timeout: std::time::Duration) {
        yield_now();
    }

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
