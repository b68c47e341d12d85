//! Steps of every phase: determinism, coverage, shares.

use std::collections::{HashMap, HashSet};

use super::*;

fn shape(threads: usize) -> Shape {
    Shape {
        num: 1000,
        operations: None,
        seek_pairs: 10,
        skip: 0,
        scan_pairs: 64,
        threads,
        zipf_exponent: 0.99,
        mix: Mix::default(),
        seed: 1,
    }
}

fn steps(phase: Phase, shape: Shape, thread: usize) -> Vec<Step> {
    let items = AtomicU64::new(shape.num);
    Generator::new(phase, shape, thread, &items).collect()
}

#[test]
fn one_seed_one_sequence() {
    for phase in Phase::every() {
        let again = steps(phase, shape(2), 1);
        assert_eq!(steps(phase, shape(2), 1), again, "{phase}");
        let other = steps(phase, Shape { seed: 2, ..shape(2) }, 1);
        let same = matches!(
            phase,
            Phase::Device
                | Phase::FillSeq
                | Phase::ReadSeq
                | Phase::Scan
                | Phase::ScanReverse
                | Phase::DeleteRange
                | Phase::DropKeyspace
                | Phase::Compact
                | Phase::Rest
                | Phase::AppendOne
                | Phase::ReadAppended
                | Phase::CountHot
                | Phase::ReadHot
        );
        if !same && !phase.is_bare() {
            assert_ne!(other, again, "{phase}");
        }
    }
}

#[test]
fn threads_do_different_things() {
    let shape = shape(2);
    assert_ne!(steps(Phase::ReadRandom, shape, 0), steps(Phase::ReadRandom, shape, 1));
}

#[test]
fn fills_write_every_item_once_whatever_the_threads() {
    for phase in Phase::ALL.into_iter().filter(|phase| phase.fills()) {
        for threads in [1, 3, 7] {
            let mut seen = HashSet::new();
            for thread in 0..threads {
                for step in steps(phase, shape(threads), thread) {
                    let Step::Put { item, .. } = step else { panic!("{step:?}") };
                    assert!(seen.insert(item));
                }
            }
            assert_eq!(seen.len(), 1000);
            assert!(seen.iter().all(|&item| item < 1000));
        }
    }
}

#[test]
fn fillseq_ascends_and_fillrandom_does_not() {
    let ascending = |phase| {
        let items: Vec<_> = steps(phase, shape(1), 0)
            .into_iter()
            .map(|step| if let Step::Put { item, .. } = step { item } else { 0 })
            .collect();
        items.windows(2).filter(|pair| pair[0] < pair[1]).count()
    };
    assert_eq!(ascending(Phase::FillSeq), 999);
    assert!((400..600).contains(&ascending(Phase::FillRandom)));
}

/// Otherwise the difference between the two would be the order of the whole load.
#[test]
fn sorted_batches_hold_what_the_unsorted_ones_hold() {
    let shape = Shape { num: 2_500, ..shape(2) };
    for thread in 0..2 {
        let items = |phase| {
            let all = steps(phase, shape, thread).into_iter();
            all.map(|step| if let Step::Put { item, .. } = step { item } else { panic!() })
                .collect::<Vec<_>>()
        };
        let (mixed, sorted) = (items(Phase::FillBatch), items(Phase::FillSorted));
        assert_eq!((mixed.len(), sorted.len()), (1_250, 1_250));
        assert_ne!(mixed, sorted);
        for (mixed, sorted) in mixed.chunks(FILL_BATCH).zip(sorted.chunks(FILL_BATCH)) {
            let mut expected = mixed.to_vec();
            expected.sort_unstable();
            assert_eq!(sorted, expected);
        }
    }
}

#[test]
fn scans_cover_everything_once() {
    for (phase, reverse) in [(Phase::Scan, false), (Phase::ScanReverse, true)] {
        let mut covered = vec![0; 1000];
        for thread in 0..3 {
            for step in steps(phase, shape(3), thread) {
                let Step::Scan { item, pairs, reverse: down } = step else { panic!("{step:?}") };
                assert_eq!(down, reverse);
                for distance in 0..pairs as u64 {
                    covered[(if down { item - distance } else { item + distance }) as usize] += 1;
                }
            }
        }
        assert!(covered.iter().all(|&times| times == 1), "{phase}");
    }
}

