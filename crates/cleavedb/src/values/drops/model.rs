//! Facts against a naive twin: every fact in a set, every rule as it is written down.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::values::drops::batch::FactBatch;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::Discard;
use crate::values::drops::pinned::{PinnedFacts, Verdict};
use crate::values::drops::testing::{contents, decoded, hash, long_key};

/// Files, keyspaces, keys and seqs are few, so that they meet.
const FILES: u64 = 6;
const KEYSPACES: u32 = 2;
const KEYS: u64 = 6;
const SEQS: u64 = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stated {
    is_moved: bool,
    keyspace: u32,
    key: u64,
    seq: Seq,
}

/// Every other key is too long to stand in a fact; the others differ in their last byte.
fn key(number: u64) -> Vec<u8> {
    if number.is_multiple_of(2) { long_key(number) } else { vec![b'k', number as u8] }
}

#[derive(Clone, Debug)]
enum Step {
    /// An edit with facts, of one or several sections.
    State { facts: Vec<(u64, Stated)>, twice: bool },
    /// A collection of containers, each some files, begins.
    Pin(Vec<Vec<u64>>),
    /// The edit of the n-th collection that runs.
    Discard(prop::sample::Index),
    /// A file goes.
    Drop(u64),
    /// A job states facts about what is gone: all but these files.
    Retain(BTreeSet<u64>),
    /// The manifest is rolled and read again.
    Reload,
}

