//! The plans are what the papers say, and every part really runs.

use std::collections::BTreeSet;
use std::path::Path;

use super::execute::{Came, run_all, run_stretch};
use super::*;

fn full(name: &str) -> Experiment {
    find(name, Scale::new(1.0).unwrap()).unwrap()
}

/// Phases and operations of a part, as (phase, steps over all threads).
fn steps_of(part: &Part) -> Vec<(Phase, u64)> {
    let runs = part.steps.iter().filter_map(|step| match step {
        Step::Run { plan, .. } => Some(plan),
        Step::Crash { .. } | Step::Reopen(_) => None,
    });
    runs.map(|plan| (plan.phases[0], plan.operations.unwrap_or(plan.num))).collect()
}

fn part<'a>(experiment: &'a Experiment, name: &str) -> &'a Part {
    experiment.parts.iter().find(|part| part.name == name).unwrap()
}

#[test]
fn parts_have_names_of_their_own_and_one_phase_a_step() {
    for name in NAMES {
        let experiment = full(name);
        assert_eq!(experiment.name, name);
        let names: BTreeSet<_> = experiment.parts.iter().map(|part| &part.name).collect();
        assert_eq!(names.len(), experiment.parts.len(), "{name}");
        for part in &experiment.parts {
            let does_something = part.steps.is_empty() == part.inserts.is_some();
            assert!(!part.paper.is_empty() && does_something, "{}", part.name);
            for step in &part.steps {
                let Step::Run { plan, .. } = step else { continue };
                assert_eq!(plan.phases.len(), 1, "{}", part.name);
                assert_eq!((plan.num, plan.value_bytes), (part.plan.num, part.plan.value_bytes));
            }
        }
    }
    assert!(find("nonesuch", Scale::new(0.5).unwrap()).unwrap_err().to_string().contains("kdsep"));
    assert!(Scale::new(0.0).is_err() && Scale::new(f64::NAN).is_err() && Scale::new(2.0).is_err());
}

#[test]
fn wisckey_loads_100_gb_at_each_size_and_says_that_all_is_separated() {
    let experiment = full("wisckey");
    for value in wisckey::VALUE_BYTES {
        let one = experiment.parts.iter().find(|part| part.plan.value_bytes as u64 == value);
        let data = one.unwrap().data_bytes();
        assert!((99_000_000_000..=100_000_000_000).contains(&data), "{value}: {data}");
        assert_eq!(one.unwrap().plan.settings.tuning.separate_at, Some(1));
    }
    let random = part(&experiment, "random load, 1 KiB");
    assert_eq!(steps_of(random)[1], (Phase::ReadRandom, wisckey::LOOKUPS));
    for percent in wisckey::INVALID_PERCENT {
        let part = part(&experiment, &format!("cleaning, {percent} % invalid"));
        assert_eq!(steps_of(part)[1], (Phase::DeleteOnce, part.plan.num * percent / 100));
    }
    let (small, large) =
        (part(&experiment, "amplification, 1 GB"), part(&experiment, "amplification, 100 GB"));
    assert_eq!(large.plan.num / small.plan.num, 100);
}

#[test]
fn novkv_puts_100_million_by_one_writer_and_reads_10_million_twice() {
    let experiment = full("novkv");
    assert_eq!(experiment.parts.len(), 5 * novkv::VALUE_BYTES.len());
    let one = part(&experiment, "1024 B, cleaning");
    let reads = (Phase::ReadRandom, novkv::READS);
    assert_eq!(steps_of(one), [(Phase::FillReplace, novkv::PUTS), reads, reads]);
    assert_eq!((one.plan.threads, one.plan.value_bytes), (1, 1_024));
    let tuning = &one.plan.settings.tuning;
    assert_eq!(tuning.separated_file_bytes, Some(novkv::FILE_BYTES));
    assert!((tuning.garbage_share.unwrap() - (1.0 - novkv::VALID_SHARE)).abs() < 1e-9);
    assert_eq!(part(&experiment, "128 B, not cleaning").plan.settings.tuning.collects, Some(false));
}

