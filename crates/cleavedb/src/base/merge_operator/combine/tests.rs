//! The order of operands and the bytes that combining takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::base::merge_operator::operators;

/// Appends, and counts what it writes; combines only what is shorter than its bound.
struct Counting {
    appends: Arc<dyn MergeOperator>,
    bytes: AtomicU64,
    calls: AtomicU64,
    combines: bool,
}

impl Counting {
    fn new(combines: bool) -> Self {
        let appends = operators::by_name("append:,").unwrap();
        Self { appends, bytes: AtomicU64::new(0), calls: AtomicU64::new(0), combines }
    }
}

impl MergeOperator for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        self.appends.full_merge(key, existing, operands)
    }

    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let merged = self.appends.partial_merge(key, older, newer).filter(|_| self.combines)?;
        self.bytes.fetch_add(merged.len() as u64, Ordering::Relaxed);
        Some(merged)
    }
}

fn run(count: u64, bytes: usize) -> Vec<(Seq, Vec<u8>)> {
    (1..=count).map(|seq| (seq, format!("{seq:0bytes$}").into_bytes())).collect()
}

fn joined(parts: &[(Seq, Vec<u8>)]) -> Vec<u8> {
    let parts: Vec<&[u8]> = parts.iter().map(|(_, operand)| operand.as_slice()).collect();
    parts.join(&b","[..])
}

#[test]
fn the_order_stays_and_the_newest_seq_names_a_part() {
    for count in 0..40 {
        for bytes_max in [1, 10, 30, 1_000] {
            let operator = Counting::new(true);
            let combined = combine_operands(&operator, b"k", run(count, 4), bytes_max);
            assert_eq!(joined(&combined), joined(&run(count, 4)), "{count} within {bytes_max}");
            let last =
                |(seq, operand): &(Seq, Vec<u8>)| operand.ends_with(format!("{seq:04}").as_bytes());
            assert!(combined.iter().all(last), "{combined:?}");
            assert!(combined.iter().all(|(_, operand)| operand.len() <= bytes_max.max(4)));
            if bytes_max == 1_000 {
                assert_eq!(combined.len() as u64, count.min(1));
            }
        }
    }
}

#[test]
fn bytes_are_copied_as_often_as_lengths_double() {
    let operator = Counting::new(true);
    let (count, bytes) = (10_000, 100);
    let combined = combine_operands(&operator, b"k", run(count, bytes), 64 << 10);
    let whole = joined(&combined).len() as u64;
    let copied = operator.bytes.load(Ordering::Relaxed);
    // 2^9 operands make 51 KB; what would be longer is made once and thrown away.
    assert!(copied <= 14 * whole, "{copied} bytes for {whole}");
    assert!(combined.len() <= 2 * whole as usize / (32 << 10), "{} parts", combined.len());
}

#[test]
fn what_cannot_be_combined_is_tried_once() {
    let operator = Counting::new(false);
    let combined = combine_operands(&operator, b"k", run(1_000, 10), 64 << 10);
    assert_eq!((combined, operator.calls.load(Ordering::Relaxed)), (run(1_000, 10), 999));
}