#[test]
fn seeks_differ_in_their_direction_alone() {
    for (phase, reverse) in [(Phase::SeekRandom, false), (Phase::SeekReverse, true)] {
        let all = steps(phase, Shape { operations: Some(500), ..shape(1) }, 0);
        assert_eq!(all.len(), 500);
        let mut places = HashSet::new();
        for step in all {
            let Step::Scan { item, pairs, reverse: down } = step else { panic!("{step:?}") };
            assert_eq!((down, pairs), (reverse, shape(1).seek_pairs));
            places.insert(item);
        }
        assert!(places.len() > 300, "{phase}: {}", places.len());
    }
}

#[test]
fn ycsb_mixes_have_their_shares() {
    let big = Shape { num: 20_000, operations: Some(20_000), ..shape(1) };
    let share = |phase: Phase, want: fn(&Step) -> bool| {
        let all = steps(phase, big, 0);
        all.iter().filter(|step| want(step)).count() as f64 / all.len() as f64
    };
    let reads = |step: &Step| matches!(step, Step::Get(_));
    let scans = |step: &Step| matches!(step, Step::Scan { .. });
    let modifies = |step: &Step| matches!(step, Step::ReadModifyWrite { .. });
    assert!((share(Phase::YcsbA, reads) - 0.5).abs() < 0.02);
    assert!((share(Phase::YcsbB, reads) - 0.95).abs() < 0.01);
    assert!((share(Phase::YcsbC, reads) - 1.0).abs() < f64::EPSILON);
    assert!((share(Phase::YcsbD, reads) - 0.95).abs() < 0.01);
    assert!((share(Phase::YcsbE, scans) - 0.95).abs() < 0.01);
    assert!((share(Phase::YcsbF, modifies) - 0.5).abs() < 0.02);
}

