//! Full disks that have refused a delete, or writes after them, under a Flex index.

use super::*;

#[test]
fn garbage_that_is_left_alone_does_not_take_the_reserve() {
    let seed = 8_589_934_593;
    sweep(&Form::base(), seed).unwrap();
}

#[test]
fn no_segment_takes_more_than_a_part_of_the_reserve() {
    sweep(&Form::drawn(LARGE_SEGMENT), LARGE_SEGMENT).unwrap();
}

#[test]
fn garbage_in_the_segment_that_is_written_to_is_got_back() {
    let seed = 10_984_824_164_228_765_150;
    sweep(&Form::drawn(seed), seed).unwrap();
}
