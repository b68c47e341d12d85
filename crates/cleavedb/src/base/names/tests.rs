//! Names and kinds: each is read back as what it was written for.

use super::*;

#[test]
fn names_round_trip() {
    let kinds: Vec<FileKind> = (0..=255).filter_map(FileKind::from_u8).collect();
    assert_eq!(kinds.len(), 17);
    for kind in kinds {
        assert_eq!(FileKind::from_u8(kind as u8), Some(kind));
        let ids =
            if kind.extension().is_some() { vec![1, 12, 1_234_567, FILE_ID_MAX] } else { vec![0] };
        for id in ids.into_iter().map(FileId) {
            assert_eq!(parse_file_name(&file_name(kind, id)), Some((kind, id)));
        }
    }
    assert_eq!(file_name(FileKind::Value, FileId(15)), "000015.val");
    assert_eq!(file_name(FileKind::Large, FileId(16)), "000016.big");
    assert_eq!(file_name(FileKind::ValueTable, FileId(17)), "000017.vtb");
    assert_eq!(file_name(FileKind::Locator, FileId(18)), "000018.loc");
    assert_eq!(file_name(FileKind::Bucket, FileId(19)), "000019.dlt");
    assert_eq!(file_name(FileKind::FlexPages, FileId(20)), "000020.fxp");
    assert_eq!(file_name(FileKind::FlexSegment, FileId(21)), "000021.fxs");
    assert_eq!(file_name(FileKind::FlexLog, FileId(22)), "000022.fxl");
    assert_eq!(file_name(FileKind::Facts, FileId(23)), "000023.drp");
}

#[test]
fn names_of_others_are_left_alone() {
    let too_large = format!("{}.val", FILE_ID_MAX + 1);
    for name in ["15.val", "000000.val", "0000015.val", "00001x.val", "000015.VAL", &too_large] {
        assert_eq!(parse_file_name(name), None, "{name}");
    }
    assert!(is_draft("000015.val.tmp") && !is_draft("000015.val") && !is_draft("x.tmp"));
}