#[test]
fn ycsb_d_inserts_new_items_and_reads_recent_ones() {
    let big = Shape { num: 10_000, operations: Some(20_000), ..shape(1) };
    let mut next = 10_000;
    let (mut recent, mut reads) = (0, 0);
    // Items in the order in which they came, those of the load as it stored them.
    let mut age: Vec<u64> = vec![0; 10_000];
    for (place, step) in steps(Phase::FillRandom, big, 0).iter().enumerate() {
        let Step::Put { item, .. } = step else { panic!("{step:?}") };
        age[*item as usize] = place as u64;
    }
    for step in steps(Phase::YcsbD, big, 0) {
        match step {
            Step::Put { item, .. } => {
                assert_eq!(item, next);
                next += 1;
            }
            Step::Get(item) => {
                assert!(item < next);
                reads += 1;
                let place = age.get(item as usize).copied().unwrap_or(item);
                recent += u32::from(next - place <= 1000);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(next > 10_800 && recent * 2 > reads, "{next} {recent} of {reads}");
}

#[test]
fn ycsb_d_counts_back_from_what_every_thread_loaded_last() {
    let shape = shape(3);
    let items = AtomicU64::new(shape.num);
    let generator = Generator::new(Phase::YcsbD, shape, 0, &items);
    let stored = |step: &Step| match step {
        Step::Put { item, .. } => *item,
        other => panic!("{other:?}"),
    };
    let loads: Vec<Vec<_>> = (0..3)
        .map(|thread| steps(Phase::FillRandom, shape, thread).iter().map(stored).collect())
        .collect();
    let mut newest = (0..1_000).rev().map(|place| generator.loaded(place));
    for back in 1..=300 {
        let mut last: Vec<_> = loads.iter().map(|load| load[load.len() - back]).collect();
        let mut chosen: Vec<_> = newest.by_ref().take(3).collect();
        last.sort_unstable();
        chosen.sort_unstable();
        assert_eq!(chosen, last, "{back} before the end");
    }
}

#[test]
fn versions_differ() {
    let mut seen = HashMap::new();
    for phase in [Phase::FillRandom, Phase::Overwrite, Phase::YcsbA] {
        for thread in 0..2 {
            for step in steps(phase, shape(2), thread) {
                if let Step::Put { version, .. } = step {
                    assert_eq!(seen.insert(version, (phase, thread)), None);
                }
            }
        }
    }
}

#[test]
fn phase_names_parse_back_and_unknown_ones_are_named() {
    for phase in Phase::every() {
        assert_eq!(phase.name().parse(), Ok(phase));
    }
    assert_eq!("YCSBA".parse(), Ok(Phase::YcsbA));
    assert_eq!(Phase::parse_list("usual").map(|list| list.len()), Ok(8));
    assert!(Phase::parse_list("fillseq,nonsense").is_err_and(|e| e.contains("'nonsense'")));
    assert!(Phase::parse_list(",").is_err());
}

#[test]
fn up2x_adds_and_reads_in_its_shares() {
    let shape = Shape { operations: Some(20_000), ..shape(1) };
    let taken = steps(Phase::Up2x, shape, 0);
    let added = taken.iter().filter(|step| matches!(step, Step::Add(_))).count();
    let read = taken.iter().filter(|step| matches!(step, Step::GetCounter(_))).count();
    assert_eq!(added + read, 20_000);
    assert!((18_300..18_700).contains(&added), "{added} additions of 20,000");
}

#[test]
fn a_larger_exponent_is_more_skewed() {
    let most = |zipf_exponent| {
        let shape = Shape { operations: Some(20_000), zipf_exponent, ..shape(1) };
        let mut counts = HashMap::new();
        for step in steps(Phase::ReadZipf, shape, 0) {
            let Step::Get(item) = step else { panic!("{step:?}") };
            *counts.entry(item).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap()
    };
    let (even, usual, skewed) = (most(0.8), most(1.0), most(1.2));
    assert!(even * 2 < usual && usual * 3 < skewed * 2, "{even}, {usual}, {skewed}");
}

#[test]
fn replacing_fills_and_deletions_choose_as_they_say() {
    let items = |phase| -> HashSet<u64> {
        let taken = (0..3).flat_map(|thread| steps(phase, shape(3), thread));
        taken
            .map(|step| match step {
                Step::Put { item, .. } | Step::Delete(item) | Step::Get(item) => item,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(items(Phase::DeleteOnce).len(), 1_000);
    assert_eq!(items(Phase::ReadSeq).len(), 1_000);
    // With replacement, a share of 1/e is never chosen.
    assert!((600..660).contains(&items(Phase::FillReplace).len()));
}

#[test]
fn mixes_have_their_shares_and_say_how_parts_change() {
    let mix = Mix { read_permille: 100, put_permille: 300, part_bytes: 100 };
    let shape = Shape { operations: Some(20_000), mix, ..shape(1) };
    for (phase, merge) in [(Phase::MixPut, false), (Phase::MixMerge, true)] {
        let (mut reads, mut puts, mut parts) = (0, 0, HashSet::new());
        for step in steps(phase, shape, 0) {
            match step {
                Step::Get(_) => reads += 1,
                Step::Put { .. } => puts += 1,
                Step::ChangePart { part, merged, .. } => {
                    assert_eq!(merged, merge);
                    parts.insert(part % 10);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!((1_800..2_200).contains(&reads) && (5_700..6_300).contains(&puts), "{phase}");
        assert_eq!(parts.len(), 10);
    }
}

#[test]
fn composite_choices_have_hot_neighbourhoods() {
    let shape = Shape { num: 640_000, operations: Some(20_000), ..shape(1) };
    let mut groups = HashMap::new();
    let mut items = HashSet::new();
    for step in steps(Phase::ReadComposite, shape, 0) {
        let Step::Get(item) = step else { panic!("{step:?}") };
        *groups.entry(item / 100).or_insert(0) += 1;
        items.insert(item);
    }
    let most = groups.values().max().copied().unwrap();
    // One neighbourhood of 6,400 takes a tenth, spread over all of its 100 items.
    assert!(most > 1_000 && items.len() > 5_000, "{most}, {}", items.len());
}
