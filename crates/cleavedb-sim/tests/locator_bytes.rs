//! The compact locator takes at most 10 bytes a key, at every number of keys, growth included.
//!
//! `LOCATOR_KEYS` makes it larger (20 million takes some 170 MB).
#![allow(clippy::expect_used, reason = "helpers of tests: lints know only the test functions")]

use cleavedb::sim::locator::LocatorProbe;
use cleavedb_sim::allocator::{Counting, Moment, peak_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keys of the largest count that is measured.
const KEYS: u64 = 1_000_000;

/// What an empty locator may take: 64 shards.
const EMPTY_BYTES_MAX: u64 = 40 << 10;

#[test]
fn a_key_takes_ten_bytes_at_every_count() {
    let keys = std::env::var("LOCATOR_KEYS").ok().and_then(|text| text.parse().ok());
    let keys: u64 = keys.unwrap_or(KEYS);
    let (mut worst, mut empty) = ((0.0, 0), 0);
    let mut probe = None;
    let start = Moment::now();
    let (_, held) = peak_of(|| probe = Some(LocatorProbe::new()));
    empty += held;
    assert!(empty <= EMPTY_BYTES_MAX, "an empty locator takes {empty} bytes");
    let Some(probe) = probe else { unreachable!("just made") };
    // In use so far, and the peak of each step on top of it.
    let mut in_use = empty;
    let mut count = 0;
    while count < keys {
        let next = (count + count / 50 + 50).min(keys);
        let ((), grown) = peak_of(|| probe.flush(count..next, 0));
        let peak = in_use + grown;
        let bound = next * 10 + EMPTY_BYTES_MAX;
        assert!(peak <= bound, "{peak} bytes at {next} keys");
        if next >= 100_000 {
            let per_key = peak as f64 / next as f64;
            worst = if per_key > worst.0 { (per_key, next) } else { worst };
            assert!(per_key <= 10.0, "{per_key:.2} bytes a key at {next}");
        }
        in_use = start.held();
        count = next;
    }
    let (entries, counted) = probe.figures();
    // A new key takes another one's entry for its own now and then, more often where bits of the
    // older ones went into splits.
    assert!(entries * 100 >= keys * 98, "{entries} entries of {keys}");
    assert!(counted.abs_diff(in_use) <= in_use / 100 + EMPTY_BYTES_MAX, "{counted} and {in_use}");
    let found = (0..keys).filter(|number| probe.finds(*number, 0)).count();
    assert!(found as u64 * 100 >= keys * 98, "{found} of {keys} are found");
    println!(
        "locator_bytes keys={keys} empty={empty} at_the_end={:.3} worst={:.3} at={} found={found}",
        in_use as f64 / keys as f64,
        worst.0,
        worst.1
    );
    shrinks(&probe, keys, start);
}

/// New versions of all take no more; what is removed gives its bytes back.
fn shrinks(probe: &LocatorProbe, keys: u64, start: Moment) {
    let in_use = start.held();
    let ((), grown) = peak_of(|| probe.flush(0..keys, 1));
    assert!(in_use + grown <= keys * 10 + EMPTY_BYTES_MAX, "{grown} bytes more for new versions");
    probe.remove(keys / 10..keys);
    let now = start.held();
    let left = probe.figures().0;
    println!("locator_bytes left={left} bytes={:.3}", now as f64 / left as f64);
    assert!(now <= left * 12 + EMPTY_BYTES_MAX, "{now} bytes for {left} keys");
}
