//! What all strategies do alike.

use super::*;
use crate::base::entry::FileId;
use crate::values::strategy::kind::StrategyKind;

const HANDLE: Handle = Handle { file: FileId(15), epoch: 0, offset: 128, bytes: 40 };

#[test]
fn values_are_separated_from_the_threshold_on() {
    for kind in StrategyKind::ALL {
        let strategy = kind.strategy();
        assert!(strategy.separates(1024, Some(1024)) && !strategy.separates(1023, Some(1024)));
        assert!(strategy.separates(0, Some(0)) && !strategy.separates(usize::MAX, None), "{kind}");
    }
}

#[test]
fn handles_lead_on_and_what_are_none_do_not() {
    for kind in StrategyKind::ALL {
        assert_eq!(kind.strategy().resolve(&HANDLE.encode()).unwrap(), HANDLE, "{kind}");
        assert!(kind.strategy().resolve(b"").is_err(), "{kind}");
        let rewritten = Handle { epoch: 3, ..HANDLE };
        let resolved = kind.strategy().resolve(&rewritten.encode());
        assert_eq!(resolved.ok(), (kind != StrategyKind::Wisckey).then_some(rewritten), "{kind}");
    }
}

#[test]
fn births_and_deaths_are_counted_by_file_whatever_the_epoch() {
    for kind in StrategyKind::ALL {
        let mut changes = RefChanges::default();
        kind.strategy().born(&Handle { epoch: 3, ..HANDLE }, &mut changes);
        assert_eq!(changes.edits().len(), 1, "{kind}");
        kind.strategy().died(&HANDLE, &mut changes);
        assert_eq!(changes.edits(), [], "{kind}");
    }
}
