//! What a tree weighs after many small updates, which are what cuts a space into small extents.
//!
//! Exact bytes, as the allocator is asked for them: no figure depends on the machine.

use super::shared::all_nodes;
use super::*;
use crate::io::seeded::Seeded;

/// Pairs of 27 and 127 bytes with their header.
const RECORD_BYTES: u64 = 156;
const RECORDS: u64 = 100_000;
/// Records that are rewritten together.
const INTERVAL: u64 = 16;

/// What a run left.
struct Weight {
    /// Bytes that an extent maps.
    extent_bytes: f64,
    /// Bytes that an extent takes in the tree, nodes included.
    tree_bytes: f64,
}

impl Weight {
    fn of(name: &str, tree: &Tree) -> Self {
        let shape = tree.check().expect("sound");
        let extent_bytes = tree.length() as f64 / shape.extents as f64;
        let tree_bytes = tree.memory_bytes() as f64 / shape.extents as f64;
        let weight = Self { extent_bytes, tree_bytes };
        println!(
            "tree_bytes {name}: extents={} of={extent_bytes:.0} fill={:.2} \
             tree_bytes={tree_bytes:.2} of_data={:.2}%",
            shape.extents,
            shape.extents as f64 / (shape.leaves * 128) as f64,
            weight.share() * 100.0
        );
        weight
    }

    /// Bytes of the tree by bytes of data.
    fn share(&self) -> f64 {
        self.tree_bytes / self.extent_bytes
    }
}

/// A space that was filled in the order of its keys.
fn filled() -> (Tree, u64) {
    let mut tree = tree(TreeWidths::USUAL);
    for number in 0..RECORDS {
        let extent = Extent::new(RECORD_BYTES * number, RECORD_BYTES as u32);
        tree.append(extent).expect("appended");
    }
    (tree, RECORDS * RECORD_BYTES)
}

/// As many updates as there are records, each flush of so many in the order of the keys.
/// `fragments_max` is from how many pieces on an interval is rewritten by the flush that meets it.
fn updated(flush: u64, fragments_max: Option<usize>) -> (Tree, f64) {
    let (mut tree, mut end) = filled();
    let mut random = Seeded::new(7);
    let begin = end;
    for _ in 0..RECORDS / flush {
        let mut keys: Vec<u64> = (0..flush).map(|_| random.below(RECORDS)).collect();
        keys.sort_unstable();
        keys.dedup();
        for of_interval in keys.chunk_by(|a, b| a / INTERVAL == b / INTERVAL) {
            let first = of_interval[0] / INTERVAL * INTERVAL * RECORD_BYTES;
            let whole = first..first + INTERVAL * RECORD_BYTES;
            let pieces = tree.walk(whole.clone()).expect("an interval").count();
            if fragments_max.is_some_and(|most| pieces + 2 * of_interval.len() > most) {
                let extent = Extent::new(end, (INTERVAL * RECORD_BYTES) as u32);
                tree.update(whole, &[extent]).expect("rewritten");
                end += INTERVAL * RECORD_BYTES;
                continue;
            }
            for key in of_interval {
                let extent = Extent::new(end, RECORD_BYTES as u32);
                tree.overwrite(key * RECORD_BYTES, extent).expect("updated");
                end += RECORD_BYTES;
            }
        }
    }
    (tree, (end - begin) as f64 / (RECORDS * RECORD_BYTES) as f64)
}

#[test]
fn a_tree_of_small_updates_weighs_little() {
    // A 64th of the data with each flush, as with a memtable of 1 GiB and 64 GiB of data.
    let (tree, _) = updated(RECORDS / 64, None);
    let small = Weight::of("flushes of a 64th", &tree);
    assert!(small.share() <= 0.033 && small.tree_bytes <= 6.0);
    let (tree, _) = updated(RECORDS / 8, None);
    let large = Weight::of("flushes of an 8th", &tree);
    assert!(large.share() <= 0.029 && large.tree_bytes <= 5.6);
    let (tree, written) = updated(RECORDS / 64, Some(8));
    let rewritten = Weight::of("the same, intervals of more than 8 pieces rewritten", &tree);
    println!("tree_bytes written={written:.2} times");
    assert!(rewritten.share() <= 0.02);
}

/// The worst that can be: every record an extent of its own, and none near its neighbours.
#[test]
fn an_extent_without_any_order_takes_six_to_seven_bytes() {
    let mut tree = tree(TreeWidths::USUAL);
    let mut random = Seeded::new(7);
    for _ in 0..RECORDS {
        // Anywhere in 64 GiB, put in anywhere.
        let extent = Extent::new(random.below(1 << 36), RECORD_BYTES as u32);
        tree.insert(random.below(tree.length() + 1), extent).expect("inserted");
    }
    let weight = Weight::of("without any order", &tree);
    assert!(weight.tree_bytes <= 6.5);
}

#[test]
fn a_space_in_order_weighs_next_to_nothing() {
    let (tree, _) = filled();
    let weight = Weight::of("in order", &tree);
    assert_eq!(tree.extents(), (RECORDS * RECORD_BYTES).div_ceil(128 << 10));
    assert!(weight.share() <= 0.0001);
}

/// After nine of ten extents went, the rest has no more than its share.
#[test]
fn what_is_left_of_a_large_tree_weighs_as_little() {
    let mut tree = tree(TreeWidths::USUAL);
    let mut random = Seeded::new(8);
    for _ in 0..20_000 {
        let extent = Extent::new(random.below(1 << 36), 10);
        tree.insert(10 * random.below(tree.length() / 10 + 1), extent).expect("inserted");
    }
    for left in (2000..20_000).rev() {
        let at = 10 * random.below(left + 1);
        tree.collapse(at..at + 10).expect("collapsed");
    }
    let weight = Weight::of("a tenth left", &tree);
    assert!(weight.tree_bytes <= 12.0);
    // A copy has no room to spare; what was changed in place has little.
    for node in all_nodes(&tree) {
        let spare = node.memory_bytes() - Node::clone(&node).memory_bytes();
        let is_leaf = matches!(*node, Node::Leaf(_));
        assert!(!is_leaf || spare < 32, "{spare} bytes to spare");
    }
}
