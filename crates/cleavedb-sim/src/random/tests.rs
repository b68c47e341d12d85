//! The generator of numbers: seeded, bounded, and reaching its bounds.

use super::Random;

#[test]
fn numbers_depend_on_the_seed_alone() {
    let mut first = Random::new(7);
    let mut second = Random::new(7);
    let mut other = Random::new(8);
    let numbers: Vec<u64> = (0..50).map(|_| first.bits()).collect();
    assert_eq!(numbers, (0..50).map(|_| second.bits()).collect::<Vec<_>>());
    assert_ne!(numbers, (0..50).map(|_| other.bits()).collect::<Vec<_>>());
}

#[test]
fn bounds_are_kept_and_reached() {
    let mut random = Random::new(3);
    let mut seen = [false; 5];
    for _ in 0..200 {
        seen[random.index(5)] = true;
        assert!((10..=12).contains(&random.within(10, 12)));
    }
    assert_eq!(seen, [true; 5]);
}
