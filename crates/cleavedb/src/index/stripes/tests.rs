//! Tables of single decisions, and random histories against a naive oracle.

use proptest::prelude::*;

use super::*;
use crate::base::sync::Arc;
use crate::base::tombstone::RangeTombstone;
use crate::index::testing::{Append, Entry, Recorder, VecCursor, naive_read, reading_points};

fn entry(key: &str, seq: Seq, kind: Kind, value: &str) -> Entry {
    Entry { key: key.into(), seq, kind, value: value.into() }
}

fn tombstone(start: &str, end: &str, seq: Seq) -> RangeTombstone {
    RangeTombstone { start: start.as_bytes().into(), end: end.as_bytes().into(), seq }
}

struct Case<'a> {
    entries: Vec<Entry>,
    tombstones: Vec<RangeTombstone>,
    snapshots: &'a [Seq],
    bottom: bool,
}

fn run(case: &Case<'_>, recorder: &mut Recorder) -> (Vec<Entry>, Vec<RangeTombstone>) {
    let fragments = Fragments::build(case.tombstones.clone());
    let mut input: BoxCursor = Box::new(VecCursor::new(case.entries.clone()));
    input.seek_first().unwrap();
    let bottom = case.bottom;
    let rule = StripeRule {
        snapshots: case.snapshots,
        tombstones: &fragments,
        operator: Some(Arc::new(Append)),
        older_below: Box::new(move |_| !bottom),
        cancelled: None,
    };
    let mut out = Vec::new();
    let mut survivors = Survivors::new(input, None, rule, recorder);
    while survivors.advance().unwrap() {
        out.push(Entry {
            key: survivors.key().to_vec(),
            seq: survivors.seq(),
            kind: survivors.kind(),
            value: survivors.value().to_vec(),
        });
    }
    assert_eq!(survivors.entries_in(), case.entries.len() as u64);
    drop(survivors);
    let kept = surviving_tombstones(&fragments, case.snapshots, |_, _| !bottom, recorder);
    (out, kept)
}

fn show(entries: &[Entry]) -> String {
    let words: Vec<String> = entries
        .iter()
        .map(|e| {
            let (key, value) = (e.key.escape_ascii(), e.value.escape_ascii());
            format!("{key}@{}:{:?}={value}", e.seq, e.kind)
        })
        .collect();
    words.join(" ")
}

fn decide(entries: Vec<Entry>, snapshots: &[Seq], bottom: bool) -> (String, String) {
    let mut recorder = Recorder::default();
    let (out, _) = run(&Case { entries, tombstones: Vec::new(), snapshots, bottom }, &mut recorder);
    let dead: Vec<String> =
        recorder.dead.iter().map(|(_, seq, _, by)| format!("{seq}<{by}")).collect();
    (show(&out), dead.join(" "))
}

