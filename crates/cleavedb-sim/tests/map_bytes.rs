//! The exact map takes at most 20 bytes a key beyond the key itself, at every number of keys,
//! growth included, and counts its bytes as the allocator does.
//!
//! `MAP_KEYS` makes it larger (20 million takes some 600 MB). What other threads allocate does
//! not count.

use cleavedb::sim::map::MapProbe;
use cleavedb_sim::allocator::{Counting, Moment, peak_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keys of the largest count that is measured.
const KEYS: u64 = 1_000_000;

/// What an empty map may take: 64 shards.
const EMPTY_BYTES_MAX: u64 = 40 << 10;

/// What the test's own thread may allocate meanwhile.
const HARNESS_BYTES_MAX: u64 = 1 << 10;

/// Bytes of a key, and of what it may take besides.
const KEY_BYTES: u64 = 16;
const OVERHEAD_BYTES_MAX: u64 = 20;

#[test]
fn a_key_takes_twenty_bytes_besides_itself_at_every_count() {
    let keys = std::env::var("MAP_KEYS").ok().and_then(|text| text.parse().ok());
    let keys: u64 = keys.unwrap_or(KEYS);
    let before = Moment::now();
    let probe = MapProbe::new(1 << 40, KEY_BYTES as usize);
    let held = || before.held();
    assert!(held() <= EMPTY_BYTES_MAX, "an empty map takes {} bytes", held());
    let (mut worst, mut count) = ((0.0, 0), 0);
    while count < keys {
        let next = (count + count / 50 + 50).min(keys);
        let start = held();
        let (taken, grown) = peak_of(|| probe.flush(count..next, 0, None));
        assert_eq!(taken, next - count, "there is room");
        let peak = start + grown;
        let bound = next * (KEY_BYTES + OVERHEAD_BYTES_MAX) + EMPTY_BYTES_MAX;
        // Pages that are not full yet weigh more while there are few keys.
        assert!(peak <= bound || next < 100_000, "{peak} bytes at {next} keys");
        if next >= 100_000 {
            let overhead = peak as f64 / next as f64 - KEY_BYTES as f64;
            worst = if overhead > worst.0 { (overhead, next) } else { worst };
        }
        count = next;
    }
    let in_use = held();
    let (entries, counted) = probe.figures();
    assert_eq!(entries, keys);
    assert!(
        counted.abs_diff(in_use) <= HARNESS_BYTES_MAX,
        "{counted} bytes are counted of {in_use}"
    );
    assert!((0..keys).all(|number| probe.finds(number, 0, u64::MAX)), "a key is missing");
    println!(
        "map_bytes keys={keys} key_bytes={KEY_BYTES} overhead_at_the_end={:.3} worst={:.3} at={}",
        in_use as f64 / keys as f64 - KEY_BYTES as f64,
        worst.0,
        worst.1
    );
    assert!(worst.0 <= OVERHEAD_BYTES_MAX as f64, "{worst:?}");
    changes(&probe, keys, before);
    drop(probe);
    budgets();
}

/// Chains are counted, too, and what is removed gives its bytes back.
fn changes(probe: &MapProbe, keys: u64, before: Moment) {
    let held = || before.held();
    let first = held();
    assert_eq!(probe.flush(0..keys / 10, 1, Some(1 << 31)), keys / 10);
    let with_chains = held();
    assert!(probe.figures().1.abs_diff(with_chains) <= HARNESS_BYTES_MAX, "chains are counted");
    assert!(probe.finds(7, 0, 1 << 31) && probe.finds(7, 1, 1 << 40));
    assert!(with_chains - first <= keys / 10 * (KEY_BYTES + 40) + EMPTY_BYTES_MAX);
    probe.prune();
    assert!(held() <= first + keys / 10 * 4 + EMPTY_BYTES_MAX, "{} and {first}", held());
    probe.remove(keys / 10..keys);
    let (left, counted) = probe.figures();
    assert!(
        counted.abs_diff(held()) <= HARNESS_BYTES_MAX,
        "{counted} bytes are counted of {}",
        held()
    );
    println!("map_bytes left={left} bytes={:.3}", held() as f64 / left as f64);
    assert!(held() <= left * (KEY_BYTES + 26) + 2 * EMPTY_BYTES_MAX);
}

/// A budget holds, is used, and whoever was taken stays.
fn budgets() {
    for (key_bytes, budget) in [(8, 1 << 20), (16, 4 << 20), (200, 4 << 20)] {
        let before = Moment::now();
        let probe = MapProbe::new(budget, key_bytes);
        let (taken, peak) = peak_of(|| probe.flush(0..200_000, 0, None));
        let (keys, counted) = probe.figures();
        assert_eq!(taken, keys);
        assert!(counted <= budget, "{counted} of {budget}");
        assert!(counted * 100 >= budget * 85, "{counted} of {budget} are used");
        // Beyond it only while a page or a directory is moved.
        assert!(before.held() + peak <= 2 * budget, "{peak}");
        println!(
            "map_bytes key_bytes={key_bytes} budget={budget} keys={keys} overhead={:.3}",
            counted as f64 / keys as f64 - key_bytes as f64
        );
    }
}
