//! What a change writes in the place of an interval that is in the cache is read without the
//! device; what was not there is not put there, and what failed left nothing that is asked for.

use super::*;
use crate::index::flex::intervals::run::Run;

/// An index and where it is.
struct Bench {
    world: World,
    index: Arc<FlexIndex>,
}

impl Bench {
    /// Sixty records in intervals of a few, nothing of them in the cache.
    fn new() -> Self {
        let (world, index) = of_sixty(&TINY);
        Self { world, index }
    }

    /// How many times the device was read for reads.
    fn reads(&self) -> u64 {
        self.world.io.meter.read_calls(Purpose::Read)
    }

    fn get(&self, key: &str) -> Option<String> {
        let found = get(&*self.index.view(), key.as_bytes(), SEQ_MAX).unwrap();
        found.map(|value| String::from_utf8(value).unwrap())
    }

    /// Reads all keys; returns how many times the device was read.
    fn warm(&self) -> u64 {
        let before = self.reads();
        keys(0..60).iter().for_each(|key| drop(self.get(key)));
        self.reads() - before
    }

    /// The interval of a key: its anchor, and records at its end; whether it is in the cache.
    fn interval(&self, key: &str) -> (Vec<u8>, u16, bool) {
        let view = self.index.shared.current();
        let interval = view.source.anchors.find(key.as_bytes()).unwrap().interval;
        let is_cached = self.index.shared.cache.peek(interval.stamp).is_some();
        (interval.anchor.to_vec(), interval.tail, is_cached)
    }

    fn intervals(&self) -> usize {
        self.index.shared.current().source.anchors.len()
    }

    /// Intervals that are in the cache.
    fn cached(&self) -> usize {
        let view = self.index.shared.current();
        let cache = &self.index.shared.cache;
        view.source.anchors.iter().filter(|f| cache.peek(f.interval.stamp).is_some()).count()
    }

    /// Flushes one entry.
    fn put(&self, key: &str, seq: Seq, value: &str) {
        flush(&self.index, vec![put(key, seq, value)], vec![]);
    }

    /// All that is there is in the cache as the device has it, and the view is sound.
    fn check(&self) {
        let view = self.index.shared.current();
        for found in view.source.anchors.iter() {
            let Some(run) = self.index.shared.cache.peek(found.interval.stamp) else { continue };
            let range = [found.range()];
            let bytes = view.source.space.read_many(&range, Purpose::Verify).unwrap();
            assert_eq!(*run, Run::decode(bytes[0].clone()).unwrap());
        }
        verify(&*view);
    }
}

#[test]
fn an_append_to_a_cached_interval_is_read_from_memory() {
    let bench = Bench::new();
    // Not in the cache: entries go behind, and it is not put there.
    bench.put("key00010", 100, "first");
    assert_eq!(bench.interval("key00010").1, 1);
    assert_eq!(bench.cached(), 0);
    assert_eq!(bench.get("key00010").as_deref(), Some("first"));
    let (before, reads) = (bench.index.view(), bench.reads());
    bench.put("key00010", 101, "second");
    let (_, tail, is_cached) = bench.interval("key00010");
    assert_eq!((tail, is_cached), (2, true), "appended");
    assert_eq!(bench.get("key00010").as_deref(), Some("second"));
    assert_eq!(bench.reads(), reads);
    assert_eq!(bench.cached(), 1);
    assert_eq!(get(&*before, b"key00010", SEQ_MAX).unwrap().unwrap(), b"first");
    assert!(bench.reads() > reads, "what was there before went");
    bench.check();
}

#[test]
fn a_cached_interval_that_is_written_anew_is_read_from_memory() {
    let bench = Bench::new();
    assert!(bench.warm() > 5);
    let (before, reads, count) = (bench.index.view(), bench.reads(), bench.intervals());
    // All its values are others: too much for an edit in place.
    let (anchor, ..) = bench.interval("key00010");
    let all = keys(0..60);
    let its = all.iter().filter(|key| bench.interval(key).0 == anchor);
    let its: Vec<&String> = its.collect();
    let entries = its.iter().zip(100..).map(|(key, seq)| put(key, seq, "new")).collect();
    flush(&bench.index, entries, vec![]);
    assert_eq!((bench.intervals(), bench.cached()), (count, count));
    its.iter().for_each(|key| assert_eq!(bench.get(key).as_deref(), Some("new")));
    assert_eq!((bench.warm(), bench.reads()), (0, reads));
    for key in &its {
        assert_eq!(get(&*before, key.as_bytes(), SEQ_MAX).unwrap().unwrap(), b"old");
    }
    bench.check();
}