#[test]
fn single_decisions() {
    use Kind::{Delete, Merge, Put, PutSeparated};
    let put = |seq, value| entry("k", seq, Put, value);
    let merge = |seq, value| entry("k", seq, Merge, value);
    let delete = |seq| entry("k", seq, Delete, "");
    let cases = [
        // A newer put kills an older one; a snapshot between them saves it.
        (vec![put(5, "b"), put(3, "a")], vec![], false, "k@5:Put=b", "3<5"),
        (vec![put(5, "b"), put(3, "a")], vec![4], false, "k@5:Put=b k@3:Put=a", ""),
        (vec![put(5, "b"), put(3, "a")], vec![3], false, "k@5:Put=b k@3:Put=a", ""),
        (vec![put(5, "b"), put(3, "a")], vec![5], false, "k@5:Put=b", "3<5"),
        // A tombstone goes at the bottom only, and only if it hides nothing that lives.
        (vec![delete(5), put(3, "a")], vec![], false, "k@5:Delete=", "3<5"),
        (vec![delete(5), put(3, "a")], vec![], true, "", "3<5 5<5"),
        (vec![delete(5), put(3, "a")], vec![4], true, "k@5:Delete= k@3:Put=a", ""),
        (vec![delete(5)], vec![4], true, "", "5<5"),
        (vec![put(9, "c"), delete(5), put(3, "a")], vec![6], true, "k@9:Put=c", "3<5 5<5"),
        // Merges need their base.
        (vec![merge(5, "b"), put(3, "a")], vec![], false, "k@5:Put=ab", "3<5"),
        (vec![merge(5, "b"), put(3, "a")], vec![4], false, "k@5:Merge=b k@3:Put=a", ""),
        (vec![merge(5, "b"), delete(3)], vec![], false, "k@5:Put=b", "3<5"),
        (vec![merge(5, "b"), merge(4, "a")], vec![], false, "k@5:Merge=ab", "4<5"),
        (vec![merge(5, "b"), merge(4, "a")], vec![], true, "k@5:Put=ab", "4<5"),
        (vec![merge(5, "b"), merge(4, "a")], vec![4], false, "k@5:Merge=b k@4:Merge=a", ""),
        (vec![merge(5, "b"), merge(4, "a")], vec![4], true, "k@5:Merge=b k@4:Put=a", ""),
        (vec![put(6, "c"), merge(5, "b"), put(3, "a")], vec![], false, "k@6:Put=c", "5<6 3<6"),
        // What the operator refuses stays as it is.
        (vec![merge(5, "!"), put(3, "a")], vec![], false, "k@5:Merge=! k@3:Put=a", ""),
        (vec![merge(5, "?"), put(3, "a")], vec![], true, "k@5:Merge=? k@3:Put=a", ""),
        (
            vec![merge(5, "b"), merge(4, "a"), entry("k", 3, PutSeparated, "h")],
            vec![],
            true,
            "k@5:Merge=ab k@3:PutSeparated=h",
            "4<5",
        ),
    ];
    for (entries, snapshots, bottom, expected, expected_dead) in cases {
        let what = format!("{} at {snapshots:?}, bottom {bottom}", show(&entries));
        let (out, dead) = decide(entries, &snapshots, bottom);
        assert_eq!((out.as_str(), dead.as_str()), (expected, expected_dead), "{what}");
    }
}

#[test]
fn a_listener_keeps_tombstones_and_mends_handles() {
    let mut recorder = Recorder { keeps: true, ..Recorder::default() };
    recorder.mended.insert(2, b"moved".to_vec());
    let entries = vec![
        entry("a", 7, Kind::Delete, ""),
        entry("b", 2, Kind::PutSeparated, "old"),
        entry("c", 3, Kind::Merge, "m"),
    ];
    let tombstones = vec![tombstone("x", "z", 9)];
    let (out, kept) =
        run(&Case { entries, tombstones, snapshots: &[], bottom: true }, &mut recorder);
    assert_eq!(show(&out), "a@7:Delete= b@2:PutSeparated=moved c@3:Merge=m");
    assert_eq!(kept, [tombstone("x", "z", 9)]);
}

#[test]
fn range_tombstones_keep_one_seq_a_stripe() {
    let tombstones = vec![tombstone("a", "m", 3), tombstone("c", "z", 5), tombstone("e", "f", 9)];
    let keep = |snapshots: &[Seq], bottom: bool| {
        let mut recorder = Recorder::default();
        let case = Case { entries: Vec::new(), tombstones: tombstones.clone(), snapshots, bottom };
        let kept = run(&case, &mut recorder).1;
        let dead: Vec<Seq> = recorder.dead.iter().map(|(_, seq, ..)| *seq).collect();
        (kept, dead)
    };
    let (kept, dead) = keep(&[], false);
    let expected = [
        tombstone("a", "c", 3),
        tombstone("c", "e", 5),
        tombstone("e", "f", 9),
        tombstone("f", "z", 5),
    ];
    assert_eq!((kept.as_slice(), dead.as_slice()), (expected.as_slice(), [].as_slice()));
    let (kept, _) = keep(&[3, 5], false);
    assert_eq!(kept, tombstones);
    let (kept, dead) = keep(&[], true);
    assert_eq!((kept.len(), dead), (0, vec![3, 5, 9]));
    let (kept, dead) = keep(&[4], true);
    let expected = [tombstone("c", "e", 5), tombstone("e", "f", 9), tombstone("f", "z", 5)];
    assert_eq!((kept.as_slice(), dead), (expected.as_slice(), vec![3]));
}

