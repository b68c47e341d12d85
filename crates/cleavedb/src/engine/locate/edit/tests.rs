//! The edits' bytes, and what is refused.

use super::*;
use crate::base::error::ErrorKind;
use proptest::prelude::*;

fn saved() -> SavedLocator {
    SavedLocator { id: FileId(300), generation: Generation(7), shards: vec![88, 0, 1000] }
}

fn decode(payload: &[u8]) -> Result<LocatorEdit> {
    LocatorEdit::decode(payload)
}

#[test]
fn the_bytes_are_those_of_the_page() {
    let touched = LocatorEdit::Touched.encode();
    assert_eq!((touched.tag, &*touched.payload), (SectionTag::LOCATOR, &[1, 1][..]));
    assert!(LocatorEdit::touches(&touched));
    let section = LocatorEdit::Saved(saved()).encode();
    assert_eq!(section.payload, [1, 2, 0xac, 2, 7, 3, 88, 0, 0xe8, 7]);
    assert!(!LocatorEdit::touches(&section));
    assert_eq!(decode(&section.payload).unwrap(), LocatorEdit::Saved(saved()));
    assert_eq!(decode(&touched.payload).unwrap(), LocatorEdit::Touched);
}

#[test]
fn sections_stand_one_behind_the_other() {
    let saved = saved();
    assert_eq!(saved.bytes(), 1088);
    let sections: Vec<_> = (0..5).map(|shard| saved.section(shard)).collect();
    assert_eq!(sections, [Some((0, 88)), None, Some((88, 1000)), None, None]);
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(decode(&[2, 1]).unwrap_err().kind(), ErrorKind::Unsupported);
    let no_file = LocatorEdit::Saved(SavedLocator { id: FileId(0), ..saved() }).encode();
    let many = LocatorEdit::Saved(SavedLocator { shards: vec![1; 65], ..saved() }).encode();
    let long = LocatorEdit::Saved(SavedLocator { shards: vec![u64::MAX; 2], ..saved() }).encode();
    let wrong: [&[u8]; 6] = [&[], &[1], &[1, 3], &[1, 1, 0], &no_file.payload, &many.payload];
    for payload in wrong.into_iter().chain([&*long.payload]) {
        assert_eq!(decode(payload).unwrap_err().kind(), ErrorKind::Corruption, "{payload:?}");
    }
    let whole = LocatorEdit::Saved(saved()).encode().payload;
    for end in 0..whole.len() {
        assert!(decode(&whole[..end]).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_edit_or_an_error(payload in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(edit) = decode(&payload)
            && let LocatorEdit::Saved(saved) = &edit
        {
            prop_assert!(saved.shards.len() <= SHARDS_MAX);
            prop_assert_eq!(decode(&edit.encode().payload).unwrap(), edit);
        }
    }
}
