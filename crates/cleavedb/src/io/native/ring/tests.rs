//! What a read makes of each kind of completion.

use super::*;

fn plain(len: usize) -> Slot {
    let into = Into::Caller(vec![0; len]);
    Slot { descriptor: -1, offset: 0, into, filled: 0, direct: false, retries: 0, result: Ok(()) }
}

fn direct(wanted: usize, skip: usize) -> Slot {
    let buffer = AlignedBuffer::zeroed((skip + wanted).next_multiple_of(DIRECT_ALIGN));
    Slot { into: Into::Aligned { buffer, skip, caller: vec![0; wanted] }, direct: true, ..plain(0) }
}

fn failure(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

fn error_kind(slot: &Slot) -> Option<io::ErrorKind> {
    slot.result.as_ref().err().map(io::Error::kind)
}

#[test]
fn a_short_read_goes_on_where_it_ended() {
    let mut slot = plain(100);
    assert!(slot.complete(60) == Next::Again);
    assert_eq!((slot.filled, slot.rest().len()), (60, 40));
    assert!(slot.complete(40) == Next::Done);
    assert_eq!(error_kind(&slot), None);
}

#[test]
fn nothing_more_is_the_end_of_the_file() {
    let mut slot = plain(100);
    assert!(slot.complete(60) == Next::Again);
    assert!(slot.complete(0) == Next::Done);
    assert_eq!(error_kind(&slot), Some(io::ErrorKind::UnexpectedEof));
}

#[test]
fn interruptions_are_tried_again_but_not_for_ever() {
    let mut slot = plain(10);
    for errno in [Errno::INTR, Errno::AGAIN].into_iter().cycle().take(RETRIES_MAX as usize - 1) {
        assert!(slot.complete(failure(errno)) == Next::Again);
    }
    assert!(slot.complete(failure(Errno::INTR)) == Next::Done);
    assert_eq!(error_kind(&slot), Some(io::ErrorKind::Interrupted));
}

#[test]
fn an_error_ends_the_read_at_once() {
    let mut slot = plain(10);
    assert!(slot.complete(failure(Errno::IO)) == Next::Done);
    assert_eq!(slot.result.unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
}

#[test]
fn a_direct_read_that_ends_inside_a_page_has_met_the_end() {
    let mut slot = direct(6_000, 100);
    assert!(slot.complete(4_096) == Next::Again, "a page boundary says nothing");
    assert!(slot.complete(500) == Next::Done);
    assert_eq!(error_kind(&slot), Some(io::ErrorKind::UnexpectedEof));

    let mut enough = direct(6_000, 100);
    assert!(enough.complete(6_100) == Next::Done, "past what was wanted, the end is no matter");
    assert_eq!(error_kind(&enough), None);
}
