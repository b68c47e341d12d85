//! Who may lead: writers that come, and waiters that were told to try.

use super::*;
use crate::log::separated::Slot;

fn write(payload_bytes: usize) -> Work {
    let payload = vec![0; payload_bytes];
    Work { task: Task::Write, payload, count: 1, ..Work::control(Task::Write) }
}

fn separated(payload_bytes: usize) -> Work {
    let slot = Slot {
        operation: 0,
        start: 0,
        head_bytes: 0,
        bytes: 0,
        key_bytes: 0,
        value_bytes: 0,
        hash: 0,
    };
    Work { slots: vec![slot], ..write(payload_bytes) }
}

fn freeze() -> Work {
    Work::control(Task::Freeze)
}

/// Lengths of what goes along with a leader's work.
fn gathered(queue: &mut Queue, own: &Work) -> Vec<usize> {
    let mut followers = Vec::new();
    queue.gather(own, &mut followers);
    followers.iter().map(|follower| follower.work.payload.len()).collect()
}

/// Whether a writer that comes leads, where this work waits and nobody leads.
fn leads(first: Option<Work>, work: Work) -> bool {
    let waiting = first.into_iter().map(|work| Arc::new(Waiter::new(work, true))).collect();
    let mut queue = Queue { leading: false, waiting };
    matches!(queue.enter(work), Place::Leader(_))
}

#[test]
fn a_writer_passes_only_work_that_it_can_take_along() {
    let large = GROUP_BYTES_MAX + 1;
    assert!(leads(None, write(10)) && leads(None, freeze()) && leads(None, write(large)));
    assert!(leads(Some(write(10)), write(10)));
    assert!(leads(Some(separated(10)), separated(10)));
    assert!(!leads(Some(separated(10)), write(10)), "it is for the other lane");
    assert!(!leads(Some(write(large)), write(10)), "too large for any group");
    assert!(!leads(Some(write(10)), write(large)));
    assert!(!leads(Some(freeze()), write(10)));
    assert!(!leads(Some(write(10)), freeze()));
}

#[test]
fn a_writer_waits_while_another_leads() {
    let mut queue = Queue::default();
    assert!(matches!(queue.enter(write(10)), Place::Leader(_)));
    assert!(matches!(queue.enter(write(10)), Place::Waiter(_)));
    assert_eq!(gathered(&mut queue, &write(10)), [10]);
    assert!(queue.let_go().is_none(), "nobody waits");
    assert!(matches!(queue.enter(write(10)), Place::Leader(_)));
}

#[test]
fn a_group_is_of_one_lane_and_in_order() {
    let mut queue = Queue { leading: true, ..Queue::default() };
    for work in [write(1), separated(2), write(3)] {
        queue.enter(work);
    }
    assert_eq!(gathered(&mut queue, &write(10)), [1]);
    assert_eq!(gathered(&mut queue, &write(10)), [0; 0], "the other lane's is first");
    assert_eq!(gathered(&mut queue, &separated(10)), [2]);
    assert_eq!(gathered(&mut queue, &freeze()), [0; 0]);
    assert_eq!(gathered(&mut queue, &write(10)), [3]);
}

#[test]
fn a_group_takes_along_who_comes_later_up_to_its_size() {
    let mut queue = Queue { leading: true, ..Queue::default() };
    let (own, half) = (write(10), GROUP_BYTES_MAX / 2);
    let mut followers = Vec::new();
    queue.enter(write(half));
    queue.gather(&own, &mut followers);
    queue.enter(write(7));
    queue.enter(write(half));
    queue.gather(&own, &mut followers);
    let lengths = |of: &[Follower]| of.iter().map(|f| f.work.payload.len()).collect::<Vec<_>>();
    assert_eq!(lengths(&followers), [half, 7], "in order, and no more than a group may hold");
    assert_eq!(gathered(&mut queue, &own), [half], "it waits for the next");
}

#[test]
fn who_was_told_to_try_leads_only_if_nobody_else_does() {
    let mut queue = Queue { leading: true, ..Queue::default() };
    let Place::Waiter(waiter) = queue.enter(write(10)) else { panic!("somebody leads") };
    assert!(queue.let_go().is_some(), "it is told");
    assert!(queue.let_go().is_none(), "once");
    queue.leading = true;
    assert!(queue.take_lead(&waiter).is_none());
    assert_eq!(queue.waiting.len(), 1, "it waits for the next turn");
    assert!(queue.let_go().is_some(), "and is told again");
    assert!(queue.take_lead(&waiter).is_some());
    assert!(queue.leading && queue.waiting.is_empty());
}

#[test]
fn what_was_done_meanwhile_is_not_forgotten() {
    let mut queue = Queue::default();
    let waiter = Arc::new(Waiter::new(write(10), true));
    waiter.signal.set(DONE);
    assert!(queue.take_lead(&waiter).is_none(), "a leader has taken it along");
    assert_eq!(waiter.wait(), DONE);
}
