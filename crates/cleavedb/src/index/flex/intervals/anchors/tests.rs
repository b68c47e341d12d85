//! Directories, tags, and finding intervals.

use super::*;

fn directory(edits: &[Edit<'_>]) -> Vec<u8> {
    let mut bytes = encode_directory((7, 3), std::iter::empty());
    edits.iter().for_each(|edit| edit.encode(&mut bytes));
    bytes
}

#[test]
fn a_directory_is_what_was_done_to_it() {
    let anchors: [&[u8]; 3] = [b"", b"g", b"p"];
    let mut bytes = encode_directory((7, 3), anchors.into_iter());
    Edit::Insert(2, b"k").encode(&mut bytes);
    Edit::Remove(1).encode(&mut bytes);
    let read = Directory::decode(&bytes).unwrap();
    assert_eq!((read.id, read.parent, read.edits), (7, 3, 5));
    assert_eq!(read.anchors, [&b""[..], b"k", b"p"].map(Box::from));
    for end in 0..bytes.len() {
        if let Ok(part) = Directory::decode(&bytes[..end]) {
            assert!(part.edits < 5, "a part that is whole is one of fewer edits");
        }
    }
}

#[test]
fn directories_that_no_writer_wrote_are_refused() {
    let long = vec![b'x'; KEY_BYTES_MAX + 1];
    for wrong in [
        vec![],
        vec![Edit::Insert(1, b"a")],
        vec![Edit::Remove(0)],
        vec![Edit::Insert(0, b"a"), Edit::Remove(1)],
        vec![Edit::Insert(0, b"a"), Edit::Remove(0)],
        vec![Edit::Insert(0, b"a"), Edit::Insert(1, b"a")],
        vec![Edit::Insert(0, b"a"), Edit::Insert(0, b"b")],
        vec![Edit::Insert(0, &long)],
        vec![Edit::Insert(usize::MAX >> 2, b"a")],
    ] {
        assert!(Directory::decode(&directory(&wrong)).is_err(), "{} edits", wrong.len());
    }
    assert!(Directory::decode(&directory(&[Edit::Insert(0, b"a")])).is_ok());
    let nobody = encode_directory((0, 0), [&b"a"[..]].into_iter());
    assert!(Directory::decode(&nobody).is_err());
    let many: Vec<Edit<'_>> = (0..=ANCHORS_MAX).map(|_| Edit::Insert(0, b"a")).collect();
    assert!(Directory::decode(&directory(&many)).is_err());
}

#[test]
fn tags_say_what_begins() {
    for mark in [Mark::Tombstones, Mark::Directory, Mark::Interval(0), Mark::Interval(TAIL_MAX)] {
        assert_eq!(Mark::of(mark.tag().unwrap()).unwrap(), mark);
    }
    for records in 0..=TAIL_MAX {
        let mark = Mark::of(Mark::Interval(records).tag().unwrap()).unwrap();
        let Mark::Interval(bound) = mark else { panic!("{records} records: {mark:?}") };
        assert!((records..=records * 6).contains(&bound), "{records} records: {bound}");
        assert_eq!(Mark::of(mark.tag().unwrap()).unwrap(), mark, "a bound is its own");
    }
    let is_new =
        |records: &u16| Mark::Interval(*records).tag() != Mark::Interval(records - 1).tag();
    let new: Vec<u16> = (1..=30).filter(is_new).collect();
    assert_eq!(new, [1, 7], "appends that change a tag");
    assert!(Mark::of(Tag::new(INTERVAL + TAIL_MAX + 1).unwrap()).is_err());
    assert!(Mark::of(Tag::new(u16::MAX).unwrap()).is_err());
}

#[test]
fn keys_belong_to_the_last_anchor_that_is_not_above() {
    let interval = |anchor: &str, bytes| {
        let anchor = anchor.as_bytes().into();
        Interval {
            anchor,
            bytes,
            tail: 0,
            tail_index: None,
            filter: KeyFilter::default(),
            fragments: 1,
            stamp: bytes,
            born: bytes,
        }
    };
    let group = |id, parent, intervals| {
        Group { id, parent, directory_bytes: 10, edits: 0, intervals }.sealed()
    };
    let groups = vec![
        group(1, 0, vec![interval("c", 100), interval("g", 200)]),
        group(3, 1, vec![interval("m", 300)]),
        group(2, 0, vec![interval("t", 400), interval("w", 500)]),
    ];
    let anchors = Anchors::new(groups, 5);
    for (key, offset) in [("a", 15), ("c", 15), ("f", 15), ("g", 115), ("lzz", 115), ("m", 325)] {
        assert_eq!(anchors.find(key.as_bytes()).unwrap().offset, offset, "{key}");
    }
    assert_eq!(anchors.find(b"zz").unwrap().range(), 1035..1535);
    let offsets: Vec<u64> = anchors.iter().map(|found| found.offset).collect();
    assert_eq!(offsets, [15, 115, 325, 635, 1035]);
    let mut at = anchors.last();
    let mut backwards = Vec::new();
    while let Some(found) = at {
        backwards.insert(0, found.offset);
        at = anchors.before(found.group, found.number);
    }
    assert_eq!(backwards, offsets);
    assert_eq!(anchors.len(), 5);
    let homes = anchors.homes();
    assert_eq!(homes(1), Some(5..625), "with what was split off");
    assert_eq!(homes(2), Some(625..1535));
    assert_eq!(homes(9), None);
    let of = |owners: &[u64]| -> Vec<u64> {
        let owners = owners.iter().copied().collect();
        anchors.of_owners(Some(owners)).map(|found| found.offset).collect()
    };
    assert_eq!(of(&[1]), [15, 115, 325], "with what was split off");
    assert_eq!((of(&[3]), of(&[2, 9])), (vec![325], vec![635, 1035]));
    assert_eq!(of(&[0, 9]), [0; 0], "what is nobody's was split off from nobody");
    assert!(anchors.of_owners(None).map(|found| found.offset).eq(offsets));
    assert!(Anchors::default().find(b"a").is_none());
    assert!(Anchors::default().last().is_none());
}

/// Anchors that share a beginning, are longer or shorter than what is compared first, or end in
/// zeros, found as a plain search finds them.
#[test]
fn a_key_is_found_among_anchors_that_are_alike() {
    let mut anchors: Vec<Vec<u8>> = vec![b"".to_vec()];
    for end in 0..40u8 {
        anchors.push([b"user-of-a-long-name".as_slice(), &[end / 4; 9], &[end % 4]].concat());
        anchors.push([b"user-of-a-long-name".as_slice(), &vec![0; end.into()]].concat());
    }
    anchors.sort();
    anchors.dedup();
    let mut keys = anchors.clone();
    keys.extend(anchors.iter().map(|anchor| [anchor.as_slice(), &[0]].concat()));
    keys.extend(anchors.iter().map(|anchor| anchor[..anchor.len() / 2].to_vec()));
    keys.extend([b"a".to_vec(), b"user".to_vec(), b"z".to_vec(), vec![0xff; 30]]);
    for count in [0, 1, 2, 3, anchors.len()] {
        let some = &anchors[..count];
        let heads = Heads::new(some.iter().map(Vec::as_slice));
        for key in &keys {
            let wanted = some.partition_point(|anchor| anchor <= key).saturating_sub(1);
            assert_eq!(heads.position(key, |at| &some[at]), wanted, "{count}: {key:?}");
        }
    }
}

#[test]
fn a_separator_lies_between() {
    for (below, above, wanted) in
        [("a", "b", "b"), ("abc", "abd", "abd"), ("ab", "abzzz", "abz"), ("", "x", "x")]
    {
        let found = separator(below.as_bytes(), above.as_bytes());
        assert_eq!(&*found, wanted.as_bytes());
        assert!(below.as_bytes() < &*found && &*found <= above.as_bytes());
    }
}
