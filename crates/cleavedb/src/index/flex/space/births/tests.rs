//! Births beside a checkpoint: round trips, and what no checkpoint keeps.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::clock::SimulatedClock;

#[test]
fn births_round_trip_and_others_are_refused() {
    let births = Births::from([
        (FileId(20), u64::MAX),
        (FileId(21), u64::MAX),
        (FileId(300), u64::MAX),
        (FileId(301), 1),
        (FileId(302), u64::MAX),
    ]);
    for count in 0..=births.len() {
        let some: Births = births.clone().into_iter().take(count).collect();
        let bytes = encode(77, some.clone().into_iter());
        assert_eq!(decode(&bytes).unwrap(), (77, some));
    }
    let bytes = encode(77, births.clone().into_iter());
    assert!(bytes.len() < 8 + 3 * 11 + 10, "{} bytes", bytes.len());
    for end in 0..bytes.len() {
        // Cut between two of them it holds as well, with fewer.
        match decode(&bytes[..end]) {
            Ok((_, some)) => assert!(some.len() < births.len()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
        }
    }
    // No number, no birth, a birth said twice, a number twice, and a number beyond all.
    for wrong in [&[1, 5][..], &[2], &[3, 5, 3, 5], &[3, 5, 0], &[3, 0]] {
        let attached = [&7u64.to_le_bytes()[..], wrong].concat();
        assert!(decode(&attached).is_err(), "{wrong:?}");
    }
    let mut far = 7u64.to_le_bytes().to_vec();
    put_varint(&mut far, u64::MAX);
    put_varint(&mut far, 5);
    assert!(decode(&far).is_err());
}

#[test]
fn every_open_draws_another_birth() {
    let clock = SimulatedClock::new();
    let first = draw(&clock);
    clock.advance(std::time::Duration::from_nanos(1));
    assert!(first != draw(&clock) && first != 0);
}
