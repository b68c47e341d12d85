//! Picks over written-down levels, compared with written-down answers.
//!
//! A case of `cases.txt` is a name, the levels, `----` and the answer. A file is
//! `id[smallest-largest]bytes`, followed by `!` (busy), `~` (mostly tombstones), `=` (compacted
//! since the request) or `^` (newer than the request). `running A>B[x-y]` is a reservation,
//! `manual [x-y]` makes the question one of a manual compaction. Widths: 4 runs, base 100 bytes,
//! ratio 4, tables of 50 bytes, parts from 200 bytes, two at a time; level 6 is compressed.

use std::collections::HashSet;

use super::*;
use crate::base::compress::Compression;
use crate::base::entry::FileId;
use crate::base::limits::LEVELS;
use crate::base::widths::Widths;
use crate::index::lsm::shape::Reserved;

struct Case {
    levels: Vec<Vec<Arc<FileShape>>>,
    busy: HashSet<FileId>,
    reserved: Vec<Reserved>,
    manual: Option<KeyRange>,
}

fn widths() -> Widths {
    Widths {
        level0_runs_trigger: 4,
        level_base_bytes_min: 100,
        level_ratio: 4,
        table_bytes: 50,
        subcompaction_bytes_min: 200,
        ..Widths::for_budget(1 << 20)
    }
}

fn hull(text: &str) -> Hull {
    let (smallest, largest) = text.split_once('-').unwrap();
    let exclusive = largest.ends_with(')');
    let largest = largest.trim_end_matches(')').as_bytes().into();
    Hull { smallest: smallest.as_bytes().into(), largest, exclusive }
}

/// `12[a-f]40~`
fn file(text: &str, busy: &mut HashSet<FileId>) -> Arc<FileShape> {
    let (id, rest) = text.split_once('[').unwrap();
    let (keys, rest) = rest.split_once(']').unwrap();
    let digits = rest.trim_end_matches(['!', '~', '=', '^']);
    let flag = |flag: char| rest.contains(flag);
    let id = FileId(id.parse().unwrap());
    if flag('!') {
        busy.insert(id);
    }
    let seq = if flag('^') { 200 } else { 50 };
    Arc::new(FileShape {
        id,
        bytes: digits.parse().unwrap(),
        hull: hull(keys),
        entries: 10,
        tombstones: if flag('~') { 8 } else { 0 },
        range_tombstones: 0,
        merges: 0,
        hidden: 0,
        smallest_seq: seq,
        tick: u64::from(flag('=')),
    })
}

fn parse(text: &str) -> Case {
    let mut case = Case {
        levels: vec![Vec::new(); LEVELS],
        busy: HashSet::new(),
        reserved: Vec::new(),
        manual: None,
    };
    for line in text.lines() {
        let (head, rest) = line.split_once(' ').unwrap();
        match head {
            "running" => {
                let (levels, keys) = rest.trim_end_matches(']').split_once('[').unwrap();
                let (input, output) = levels.split_once('>').unwrap();
                case.reserved.push(Reserved {
                    ticket: 1,
                    input_level: input.parse().unwrap(),
                    output_level: output.parse().unwrap(),
                    hull: hull(keys),
                });
            }
            "manual" => {
                let keys = hull(rest.trim_matches(['[', ']']));
                let (start, end) = (keys.smallest.into_vec(), keys.largest.into_vec());
                case.manual = Some(KeyRange { start: Some(start), end: Some(end) });
            }
            level => {
                let level: usize = level.trim_start_matches('L').parse().unwrap();
                case.levels[level] =
                    rest.split(' ').map(|text| file(text, &mut case.busy)).collect();
            }
        }
    }
    case
}

fn describe(pick: &Pick) -> String {
    let ids = |files: &[Arc<FileShape>]| {
        let ids: Vec<String> = files.iter().map(|file| file.id.0.to_string()).collect();
        ids.join(",")
    };
    let splits: Vec<String> =
        pick.splits.iter().map(|key| key.escape_ascii().to_string()).collect();
    format!(
        "{:?} L{}>L{} ({}, {:.2}) inputs {} overlap [{}] splits [{}]",
        pick.kind,
        pick.input_level,
        pick.output_level,
        pick.reason,
        pick.score,
        ids(&pick.inputs),
        ids(&pick.overlap),
        splits.join(","),
    )
}

