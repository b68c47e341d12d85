//! The map by its face: flushes, snapshots, room, swings, liveness, waiting; and against a list of
//! all versions.

use std::collections::BTreeMap;

use super::*;
use crate::base::entry::FileId;
use proptest::prelude::*;

const UUID: &[u8; 16] = b"a map of a test.";

fn settings() -> Settings {
    Settings { shard_bits: 1, ..Settings::for_budget(1 << 24) }
}

fn map() -> Map {
    Map::new(settings(), KeyedHash::new(UUID), Generation(0))
}

fn key(name: &[u8]) -> LocatorKey<'_> {
    let keyspace = KeyspaceId(1);
    LocatorKey { keyspace, key: name, hash: KeyedHash::new(UUID).hash(keyspace, name) }
}

fn place(container: u64, number: u64) -> Place {
    let container = FileId(container);
    Place { container, file: container, offset: 100 + number * 1040, bytes: 1000 }
}

fn put(seq: Seq, place: Place) -> Flushed {
    Flushed { seq, place: Some(place) }
}

fn gone(seq: Seq) -> Flushed {
    Flushed { seq, place: None }
}

fn flush(map: &Map, snapshots: &[Seq], name: &[u8], versions: &[Flushed]) -> Vec<Place> {
    let mut replaced = Vec::new();
    let mut touches = map.begin_flush(Snapshots::new(snapshots.to_vec()));
    assert_eq!(touches.touch(&key(name), versions, &mut replaced), Touched::Taken);
    touches.publish(Generation(1));
    replaced
}

fn found(seq: Seq, place: Place) -> Answer {
    Answer::Found(Version { seq, place })
}

fn absent(since: Seq) -> Answer {
    Answer::Absent { since }
}

#[test]
fn a_flush_replaces_and_removes_and_says_what() {
    let (map, a) = (map(), key(b"a"));
    assert_eq!(map.lookup(&a, 9), absent(0));
    assert_eq!(flush(&map, &[], b"a", &[put(3, place(1, 0))]), []);
    assert_eq!((map.lookup(&a, 3), map.lookup(&a, 2)), (found(3, place(1, 0)), absent(0)));
    let in_another = LocatorKey { keyspace: KeyspaceId(2), ..a };
    assert_eq!(map.lookup(&in_another, 3), absent(0));
    assert_eq!(flush(&map, &[], b"a", &[put(5, place(2, 0))]), [place(1, 0)]);
    assert_eq!((map.lookup(&a, 9), map.lookup(&a, 4)), (found(5, place(2, 0)), absent(0)));
    assert_eq!(flush(&map, &[], b"a", &[gone(7)]), [place(2, 0)]);
    assert_eq!(map.lookup(&a, 9), absent(0));
    assert_eq!(flush(&map, &[], b"a", &[gone(8)]), []);
    assert_eq!(map.figures().keys, 0);
}

#[test]
fn snapshots_see_what_was_superseded_and_only_what_they_need_is_kept() {
    let (map, a) = (map(), key(b"a"));
    let at = |snapshot| map.lookup(&a, snapshot);
    flush(&map, &[], b"a", &[put(3, place(1, 0))]);
    flush(&map, &[2], b"a", &[put(5, place(2, 0))]);
    assert_eq!(map.figures().links, 0, "a snapshot before it needs nothing");
    // Within one memtable: a value, nothing, a value, a value; 8 and 13 are needed.
    let versions =
        [put(8, place(3, 0)), gone(10), put(12, place(3, 1)), put(14, place(3, 2)), gone(16)];
    assert_eq!(flush(&map, &[6, 9, 11, 13, 15], b"a", &versions), [place(2, 0)]);
    assert_eq!(map.figures().links, 4);
    assert_eq!((at(6), at(9)), (found(5, place(2, 0)), found(8, place(3, 0))));
    assert_eq!((at(11), at(13)), (absent(10), found(12, place(3, 1))));
    assert_eq!((at(15), at(16), at(99)), (found(14, place(3, 2)), absent(16), absent(16)));
    assert_eq!(flush(&map, &[6], b"a", &[put(20, place(4, 0))]), []);
    assert_eq!((at(20), at(19), at(6)), (found(20, place(4, 0)), absent(16), at(7)));
    map.prune_chains(&Snapshots::new(vec![13]));
    assert_eq!((map.figures().links, at(13), at(6)), (1, found(12, place(3, 1)), absent(0)));
    map.prune_chains(&Snapshots::default());
    assert_eq!((map.figures().links, at(13)), (0, absent(0)));
}

