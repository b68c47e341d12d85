//! The dump of a golden file, and of damaged ones.

use super::*;
use crate::base::compress::Compression;
use crate::log::format::FORMAT_VERSION;
use crate::log::testing::check_golden;
use crate::values::table::testing::{Bench, Item, item, some_items, sources};

fn dumped(bytes: &[u8]) -> String {
    let mut out = String::new();
    dump_value_table(bytes, &mut out);
    out
}

#[test]
fn golden() {
    let bench = Bench::new();
    let items = [
        item(1, b"apple", 44, 15, b"a value that moved"),
        item(1, b"apple", 41, 12, b"an older one"),
        Item { how: Compression::Lz4, ..item(1, b"plum", 46, 15, &[b'x'; 100]) },
        item(2, b"apple", 9, 12, b"of another keyspace"),
    ];
    let options = Bench::options(&[12, 14, 15], 48);
    bench.write(&options, &items).unwrap();
    let bytes = bench.bytes();
    bench.verify_bytes(&bytes).unwrap();
    check_golden("value-table", FORMAT_VERSION, &bytes, &dumped(&bytes));
}

#[test]
fn every_byte_of_a_table_has_a_meaning() {
    let (bench, items) = (Bench::new(), some_items());
    bench.write(&Bench::options(&sources(&items), 200), &items).unwrap();
    let text = dumped(&bench.bytes());
    assert!(!text.contains("not understood") && !text.contains("not hold"), "{text}");
    assert!(text.contains("\"..+8, value of 30"), "a long key is cut: {text}");
}

#[test]
fn damage_is_named_and_the_rest_is_shown() {
    let (bench, items) = (Bench::new(), some_items());
    let options = Bench::options(&sources(&items), 200);
    let (written, places) = bench.write(&options, &items).unwrap();
    let bytes = bench.bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x11;
        let text = dumped(&damaged);
        assert!(text.ends_with("# end of file\n"), "byte {at}");
    }
    let mut damaged = bytes.clone();
    damaged[places[1].offset as usize + 60] ^= 1;
    let text = dumped(&damaged);
    assert_eq!(text.matches("its checksum, which does not hold").count(), 1, "{text}");
    assert!(text.contains("key 009"));
    for length in (0..bytes.len()).step_by(7) {
        let text = dumped(&bytes[..length]);
        assert!(text.contains("no trailer"), "{length} bytes: {text}");
    }
    let index_at = written.sealed.bytes as usize - 64 - written.properties.encode().len() - 3;
    let mut damaged = bytes;
    damaged[index_at] ^= 1;
    assert!(dumped(&damaged).contains("index that does not match its checksum"));
}
