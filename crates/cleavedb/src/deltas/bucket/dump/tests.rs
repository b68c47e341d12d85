//! The dump of a golden file, and of damaged ones.

use super::*;
use crate::deltas::testing::{Bench, Line, anchor, delta, lowest, range};
use crate::log::format::FORMAT_VERSION;
use crate::log::testing::check_golden;

fn dumped(bytes: &[u8]) -> String {
    let mut out = String::new();
    dump_bucket(bytes, &mut out);
    out
}

/// Two pages, a range anchor, two chunks.
fn golden_bytes() -> Vec<u8> {
    let bench = Bench::new();
    let lines: [Line; 3] = [
        (b"apple", vec![delta(9, b"+5"), anchor(7), delta(4, b"-1")]),
        (b"apricot", vec![delta(8, &[b'x'; 40])]),
        (b"banana", vec![delta(6, b"+12")]),
    ];
    let mut plan = Bench::plan(18, lowest(), 12);
    plan.ranges = vec![range(b"a", b"b", 5)];
    let bucket = bench.write(plan, &lines).unwrap();
    let chunk: [Line; 2] =
        [(b"apple", vec![delta(21, b"+1"), anchor(20)]), (b"fig", vec![delta(23, b"+7")])];
    let bucket = bench.append(&bucket, &chunk, &[]).unwrap();
    let chunk: [Line; 1] = [(b"apple", vec![delta(31, b"+2")])];
    bench.append(&bucket, &chunk, &[range(b"b", b"c", 30)]).unwrap();
    bench.disk.contents(Bench::path(18))
}

#[test]
fn golden() {
    let bytes = golden_bytes();
    check_golden("bucket", FORMAT_VERSION, &bytes, &dumped(&bytes));
}

#[test]
fn every_byte_of_a_bucket_has_a_meaning() {
    let text = dumped(&golden_bytes());
    assert!(!text.contains("not understood") && !text.contains("damaged"), "{text}");
}

#[test]
fn damage_is_named_and_the_rest_is_shown() {
    let bytes = golden_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x11;
        let text = dumped(&damaged);
        assert!(text.ends_with("# end of file\n"), "byte {at}");
        assert!(text.contains("bad ") || text.contains("damaged") || text.contains("no chunk"));
        assert!(dumped(&bytes[..at]).ends_with("# end of file\n"), "{at} bytes");
    }
    let mut damaged = bytes.clone();
    damaged[70] ^= 1;
    let text = dumped(&damaged);
    assert_eq!(text.matches(", damaged").count(), 1, "{text}");
    assert!(text.contains("chunk of"), "{text}");
    // What no edit committed: the dump cannot know, and says so.
    let text = dumped(&[bytes.as_slice(), b"lost"].concat());
    assert!(text.contains("not understood, or not committed"), "{text}");
}
