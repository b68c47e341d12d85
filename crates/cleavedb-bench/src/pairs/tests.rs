//! Verdicts, disturbed runs, and the order of rounds.

use super::*;

#[test]
fn a_claim_needs_the_median_and_the_lowest_pair() {
    let spread = |figures: &[f64]| Spread::of(figures.to_vec()).unwrap();
    let close = spread(&[1.9, 2.0, 2.1, 2.05, 1.95]);
    assert!((close.median - 2.0).abs() < 1e-9);
    assert!(close.is_at_least(2.0) && !close.is_at_least(2.01));
    // The median is the same; one pair lies too low.
    let wide = spread(&[1.5, 2.0, 2.1, 2.05, 1.95]);
    assert!(!wide.is_at_least(2.0) && wide.is_at_least(1.57));
    assert!((wide.claim().unwrap() - 1.5 / 0.95).abs() < 1e-9);
    // Four pairs are too few for any claim.
    let few = spread(&[2.0; 4]);
    assert!(!few.is_at_least(1.0) && few.claim().is_none());
    assert_eq!(few.to_string(), "2.00 (4 of 5 pairs)");
    assert!((spread(&[1.0, 3.0]).median - 2.0).abs() < 1e-9);
    assert_eq!(Spread::of(Vec::new()), None);
    assert_eq!(Spread::of(vec![1.0, f64::NAN]), None);
}

/// Gives every run a number; some are disturbed, some fail.
#[derive(Default)]
struct Told {
    runs: Vec<(usize, usize)>,
    /// Places in `runs` that others disturb.
    disturbed: Vec<usize>,
    /// A contender that cannot run from this round on.
    broken: Option<(usize, usize)>,
    ended: Vec<(usize, usize, usize, bool)>,
    missing: Vec<(usize, String, bool)>,
}

impl Course for Told {
    type Outcome = usize;

    fn run(&mut self, round: usize, contender: usize) -> Result<usize> {
        if self.broken.is_some_and(|(one, from)| one == contender && round >= from) {
            return Err(anyhow!("broken"));
        }
        self.runs.push((round, contender));
        Ok(self.runs.len())
    }
    fn others(&mut self) -> f64 {
        if self.disturbed.contains(&self.runs.len()) { 0.5 } else { 0.125 }
    }
    fn busiest(&self) -> String {
        "somebody".to_owned()
    }
    fn ended(&mut self, _: &mut usize, ended: Ended) -> Result<()> {
        self.ended.push((ended.round, ended.contender, ended.attempt, ended.counts));
        Ok(())
    }
    fn missing(&mut self, contender: usize, why: Error, out: bool) -> Result<()> {
        self.missing.push((contender, why.to_string(), out));
        Ok(())
    }
}

#[test]
fn a_disturbed_run_is_repeated_at_once_and_nothing_else_is() {
    let mut told = Told { disturbed: vec![2, 3], ..Told::default() };
    let rounds = run_rounds(2, 3, OTHERS_MAX, &mut told).unwrap();
    // Contender 1 runs three times before contender 2 runs at all.
    assert_eq!(told.runs, [(1, 0), (1, 1), (1, 1), (1, 1), (1, 2), (2, 2), (2, 1), (2, 0)]);
    assert_eq!(rounds.kept, [[Some(1), Some(4), Some(5)], [Some(8), Some(7), Some(6)]]);
    assert_eq!(rounds.thrown_away, [0, 2, 0]);
    assert!((rounds.others - 0.125).abs() < 1e-9);
    let tries: Vec<_> = told.ended.iter().filter(|ended| ended.1 == 1).copied().collect();
    assert_eq!(tries, [(1, 1, 1, false), (1, 1, 2, false), (1, 1, 3, true), (2, 1, 1, true)]);
    assert!(told.missing.is_empty());
}

#[test]
fn a_busy_machine_leaves_places_empty_and_says_who_it_was() {
    let mut told = Told { disturbed: (2..=6).collect(), ..Told::default() };
    let rounds = run_rounds(2, 2, OTHERS_MAX, &mut told).unwrap();
    assert_eq!(rounds.kept, [[Some(1), None], [Some(8), Some(7)]]);
    assert_eq!(rounds.thrown_away, [0, TRIES_MAX]);
    let [(1, why, false)] = told.missing.as_slice() else { panic!("{:?}", told.missing) };
    assert!(why.contains("round 1") && why.contains("processor: somebody"), "{why}");
}

#[test]
fn who_fails_is_left_out_and_the_others_go_on() {
    let mut told = Told { broken: Some((1, 2)), ..Told::default() };
    let rounds = run_rounds(3, 2, OTHERS_MAX, &mut told).unwrap();
    assert_eq!(rounds.kept, [[Some(1), Some(2)], [Some(3), None], [Some(4), None]]);
    assert_eq!(told.missing, [(1, "broken".to_owned(), true)]);
}

#[test]
fn rounds_begin_with_another_and_change_direction() {
    assert_eq!(order(1, 5, 5), [0, 1, 2, 3, 4]);
    assert_eq!(order(2, 5, 5), [4, 3, 2, 1, 0]);
    assert_eq!(order(3, 5, 5), [1, 2, 3, 4, 0]);
    assert_eq!(order(5, 5, 5), [3, 4, 0, 1, 2]);
    for round in 1..=5 {
        let mut all = order(round, 5, 13);
        all.sort_unstable();
        assert_eq!(all, (0..13).collect::<Vec<_>>());
    }
    assert!(order(1, 1, 0).is_empty());
}
