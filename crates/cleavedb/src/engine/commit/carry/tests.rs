//! Tests of when it is worth asking the cache.

use super::*;

#[test]
fn few_are_asked_for_where_all_is_in_vain() {
    let carrying = Carrying::default();
    let asked = |seqs: std::ops::Range<Seq>| seqs.filter(|seq| carrying.is_due(*seq)).count();
    assert_eq!(asked(0..1_000), 1_000);
    (0..VAIN_MAX).for_each(|_| carrying.learn(false));
    assert_eq!(asked(0..1_600) as u64, 1_600 / ASKED_OF);
    carrying.learn(true);
    assert_eq!(asked(0..1_000), 1_000);
    (0..VAIN_MAX - 1).for_each(|_| carrying.learn(false));
    assert_eq!(asked(0..1_000), 1_000, "a few in vain are nothing");
}
