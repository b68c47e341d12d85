//! The pool under a scheduler that may switch threads at every step.

use super::*;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::schedules::check;

#[test]
fn shuttle_steps_run_once_or_are_dropped() {
    check("pool_shutdown", || {
        let pool = ThreadPool::new(1).unwrap();
        let (run, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        /// Counts a step that went away.
        struct Gone(Arc<AtomicUsize>);
        impl Drop for Gone {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let step = |priority| {
            let (run, gone) = (Arc::clone(&run), Gone(Arc::clone(&dropped)));
            let step = move || {
                run.fetch_add(1, Ordering::SeqCst);
                drop(gone);
            };
            pool.submit(priority, Box::new(step));
        };
        step(Priority::Compaction);
        step(Priority::Housekeeping);
        step(Priority::Awaited);
        step(Priority::WriteBack);
        let closer = {
            let pool = Arc::clone(&pool);
            thread::spawn("closer", move || pool.shutdown()).unwrap()
        };
        step(Priority::Flush);
        step(Priority::Compaction);
        pool.shutdown();
        closer.join().unwrap();
        // Whoever shut it down first has waited for what ran; nothing runs from here on.
        let ran = run.load(Ordering::SeqCst);
        assert_eq!(dropped.load(Ordering::SeqCst), 6, "a step is neither run nor dropped");
        step(Priority::Flush);
        assert_eq!(run.load(Ordering::SeqCst), ran, "a step ran after the end");
        assert_eq!(dropped.load(Ordering::SeqCst), 7);
    });
}