#[test]
fn a_flush_that_is_done_again_changes_nothing() {
    let (map, a) = (map(), key(b"a"));
    flush(&map, &[], b"a", &[put(3, place(1, 0))]);
    let versions = [put(8, place(3, 0)), put(12, place(3, 1))];
    let mut replaced = Vec::new();
    let mut touches = map.begin_flush(Snapshots::new(vec![5, 9]));
    for _ in 0..3 {
        assert_eq!(touches.touch(&a, &versions, &mut replaced), Touched::Taken);
        touches.again(Snapshots::new(vec![9, 20, 5]));
    }
    touches.publish(Generation(1));
    assert_eq!(replaced, [place(1, 0)]);
    assert_eq!((map.figures().links, map.figures().keys), (2, 1));
    assert_eq!(
        (map.lookup(&a, 5), map.lookup(&a, 9)),
        (found(3, place(1, 0)), found(8, place(3, 0)))
    );
    assert_eq!(map.lookup(&a, 12), found(12, place(3, 1)));
}

#[test]
fn a_swing_changes_exactly_the_place_it_names() {
    let (map, a) = (map(), key(b"a"));
    flush(&map, &[], b"a", &[put(3, place(5, 3))]);
    flush(&map, &[4], b"a", &[put(6, place(6, 0))]);
    let moves = map.begin_moves().unwrap();
    assert_eq!(moves.swing(&a, &place(5, 2), place(8, 0)), Swung::Nothing);
    assert_eq!(moves.swing(&a, &place(4, 3), place(8, 0)), Swung::Nothing);
    assert_eq!(moves.swing(&key(b"b"), &place(5, 3), place(8, 0)), Swung::Nothing);
    assert_eq!(moves.swing(&a, &place(6, 0), place(8 << 40, 1)), Swung::Newest);
    assert_eq!(moves.swing(&a, &place(5, 3), place(8 << 40, 2)), Swung::Superseded);
    moves.publish(Generation(2));
    assert_eq!(map.lookup(&a, 6), found(6, place(8 << 40, 1)));
    assert_eq!(map.lookup(&a, 5), found(3, place(8 << 40, 2)));
}

#[test]
fn what_is_needed_is_what_is_newest_or_seen_by_a_snapshot() {
    let (map, a) = (map(), key(b"a"));
    let holds =
        |place, snapshots: &[Seq]| map.holds(&a, &place, || Snapshots::new(snapshots.to_vec()));
    flush(&map, &[], b"a", &[put(3, place(1, 0))]);
    flush(&map, &[4], b"a", &[put(6, place(2, 0))]);
    assert_eq!((holds(place(2, 0), &[]), holds(place(2, 1), &[9])), (Held::Newest, Held::Not));
    assert_eq!(holds(place(1, 0), &[5]), Held::Superseded { seq: 3, until: 6 });
    assert_eq!((holds(place(1, 0), &[2, 6]), holds(place(1, 0), &[])), (Held::Not, Held::Not));
    // Whoever asks for snapshots is asked after the map.
    let held = map.holds(&a, &place(2, 0), || panic!("not asked for what is newest"));
    assert_eq!(held, Held::Newest);
}

