//! Who may lead: writers that come, and waiters that were told to try.

use super::*;

fn write(payload_bytes: usize) -> Work {
    Work {
        task: Task::Write,
        payload: vec![0; payload_bytes],
        slots: Vec::new(),
        count: 1,
        user_bytes: 0,
        sync: false,
        frees_space: false,
        condition: None,
        afterwards: None,
    }
}

/// A batch with a separated value.
fn apart(payload_bytes: usize) -> Work {
    let slot = Slot {
        operation: 0,
        start: 0,
        head_bytes: 8,
        bytes: 40,
        key_bytes: 1,
        value_bytes: 8,
        hash: 0,
    };
    Work { slots: vec![slot], ..write(payload_bytes) }
}

fn queue_of(work: Option<Work>) -> Queue {
    Queue { leading: false, waiting: work.into_iter().map(|w| Arc::new(Waiter::new(w))).collect() }
}

#[test]
fn a_writer_passes_only_work_that_it_can_take_along() {
    assert!(queue_of(None).admits(&write(10)));
    assert!(queue_of(None).admits(&Work::control(Task::Freeze)));
    assert!(queue_of(Some(write(10))).admits(&write(10)));
    let large = GROUP_BYTES_MAX + 1;
    assert!(queue_of(None).admits(&write(large)), "nobody waits");
    assert!(!queue_of(Some(write(large))).admits(&write(10)), "too large for any group");
    assert!(!queue_of(Some(write(10))).admits(&write(large)));
    assert!(!queue_of(Some(Work::control(Task::Freeze))).admits(&write(10)));
    assert!(!queue_of(Some(write(10))).admits(&Work::control(Task::Freeze)));
    let mut led = queue_of(None);
    led.leading = true;
    assert!(!led.admits(&write(10)));
}

#[test]
fn a_writer_passes_no_work_of_the_other_lane() {
    assert!(queue_of(Some(apart(10))).admits(&apart(10)));
    assert!(!queue_of(Some(apart(10))).admits(&write(10)), "it would stay behind");
    assert!(!queue_of(Some(write(10))).admits(&apart(10)));
    let empty = || Work { count: 0, ..write(0) };
    assert!(queue_of(Some(apart(10))).admits(&empty()), "nothing to log is of no lane");
    assert!(queue_of(Some(empty())).admits(&apart(10)));
}

#[test]
fn who_was_told_to_try_leads_only_if_nobody_else_does() {
    let mut queue = queue_of(Some(write(10)));
    let waiter = Arc::clone(&queue.waiting[0]);
    queue.leading = true;
    assert!(waiter.signal.change(Signal::IDLE, TRY));
    assert!(queue.take_lead(&waiter).is_none());
    assert_eq!(queue.waiting.len(), 1, "it waits for the next turn");
    assert!(waiter.signal.change(Signal::IDLE, TRY), "and can be told again");
    queue.leading = false;
    assert!(queue.take_lead(&waiter).is_some());
    assert!(queue.leading && queue.waiting.is_empty());
}

#[test]
fn what_was_done_meanwhile_is_not_forgotten() {
    let mut queue = queue_of(None);
    let waiter = Arc::new(Waiter::new(write(10)));
    waiter.signal.set(DONE);
    assert!(queue.take_lead(&waiter).is_none(), "a leader has taken it along");
    assert_eq!(waiter.signal.wait(), DONE);
}