fn any_fact() -> impl Strategy<Value = (u64, Stated)> {
    let stated = (prop::bool::weighted(0.3), 1..=KEYSPACES, 0..KEYS, 1..SEQS);
    (1..=FILES, stated).prop_map(|(file, (is_moved, keyspace, key, seq))| {
        (file, Stated { is_moved, keyspace, key, seq })
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let sources = proptest::collection::vec(proptest::collection::vec(1..=FILES, 0..3), 1..4);
    prop_oneof![
        6 => (proptest::collection::vec(any_fact(), 1..14), any::<bool>())
            .prop_map(|(facts, twice)| Step::State { facts, twice }),
        3 => sources.prop_map(Step::Pin),
        2 => any::<prop::sample::Index>().prop_map(Step::Discard),
        1 => (1..=FILES).prop_map(Step::Drop),
        1 => proptest::collection::btree_set(1..=FILES, 3..6).prop_map(Step::Retain),
        2 => Just(Step::Reload),
    ]
}

/// What each file's facts are, by generation.
#[derive(Clone, Default)]
struct Naive {
    generation: u64,
    facts: BTreeMap<u64, BTreeSet<(u64, Stated)>>,
}

impl Naive {
    fn of(&self, file: u64) -> impl Iterator<Item = Stated> {
        self.facts.get(&file).into_iter().flatten().map(|(_, stated)| *stated)
    }

    /// Rules R1 and R7 as they are written.
    fn judge(&self, sources: &[Vec<u64>], source: usize, r: Stated, snapshots: &[Seq]) -> Verdict {
        let is_of_record = |fact: &Stated| (fact.keyspace, fact.key) == (r.keyspace, r.key);
        let in_source = sources[source].iter().flat_map(|file| self.of(*file));
        if in_source.filter(is_of_record).any(|fact| fact.is_moved && fact.seq == r.seq) {
            return Verdict::Moved;
        }
        let all = sources.iter().flatten().flat_map(|file| self.of(*file));
        let superseding: Vec<Seq> = all
            .filter(is_of_record)
            .filter(|fact| !fact.is_moved && r.seq < fact.seq)
            .map(|fact| fact.seq)
            .collect();
        let Some(&smallest) = superseding.iter().min() else { return Verdict::Unknown };
        let is_held_until = |n: Seq| snapshots.iter().any(|&s| r.seq <= s && s < n);
        match superseding.iter().find(|&&n| !is_held_until(n)) {
            Some(_) => Verdict::Superseded(smallest),
            None => Verdict::Held(smallest),
        }
    }
}

#[derive(Default)]
struct World {
    naive: Naive,
    /// Discards of collections that run, and the generation at which each was pinned.
    running: Vec<(Vec<Discard>, u64)>,
    /// Verdicts of each kind met: unknown, superseded, held, moved.
    met: [u64; 4],
}

impl World {
    fn apply(&mut self, facts: &Facts, batches: Vec<FactBatch>) -> Facts {
        let sections: Vec<_> = batches.into_iter().flat_map(FactBatch::encode).collect();
        self.naive.generation += sections.len() as u64;
        facts.apply(&decoded(&sections)).unwrap()
    }

    fn state(&mut self, stated: &[(u64, Stated)], twice: bool) -> Vec<FactBatch> {
        let mut batches = Vec::new();
        for part in stated.chunks(if twice { stated.len().div_ceil(2) } else { stated.len() }) {
            let mut batch = FactBatch::new(hash());
            let generation = self.naive.generation + 1 + batches.len() as u64;
            for &(file, fact) in part {
                let keyspace = KeyspaceId(fact.keyspace);
                if fact.is_moved {
                    batch.add_moved(FileId(file), keyspace, &key(fact.key), fact.seq);
                } else {
                    batch.add(FileId(file), keyspace, &key(fact.key), fact.seq);
                }
                self.naive.facts.entry(file).or_default().insert((generation, fact));
            }
            batches.push(batch);
        }
        batches
    }

    /// A collection judges every record that there can be, with several lists of snapshots.
    fn pin(&mut self, facts: &Facts, sources: &[Vec<u64>], snapshots: &[Vec<Seq>]) {
        let files: Vec<Vec<FileId>> =
            sources.iter().map(|files| files.iter().copied().map(FileId).collect()).collect();
        let mut pinned = facts.pin(&files);
        for keyspace in 1..=KEYSPACES {
            for number in 0..KEYS {
                for seq in 1..=SEQS {
                    let record = Stated { is_moved: false, keyspace, key: number, seq };
                    for source in 0..sources.len() {
                        for snapshots in snapshots {
                            self.judge(&mut pinned, sources, source, record, snapshots);
                        }
                    }
                }
            }
        }
        // Every record was there that a fact can be about, but for seqs below the first.
        let facts_of = |files: &[u64]| -> BTreeSet<_> {
            files.iter().flat_map(|file| self.naive.of(*file)).collect()
        };
        let is_moved = |fact: &&Stated| fact.is_moved;
        let moved: usize =
            sources.iter().map(|files| facts_of(files).iter().filter(is_moved).count()).sum();
        let all = facts_of(&sources.concat());
        let superseding = all.iter().filter(|fact| !fact.is_moved);
        let unmet = superseding.clone().filter(|fact| fact.seq == 1).count() as u64;
        let counts = pinned.counts();
        assert_eq!(counts.facts, (superseding.count() + moved) as u64);
        assert_eq!(pinned.facts_unmet(), unmet);
        self.running.push((pinned.discards().to_vec(), self.naive.generation));
    }

    fn judge(
        &mut self,
        pinned: &mut PinnedFacts,
        sources: &[Vec<u64>],
        source: usize,
        record: Stated,
        snapshots: &[Seq],
    ) {
        let keyspace = KeyspaceId(record.keyspace);
        let found = pinned.judge(source, keyspace, &key(record.key), record.seq, snapshots);
        let expected = self.naive.judge(sources, source, record, snapshots);
        assert_eq!(found, expected, "{record:?} in source {source} of {sources:?}, {snapshots:?}");
        let kind = match found {
            Verdict::Unknown => 0,
            Verdict::Superseded(_) => 1,
            Verdict::Held(_) => 2,
            Verdict::Moved => 3,
        };
        self.met[kind] += 1;
    }

    fn check(&self, facts: &Facts) {
        assert_eq!(facts.generation().0, self.naive.generation);
        for file in 1..=FILES {
            let count = self.naive.facts.get(&file).map_or(0, BTreeSet::len);
            assert_eq!(facts.count_of(FileId(file)), count as u64, "facts of file {file}");
        }
        assert_eq!(facts.is_empty(), self.naive.facts.values().all(BTreeSet::is_empty));
    }
}

fn any_snapshots() -> impl Strategy<Value = Vec<Seq>> {
    let set = proptest::collection::btree_set(0..SEQS + 2, 0..4);
    set.prop_map(|set| set.into_iter().collect())
}

/// Runs steps over the directory and its twin.
fn run(world: &mut World, steps: Vec<Step>, snapshots: &[Vec<Seq>]) {
    let mut facts = Facts::new(hash());
    // All that was ever applied: replayed, it must come to the same.
    let mut log = Vec::new();
    for step in steps {
        let mut batch = FactBatch::new(hash());
        match step {
            Step::State { facts: stated, twice } => {
                let batches = world.state(&stated, twice);
                log.extend(batches.iter().cloned().flat_map(FactBatch::encode));
                facts = world.apply(&facts, batches);
            }
            Step::Pin(sources) => world.pin(&facts, &sources, snapshots),
            Step::Discard(which) if !world.running.is_empty() => {
                let (discards, upto) = world.running.remove(which.index(world.running.len()));
                for discard in &discards {
                    if let Some(of_file) = world.naive.facts.get_mut(&discard.file.0) {
                        of_file.retain(|(generation, _)| *generation > upto);
                    }
                }
                batch.discard(&discards);
            }
            Step::Discard(_) => {}
            Step::Drop(file) => {
                world.naive.facts.remove(&file);
                batch.drop_file(FileId(file));
            }
            Step::Retain(files) => {
                // As at open, where what went is known only at the end.
                world.naive.facts.retain(|file, _| files.contains(file));
                facts.retain(|file| files.contains(&file.0));
                log = facts.snapshot();
            }
            Step::Reload => {
                log = facts.snapshot();
                facts = Facts::new(hash()).apply(&decoded(&log)).unwrap();
            }
        }
        log.extend(batch.clone().encode());
        facts = world.apply(&facts, vec![batch]);
        world.check(&facts);
    }
    let replayed = Facts::new(hash()).apply(&decoded(&log)).unwrap();
    assert_eq!(contents(&replayed), contents(&facts));
    assert_eq!(replayed.generation(), facts.generation());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn facts_are_as_their_naive_twin_says(
        steps in proptest::collection::vec(any_step(), 1..24),
        snapshots in proptest::collection::vec(any_snapshots(), 1..4),
    ) {
        run(&mut World::default(), steps, &snapshots);
    }
}

/// Enough of every verdict was met, so that the comparison says something.
#[test]
fn the_model_meets_every_verdict() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut world = World::default();
    let steps = proptest::collection::vec(any_step(), 20..24);
    for _ in 0..10 {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        world = World { met: world.met, ..World::default() };
        run(&mut world, steps, &[vec![], vec![3, 8], vec![12]]);
    }
    assert!(world.met.iter().all(|&met| met > 100), "{:?}", world.met);
}
