//! The rate limiter under a clock that the test moves.

use super::*;

#[derive(Default)]
struct Manual(Mutex<Duration>);

impl Clock for Manual {
    fn now(&self) -> Duration {
        *self.0.lock()
    }
    fn sleep(&self, duration: Duration) {
        *self.0.lock() += duration;
    }
}

#[test]
fn a_limit_of_50_mb_per_second_holds_within_ten_percent() {
    let clock = Arc::new(Manual::default());
    let limiter = RateLimiter::new(clock.clone(), 50_000_000);
    for _ in 0..2_000 {
        limiter.acquire(256 << 10);
    }
    let rate = (2_000.0 * f64::from(256 << 10)) / clock.now().as_secs_f64();
    assert!((45e6..=55e6).contains(&rate), "{rate} bytes/s");
}

#[test]
fn idleness_saves_at_most_a_tenth_of_a_second() {
    let clock = Arc::new(Manual::default());
    let limiter = RateLimiter::new(clock.clone(), 1_000_000);
    clock.sleep(Duration::from_secs(60));
    let start = clock.now();
    limiter.acquire(1_000_000);
    assert!(clock.now() - start >= Duration::from_millis(890));
}
