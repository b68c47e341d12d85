//! Each order, and what goes together.

use super::*;

fn file(id: u64, live_bytes: u64) -> FileFigures {
    FileFigures {
        id: FileId(id),
        file_bytes: 1000,
        live_bytes,
        is_dead: false,
        is_settled: true,
        is_taken: false,
        is_punched: false,
        rewrites: 0,
        newest_seq: 0,
    }
}

fn sorted(order: VictimOrder, mut files: Vec<FileFigures>) -> Vec<u64> {
    VictimPolicy::plain(order).sort(&mut files);
    files.iter().map(|file| file.id.0).collect()
}

#[test]
fn each_order_has_its_own_first() {
    let files = || vec![file(4, 100), file(1, 900), file(2, 100), file(3, 500)];
    assert_eq!(sorted(VictimOrder::OldestFirst, files()), [1, 2, 3, 4]);
    assert_eq!(sorted(VictimOrder::Greedy, files()), [2, 4, 3, 1]);
    assert_eq!(sorted(VictimOrder::CostBenefit, files()), [2, 4, 3, 1], "all of one age");
    // Half dead and old is better than two thirds dead and young.
    let aged = |id, live, newest_seq| FileFigures { newest_seq, ..file(id, live) };
    let files = vec![aged(1, 500, 1), aged(2, 330, 9_900), aged(3, 1000, 0), aged(4, 1, 10_000)];
    assert_eq!(sorted(VictimOrder::CostBenefit, files), [4, 1, 2, 3]);
    let empty: Vec<FileFigures> = vec![file(1, 0), FileFigures { file_bytes: 0, ..file(2, 0) }];
    assert_eq!(sorted(VictimOrder::CostBenefit, empty), [1, 2]);
}

#[test]
fn files_of_a_kind_go_together_as_far_as_they_fit() {
    let rewritten = |id, live, rewrites| FileFigures { rewrites, ..file(id, live) };
    let ranked =
        [rewritten(1, 300, 1), rewritten(2, 100, 0), rewritten(3, 300, 1), rewritten(4, 500, 1)];
    let plain = VictimPolicy::plain(VictimOrder::Greedy);
    let ids = |policy: &VictimPolicy, ranked: &[FileFigures], bytes_max, count_max| {
        let chosen = policy.together(ranked, bytes_max, count_max);
        chosen.iter().map(|id| id.0).collect::<Vec<u64>>()
    };
    assert_eq!(ids(&plain, &ranked, 700, 16), [1, 2, 3]);
    assert_eq!(ids(&plain, &ranked, 5000, 2), [1, 2]);
    let grouped = VictimPolicy { is_grouped: true, ..plain };
    assert_eq!(ids(&grouped, &ranked, 700, 16), [1, 3]);
    assert_eq!(ids(&grouped, &ranked, 5000, 16), [1, 3, 4]);
    assert_eq!(ids(&grouped, &ranked, 1, 16), [1], "the first one in any case");
    assert_eq!(ids(&grouped, &[], 1, 16), [0; 0]);
    // Whether three times or thirty, both are cold.
    let cold = [rewritten(1, 100, 3), rewritten(2, 100, 30), rewritten(3, 100, 2)];
    assert_eq!(ids(&grouped, &cold, 5000, 16), [1, 2]);
}

#[test]
fn what_is_worth_it_early_is_worth_it_late() {
    let limits = SpaceLimits { amplification_max: 1.25, slack_bytes: 0 };
    let plain = VictimPolicy::plain(VictimOrder::Greedy);
    let waiting = VictimPolicy { due_worth_percent: 200, ..plain };
    // A third of it is garbage at 667 live bytes of 1000.
    assert!(waiting.is_worth_it_early(&file(1, 667), &limits));
    assert!(!waiting.is_worth_it_early(&file(1, 668), &limits));
    assert!(plain.is_worth_it_early(&file(1, 930), &limits));
    assert!(!plain.is_worth_it_early(&file(1, 931), &limits));
    let punched = FileFigures { is_punched: true, ..file(1, 900) };
    assert!(!plain.is_worth_it_early(&punched, &limits), "its rest is hard to get");
}