fn answer(case: &Case) -> String {
    let widths = widths();
    let compression = [[Compression::None; 6].as_slice(), &[Compression::Zstd]].concat();
    let shape = Shape {
        levels: case.levels.clone(),
        busy: &case.busy,
        reserved: &case.reserved,
        widths: &widths,
        compression: &compression,
        parallelism: 2,
    };
    if let Some(range) = case.manual.clone() {
        let manual = Manual { ticket: 1, range, seq_limit: 100, orders: false };
        return match manual_step(&shape, &manual) {
            ManualStep::Done => "done".to_owned(),
            ManualStep::Blocked => "blocked".to_owned(),
            ManualStep::Work(pick) => describe(&pick),
        };
    }
    pick(&shape).map_or_else(|| "nothing".to_owned(), |pick| describe(&pick))
}

#[test]
fn picks_are_as_written_down() {
    let text = include_str!("cases.txt");
    let mut actual = String::new();
    for block in text.trim_end().split("\n\n") {
        let (name, rest) = block.split_once('\n').unwrap();
        let (levels, _) = rest.split_once("----\n").unwrap();
        let answer = answer(&parse(levels));
        actual += &format!("{name}\n{levels}----\n{answer}\n\n");
    }
    assert_eq!(actual.trim_end(), text.trim_end(), "the whole file as it would be:\n{actual}");
}

#[test]
fn level_sizes_follow_the_data() {
    let widths = widths();
    let targets = |bytes: [u64; LEVELS]| Targets::new(&bytes, &widths);
    let of = |base_level: usize, bytes: [u64; LEVELS]| Targets { base_level, bytes: bytes.into() };
    // Empty, or small: everything goes to the last level.
    assert_eq!(targets([0; LEVELS]), of(6, [0, 0, 0, 0, 0, 0, 100]));
    assert_eq!(targets([0, 0, 0, 0, 0, 0, 200]), of(6, [0, 0, 0, 0, 0, 0, 200]));
    // Large: as many levels as the ratio asks for.
    assert_eq!(targets([0, 0, 0, 0, 0, 0, 400]), of(5, [0, 0, 0, 0, 0, 100, 400]));
    assert_eq!(targets([0, 0, 0, 0, 0, 0, 6400]), of(3, [0, 0, 0, 100, 400, 1600, 6400]));
    // A base that is in use stays.
    assert_eq!(targets([0, 0, 0, 0, 50, 0, 400]), of(4, [0, 0, 0, 0, 100, 100, 400]));
    // However much there is, level 1 is the first.
    let huge = targets([0, 0, 0, 0, 0, 0, 1 << 40]);
    assert_eq!((huge.base_level, huge.of(1)), (1, 1 << 30));
}

#[test]
fn level0_waits_for_its_part_of_the_base() {
    let widths = Widths { level_ratio: 10, ..widths() };
    let score = |runs, bytes, base| {
        let level_bytes = [bytes, 0, 0, 0, 0, 0, base];
        Targets::new(&level_bytes, &widths).level0_score((runs, bytes), &level_bytes, &widths)
    };
    // No base, or a small one: as many runs, or bytes, as there are of the smallest base.
    assert_eq!((score(4, 10, 0), score(1, 100, 0), score(3, 99, 266)), (1.0, 1.0, 0.99));
    // Three eighths of a larger one, and runs in proportion.
    assert_eq!((score(1, 120, 320), score(1, 60, 320)), (1.0, 0.5));
    assert_eq!((score(5, 10, 336), score(4, 10, 336)), (1.0, 0.8));
    // However large it is, no more than seven quarters.
    assert_eq!((score(7, 10, 500), score(1, 175, 500)), (1.0, 1.0));
    assert!(score(6, 174, 500) < 1.0);
    // Above a level that is to be filled yet, as above none.
    assert_eq!((score(4, 10, 5_000), score(1, 100, 5_000)), (1.0, 1.0));
}

#[test]
fn pending_bytes_grow_with_what_is_too_much() {
    let widths = widths();
    let pending =
        |bytes: [u64; LEVELS], due| Targets::new(&bytes, &widths).pending_bytes(&bytes, due);
    assert_eq!(pending([0, 0, 0, 0, 0, 100, 400], false), 0);
    assert_eq!(pending([300, 0, 0, 0, 0, 100, 400], false), 0);
    assert_eq!(pending([0, 0, 0, 0, 0, 150, 400], false), 50 * 3);
    assert!(pending([300, 0, 0, 0, 0, 100, 400], true) > 400);
}