#[test]
fn novkv_reads_the_same_before_and_after_updates_with_cleaning() {
    let experiment = full("novkv");
    let (load, updates) = ((Phase::FillRandom, novkv::PUTS), (Phase::Overwrite, novkv::PUTS));
    let reads = (Phase::ReadRandom, novkv::READS);
    let with = part(&experiment, "4096 B, updates");
    assert_eq!(steps_of(with), [load, reads, reads, updates, reads, reads]);
    let seeds = with.steps.iter().map(|step| match step {
        Step::Run { plan, .. } => plan.seed,
        Step::Crash { .. } | Step::Reopen(_) => panic!("one store, opened once"),
    });
    assert_eq!(seeds.collect::<BTreeSet<_>>().len(), 1, "all passes ask for the same keys");
    let without = part(&experiment, "4096 B, updates, not cleaning");
    assert_eq!(steps_of(without), [load, updates]);
    for engine in ["cleavedb", "cleavedb-novkv", "cleavedb-wisckey", "rocksdb-blob"] {
        assert_eq!((with.obstacle(engine), without.obstacle(engine)), (None, None), "{engine}");
    }
    assert!(with.obstacle("leveldb").is_none() && without.obstacle("leveldb").is_some());
    let bound = |part: &Part| part.plan.settings.tuning.space_amplification_max;
    assert_eq!((bound(with), bound(without)), (None, Some(10.0)));
}

#[test]
fn wayfinder_updates_35_percent_and_reads_5() {
    let experiment = full("wayfinder");
    let main = part(&experiment, "load, update, get");
    let items = wayfinder::ITEMS;
    assert_eq!(
        steps_of(main),
        [
            (Phase::FillRandom, items),
            (Phase::Overwrite, items * 35 / 100),
            (Phase::ReadRandom, items * 5 / 100)
        ]
    );
    let (settings, tuning) = (&main.plan.settings, &main.plan.settings.tuning);
    assert!(settings.direct && settings.background_threads == 4);
    assert_eq!((tuning.cache_bytes, tuning.filter_bits), (Some(0), Some(10)));
    assert_eq!((tuning.size_ratio, tuning.memtable_bytes), (Some(5), Some(64 << 20)));
    assert_eq!((tuning.separate_at, tuning.age_cutoff), (Some(1), Some(0.25)));
    // A map of 36 bytes an item has room in its half of the memory, at every scale.
    for factor in [1.0, 0.01, 0.001] {
        let experiment = find("wayfinder", Scale::new(factor).unwrap()).unwrap();
        for part in &experiment.parts {
            let Settings { memory_budget, .. } = part.plan.settings;
            assert!(memory_budget / 2 >= part.plan.num * 36, "{factor}: {memory_budget}");
        }
    }
    assert_eq!(settings.memory_budget, (256 << 20) + items * wayfinder::ITEM_BYTES);
    let size = part(&experiment, "size over time");
    assert_eq!(size.steps.len() as u64, 1 + wayfinder::LOOKS);
    assert_eq!(steps_of(size).iter().skip(1).map(|step| step.1).sum::<u64>(), wayfinder::UPDATES);
}

#[test]
fn kdsep_changes_parts_of_100_gib_in_all_its_experiments() {
    let experiment = full("kdsep");
    let one = part(&experiment, "Exp#1, 10:90");
    assert_eq!(one.plan.value_bytes + one.plan.key_bytes, 1_024);
    assert_eq!(one.data_bytes(), 100 << 30);
    assert_eq!(steps_of(one)[1], (Phase::MixMerge, kdsep::OPERATIONS));
    let Step::Run { plan, .. } = &one.steps[1] else { panic!("{one:?}") };
    assert_eq!((plan.mix.read_permille, plan.mix.put_permille, plan.mix.part_bytes), (100, 0, 100));
    assert!(plan.settings.tuning.merges_parts && plan.settings.direct);
    assert_eq!(plan.settings.tuning.separate_at, Some(1));
    assert!(one.lacks.is_none(), "a delta store is there");
    for number in 1..=12 {
        let named = |part: &&Part| {
            part.name.starts_with(&format!("Exp#{number},"))
                || (part.name.starts_with("Exp#9-10") && [9, 10].contains(&number))
        };
        assert!(experiment.parts.iter().find(named).is_some(), "Exp#{number}");
    }
    let motivation = experiment.parts.iter().filter(|part| part.name.starts_with("figures 2-3"));
    assert_eq!(motivation.count(), 2 * kdsep::READ_PERCENT.len());
    let counted = experiment.parts.iter().filter(|part| part.plan.settings.tuning.statistics);
    let counted: Vec<_> = counted.map(|part| part.name.as_str()).collect();
    assert_eq!(counted.len(), 2 * kdsep::COUNTED_READ_PERCENT.len());
    assert!(counted.iter().all(|name| name.starts_with("figure 4")), "{counted:?}");
    assert_eq!(part(&experiment, "Exp#2, UP2X").plan.num, kdsep::UP2X_ITEMS);
}

