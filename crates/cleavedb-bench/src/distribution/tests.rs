//! Shapes of the distributions, and that seeds decide them.

use rand::SeedableRng;

use super::*;

fn counts(chooser: &Chooser, items: u64, draws: u64, seed: u64) -> Vec<u64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut counts = vec![0u64; items as usize];
    for _ in 0..draws {
        counts[chooser.next(&mut random, items) as usize] += 1;
    }
    counts
}

#[test]
fn a_permutation_hits_every_place_once() {
    for count in [1, 2, 3, 7, 64, 65, 1000, 4097] {
        let permutation = Permutation::new(count, 11);
        let mut seen = vec![false; count as usize];
        for index in 0..count {
            let place = permutation.apply(index) as usize;
            assert!(!std::mem::replace(&mut seen[place], true), "{place} twice of {count}");
        }
    }
}

#[test]
fn permutations_differ_by_seed_and_are_not_in_order() {
    let (a, b) = (Permutation::new(10_000, 1), Permutation::new(10_000, 2));
    let fixed = (0..10_000).filter(|&i| a.apply(i) == i).count();
    let same = (0..10_000).filter(|&i| a.apply(i) == b.apply(i)).count();
    assert!(fixed < 20 && same < 20, "{fixed} {same}");
}

#[test]
fn zipfian_frequencies_follow_the_law() {
    let (items, draws) = (1000u64, 400_000u64);
    let mut sorted = counts(&Chooser::zipfian(items, ZIPF_EXPONENT, 5), items, draws, 42);
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let harmonic: f64 = (1..=items).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum();
    for rank in [1u64, 2, 3, 5, 10, 30, 100] {
        let expected = draws as f64 * (rank as f64).powf(-ZIPF_EXPONENT) / harmonic;
        let found = sorted[rank as usize - 1] as f64;
        assert!((found / expected - 1.0).abs() < 0.15, "rank {rank}: {found} for {expected}");
    }
}

#[test]
fn popular_items_of_the_scrambled_zipfian_are_scattered() {
    let items = 10_000;
    let found = counts(&Chooser::zipfian(items, ZIPF_EXPONENT, 5), items, 200_000, 1);
    let mut order: Vec<usize> = (0..items as usize).collect();
    order.sort_unstable_by_key(|&item| std::cmp::Reverse(found[item]));
    let low = order.iter().take(100).filter(|&&item| item < 5000).count();
    assert!((30..=70).contains(&low), "{low} of the 100 most popular in the lower half");
}

#[test]
fn latest_prefers_the_newest_and_follows_growth() {
    let chooser = Chooser::latest(1000);
    let found = counts(&chooser, 1000, 100_000, 3);
    assert!(found[999] > found[998] && found[998] > found[900] && found[900] > found[100]);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let newest = (0..1000).map(|_| chooser.next(&mut random, 5000)).max();
    assert_eq!(newest, Some(4999));
}

#[test]
fn uniform_is_even() {
    let found = counts(&Chooser::Uniform, 100, 100_000, 9);
    assert!(found.iter().all(|&n| (800..1200).contains(&n)), "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_sequence() {
    for chooser in [Chooser::Uniform, Chooser::zipfian(500, ZIPF_EXPONENT, 1), Chooser::latest(500)]
    {
        assert_eq!(counts(&chooser, 500, 1000, 8), counts(&chooser, 500, 1000, 8));
        assert_ne!(counts(&chooser, 500, 1000, 8), counts(&chooser, 500, 1000, 9));
    }
}

#[test]
fn one_item_is_enough() {
    for chooser in [Chooser::Uniform, Chooser::zipfian(1, ZIPF_EXPONENT, 1), Chooser::latest(1)] {
        assert_eq!(counts(&chooser, 1, 10, 1), [10]);
    }
}