#[derive(Clone, Debug)]
enum Step {
    Entry(u8, Kind, u8),
    Range(u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        3 => Just(Kind::Put),
        2 => Just(Kind::Delete),
        4 => Just(Kind::Merge),
        1 => Just(Kind::PutSeparated),
    ];
    let step = prop_oneof![
        6 => (0..4u8, kind, 0..8u8).prop_map(|(key, kind, value)| Step::Entry(key, kind, value)),
        1 => (0..4u8, 1..4u8).prop_map(|(start, length)| Step::Range(start, start + length)),
    ];
    prop::collection::vec(step, 0..24)
}

type History = (Vec<Entry>, Vec<RangeTombstone>);

/// Numbers the steps; operands spell out their seq, so that order and count show.
fn history(steps: &[Step]) -> History {
    let (mut entries, mut tombstones) = (Vec::new(), Vec::new());
    for (seq, step) in (1..).zip(steps) {
        match *step {
            Step::Entry(key, kind, value) => {
                let text = match (kind, value) {
                    (Kind::Delete, _) => String::new(),
                    (Kind::Merge, 0) => format!("!{seq},"),
                    (Kind::Merge, 1) => format!("-{seq},"),
                    _ => format!("{seq},"),
                };
                entries.push(Entry { key: vec![b'a' + key], seq, kind, value: text.into() });
            }
            Step::Range(start, end) => tombstones.push(RangeTombstone {
                start: Box::new([b'a' + start]),
                end: Box::new([b'a' + end]),
                seq,
            }),
        }
    }
    (entries, tombstones)
}

fn check(steps: &[Step], older_count: usize, snapshots: &[Seq], bottom: bool) {
    let (entries, tombstones) = history(steps);
    // The oldest part of the history lies below and is not part of the run.
    let older = if bottom { 0 } else { older_count as Seq };
    let is_older = |seq: Seq| seq <= older;
    let (below, run_entries): History2 = entries.iter().cloned().partition(|e| is_older(e.seq));
    let (below_t, run_t): (Vec<_>, Vec<_>) =
        tombstones.iter().cloned().partition(|t| is_older(t.seq));
    let mut recorder = Recorder::default();
    let case = Case { entries: run_entries.clone(), tombstones: run_t, snapshots, bottom };
    let (out, kept) = run(&case, &mut recorder);
    assert!(out.is_sorted_by(|a, b| (&a.key, b.seq) < (&b.key, a.seq)));
    let after: Vec<Entry> = below.iter().chain(&out).cloned().collect();
    let after_t: Vec<RangeTombstone> = below_t.iter().chain(&kept).cloned().collect();
    for point in reading_points(snapshots) {
        for key in b'a'..=b'h' {
            assert_eq!(
                naive_read(&after, &after_t, &[key], point),
                naive_read(&entries, &tombstones, &[key], point),
                "key {} at {point}, snapshots {snapshots:?}, bottom {bottom}\nrun {}\nout {}",
                key as char,
                show(&run_entries),
                show(&out)
            );
        }
    }
    // Whatever went in either came out under its seq or was reported once.
    let mut reported: Vec<Seq> = recorder.dead.iter().map(|(_, seq, ..)| *seq).collect();
    reported.extend(out.iter().map(|e| e.seq));
    reported.retain(|seq| run_entries.iter().any(|e| e.seq == *seq));
    reported.sort_unstable();
    let mut expected: Vec<Seq> = run_entries.iter().map(|e| e.seq).collect();
    expected.sort_unstable();
    assert_eq!(reported, expected);
    for (_, seq, kind, by) in &recorder.dead {
        assert!(by >= seq);
        let separated = snapshots.iter().any(|s| seq <= s && s < by);
        assert!(!separated, "{kind:?} {seq} died of {by} though a snapshot needs it");
    }
}

type History2 = (Vec<Entry>, Vec<Entry>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn every_live_snapshot_sees_the_same(
        steps in steps(),
        older_count in 0..12usize,
        snapshots in prop::collection::btree_set(1..26u64, 0..5),
        bottom: bool,
    ) {
        let snapshots: Vec<Seq> = snapshots.into_iter().collect();
        check(&steps, older_count, &snapshots, bottom);
    }
}
