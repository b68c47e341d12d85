//! Fail-stop: after a failed write, sync or rename of durable state no later write is
//! acknowledged until the database is reopened (promise P6); reads go on.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};

/// Whether writes are still accepted.
#[derive(Debug, Default)]
pub(crate) struct Health {
    stopped: AtomicBool,
    closed: AtomicBool,
    cause: Mutex<Option<Error>>,
}

impl Health {
    /// Stops all writes for good; the first cause is kept.
    pub(crate) fn stop(&self, cause: &Error) {
        let mut kept = self.cause.lock();
        if kept.is_none() {
            tracing::error!(error = %cause, "writes stopped until the database is reopened");
            *kept = Some(cause.clone());
        }
        self.stopped.store(true, Ordering::Release);
    }

    /// Marks the database as closed: every later call is refused.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the database was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether writes were stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// `Closed` after close.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the database is closed"));
        }
        Ok(())
    }

    /// `Closed` after close, `Stopped` with its cause after a failure.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if !self.is_stopped() {
            return Ok(());
        }
        let cause = self.cause.lock().clone();
        Err(match cause {
            Some(cause) => cause
                .with_kind(ErrorKind::Stopped)
                .context("writes are stopped after an earlier failure; reopen the database"),
            None => Error::new(ErrorKind::Stopped, "writes are stopped; reopen the database"),
        })
    }
}
