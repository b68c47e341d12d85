//! Facts against a naive twin: every fact in a set, every rule as it is written down.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;

use proptest::prelude::*;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::names::file_name;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::io::Io;
use crate::io::memory_disk::MemoryDisk;
use crate::log::testing::DIR;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::directory::{Facts, Spilled};
use crate::values::drops::edit::{Discard, FactsEdit};
use crate::values::drops::pinned::{PinnedFacts, Verdict};
use crate::values::drops::spilled::merge::Spill;
use crate::values::drops::spilled::named::{SpilledFile, SpilledPart};
use crate::values::drops::testing::{contents, decoded, hash, long_key};
use crate::values::file::ValueContext;
use crate::values::testing::context;

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
    /// Facts are written to a file, with those of some files before; a bit for each.
    Spill(u8),
    /// The edit that names it, unless the next spill comes first.
    Name,
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
        4 => any::<u8>().prop_map(Step::Spill),
        3 => Just(Step::Name),
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

struct World {
    naive: Naive,
    /// Discards of collections that run, and the generation at which each was pinned.
    running: Vec<(Vec<Discard>, u64)>,
    /// Verdicts of each kind met: unknown, superseded, held, moved.
    met: [u64; 4],
    /// Files of facts that were named, read by a collection, and cut by a discard.
    met_files: [u64; 3],
    context: Arc<ValueContext>,
    /// Number of the next file of facts.
    next: u64,
    /// A file that is written and not named yet, and those merged into it.
    written: Option<(SpilledFile, Vec<FileId>)>,
    /// No part of a file of facts was cut: counts are exact.
    is_exact: bool,
}

impl Default for World {
    fn default() -> Self {
        let disk = MemoryDisk::new();
        let io = Io::simulated(Arc::new(disk));
        io.disk.create_dir(Path::new(DIR)).unwrap();
        Self {
            naive: Naive::default(),
            running: Vec::new(),
            met: [0; 4],
            met_files: [0; 3],
            context: context(&io, false),
            next: 1000,
            written: None,
            is_exact: true,
        }
    }
}

impl World {
    fn apply(&mut self, facts: &Facts, batches: Vec<FactBatch>) -> Facts {
        let sections: Vec<_> = batches.into_iter().flat_map(FactBatch::encode).collect();
        self.naive.generation += sections.len() as u64;
        facts.apply(&decoded(&sections)).unwrap()
    }

    /// Writes facts as they are now; what happens to them until the edit is settled by it.
    fn write(&mut self, facts: &Facts, mask: u8) {
        let chosen = |(number, spilled): (usize, &Spilled)| {
            (mask >> (number % 8) & 1 == 1).then_some(spilled.id())
        };
        let merged: Vec<FileId> = facts.spilled().enumerate().filter_map(chosen).collect();
        if facts.stated_bytes() == 0 && merged.is_empty() {
            return;
        }
        let context = &self.context;
        let spill = Spill {
            io: &context.io,
            dir: &context.dir,
            uuid: &context.uuid,
            id: FileId(self.next),
            part_bytes_max: 60,
            is_cancelled: &|| false,
        };
        self.next += 1;
        self.written = Some((spill.write(facts, &merged).unwrap(), merged));
    }

    /// The edit that names the file, if one is written.
    fn name(&mut self, facts: &Facts) -> Option<Section> {
        let (spilled, merged) = self.written.take()?;
        self.naive.generation += 1;
        let is_there = |id: &FileId| facts.spilled().any(|spilled| spilled.id() == *id);
        self.met_files[0] += u64::from(merged.iter().any(is_there));
        let edit = FactsEdit { spilled: vec![spilled], merged, ..FactsEdit::default() };
        Some(edit.encode())
    }

    /// What nothing names any more goes away at once: nobody may miss it.
    fn unlink(&self) {
        for (kind, id) in self.context.obsolete.take() {
            drop(self.context.io.disk.remove_file(&self.context.dir.join(file_name(kind, id))));
        }
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
        let mut pinned = facts.pin(&files).unwrap();
        let is_asked = |part: &SpilledPart| files.iter().flatten().any(|file| *file == part.file);
        let parts: Vec<_> = facts.spilled().flat_map(Spilled::parts).collect();
        self.met_files[1] += u64::from(parts.iter().any(|part| is_asked(part)));
        self.met_files[2] += u64::from(parts.iter().any(|part| part.after.0 > 0));
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
            let known = facts.count_of(FileId(file));
            let is_right = known == count as u64 || !self.is_exact && known > count as u64;
            assert!(is_right, "{known} facts of file {file}, not {count}");
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
    let nothing = Facts::in_store(hash(), &world.context);
    let mut facts = nothing.clone();
    // All that was ever applied: replayed, it must come to the same.
    let mut log = Vec::new();
    for step in steps {
        let mut batch = FactBatch::new(hash());
        match step {
            Step::State { facts: stated, twice } => {
                let batches = world.state(&stated, twice);
                log.extend(batches.iter().cloned().flat_map(FactBatch::encode));
                let next = world.apply(&facts, batches);
                next.settle(&facts);
                facts = next;
            }
            Step::Pin(sources) => world.pin(&facts, &sources, snapshots),
            Step::Discard(which) if !world.running.is_empty() => {
                let (discards, upto) = world.running.remove(which.index(world.running.len()));
                world.is_exact &= upto == world.naive.generation;
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
                let before = facts.clone();
                facts.retain(|file| files.contains(&file.0));
                facts.settle(&before);
                log = facts.snapshot();
            }
            Step::Reload => {
                log = facts.snapshot();
                facts = nothing.apply(&decoded(&log)).unwrap();
                facts.settle(&nothing);
            }
            Step::Spill(mask) => world.write(&facts, mask),
            Step::Name => {
                let section = world.name(&facts);
                log.extend(section.clone());
                let next = facts.apply(&decoded(section.as_slice())).unwrap();
                next.settle(&facts);
                facts = next;
            }
        }
        log.extend(batch.clone().encode());
        let next = world.apply(&facts, vec![batch]);
        next.settle(&facts);
        facts = next;
        world.unlink();
        world.check(&facts);
    }
    facts.verify(&mut |id, checked| {
        checked.unwrap_or_else(|error| panic!("file of facts {id}: {error}"));
    });
    let replayed = nothing.apply(&decoded(&log)).unwrap();
    assert_eq!(replayed.snapshot(), facts.snapshot());
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
    for _ in 0..20 {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        world = World { met: world.met, met_files: world.met_files, ..World::default() };
        run(&mut world, steps, &[vec![], vec![3, 8], vec![12]]);
    }
    assert!(world.met.iter().all(|&met| met > 100), "{:?}", world.met);
    println!("{:?} {:?}", world.met, world.met_files);
    assert!(world.met_files.iter().all(|&met| met > 2), "{:?}", world.met_files);
}
