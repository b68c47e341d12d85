//! Every phase counts right, and an engine that lies is found out.

use super::*;
use crate::runner::bare::Unsynced;

fn tiny() -> Plan {
    Plan {
        engine: "memory".to_owned(),
        phases: Phase::parse_list("all").unwrap(),
        num: 500,
        operations: Some(300),
        scan_pairs: 64,
        device_bytes: 1 << 20,
        device_seconds: 0.01,
        ..Plan::default()
    }
}

fn run_in_temp(plan: &Plan) -> Result<Report> {
    let dir = tempfile::tempdir().unwrap();
    run(plan, &dir.path().join("store"), &mut Silent)
}

#[test]
fn every_phase_counts_its_operations() {
    for (threads, batch) in [(1, 1), (3, 1), (2, 7)] {
        let report = run_in_temp(&Plan { threads, batch, ..tiny() }).unwrap();
        assert_eq!(report.phases.len(), Phase::ALL.len() - 1);
        assert!(report.device.is_some());
        for phase in &report.phases {
            let expected = match phase.phase {
                filling if filling.fills() => 500,
                // After the fill phases every item is there exactly once.
                Phase::Scan | Phase::ScanReverse => 500,
                _ => 300,
            };
            assert_eq!(phase.operations, expected, "{}", phase.phase);
            let found = match phase.phase {
                Phase::ReadRandom | Phase::YcsbC | Phase::MultiGet => Some(300),
                Phase::SeekRandom | Phase::SeekReverse => Some(300),
                Phase::ReadMissing | Phase::FillSeq | Phase::FillBatch => Some(0),
                _ => None,
            };
            assert!(found.is_none_or(|found| found == phase.found), "{}", phase.phase);
        }
        let text = report.to_string();
        assert!(Phase::ALL.iter().skip(1).all(|phase| text.contains(phase.name())));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["phases"][0]["phase"], "fillseq");
    }
}

#[test]
fn mixed_sizes_pass_every_check() {
    let plan = Plan { mixed_values: true, value_bytes: 4_096, zipf_exponent: 1.2, ..tiny() };
    let report = run_in_temp(&plan).unwrap();
    assert_eq!(report.phases.len(), Phase::ALL.len() - 1);
}

/// How long [`Slow`] takes.
const NOTICE_TIME: Duration = Duration::from_millis(50);

/// Is slow to hear of progress, and knows when it last had heard of it.
struct Slow(Option<Instant>);

impl Observer for Slow {
    fn advanced(&mut self, _steps: u64) {
        std::thread::sleep(NOTICE_TIME);
        self.0 = Some(Instant::now());
    }
}

/// Otherwise the figures of short phases would be those of the interval at which the runner looks.
#[test]
fn a_phase_ends_with_its_last_call_not_when_somebody_notices() {
    let plan = tiny();
    let data = plan.dataset();
    let engine = engines::open("memory", Path::new("/unused"), &plan.settings).unwrap();
    let items = AtomicU64::new(plan.num);
    let bare = Bare::beside(Path::new("/unused/store"));
    let phase = Phase::FillSeq;
    let stage = Stage {
        plan: &plan,
        phase,
        engine: engine.as_ref(),
        dir: Path::new("/unused/store"),
        data: &data,
        items: &items,
        bare: &bare,
    };
    // The thread may come late itself, or be done before anybody looks: one clear case will do.
    let ended_before_it_was_noticed = (0..100).any(|_| {
        let (start, mut slow) = (Instant::now(), Slow(None));
        let ended = start + Duration::from_secs_f64(stage.run(&mut slow).unwrap().seconds);
        slow.0.is_some_and(|noticed| ended + NOTICE_TIME / 2 < noticed)
    });
    assert!(ended_before_it_was_noticed);
}

#[test]
fn a_time_limit_ends_a_phase() {
    let plan = Plan {
        phases: vec![Phase::FillSeq, Phase::FillReplace, Phase::ReadRandom, Phase::Scan],
        num: 2_000,
        operations: Some(u64::MAX / 2),
        seconds: Some(1e-9),
        ..tiny()
    };
    let report = run_in_temp(&plan).unwrap();
    let [load, replaced, read, _] = report.phases.as_slice() else { panic!("{report}") };
    // What follows needs the load whole.
    assert_eq!((load.operations, load.cut_short), (2_000, false));
    assert_eq!((replaced.operations, replaced.cut_short), (2_000, false));
    assert!(read.operations > 0 && read.operations < 2_000 && read.cut_short);
    assert!(report.to_string().contains("(cut short)"));
    // A limit that is not reached cuts nothing.
    let report = run_in_temp(&Plan { operations: Some(100), seconds: Some(3e3), ..plan }).unwrap();
    assert!(report.phases.iter().all(|phase| !phase.cut_short));
}

