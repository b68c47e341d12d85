//! Sums by file, against adding up one by one.

use super::*;
use proptest::prelude::*;

fn handle(file: u64, bytes: u32) -> Handle {
    Handle { file: FileId(file), epoch: 0, offset: 500, bytes }
}

proptest! {
    #[test]
    fn changes_add_up(
        steps in proptest::collection::vec((1..5u64, 20..900u32, any::<bool>()), 0..60),
    ) {
        let mut changes = RefChanges::default();
        let mut wanted: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
        for &(file, bytes, is_born) in &steps {
            let handle = handle(file, bytes);
            if is_born { changes.born(&handle) } else { changes.died(&handle) }
            let sign = if is_born { 1 } else { -1 };
            let sum = wanted.entry(file).or_default();
            *sum = (sum.0 + sign, sum.1 + sign * i64::from(bytes));
        }
        let wanted: Vec<_> = wanted
            .into_iter()
            .filter(|(_, sum)| *sum != (0, 0))
            .map(|(id, (refs, ref_bytes))| ValuesEdit::Counted { id: FileId(id), refs, ref_bytes })
            .collect();
        prop_assert_eq!(changes.edits(), wanted.clone());
        let decoded = changes.encode().map(|section| ValuesEdit::decode(&section.payload).unwrap());
        prop_assert_eq!(decoded.unwrap_or_default(), wanted);
    }
}

#[test]
fn what_cancels_out_needs_no_edit() {
    let mut changes = RefChanges::default();
    assert_eq!(changes.encode(), None);
    changes.born(&handle(3, 40));
    changes.died(&handle(3, 40));
    assert_eq!(changes.encode(), None);
    changes.died(&handle(3, 40));
    assert!(changes.encode().is_some());
}
