//! What is kept, and for whom.

use super::*;

fn kept() -> (usize, usize) {
    KEPT.with_borrow(|kept| {
        assert_eq!(kept.bytes, kept.buffers.iter().map(Vec::capacity).sum::<usize>());
        (kept.buffers.len(), kept.bytes)
    })
}

fn forget() {
    KEPT.with_borrow_mut(|kept| *kept = Kept::default());
}

#[test]
fn a_buffer_comes_back_when_its_last_owner_is_gone() {
    forget();
    let mut buffer = take(20_000);
    assert!(buffer.len() == 20_000 && buffer.iter().all(|byte| *byte == 0));
    buffer.fill(7);
    let address = buffer.as_ptr().addr();
    let owner = std::sync::Arc::new(Recycled::new(buffer));
    let other = owner.clone();
    drop(owner);
    assert_eq!(kept().0, 0, "somebody has a part of it");
    drop(other);
    assert_eq!(kept().0, 1);
    let again = take(21_000);
    assert_eq!((again.as_ptr().addr(), again.len(), kept()), (address, 21_000, (0, 0)));
    assert!(again[..20_000].iter().all(|byte| *byte == 7), "not zeroed once more");
    assert!(again[20_000..].iter().all(|byte| *byte == 0));
}

#[test]
fn nobody_gets_much_more_than_was_asked_for() {
    forget();
    drop(Recycled::new(take(100_000)));
    assert!(take(20_000).capacity() <= 40_000);
    assert!(take(1_000).capacity() <= 2_000);
    assert_eq!(kept().0, 1);
    assert!(take(90_000).capacity() >= 100_000);
}

#[test]
fn what_is_kept_is_bounded() {
    forget();
    for len in [0, 1, 8_191, 300_000, 10 << 20] {
        assert_eq!(take(len).len(), len);
        drop(Recycled::new(take(len)));
    }
    assert_eq!(kept(), (0, 0));
    let many: Vec<Recycled> = (0..200).map(|n| Recycled::new(take(8_192 + n * 1_000))).collect();
    drop(many);
    let (count, bytes) = kept();
    assert!((1..=KEPT_MAX).contains(&count) && bytes <= KEPT_BYTES_MAX, "{count}, {bytes}");
    let last = Recycled::new(take(60_000));
    let capacity = last.capacity();
    drop(last);
    assert_eq!(take(60_000).capacity(), capacity, "the newest stays");
}

#[test]
fn a_thread_that_ends_may_let_go_of_buffers() {
    thread_local! {
        static LATE: RefCell<Option<Recycled>> = const { RefCell::new(None) };
    }
    crate::base::sync::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            LATE.with_borrow_mut(|late| *late = Some(Recycled::new(take(10_000))));
            drop(Recycled::new(take(10_000)));
        });
        ended.join().unwrap();
    });
}
