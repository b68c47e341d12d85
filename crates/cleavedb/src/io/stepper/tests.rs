//! The seed decides the order, and each database has its own steps.

use super::*;

/// Runs ten steps that note their number and queue one more each; gives the order.
fn order(seed: u64) -> Vec<usize> {
    let stepper = Stepper::new(seed);
    let executor = stepper.attach();
    let log = Arc::new(Mutex::new(Vec::new()));
    for number in 0..10 {
        let (log, again) = (log.clone(), executor.clone());
        executor.submit(
            Priority::Compaction,
            Box::new(move || {
                log.lock().push(number);
                let log = log.clone();
                again.submit(Priority::Flush, Box::new(move || log.lock().push(number + 10)));
            }),
        );
    }
    assert_eq!(stepper.pending(), 10);
    assert_eq!(stepper.run_all(), 20);
    log.lock().clone()
}

#[test]
fn the_seed_and_nothing_else_decides_the_order() {
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
    let mut sorted = order(9);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>());
}

#[test]
fn helping_runs_one_step_and_says_when_there_is_none() {
    let stepper = Stepper::new(0);
    let executor = stepper.attach();
    assert!(executor.is_stepper() && !executor.help());
    executor.submit(Priority::Flush, Box::new(|| {}));
    assert!(executor.help() && !executor.help());
}

#[test]
fn shutting_one_database_down_leaves_the_other_its_steps() {
    let stepper = Stepper::new(0);
    let (first, second) = (stepper.attach(), stepper.attach());
    first.submit(Priority::Flush, Box::new(|| panic!("was shut down")));
    second.submit(Priority::Flush, Box::new(|| {}));
    first.shutdown();
    first.submit(Priority::Flush, Box::new(|| panic!("was shut down")));
    assert_eq!(stepper.run_all(), 1);
}

#[test]
fn fork_join_runs_all_parts_before_it_returns() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let executor = Stepper::new(seed).attach();
        let log = Mutex::new(Vec::new());
        let parts = (0..4).map(|number| {
            let log = &log;
            Box::new(move || log.lock().push(number)) as Box<dyn FnOnce() + Send + '_>
        });
        executor.fork_join(parts.collect());
        let log = log.into_inner();
        assert_eq!(log.iter().sum::<i32>(), 6);
        orders.insert(log);
    }
    assert!(orders.len() > 5);
}