#[test]
fn kdsep_varies_the_parts_of_the_delta_store() {
    let experiment = full("kdsep");
    let tuning = |name: &str| part(&experiment, name).plan.settings.tuning.clone();
    assert_eq!(tuning("Exp#7, rewriting only").bucket_splits, Some(false));
    assert_eq!(tuning("Exp#7, splits and merges").bucket_splits, Some(true));
    for percent in kdsep::SPLIT_PERCENT {
        let tuning = tuning(&format!("Exp#8, split at {percent} %"));
        assert_eq!(tuning.bucket_split_percent, Some(percent));
    }
    for buffer in kdsep::WRITE_BUFFER_MIB {
        let tuning = tuning(&format!("Exp#11, write buffer {buffer} MiB"));
        assert_eq!(tuning.memtable_bytes, Some(buffer << 20));
    }
    for cache in kdsep::DELTA_CACHE_MIB {
        let tuning = tuning(&format!("Exp#12, delta cache {cache} MiB"));
        assert_eq!(tuning.delta_cache_bytes, Some(cache << 20));
    }
    for (name, ..) in kdsep::CRASH_MIXES {
        let (with, without) = (format!("Exp#9-10, {name}"), format!("Exp#9, {name} without a log"));
        assert_eq!(tuning(&with).journaled, None);
        assert_eq!(tuning(&without).journaled, Some(false));
        let (with, without) = (part(&experiment, &with), part(&experiment, &without));
        assert_eq!(steps_of(with)[..2], steps_of(without)[..], "the same work");
        assert_eq!(without.obstacle("rocksdb"), Some("what varies is CleaveDB's own"));
        let is_set = without.obstacle("cleavedb").is_none();
        assert_eq!(is_set, cfg!(feature = "widths"));
    }
    let list = part(&experiment, kdsep::LONG[0]);
    assert_eq!(steps_of(list)[1], (Phase::AppendOne, kdsep::APPENDS));
    let counter = part(&experiment, kdsep::LONG[1]);
    assert_eq!(steps_of(counter)[1], (Phase::CountHot, 2 * kdsep::INCREMENTS));
    assert!(!counter.plan.settings.tuning.merges_parts);
    for part in [list, counter] {
        assert!(matches!(part.steps[3], Step::Reopen(_)), "the last get is cold");
        assert_eq!(steps_of(part).last().unwrap().1, 1);
    }
}

#[test]
fn flexdb_has_three_pairs_four_choices_and_four_clients() {
    let experiment = full("flexdb");
    for (name, pair) in flexdb::PAIRS {
        for choice in ["sequential", "zipf", "zipf-composite", "uniform"] {
            let part = part(&experiment, &format!("put {choice}, {name}"));
            let data = part.data_bytes();
            assert!((63_900_000_000..=flexdb::DATA_BYTES).contains(&data), "{name}: {data}");
            assert_eq!(part.plan.threads, flexdb::CLIENTS);
            let bytes = (part.plan.key_bytes as u64, part.plan.value_bytes as u64);
            assert_eq!((bytes, &part.note), ((pair.key, pair.value), &None));
        }
    }
    let sizes = flexdb::PAIRS.map(|(_, pair)| pair.bytes());
    assert_eq!(sizes, [91, 154, 424]);
    for threads in flexdb::SCALING {
        assert_eq!(part(&experiment, &format!("scaling, {threads} clients")).plan.threads, threads);
    }
    let scans = part(&experiment, "scan, UDB").steps.iter().filter_map(|step| match step {
        Step::Run { plan, .. } if plan.phases == [Phase::SeekRandom] => Some(plan.seek_pairs),
        _ => None,
    });
    assert_eq!(scans.collect::<Vec<_>>(), flexdb::SCAN_PAIRS);
}

