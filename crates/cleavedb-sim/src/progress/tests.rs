//! Which states recovery may show, after which acknowledgements.

use super::{Progress, Window};
use crate::model::State;

fn history() -> Progress {
    let mut state = State::default();
    state.create(0);
    let mut progress = Progress::new(state.clone());
    for value in 1..=5 {
        state.set(0, &[value], Some(vec![value]));
        progress.issue(state.clone());
        progress.acknowledge();
        if value == 2 {
            progress.settle();
        }
    }
    progress
}

#[test]
fn windows_follow_what_was_acknowledged() {
    let mut progress = history();
    assert_eq!(progress.after_power_loss(), Window { low: 2, high: 5 });
    assert_eq!(progress.after_kill(), Window { low: 5, high: 5 });
    let next = progress.state(0).cloned().unwrap();
    progress.issue(next);
    assert_eq!(progress.after_kill(), Window { low: 5, high: 6 });
    progress.withdraw();
    assert_eq!(progress.after_kill(), Window { low: 5, high: 5 });
}

#[test]
fn every_prefix_in_the_window_has_its_place() {
    let progress = history();
    for index in 2..=5 {
        let dump = progress.state(index).unwrap().dump();
        assert_eq!(progress.place(&dump, progress.after_power_loss()), Ok(index));
    }
}

#[test]
fn losses_and_holes_are_told_apart() {
    let progress = history();
    let lost = progress.state(1).unwrap().dump();
    let error = progress.place(&lost, progress.after_power_loss()).unwrap_err();
    assert!(error.starts_with("lost"), "{error}");
    let mut hole = progress.state(4).unwrap().clone();
    hole.set(0, &[3], None);
    let error = progress.place(&hole.dump(), progress.after_power_loss()).unwrap_err();
    assert!(error.starts_with("hole"), "{error}");
}