#[test]
fn what_compaction_takes_away_is_forgotten_by_its_seq() {
    let (map, a) = (map(), key(b"a"));
    flush(&map, &[], b"a", &[put(3, place(1, 0))]);
    flush(&map, &[4], b"a", &[put(6, place(2, 0))]);
    let moves = map.begin_moves().unwrap();
    assert_eq!(moves.forget(&a, 5), None);
    assert_eq!(moves.forget(&a, 3).unwrap(), Forgotten { place: place(1, 0), is_newest: false });
    assert_eq!(moves.forget(&a, 6).unwrap(), Forgotten { place: place(2, 0), is_newest: true });
    assert_eq!((map.figures().keys, map.figures().links), (0, 0));
    flush(&map, &[], b"a", &[put(8, place(1, 0))]);
    map.forget_keyspaces(&|id| id == KeyspaceId(2), &mut |_| {});
    assert_eq!(map.figures().keys, 1);
    map.forget_keyspaces(&|id| id == KeyspaceId(1), &mut |_| {});
    assert_eq!(map.figures().keys, 0);
}

#[test]
fn the_budget_holds_and_refuses_new_keys_only() {
    let budget = 200 << 10;
    let map = Map::new(Settings::for_budget(budget), KeyedHash::new(UUID), Generation(0));
    let mut touches = map.begin_flush(Snapshots::default());
    let mut taken = Vec::new();
    for number in 0..20_000u64 {
        let name = number.to_be_bytes();
        let versions = [put(number + 1, place(number / 60 + 1, number % 60))];
        if touches.touch(&key(&name), &versions, &mut Vec::new()) == Touched::Taken {
            taken.push(name);
        }
        assert!(map.bytes() <= budget, "{:?}", map.figures());
    }
    let figures = map.figures();
    assert!((7000..9000).contains(&taken.len()), "{figures:?}");
    assert_eq!(figures.keys + figures.refused, 20_000);
    assert_eq!(figures.keys, taken.len() as u64);
    for name in &taken {
        assert_ne!(map.lookup(&key(name), Seq::MAX), absent(0), "no key goes for another one");
        let versions = [put(90_000, place(1 << 60, 2))];
        assert_eq!(touches.touch(&key(name), &versions, &mut Vec::new()), Touched::Taken);
    }
    for name in &taken {
        assert_eq!(touches.touch(&key(name), &[gone(99_000)], &mut Vec::new()), Touched::Taken);
    }
    touches.publish(Generation(1));
    let figures = map.figures();
    assert!(figures.keys == 0 && figures.bytes < 100 << 10, "{figures:?}");
    assert!(figures.overhead_bytes() > 0.0);
}

#[test]
fn a_shard_that_waits_knows_what_was_touched_since() {
    let opened = Generation(7);
    let before = Map::new(settings(), KeyedHash::new(UUID), opened);
    for number in 0..500u64 {
        flush(&before, &[], &number.to_be_bytes(), &[put(number + 1, place(1, number))]);
    }
    let site = checkpoint_site();
    let sections = [0, 1].map(|shard| before.encode_shard(shard, &site).unwrap());
    let after = Map::restored(settings(), KeyedHash::new(UUID), opened);
    assert!(after.is_waiting() && after.begin_moves().is_none());
    assert!(after.encode_shard(0, &site).is_none(), "what waits is not written");
    let names: Vec<_> = (0..500u64).map(u64::to_be_bytes).collect();
    assert!(names.iter().all(|name| after.lookup(&key(name), 600) == Answer::Waiting));
    assert_eq!(after.holds(&key(&names[3]), &place(1, 3), Snapshots::default), Held::Waiting);
    // Some are removed, some written anew, one comes and goes.
    for (number, name) in (0..).zip(&names[..200]) {
        let seq = 1000 + number;
        let version = if number < 100 { gone(seq) } else { put(seq, place(2, number)) };
        flush(&after, &[600], name, &[version]);
    }
    flush(&after, &[], b"new", &[put(2000, place(3, 0))]);
    flush(&after, &[], b"new", &[gone(2001)]);
    let check = |is_loaded: bool| {
        for (number, name) in (0..).zip(&names) {
            let old = found(number + 1, place(1, number));
            let (then, now) = (after.lookup(&key(name), 600), after.lookup(&key(name), 5000));
            assert_eq!(then, if is_loaded { old } else { Answer::Waiting });
            assert_eq!(
                now,
                match number {
                    0..100 => absent(1000 + number),
                    100..200 => found(1000 + number, place(2, number)),
                    _ => then,
                }
            );
        }
        assert_eq!(after.lookup(&key(b"new"), 5000), absent(if is_loaded { 0 } else { 2000 }));
    };
    check(false);
    for shard in [1, 0] {
        assert!(after.load_section(shard, &sections[shard], &site).unwrap());
        assert!(!after.load_section(shard, &sections[shard], &site).unwrap(), "loaded already");
    }
    check(true);
    after.prune_chains(&Snapshots::new(vec![1300]));
    assert_eq!((after.figures().links, after.figures().keys), (0, 400));
    assert!(after.begin_moves().is_some());
}