#[test]
fn flexdb_inserts_pages_by_the_file_system_alone() {
    let experiment = full("flexdb");
    let part = part(&experiment, "insert-range");
    let inserts = part.inserts.as_ref().unwrap();
    assert_eq!((inserts.operations, inserts.file_bytes), (flexdb::INSERTS, flexdb::DATA_BYTES));
    let text = markdown(&experiment, Scale::new(1.0).unwrap(), &[]);
    assert!(text.contains("not measured: inserting into the middle of a file by FlexSpace"));
    let results = run_all(
        &Experiment { parts: vec![part.clone()], ..experiment.clone() },
        &["memory".to_owned()],
        |stretch, _| {
            let (way, _) = stretch.inserts.as_ref().unwrap();
            Ok(match way {
                inserts::Way::Range => serde_json::json!({"phases": [], "refused": "it cannot"}),
                inserts::Way::Tail => serde_json::json!({"phases": [{"operations": 7}]}),
            })
        },
        || Ok(Box::new(tempfile::tempdir()?)),
    )
    .unwrap();
    let [range, tail] = results[0].by_engine.as_slice() else { panic!("{results:?}") };
    assert!(matches!(&range.1, Came::NotRun(why) if why == "it cannot"));
    assert!(matches!(&tail.1, Came::Reports(reports) if reports.len() == 1));
}

#[test]
fn values_are_held_against_the_device_in_the_same_run() {
    let experiment = full("values");
    let loads = experiment.parts.iter().filter(|part| part.name.starts_with("load"));
    assert_eq!(loads.clone().count(), 4 * values::LOAD_VALUES.len());
    for load in loads {
        let steps = steps_of(load);
        let direct = (Phase::BareWritesDirect, load.plan.num);
        assert_eq!(steps.first(), Some(&(Phase::BareWrites, load.plan.num)));
        assert_eq!(steps.contains(&direct), load.plan.settings.direct, "{}", load.name);
        assert_eq!(steps.last(), Some(&(Phase::FillRandom, load.plan.num)));
    }
    for bound in values::BOUNDS {
        let part = part(&experiment, &format!("updates, zipfian, space at most {bound}"));
        assert_eq!(part.plan.settings.tuning.space_amplification_max, Some(bound));
        assert_eq!(steps_of(part)[1], (Phase::OverwriteZipf, 3 * part.plan.num));
        assert!(part.obstacle("rocksdb-blob").is_some() && part.obstacle("cleavedb").is_none());
    }
    let crashes = experiment.parts.iter().flat_map(|part| &part.steps);
    let cold = crashes.filter_map(|step| match step {
        Step::Crash { cold } => Some(*cold),
        _ => None,
    });
    assert_eq!(cold.collect::<Vec<_>>(), [false, true, false, true]);
}