#[test]
fn parts_of_a_cached_interval_are_read_from_memory() {
    let bench = Bench::new();
    bench.warm();
    let (before, reads, count) = (bench.index.view(), bench.reads(), bench.intervals());
    let more: Vec<String> = (0..12).map(|number| format!("key00010-{number:02}")).collect();
    let entries = more.iter().zip(100..).map(|(key, seq)| put(key, seq, "new")).collect();
    flush(&bench.index, entries, vec![]);
    assert!(bench.intervals() > count, "split");
    more.iter().for_each(|key| assert_eq!(bench.get(key).as_deref(), Some("new")));
    assert_eq!((bench.warm(), bench.reads()), (0, reads));
    assert_eq!(bench.cached(), bench.intervals());
    more.iter().for_each(|key| assert_eq!(get(&*before, key.as_bytes(), SEQ_MAX).unwrap(), None));
    bench.check();
    // Much that comes at once does not stay.
    let cached = bench.cached();
    let much: Vec<String> = (0..200).map(|number| format!("key00030-{number:03}")).collect();
    let entries = much.iter().zip(200..).map(|(key, seq)| put(key, seq, "new")).collect();
    flush(&bench.index, entries, vec![]);
    assert!(bench.intervals() > cached + 10 && bench.cached() < cached);
    bench.check();
}

/// The paper's splits move no byte either.
#[test]
fn an_interval_in_order_that_grows_too_large_is_cut_where_it_stands() {
    let bench = Bench::new();
    bench.warm();
    let (before, reads) = (bench.index.view(), bench.reads());
    let (mut cut, mut more) = (0, Vec::new());
    for (key, seq) in keys(0..60).into_iter().step_by(5).zip(100..) {
        let (count, key) = (bench.intervals(), format!("{key}-new"));
        let entries = vec![put(&key, seq, "of twenty bytes each")];
        let prepared = bench.index.apply_flush(input(entries, vec![], &[])).unwrap();
        let written = prepared.report.bytes_written;
        bench.index.install(prepared.change).unwrap();
        // At most a record that stands beside it was written with it.
        cut += usize::from(bench.intervals() > count && written < 60);
        more.push(key);
    }
    assert!(cut > 2, "{cut} of {} intervals", bench.intervals());
    more.iter().for_each(|key| assert_eq!(bench.get(key).unwrap().len(), 20));
    assert_eq!((bench.warm(), bench.reads()), (0, reads));
    assert_eq!(bench.cached(), bench.intervals());
    more.iter().for_each(|key| assert_eq!(get(&*before, key.as_bytes(), SEQ_MAX).unwrap(), None));
    bench.check();
    let (count, sections) = (bench.intervals(), bench.index.snapshot_sections());
    let Bench { world, index } = bench;
    drop((before, index));
    world.sweep();
    let again = Bench { index: recover(&world, &sections), world };
    assert_eq!(again.intervals(), count);
    more.iter().for_each(|key| assert_eq!(again.get(key).unwrap().len(), 20));
    again.check();
}

#[test]
fn cached_intervals_that_become_one_are_read_from_memory() {
    let bench = Bench::new();
    bench.warm();
    let (before, reads, count) = (bench.index.view(), bench.reads(), bench.intervals());
    let all = keys(0..60);
    let gone = all.iter().enumerate().filter(|(number, _)| number % 8 > 0);
    let entries = gone.zip(100..).map(|((_, key), seq)| delete(key, seq)).collect();
    flush(&bench.index, entries, vec![]);
    assert!(bench.intervals() < count, "joined");
    for (number, key) in all.iter().enumerate() {
        assert_eq!(bench.get(key).is_some(), number % 8 == 0, "{key}");
    }
    assert_eq!(bench.reads(), reads);
    for key in &all {
        assert_eq!(get(&*before, key.as_bytes(), SEQ_MAX).unwrap().unwrap(), b"old");
    }
    bench.check();
}

/// What was changed often left as many copies in the cache, the oldest the longest.
#[test]
fn what_was_there_before_leaves_the_cache_with_the_change() {
    let bench = Bench::new();
    bench.warm();
    let held = || bench.world.tables.blocks().bytes();
    let before = held();
    for round in 1..30 {
        let chosen = keys(0..60).into_iter().step_by(1 + round as usize % 3).zip(100 * round..);
        let entries = chosen.map(|(key, seq)| put(&key, seq, "new")).collect();
        flush(&bench.index, entries, vec![]);
        bench.index.request_compaction(KeyRange::default(), false);
        work(&bench.index, &[], 100);
        assert_eq!((bench.cached(), bench.warm()), (bench.intervals(), 0), "round {round}");
        assert!(held() < before * 2, "{} of {before} in round {round}", held());
    }
    bench.check();
}

#[test]
fn a_change_fills_no_cache() {
    let bench = Bench::new();
    for round in 0..20 {
        let seq = 100 + 100 * round;
        let chosen = keys(0..60).into_iter().step_by(1 + round as usize % 3).zip(seq..);
        let entries = chosen.map(|(key, seq)| put(&key, seq, "new")).collect();
        flush(&bench.index, entries, vec![]);
        assert_eq!(bench.cached(), 0, "round {round}");
    }
    flush(
        &bench.index,
        keys(0..50).iter().zip(9000..).map(|(k, s)| delete(k, s)).collect(),
        vec![],
    );
    bench.index.request_compaction(KeyRange::default(), false);
    work(&bench.index, &[], 100);
    assert_eq!((bench.cached(), bench.world.tables.blocks().bytes()), (0, 0));
}
