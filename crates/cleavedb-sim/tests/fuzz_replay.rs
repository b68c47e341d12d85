//! Every fuzz entry on its committed corpus and on seeded mutations of it: on stable, in seconds.
//!
//! `UPDATE_CORPUS=1` writes the seeds anew that the engine's writers make (after a format change).
//! `SEED`, `FUZZ_MUTATIONS` and `FUZZ_SECONDS` (least per entry) and `FUZZ_ENTRY` choose; a
//! failure saves the input.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests: lints know only the test functions themselves"
)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cleavedb::sim::fuzz::{ENTRIES, Entry, seeds};
use cleavedb_sim::allocator::{Counting, peak_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Mutations of each entry's corpus.
const MUTATIONS: u64 = 4000;
/// Longest input that mutation makes.
const INPUT_BYTES_MAX: usize = 16 << 10;

/// Most bytes that an entry may hold at once: a length in a hostile file must not be believed.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder().join("corpus").join(name));
    let entries = entries.unwrap_or_else(|error| panic!("no corpus for {name}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).expect("readable"))).collect()
}

/// Changes an input the way faults and attackers do.
fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let length = random.below(16) + 1;
        let end = bytes.len().min(at + length);
        match random.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => bytes[at..end].fill(0),
            3 => bytes[at..end].fill(0xff),
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(at..end)),
            6 => drop(bytes.splice(at..at, (0..length).map(|_| random.next() as u8))),
            7 => {
                // Lengths near the edges of their integers.
                let edges = [0u64, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
                let edge = edges[random.below(edges.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)];
                let end = bytes.len().min(at + width);
                bytes.splice(at..end, edge[..width].iter().copied());
            }
            _ => {
                let from = random.below(other.len() + 1);
                let end = other.len().min(from + random.below(256));
                drop(bytes.splice(at..at, other[from..end].iter().copied()));
            }
        }
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

/// Runs an entry; returns whether it accepted the input, and the most bytes it held.
fn run(name: &str, entry: Entry, input: &[u8], from: &str) -> (bool, u64) {
    let (outcome, held) = peak_of(|| catch_unwind(AssertUnwindSafe(|| entry(input))));
    match outcome {
        Ok(accepted) if held <= HELD_BYTES_MAX => (accepted, held),
        outcome => {
            let saved = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-failure-{name}"));
            fs::write(&saved, input).expect("the failing input is saved");
            let what = if outcome.is_ok() { "held too much memory" } else { "panicked" };
            panic!("{name} {what} on {from} ({held} bytes); the input: {}", saved.display())
        }
    }
}

/// Writes the seeds that the engine's own writers make.
fn write_seeds() {
    for (entry, file, bytes) in seeds() {
        let folder = folder().join("corpus").join(entry);
        fs::create_dir_all(&folder).expect("the corpus folder");
        fs::write(folder.join(file), bytes).expect("the seed is written");
    }
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How long to mutate the corpus of one entry: so many mutations, then until so much time is over.
#[derive(Clone, Copy)]
struct Effort {
    seed: u64,
    mutations: u64,
    time: Duration,
}

/// Replays the corpus of one entry and mutations of it; returns how many of each.
fn replay(name: &str, entry: Entry, effort: Effort) -> (u64, u64) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    let (mut accepted, mut held_max) = (0, 0);
    for (file, bytes) in &corpus {
        let (valid, held) = run(name, entry, bytes, &file.display().to_string());
        accepted += u64::from(valid);
        held_max = held.max(held_max);
    }
    assert!(accepted > 0, "no input in the corpus of {name} is valid: fuzzing stays shallow");
    let (begun, seed) = (Instant::now(), effort.seed);
    let mut random = Random(seed);
    let (mut number, mut deep) = (0, 0);
    while number < effort.mutations || begun.elapsed() < effort.time {
        let input = &corpus[random.below(corpus.len())].1;
        let other = &corpus[random.below(corpus.len())].1;
        let mutated = mutate(input, other, &mut random);
        let from = format!("mutation {number} of seed {seed}");
        let (valid, held) = run(name, entry, &mutated, &from);
        deep += u64::from(valid);
        held_max = held.max(held_max);
        number += 1;
    }
    println!(
        "{name:20} corpus {:3}, mutations {number}, {deep} still valid, at most {} KiB held",
        corpus.len(),
        held_max >> 10
    );
    (corpus.len() as u64, number)
}

#[test]
fn no_input_makes_a_decoder_fail() {
    let effort = Effort {
        seed: environment("SEED", 1),
        mutations: environment("FUZZ_MUTATIONS", MUTATIONS),
        time: Duration::from_secs(environment("FUZZ_SECONDS", 0)),
    };
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        write_seeds();
    }
    let only = std::env::var("FUZZ_ENTRY").ok();
    let chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let entries: Vec<_> = ENTRIES.iter().filter(|(name, _)| chosen(name)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = (0, 0);
        while let Some((name, entry)) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (inputs, mutations) = replay(name, *entry, effort);
            done = (done.0 + inputs, done.1 + mutations);
        }
        done
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let done: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no input fails")).collect()
    });
    let (inputs, mutations) =
        done.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!(
        "fuzz_replay entries={} corpus={inputs} mutations={mutations} failures=0 seed={}",
        entries.len(),
        effort.seed
    );
}

#[test]
fn every_entry_has_its_target_and_every_target_its_entry() {
    let mut targets: Vec<String> = fs::read_dir(folder().join("fuzz_targets"))
        .expect("the folder of targets")
        .map(|entry| entry.expect("readable").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    targets.sort();
    let mut names: Vec<&str> = ENTRIES.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(targets, names);
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).expect("the manifest");
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in the manifest");
        let path = format!("fuzz_targets/{name}.rs");
        let text = fs::read_to_string(folder().join(&path)).expect("the target");
        assert!(text.contains(&format!("fuzz::{name}(data)")), "{path} calls another entry");
    }
}