#[test]
fn cold_gets_read_no_item_twice() {
    let experiment = full("values");
    let part = part(&experiment, "cold gets, 1 KiB");
    let once = |step: &Step| match step {
        Step::Run { plan, .. }
            if [Phase::ReadOnce, Phase::MultiGetOnce].contains(&plan.phases[0]) =>
        {
            Some((plan.skip, plan.operations.unwrap()))
        }
        _ => None,
    };
    let reads: Vec<_> = part.steps.iter().filter_map(once).collect();
    assert_eq!(reads.len(), 5);
    assert!(reads.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{reads:?}");
    assert!(reads.last().is_some_and(|(skip, count)| skip + count <= part.plan.num));
}

#[test]
fn one_factor_scales_items_and_keeps_shares() {
    let half = Scale::new(0.5).unwrap();
    for name in NAMES {
        let (whole, half) = (full(name), find(name, half).unwrap());
        let parts = whole.parts.iter().zip(&half.parts);
        for (one, other) in parts.filter(|(one, _)| !kdsep::LONG.contains(&one.name.as_str())) {
            assert!(one.plan.num.abs_diff(2 * other.plan.num) <= 2, "{name}, {}", one.name);
            let counts = steps_of(one).into_iter().zip(steps_of(other));
            for ((_, one_count), (_, other_count)) in counts {
                // Least counts (ranges, the reads after a recovery) stay.
                let same = one_count == other_count && one_count <= COUNT_MIN;
                assert!(same || one_count.abs_diff(2 * other_count) <= 20, "{}", one.name);
            }
        }
    }
}

/// Far below every least size: each part has its fewest items and operations.
fn runs_everything(name: &str, engine: &str) {
    let scale = Scale::new(1e-12).unwrap();
    let experiment = find(name, scale).unwrap();
    let results = run_all(
        &experiment,
        &[engine.to_owned()],
        |stretch, dir: &Path| run_stretch(stretch, dir),
        || Ok(Box::new(tempfile::tempdir()?)),
    )
    .unwrap();
    assert_eq!(results.len(), experiment.parts.len());
    let mut phases = 0;
    for result in &results {
        let runs = result.part.steps.iter().filter(|step| matches!(step, Step::Run { .. })).count();
        let runs = runs + usize::from(result.part.inserts.is_some());
        match &result.by_engine[0].1 {
            Came::Reports(reports) => {
                let done: Vec<_> = reports
                    .iter()
                    .flat_map(|report| report["phases"].as_array().unwrap())
                    .collect();
                assert_eq!(done.len(), runs, "{}", result.part.name);
                assert!(done.iter().all(|phase| phase["operations"].as_u64() > Some(0)));
                phases += runs;
            }
            Came::NotRun(why) => assert!(!why.is_empty()),
        }
    }
    assert!(phases > 0);
    let text = markdown(&experiment, scale, &results);
    for part in &experiment.parts {
        assert!(text.contains(&format!("| {} |", part.name)), "{}: {text}", part.name);
    }
    let table = text.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    assert!(rows.clone().count() > phases);
    assert!(rows.clone().all(|row| row.matches('|').count() == 19), "{text}");
    assert!(engine == "memory" || text.contains("separate_at="));
}

#[test]
fn every_part_runs_on_the_map() {
    NAMES.iter().for_each(|name| runs_everything(name, "memory"));
}

#[test]
fn the_strategies_are_compared_by_experiments_of_their_own() {
    for engine in ["cleavedb-novkv", "cleavedb-wisckey", "cleavedb-wayfinder"] {
        ["wayfinder", "unified"].iter().for_each(|name| runs_everything(name, engine));
    }
}

#[test]
fn deltas_run_on_each_base_in_buckets_and_inline() {
    let scale = Scale::new(1e-12).unwrap();
    let whole = find("kdsep", scale).unwrap();
    let one = |part: &Part| part.name == "Exp#1, 10:90" || part.name == "Exp#9-10, W3";
    let parts = whole.parts.iter().filter(|part| one(part)).cloned().collect();
    let experiment = Experiment { parts, ..whole };
    let bases = ["cleavedb-inline", "cleavedb", "cleavedb-wisckey"];
    let inline =
        ["cleavedb-all-inline", "cleavedb-inline-deltas", "cleavedb-wisckey-inline-deltas"];
    let engines: Vec<String> = bases.iter().chain(&inline).map(|&name| name.to_owned()).collect();
    let results =
        run_all(&experiment, &engines, run_stretch, || Ok(Box::new(tempfile::tempdir()?)));
    for result in results.unwrap() {
        for (number, (engine, came)) in result.by_engine.iter().enumerate() {
            let Came::Reports(reports) = came else { panic!("{engine}: {came:?}") };
            let settings = reports[0]["engine_settings"].as_str().unwrap();
            let wanted = if number < bases.len() { "deltas=Buckets" } else { "deltas=Inline" };
            assert!(settings.contains(wanted), "{engine}: {settings}");
            let separated = if number % 3 == 0 { "separate_at=off" } else { "separate_at=1 " };
            assert!(settings.contains(separated), "{engine}: {settings}");
        }
    }
}

#[test]
fn every_part_runs_on_cleavedb() {
    NAMES.iter().for_each(|name| runs_everything(name, "cleavedb"));
}
