//! Forms are found by the names that say which indexes they have.

use cleavedb::IndexKind;

use super::*;
use crate::store::index_of;

#[test]
fn a_form_is_found_by_its_name() {
    let plain = Form::find("real disk, threads, values apart");
    assert_eq!(plain.name, "real disk, threads, values apart");
    for kinds in Kinds::ALL {
        let form = kinds.form(&plain);
        let found = Form::find(&form.name);
        assert_eq!(format!("{found:?}"), format!("{form:?}"));
        assert!(found.native);
    }
}

#[test]
fn turns_meet_every_kind_and_both_has_both() {
    let turns: Vec<Kinds> = (0..3).map(Kinds::in_turn).collect();
    assert_eq!(turns, Kinds::ALL);
    let both = Kinds::Both.form(&Form::base());
    let kinds: Vec<IndexKind> = (0..4).map(|slot| index_of(&both, slot)).collect();
    let (lsm, flex, naive) = (IndexKind::Lsm, IndexKind::Flex, IndexKind::Naive);
    assert_eq!(kinds, [lsm, flex, lsm, naive]);
    let flex_alone = Kinds::Flex.form(&Form::base());
    assert_eq!((index_of(&flex_alone, 0), index_of(&flex_alone, 1)), (flex, flex));
}
