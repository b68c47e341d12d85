//! Reclaim: what is chosen, that nothing is lost, and who looks where.

use std::ops::Range;

use super::*;
use crate::index::flex::space::reclaim::victims;

#[test]
fn the_most_garbage_goes_first_and_no_more_than_needed() {
    let segment = |id, bytes, live| (FileId(id), bytes, live);
    let all = [segment(1, 100, 100), segment(2, 100, 10), segment(3, 100, 50), segment(4, 50, 0)];
    let chosen = |percent, moved| {
        victims(&all, percent, moved).into_iter().map(|id| id.0).collect::<Vec<_>>()
    };
    assert_eq!(chosen(60, 1000), [0; 0], "190 of 350 may be garbage");
    assert_eq!(chosen(40, 1000), [4, 2]);
    assert_eq!(chosen(0, 1000), [4, 2, 3], "what has none is never worth it");
    assert_eq!(chosen(0, 20), [4, 2], "within what may be moved");
    assert_eq!(victims(&[segment(7, 100, 99)], 0, 1), [FileId(7)], "the first one in any case");
    assert!(victims(&[], 0, 1000).is_empty());
}

/// A space of records of 1000 bytes, one owner each, of which many were written again.
fn updated(context: &Arc<SpaceContext>) -> Space {
    let mut space = Space::new(context).unwrap();
    for number in 0..40u8 {
        space.insert(1000 * u64::from(number), &[number; 1000], u64::from(number) + 1).unwrap();
    }
    commit(&mut space);
    for number in (0..40u8).filter(|number| number % 4 > 0) {
        let start = 1000 * u64::from(number);
        space.update(start..start + 1000, &[number + 100; 1000], u64::from(number) + 1).unwrap();
    }
    commit(&mut space);
    space
}

fn home(owner: u64) -> Option<Range<u64>> {
    owner.checked_sub(1).map(|number| 1000 * number..1000 * number + 1000)
}

#[test]
fn segments_are_emptied_and_go_with_the_last_view() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = updated(&context);
    let (before, view) = (all(&space), space.view());
    let Sums { bytes, garbage_bytes: garbage } = space.closed_sums();
    assert!(garbage * 100 > bytes * 40, "{garbage} of {bytes}");
    let reclaimed = space.reclaim(u64::MAX, &home).unwrap();
    assert!(reclaimed.segments > 0 && reclaimed.moved_bytes > 0, "{reclaimed:?}");
    assert_eq!(reclaimed.walks, 0, "owners tell of all that lives");
    assert_eq!(all(&space), before);
    let state = commit(&mut space);
    let Sums { bytes, garbage_bytes: garbage } = space.closed_sums();
    assert!(garbage * 100 <= bytes * 40, "{garbage} of {bytes}");
    assert_eq!(sweep(&context), 0, "a view reads the old ones");
    assert_eq!(view.read(0..before.len() as u64, Purpose::Read).unwrap(), before);
    drop(view);
    assert_eq!(sweep(&context) as u64, reclaimed.segments);
    assert_eq!(all(&space), before);
    let again = Space::open(&context, state).unwrap();
    assert_eq!(all(&again), before);
    let figures = |space: &Space| space.segments().map(|(id, s)| (id, s.live_bytes)).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = (figures(&space), figures(&again));
    let live = |list: Vec<(FileId, u64)>| list.into_iter().filter(|(_, live)| *live > 0);
    assert!(live(ours).eq(live(theirs)), "counted as it is");
}

#[test]
fn what_no_owner_tells_of_is_found_by_walking() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = updated(&context);
    let before = all(&space);
    let nowhere = |_: u64| None;
    let reclaimed = space.reclaim(u64::MAX, &nowhere).unwrap();
    assert_eq!(reclaimed.walks, reclaimed.segments);
    commit(&mut space);
    // Owners that lie wherever they like do not lead to anything wrong.
    let mut space = updated(&super::context(&super::disk(), SMALL));
    let anywhere = |owner: u64| Some(owner * 700..owner * 9000);
    let reclaimed = space.reclaim(u64::MAX, &anywhere).unwrap();
    assert!(reclaimed.segments > 0);
    assert_eq!(all(&space), before);
    commit(&mut space);
    assert_eq!(all(&space), before);
}

#[test]
fn what_is_moved_stands_apart_from_what_is_new() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = updated(&context);
    let segments = |space: &Space| space.segments().map(|(id, _)| id).collect::<Vec<_>>();
    let before = segments(&space);
    assert!(space.reclaim(u64::MAX, &home).unwrap().moved_bytes > 0);
    commit(&mut space);
    let is_new = |id: &FileId| !before.contains(id);
    let survivors: Vec<FileId> = segments(&space).into_iter().filter(is_new).collect();
    assert!(!survivors.is_empty());
    let segment_of_first = |space: &Space| {
        let first = space.tree().walk(0..1).unwrap().next().unwrap();
        segment::format::place_of(first.extent.physical).0
    };
    space.insert(0, &[7; 1000], 99).unwrap();
    let state = commit(&mut space);
    assert!(!survivors.contains(&segment_of_first(&space)), "{survivors:?}");
    let bytes = all(&space);
    assert_eq!(all(&Space::open(&context, state).unwrap()), bytes);
    // A group that is given up takes nothing of what stands in either of them.
    space.insert(0, &[8; 1000], 99).unwrap();
    space.roll_back();
    space.reclaim(u64::MAX, &home).unwrap();
    space.roll_back();
    assert_eq!(all(&space), bytes);
    space.insert(0, &[9; 10], 99).unwrap();
    commit(&mut space);
    assert_eq!(all(&space).get(10..), Some(&bytes[..]));
}
