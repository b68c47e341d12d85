//! What is made of a run and a few records is what their bytes are read as.

use proptest::prelude::*;

use super::*;
use crate::base::entry::{Kind, Seq};

type Entries = std::collections::BTreeMap<(u8, std::cmp::Reverse<Seq>), Vec<u8>>;

fn built(entries: &Entries) -> RunBuilder {
    let mut builder = RunBuilder::default();
    for ((key, seq), value) in entries {
        let kind = if value.is_empty() { Kind::Delete } else { Kind::Put };
        builder.add(&Record { key: &[b'k', *key], seq: seq.0, kind, value });
    }
    builder
}

fn run_of(builder: &RunBuilder) -> Run {
    Run::decode(builder.encoded().to_vec()).unwrap()
}

fn entries(seqs: std::ops::Range<Seq>) -> impl Strategy<Value = Entries> {
    let seq = seqs.prop_map(std::cmp::Reverse);
    prop::collection::btree_map((0u8..12, seq), prop::collection::vec(any::<u8>(), 0..9), 0..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 512 }))]

    #[test]
    fn appended_is_what_the_bytes_are_read_as(
        old in entries(1..50), first in entries(50..99), second in entries(100..150),
    ) {
        let (old, first, second) = (built(&old), built(&first), built(&second));
        let run = run_of(&old).appended(&first).unwrap().appended(&second).unwrap();
        let bytes = [old.encoded(), first.encoded(), second.encoded()].concat();
        prop_assert_eq!(run, Run::decode(bytes).unwrap());
    }

    #[test]
    fn an_entry_that_is_there_is_refused(old in entries(1..50), number in 0usize..16) {
        let run = run_of(&built(&old));
        if let Some(record) = run.get(number) {
            let mut twice = RunBuilder::default();
            twice.add(&record);
            prop_assert!(run.appended(&twice).is_err());
        }
    }

    /// Keys get other versions, or none.
    #[test]
    fn changed_is_what_the_bytes_are_read_as(
        old in entries(1..50),
        come in entries(50..99),
        gone in prop::collection::btree_set(0u8..12, 0..3),
    ) {
        let come = come.into_iter().take(5).collect::<Entries>();
        let (run, new) = (run_of(&built(&old)), built(&come));
        let keys = come.keys().map(|(key, _)| *key).chain(gone);
        let keys: std::collections::BTreeSet<u8> = keys.collect();
        let mut changes: Vec<Change> = Vec::new();
        for key in &keys {
            let first = changes.last().map_or(0, |last| last.new.end);
            let count = come.keys().filter(|(of, _)| of == key).count();
            changes.push(Change { old: run.versions(&[b'k', *key]), new: first..first + count });
        }
        let mut wanted = old.clone();
        wanted.retain(|(key, _), _| !keys.contains(key));
        wanted.extend(come);
        let changed = run.changed(&changes, &new);
        prop_assert_eq!(changed, run_of(&built(&wanted)));
        let same = |change: &Change| run.is_same(change, &new);
        prop_assert_eq!(changes.iter().all(same), wanted == old);
        let some = run.some(changes.iter().map(|change| change.old.clone())).unwrap();
        let picked = old.into_iter().filter(|((key, _), _)| keys.contains(key)).collect();
        prop_assert_eq!(some, run_of(&built(&picked)));
    }
}
