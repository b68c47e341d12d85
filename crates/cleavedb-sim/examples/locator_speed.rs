//! How long a look-up in the compact locator takes: `cargo run --release -p cleavedb-sim --example
//! locator_speed -- 10000000`.
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::time::Instant;

use cleavedb::sim::locator::LocatorProbe;

/// Look-ups that are timed.
const LOOKUPS: u64 = 5_000_000;

fn main() {
    let keys: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1 << 20);
    let probe = LocatorProbe::new();
    let begun = Instant::now();
    probe.flush(0..keys, 0);
    let fill = begun.elapsed().as_nanos() as f64 / keys as f64;
    let begun = Instant::now();
    probe.flush(0..keys, 1);
    let replace = begun.elapsed().as_nanos() as f64 / keys as f64;
    let time = |from: u64| {
        let (begun, mut found, mut number) = (Instant::now(), 0, 1u64);
        for _ in 0..LOOKUPS {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            found += probe.lookup(from + ((u128::from(number) * u128::from(keys)) >> 64) as u64);
        }
        (begun.elapsed().as_nanos() as f64 / LOOKUPS as f64, found)
    };
    let ((hit, hits), (miss, misses)) = (time(0), time(keys));
    let (entries, bytes) = probe.figures();
    println!("keys={keys} entries={entries} bytes_a_key={:.3}", bytes as f64 / entries as f64);
    println!("fill={fill:.0} replace={replace:.0} hit={hit:.0} miss={miss:.0} ns, hash included");
    println!("hits={hits} false_candidates={misses} of {LOOKUPS}");
}