#[test]
fn an_unknown_engine_is_named() {
    let error = run_in_temp(&Plan { engine: "nonesuch".to_owned(), ..tiny() }).unwrap_err();
    assert!(error.to_string().contains("nonesuch") && error.to_string().contains("memory"));
}

/// Returns, for every key, the value of another.
struct Liar(Box<dyn Engine>);

impl Engine for Liar {
    fn name(&self) -> String {
        "liar".to_owned()
    }
    fn settings(&self) -> String {
        self.0.settings()
    }
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.delete(key)
    }
    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        self.0.merge_add(key, operand)
    }
    fn get(&self, _key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.scan(b"", false, 1, &mut |_, value| found(value)).map(|pairs| pairs > 0)
    }
    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        self.0.scan(from, !reverse, limit, visit)
    }
    fn batch(&self) -> Box<dyn crate::engine::WriteBatch + '_> {
        self.0.batch()
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
    fn settle(&self) -> Result<()> {
        self.0.settle()
    }
    fn stats(&self) -> EngineStats {
        self.0.stats()
    }
}

#[test]
fn wrong_answers_end_the_run() {
    let plan = tiny();
    let engine = Liar(engines::open("memory", Path::new("/unused"), &plan.settings).unwrap());
    let data = plan.dataset();
    let items = AtomicU64::new(plan.num);
    let bare = Bare::beside(Path::new("/unused/store"));
    let dir = Path::new("/unused/store");
    let (engine, data, items, bare) = (&engine, &data, &items, &bare);
    let stage =
        |phase| Stage { plan: &plan, phase, engine, dir, data, items, bare }.run(&mut Silent);
    stage(Phase::FillSeq).unwrap();
    for phase in [
        Phase::ReadRandom,
        Phase::ReadMissing,
        Phase::MultiGet,
        Phase::SeekRandom,
        Phase::SeekReverse,
        Phase::Scan,
        Phase::YcsbF,
    ] {
        assert!(stage(phase).is_err(), "{phase}");
    }
}

/// One thread alone loses nothing: merges and get-and-put of the same choices end in one sum.
#[test]
fn adding_by_get_and_put_reads_what_it_wrote() {
    let phases = vec![Phase::RmwRandom, Phase::RmwRandom];
    let report = run_in_temp(&Plan { phases, num: 5, operations: Some(300), ..tiny() }).unwrap();
    let [first, second] = report.phases.as_slice() else { panic!("{}", report.phases.len()) };
    // Five counters: each is absent once, and never again.
    assert_eq!((first.operations, first.found), (300, 295));
    assert_eq!(second.found, 300);
    assert_eq!(first.user_bytes_written, 300 * (KEY_BYTES as u64 + 8));
}

/// Keys of 10.45 bytes on average, and the number that is added.
#[test]
fn up2x_has_short_keys() {
    // Scans that begin at an item may run into them, and check their order.
    let phases = vec![Phase::Up2x, Phase::SeekRandom, Phase::SeekReverse];
    let report = run_in_temp(&Plan { phases, operations: Some(4_000), ..tiny() }).unwrap();
    let [counted, ..] = report.phases.as_slice() else { panic!("{report}") };
    let each = counted.user_bytes_written as f64 / (0.925 * 4_000.0);
    assert!((17.0..20.0).contains(&each), "{each}");
    assert!(counted.found > 0);
}

/// Takes long for one put of many and counts a delay for it, as an engine does that has a reason.
struct Delaying {
    inner: Box<dyn Engine>,
    puts: AtomicU64,
    delayed: AtomicU64,
}

impl Engine for Delaying {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn settings(&self) -> String {
        self.inner.settings()
    }
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.puts.fetch_add(1, Ordering::Relaxed) == 100 {
            std::thread::sleep(watch::WAIT_MIN);
            self.delayed.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.put(key, value)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }
    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        self.inner.merge_add(key, operand)
    }
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(key, found)
    }
    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        self.inner.scan(from, reverse, limit, visit)
    }
    fn batch(&self) -> Box<dyn crate::engine::WriteBatch + '_> {
        self.inner.batch()
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    fn stats(&self) -> EngineStats {
        let count = self.delayed.load(Ordering::Relaxed);
        let detail = serde_json::json!({"stalls": {"full": {"count": count, "micros": count * 7}}});
        EngineStats { disk_bytes: 42, detail, ..EngineStats::default() }
    }
}

