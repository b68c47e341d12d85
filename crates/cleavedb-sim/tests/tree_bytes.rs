//! The tree of extents counts its bytes as the allocator does, takes at most 4 % of the data after
//! small random updates, and gives back what views of old states held.
//!
//! `TREE_RECORDS` makes it larger. What other threads allocate does not count.

use cleavedb::sim::tree::TreeProbe;
use cleavedb_sim::allocator::{Counting, Moment};
use cleavedb_sim::random::Random;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Records, and the bytes of one: a key of 27 bytes, a value of 127, lengths.
const RECORDS: u64 = 200_000;
const RECORD_BYTES: u32 = 156;

/// Records that are written anew by one flush, as a part of all.
const FLUSHES: u64 = 64;

#[test]
fn a_tree_of_small_updates_takes_four_percent() {
    let records = std::env::var("TREE_RECORDS").ok().and_then(|text| text.parse().ok());
    let records: u64 = records.unwrap_or(RECORDS);
    let mut random = Random::new(1);
    let before = Moment::now();
    let held = || before.held();
    let mut tree = TreeProbe::new(RECORD_BYTES).expect("records have bytes");
    tree.hold();
    let bytes = u64::from(RECORD_BYTES);
    assert!((0..records).all(|number| tree.append(number * bytes)), "appended");
    assert_eq!(tree.figures().1, held(), "after a load");
    let (mut end, mut worst) = (records * bytes, 0.0f64);
    let mut view = None;
    for _ in 0..2 * FLUSHES {
        drop(view.take());
        let mut numbers: Vec<u64> = (0..records / FLUSHES).map(|_| random.below(records)).collect();
        numbers.sort_unstable();
        for &number in &numbers {
            assert!(tree.update(number, end), "updated");
            assert_eq!(tree.physical(number), Some(end));
            end += bytes;
        }
        drop(numbers);
        assert_eq!(tree.figures().1, held(), "what is counted is what is in use");
        let share = tree.figures().1 as f64 / (records * bytes) as f64;
        worst = worst.max(share);
        view = Some(tree.clone());
    }
    let (extents, counted) = tree.figures();
    assert!(worst <= 0.04, "{worst}");
    // While a view is held, both are there; then one of them.
    assert!(tree.remove(0..records * 9 / 10));
    let both = held();
    drop(view);
    let (_, left) = tree.figures();
    assert_eq!(left, held());
    assert!(both > left + counted * 8 / 10, "{left} of {both}");
    drop(tree);
    assert_eq!(held(), 0, "everything is given back");
    // Last: what is printed may be kept in memory.
    println!(
        "tree_bytes records={records} extents={extents} bytes={:.2} of_data={:.2}% worst={:.2}%",
        counted as f64 / extents as f64,
        counted as f64 / (records * bytes) as f64 * 100.0,
        worst * 100.0
    );
}