fn checkpoint_site() -> crate::values::locator::checkpoint::Site {
    crate::values::locator::checkpoint::Site { uuid: *UUID, file: FileId(4), offset: 12 }
}

/// Every version of a key: seq, and place if it is separated.
type History = Vec<(Seq, Option<Place>)>;

proptest! {
    /// Against a list of all versions: what a live snapshot sees is found, exactly.
    #[test]
    fn what_snapshots_see_in_a_map_is_what_a_history_says(
        operations in proptest::collection::vec((0..12u64, 0..14u8, 0..100u8), 0..200),
    ) {
        let (map, mut snapshots) = (map(), Vec::<Seq>::new());
        let (mut histories, mut seq) = (BTreeMap::<u64, History>::new(), 0);
        for (name, kind, chance) in operations {
            let bytes = name.to_be_bytes();
            let history = histories.entry(name).or_default();
            match kind {
                0..=6 => {
                    let mut versions = Vec::new();
                    for number in 0..1 + u64::from(chance) % 3 {
                        seq += 1;
                        let is_put = (u64::from(chance) >> number) % 3 > 0;
                        let place = is_put.then(|| place(seq, number));
                        versions.push(Flushed { seq, place });
                        history.push((seq, place));
                        // A snapshot between two versions of one memtable.
                        if chance % 2 == 0 {
                            snapshots.push(seq);
                        }
                    }
                    flush(&map, &snapshots, &bytes, &versions);
                }
                7..=8 => snapshots.push(seq),
                9 if !snapshots.is_empty() => {
                    let at = usize::from(chance) % snapshots.len();
                    snapshots.swap_remove(at);
                    map.prune_chains(&Snapshots::new(snapshots.clone()));
                }
                _ => {
                    let moves = map.begin_moves().unwrap();
                    let separated = |(_, old): &&mut (Seq, Option<Place>)| old.is_some();
                    if let Some((_, old)) = history.iter_mut().rev().find(separated) {
                        let new = place(seq, 900);
                        let swung = moves.swing(&key(&bytes), &old.unwrap(), new);
                        let is_there = swung != Swung::Nothing;
                        *old = if is_there { Some(new) } else { *old };
                    }
                    moves.publish(Generation(2));
                }
            }
            for snapshot in snapshots.iter().copied().chain([seq]) {
                for (name, history) in &histories {
                    let seen = history.iter().rev().find(|(seq, _)| *seq <= snapshot);
                    let answer = map.lookup(&key(&name.to_be_bytes()), snapshot);
                    match (seen, answer) {
                        (Some((seq, Some(place))), _) => {
                            prop_assert_eq!(answer, found(*seq, *place));
                        }
                        (Some((seq, None)), Answer::Absent { since }) => {
                            prop_assert!(since <= *seq);
                        }
                        (None, Answer::Absent { since: 0 }) => {}
                        _ => prop_assert!(false, "{:?} at {}: {:?}", seen, snapshot, answer),
                    }
                }
            }
        }
    }
}
