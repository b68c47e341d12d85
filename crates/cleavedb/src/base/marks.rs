//! Marks: counters on rare events, so that a test can prove that it met them.
//!
//! `mark!("flush_with_snapshot")` costs nothing without feature `marks`.

#[cfg(feature = "marks")]
mod counting {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// One site's counter.
    #[derive(Debug)]
    pub struct Mark {
        name: &'static str,
        count: AtomicU64,
        registered: AtomicBool,
    }

    static MARKS: Mutex<Vec<&'static Mark>> = Mutex::new(Vec::new());

    impl Mark {
        /// A counter for a site.
        #[must_use]
        pub const fn new(name: &'static str) -> Self {
            Self { name, count: AtomicU64::new(0), registered: AtomicBool::new(false) }
        }

        /// Counts one event.
        pub fn hit(&'static self) {
            self.count.fetch_add(1, Ordering::Relaxed);
            // To look leaves the line where it is.
            if !self.registered.load(Ordering::Relaxed)
                && !self.registered.swap(true, Ordering::Relaxed)
                && let Ok(mut marks) = MARKS.lock()
            {
                marks.push(self);
            }
        }
    }

    /// How often each mark met so far was hit in this process.
    #[must_use]
    pub fn marks() -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        if let Ok(marks) = MARKS.lock() {
            for mark in marks.iter() {
                *counts.entry(mark.name).or_default() += mark.count.load(Ordering::Relaxed);
            }
        }
        counts
    }
}

#[cfg(feature = "marks")]
pub use counting::{Mark, marks};

/// Counts a rare event under feature `marks`; nothing otherwise.
macro_rules! mark {
    ($name:literal) => {{
        #[cfg(feature = "marks")]
        {
            static MARK: $crate::base::marks::Mark = $crate::base::marks::Mark::new($name);
            MARK.hit();
        }
    }};
}
pub(crate) use mark;