#[test]
fn a_long_call_is_listed_with_the_engines_reason() {
    let plan = tiny();
    let data = plan.dataset();
    let inner = engines::open("memory", Path::new("/unused"), &plan.settings).unwrap();
    let engine = Delaying { inner, puts: AtomicU64::new(0), delayed: AtomicU64::new(0) };
    let items = AtomicU64::new(plan.num);
    let bare = Bare::beside(Path::new("/unused/store"));
    let stage = |phase| Stage {
        plan: &plan,
        phase,
        engine: &engine,
        dir: Path::new("/unused/store"),
        data: &data,
        items: &items,
        bare: &bare,
    };
    let filled = stage(Phase::FillSeq).run(&mut Silent).unwrap();
    assert!(filled.waits.count >= 1);
    let longest = filled.waits.longest.iter().find(|wait| wait.reasons == ["full"]);
    assert!(longest.is_some_and(|wait| wait.milliseconds >= 20.0), "{:?}", filled.waits);
    assert_eq!(filled.waits.stalls["full"], crate::report::Stall { count: 1, micros: 7 });
    assert!(filled.disk_timeline.len() >= 2);
    assert!(filled.disk_timeline.iter().all(|look| look.1 == 42));
    // Another phase has none of it.
    let read = stage(Phase::ReadRandom).run(&mut Silent).unwrap();
    assert!(read.waits.stalls.is_empty());
}

/// Parts that are put and parts that are merged leave the same values behind as far as anybody can
/// tell: the item's own, and every read of the mix checks that.
#[test]
fn mixes_tell_reads_from_writes_and_keep_values_right() {
    let mix = Mix { read_permille: 500, put_permille: 100, part_bytes: 10 };
    for phase in [Phase::MixPut, Phase::MixMerge] {
        let phases = vec![Phase::FillRandom, phase, Phase::ReadRandom];
        let report = run_in_temp(&Plan { phases, mix, ..tiny() }).unwrap();
        let [_, mixed, read] = report.phases.as_slice() else { panic!("{report}") };
        let counts = (mixed.read_latency_us.as_ref(), mixed.write_latency_us.as_ref());
        let (Some(reads), Some(writes)) = counts else { panic!("{phase}") };
        assert_eq!(reads.count + writes.count, 300);
        assert!((100..200).contains(&reads.count));
        assert_eq!((read.found, read.read_latency_us.is_none()), (300, true));
    }
}

/// What no engine is asked for, beside an engine's store and gone afterwards.
#[test]
fn bare_phases_do_the_loads_bytes_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let phases =
        vec![Phase::BareWrites, Phase::BareWritesSynced, Phase::BareWritesDirect, Phase::BareReads];
    let plan = Plan { phases, threads: 3, value_bytes: 5_000, ..tiny() };
    let bytes = 500 * (KEY_BYTES as u64 + 5_000);
    // What the kernel counts is the process's, other tests' too: one clear case will do.
    let mut reports = (0..100).map(|_| run(&plan, &dir.path().join("store"), &mut Silent).unwrap());
    let alone = |report: &Report| report.phases[0].process_bytes.written / bytes == 1;
    let report = reports.find(alone).unwrap();
    let [writes, synced, direct, reads] = report.phases.as_slice() else { panic!("{report}") };
    assert_eq!((writes.operations, writes.user_bytes_written), (500, bytes));
    assert_eq!((synced.operations, synced.user_bytes_written), (500, bytes));
    assert_eq!((direct.operations, direct.user_bytes_written), (500, bytes));
    assert_eq!((reads.operations, reads.user_bytes_written, reads.unit), (300, 0, "pages"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
}

#[test]
fn one_bare_phase_syncs_after_as_many_bytes_as_a_segment_has() {
    let pair_bytes = 1 << 20;
    for (phase, syncs) in [(Phase::BareWrites, 0), (Phase::BareWritesSynced, 3)] {
        let (mut unsynced, mut done) = (Unsynced::of(phase), Vec::new());
        for number in 1..=200 {
            let sync = || {
                done.push(number);
                Ok(())
            };
            unsynced.wrote(pair_bytes, sync).unwrap();
        }
        assert_eq!(done, [64, 128, 192][..syncs]);
    }
    let failing = || anyhow::bail!("the device is gone");
    assert!(Unsynced::of(Phase::BareWritesSynced).wrote(64 << 20, failing).is_err());
}

#[test]
fn reading_once_passes_over_what_was_read() {
    let once = |phase, skip, operations| {
        let plan = Plan { phases: vec![phase], skip, operations: Some(operations), ..tiny() };
        let items = AtomicU64::new(plan.num);
        let steps = Generator::new(phase, plan.shape(), 0, &items);
        let item = |step| match step {
            crate::workload::Step::Get(item) | crate::workload::Step::GetTogether(item) => item,
            other => panic!("{other:?}"),
        };
        steps.map(item).collect::<Vec<_>>()
    };
    let items = AtomicU64::new(500);
    let load = Generator::new(Phase::FillRandom, tiny().shape(), 0, &items);
    let loaded = load.map(|step| match step {
        crate::workload::Step::Put { item, .. } => item,
        other => panic!("{other:?}"),
    });
    let mut all = once(Phase::ReadOnce, 0, 200);
    // Neighbours of the load would be read from one place.
    let same = loaded.zip(&all).filter(|(one, other)| one == *other).count();
    assert!(same < 20, "{same} of 200 in the load's order");
    all.extend(once(Phase::MultiGetOnce, 200, 300));
    all.sort_unstable();
    assert_eq!(all, (0..500).collect::<Vec<_>>());
    let phases = vec![Phase::FillSeq, Phase::ReadOnce, Phase::MultiGetOnce];
    let report = run_in_temp(&Plan { phases, threads: 2, skip: 100, ..tiny() }).unwrap();
    assert_eq!(report.phases.iter().map(|phase| phase.found).sum::<u64>(), 600);
}

#[test]
fn sizes_are_looked_at_at_even_intervals_of_operations() {
    let plan = Plan {
        engine: "cleavedb".to_owned(),
        phases: vec![Phase::FillSeq, Phase::Overwrite],
        num: 2_000,
        operations: None,
        threads: 2,
        samples: 10,
        ..tiny()
    };
    let report = run_in_temp(&plan).unwrap();
    for phase in &report.phases {
        let operations: Vec<_> = phase.samples.iter().map(|sample| sample.operations).collect();
        assert!(operations.is_sorted(), "{operations:?}");
        assert_eq!((operations.first(), operations.last()), (Some(&0), Some(&2_000)));
        assert_eq!(operations.len(), 11, "{operations:?}");
        // Threads look for their own last 64 at once.
        let widest = operations.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest.is_some_and(|widest| widest <= 200 + 2 * 64), "{operations:?}");
        assert!(phase.samples.iter().all(|sample| sample.folder_bytes > 0));
        assert!(phase.engine_bytes_written > 0);
    }
    let report = run_in_temp(&Plan { samples: 0, ..plan }).unwrap();
    assert!(report.phases.iter().all(|phase| phase.samples.is_empty()));
}

