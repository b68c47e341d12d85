//! Records that gets keep while the cache is full: they answer as long as their intervals hold
//! them, whatever is appended, rewritten or deleted meanwhile, and for no view that does not.

use proptest::prelude::*;

use super::*;
use crate::base::checksum::key_hash;
use crate::base::sync::Arc;

/// With room for a few appends to each interval, of which none is gathered.
const LEFT: FlexSizes =
    FlexSizes { intervals: FlexLimits { gathered_fragments_min: 9, ..ROOMY.intervals }, ..ROOMY };

/// An index whose cache is full of what nobody asks for.
struct Bench {
    world: World,
    index: Arc<FlexIndex>,
}

impl Bench {
    fn new() -> Self {
        let (world, index) = of_sixty(&LEFT);
        let bench = Self { world, index };
        bench.fill();
        bench
    }

    fn fill(&self) {
        fill(&self.index);
        // Whether it is full is asked at some misses only.
        let cache = &self.index.shared.cache;
        let asked = (0..200).filter(|_| cache.is_wanted(b"elsewhere")).count();
        assert!(asked > 0);
    }

    /// Nothing was missed lately: the next get that has to read keeps its record alone.
    fn forget_misses(&self) {
        let others = (0..256u32).map(|number| format!("other{number}"));
        others.for_each(|other| _ = self.index.shared.cache.is_wanted(other.as_bytes()));
    }

    /// What a get finds, and how often it read.
    fn get(&self, view: &dyn IndexView, key: &str, snapshot: Seq) -> (Option<String>, u64) {
        let reads = || self.world.io.meter.read_calls(Purpose::Read);
        self.forget_misses();
        let before = reads();
        let found = get(view, key.as_bytes(), snapshot).unwrap();
        (found.map(|value| String::from_utf8(value).unwrap()), reads() - before)
    }

    /// Whole intervals in the cache.
    fn cached(&self) -> usize {
        let view = self.index.shared.current();
        let is_cached = |stamp| self.index.shared.cache.peek(stamp).is_some();
        view.source.anchors.iter().filter(|found| is_cached(found.interval.stamp)).count()
    }

    fn now(&self, key: &str) -> (Option<String>, u64) {
        self.get(&*self.index.view(), key, SEQ_MAX)
    }
}

fn of(value: &str, reads: u64) -> (Option<String>, u64) {
    (Some(value.to_owned()), reads)
}

#[test]
fn what_was_read_once_is_read_from_memory() {
    let bench = Bench::new();
    for key in ["key00010", "key00050"] {
        assert!(bench.now(key).1 > 0);
        assert_eq!(bench.now(key), of("old", 0));
    }
    // Its neighbour was not kept with it.
    assert!(bench.now("key00051").1 > 0);
    assert_eq!(bench.now("key00051"), of("old", 0));
}

#[test]
fn what_is_appended_to_others_leaves_it_and_what_is_appended_to_its_key_ends_it() {
    let bench = Bench::new();
    bench.now("key00010");
    let before = bench.index.view();
    flush(&bench.index, vec![put("key00011", 100, "other")], vec![]);
    assert_eq!(bench.now("key00010"), of("old", 0));
    flush(&bench.index, vec![put("key00010", 101, "new")], vec![]);
    let (found, reads) = bench.now("key00010");
    assert_eq!((found.as_deref(), reads > 0), (Some("new"), true));
    assert_eq!(bench.now("key00010"), of("new", 0));
    // Views and snapshots of before see what they saw.
    assert_eq!(bench.get(&*bench.index.view(), "key00010", 50).0.as_deref(), Some("old"));
    assert_eq!(bench.now("key00010"), of("new", 0));
    assert_eq!(bench.get(&*before, "key00010", SEQ_MAX).0.as_deref(), Some("old"));
    assert_eq!(bench.now("key00010").0.as_deref(), Some("new"));
    assert_eq!(bench.now("key00010"), of("new", 0));
    flush(&bench.index, vec![delete("key00010", 102)], vec![]);
    assert_eq!(bench.now("key00010").0, None);
    assert_eq!(bench.now("key00010"), (None, 0));
    assert_eq!(bench.cached(), 0);
}

#[test]
fn what_an_older_snapshot_finds_is_not_kept_for_newer_ones() {
    let bench = Bench::new();
    flush(&bench.index, vec![put("key00010", 100, "new")], vec![]);
    let view = bench.index.view();
    for _ in 0..2 {
        assert_eq!(bench.get(&*view, "key00010", 99).0.as_deref(), Some("old"));
    }
    assert_eq!(bench.now("key00010").0.as_deref(), Some("new"));
}

#[test]
fn a_range_delete_counts_and_so_does_what_takes_it_out() {
    let bench = Bench::new();
    assert_eq!(bench.now("key00010").0.as_deref(), Some("old"));
    flush(&bench.index, vec![], vec![range_delete("key00010", "key00012", 100)]);
    assert_eq!(bench.now("key00010").0, None);
    work(&bench.index, &[], 100);
    assert!(bench.index.shared.current().tombstones.is_empty());
    assert_eq!(bench.now("key00010").0, None);
    assert_eq!(bench.now("key00012").0.as_deref(), Some("old"));
    verify(&*bench.index.view());
}

#[test]
fn operands_and_what_they_stand_on_are_not_kept() {
    let bench = Bench::new();
    let operand = |seq: Seq, value: &str| Entry {
        key: b"key00010".to_vec(),
        seq,
        kind: Kind::Merge,
        value: value.into(),
    };
    // The snapshot keeps the operand apart from its base.
    let entries = vec![operand(100, "+1")];
    let prepared = bench.index.apply_flush(input(entries, vec![], &[50])).unwrap();
    bench.index.install(prepared.change).unwrap();
    for _ in 0..3 {
        assert_eq!(bench.now("key00010").0.as_deref(), Some("old+1"));
        let view = bench.index.shared.current();
        let interval = view.source.anchors.find(b"key00010").unwrap().interval;
        let kept = bench.index.shared.cache.record(interval, key_hash(b"key00010"));
        assert!(kept.is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]

    /// Every view answers what it did when it was new, whatever was kept by gets of others.
    #[test]
    fn views_are_answered_with_what_they_hold(
        steps in prop::collection::vec(prop::collection::vec((0u32..40, 0u32..5), 1..4), 1..40),
    ) {
        let bench = Bench::new();
        let mut model = model_of_sixty();
        let (mut seq, mut views, mut unread) = (100, Vec::new(), 0);
        for step in steps {
            let entries = changes(step, &mut seq, &mut model);
            flush(&bench.index, entries, vec![]);
            if seq % 7 == 0 {
                bench.index.request_compaction(KeyRange::default(), false);
                work(&bench.index, &[], 100);
            }
            views.push((bench.index.view(), model.clone()));
            for (view, model) in views.iter().rev().take(3).chain(views.first()) {
                for key in keys(0..60) {
                    let (found, reads) = bench.get(&**view, &key, SEQ_MAX);
                    prop_assert_eq!(&found, model.get(&key).unwrap(), "{}", key);
                    unread += u32::from(reads == 0);
                }
            }
        }
        prop_assert!(unread > 0, "nothing was kept");
    }
}
