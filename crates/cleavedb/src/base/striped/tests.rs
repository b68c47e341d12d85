//! Tests of figures in stripes: nothing is lost, and threads keep apart.

use std::sync::Mutex;

use super::*;

#[test]
fn what_many_threads_count_adds_up() {
    let counter = Counter::default();
    std::thread::scope(|scope| {
        for thread in 0..20_u64 {
            let counter = &counter;
            scope.spawn(move || (0..1000).for_each(|_| counter.add(thread)));
        }
    });
    assert_eq!(counter.total(), (0..20).sum::<u64>() * 1000);
}

#[test]
fn a_thread_keeps_its_stripe_and_the_stripes_go_round() {
    let met = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 * STRIPES {
            scope.spawn(|| {
                let first = stripe();
                assert!(first < STRIPES && (0..100).all(|_| stripe() == first));
                met.lock().unwrap().push(first);
            });
        }
    });
    let mut met = met.into_inner().unwrap();
    met.sort_unstable();
    met.dedup();
    assert!(met.len() > 1, "all threads have one stripe");
}