#[test]
fn an_unaided_phase_flushes_nothing_and_a_rest_ends_when_nothing_changes() {
    let plan = Plan {
        engine: "cleavedb".to_owned(),
        phases: vec![Phase::FillRandom, Phase::Rest],
        num: 500,
        threads: 2,
        unaided: true,
        stable_seconds: 0.05,
        seconds: Some(60.0),
        ..tiny()
    };
    let report = run_in_temp(&plan).unwrap();
    assert_eq!(report.engine_stats["events"]["flushes"], 0);
    let [_, rest] = report.phases.as_slice() else { panic!("{report}") };
    assert!(rest.operations > 0 && !rest.cut_short && rest.samples.len() >= 2, "{rest:?}");
    let flushed = run_in_temp(&Plan { unaided: false, ..plan.clone() }).unwrap();
    assert_ne!(flushed.engine_stats["events"]["flushes"], 0);
    // What does not become still within its time is told from what does.
    let report = run_in_temp(&Plan { stable_seconds: 60.0, seconds: Some(0.01), ..plan }).unwrap();
    assert!(report.phases[1].cut_short);
}

#[test]
fn everything_is_deleted_by_range_or_with_the_keyspace_and_compacted() {
    for engine in ["memory", "cleavedb"] {
        let phases = vec![Phase::FillRandom, Phase::DeleteRange, Phase::Compact, Phase::ReadRandom];
        // More than one batch, for engines that delete key by key.
        let plan = Plan { engine: engine.to_owned(), phases, num: 2_500, threads: 2, ..tiny() };
        let plan = Plan { operations: None, ..plan };
        let report = run_in_temp(&plan).unwrap();
        let [_, deleted, compacted, read] = report.phases.as_slice() else { panic!("{report}") };
        assert_eq!((deleted.operations, compacted.operations), (1, 1), "{engine}");
        assert_eq!((read.operations, read.found), (2_500, 0), "{engine}");
    }
    let phases = vec![Phase::FillRandom, Phase::DropKeyspace];
    let plan = Plan { engine: "cleavedb".to_owned(), phases, ..tiny() };
    let report = run_in_temp(&plan).unwrap();
    assert_eq!(report.engine_stats["keyspaces"], serde_json::json!([]));
    let error = run_in_temp(&Plan { engine: "memory".to_owned(), ..plan }).unwrap_err();
    assert!(format!("{error:#}").contains("no keyspace to drop"), "{error:#}");
}
