//! The registry of live snapshots.

use super::*;

#[test]
fn stripes_list_each_live_seq_once_until_its_last_pin_goes() {
    let registry = Arc::new(Snapshots::default());
    let visible = AtomicU64::new(7);
    let first = registry.take(&visible);
    let second = registry.take(&visible);
    visible.store(9, Ordering::Release);
    let third = registry.take(&visible);
    assert_eq!(registry.stripes(), [7, 9]);
    drop(first);
    assert_eq!(registry.stripes(), [7, 9]);
    drop(second);
    assert_eq!(registry.stripes(), [9]);
    assert_eq!(third.seq(), 9);
    drop(third);
    assert!(registry.stripes().is_empty());
}
