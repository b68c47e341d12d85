//! Tests of when it is worth asking the cache.

use super::*;

#[test]
fn few_are_asked_for_where_all_is_in_vain() {
    let carrying = Carrying::default();
    let asked = |seqs: std::ops::Range<Seq>| seqs.filter(|seq| carrying.is_due(*seq, || 0)).count();
    assert_eq!(asked(0..1_000), 1_000);
    (0..VAIN_MAX).for_each(|_| carrying.learn(false));
    assert_eq!(asked(0..960) as u64, 960 / ASKED_OF);
    carrying.learn(true);
    assert_eq!(asked(0..1_000), 1_000);
    (0..VAIN_MAX - 1).for_each(|_| carrying.learn(false));
    assert_eq!(asked(0..1_000), 1_000, "a few in vain are nothing");
}

#[test]
fn nothing_is_carried_while_nobody_reads() {
    let carrying = Carrying::default();
    let window = 1 << LOOK_BITS;
    let asked = |number: u64, hits: u64| {
        let seqs = number * window..(number + 1) * window;
        seqs.filter(|seq| carrying.is_due(*seq, || hits)).count() as u64
    };
    assert_eq!(asked(1, 0), window, "at first nothing is known");
    assert_eq!(asked(2, LOOK_HITS_MIN - 1), 0);
    assert_eq!(asked(3, 2 * LOOK_HITS_MIN - 1), window);
    assert_eq!(asked(4, 2 * LOOK_HITS_MIN - 1), 0);
}
