//! What is asked for is either taken or named.

use super::*;

#[test]
fn what_is_not_taken_is_named() {
    let tuning = Tuning { file_bytes: Some(1 << 20), separate_at: Some(1), ..Tuning::default() };
    assert_eq!(tuning.not_taken(&["separate_at"]), "; not taken: file_bytes=1048576");
    assert_eq!(tuning.not_taken(&["separate_at", "file_bytes"]), "");
    assert_eq!(Tuning::default().not_taken(&[]), "");
    let counting = Tuning { statistics: true, ..Tuning::default() };
    assert_eq!(counting.not_taken(&[]), "; not taken: statistics=true");
    let strategy = Tuning { strategy: Some(StrategyKind::Novkv), ..Tuning::default() };
    assert_eq!(strategy.not_taken(&[]), "; not taken: strategy=\"novkv\"");
    let off = Tuning { collects: Some(false), ..Tuning::default() };
    assert_eq!(off.not_taken(&[]), "; not taken: collects=false", "off is asked for, too");
}
