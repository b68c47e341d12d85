//! Golden file, format page and dumps of damaged tables.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::base::checksum::Rolling;
use crate::base::compress::Compression;
use crate::base::entry::Kind;
use crate::base::tombstone::RangeTombstone;
use crate::table::meta::TableMeta;
use crate::table::testing::{Bench, Item, UUID, expected, get, item, tombstone};
use crate::table::verify::VerifyEvent;

fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    dump_table(bytes, &mut text).unwrap();
    text
}

/// The table of the golden file; its bytes must never change while the format number stays.
fn golden_table() -> Vec<u8> {
    let bench = Bench::new();
    write_golden(&bench);
    bench.bytes(1234)
}

fn write_golden(bench: &Bench) -> (TableMeta, Vec<Item>, Vec<RangeTombstone>) {
    let items = [
        item(b"apple", 7, Kind::Put, b"green"),
        item(b"apple", 3, Kind::Put, b"red"),
        item(b"applet", 4, Kind::Delete, b""),
        item(b"banana", 12, Kind::PutSeparated, b"<handle of 16 B>"),
        item(b"counter", 300, Kind::Merge, b"+1"),
        item(b"counter", 299, Kind::Merge, b"+1"),
        item(b"counter", 70000, Kind::Put, b"0"),
        item(b"date", 9, Kind::PutBare, b""),
        item(b"elderberry", 10, Kind::Put, &[b'e'; 150]),
    ];
    let mut items = items.to_vec();
    items.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
    let tombstones = [tombstone(b"f", b"g", 11), tombstone(b"banana", b"blueberry", 5)];
    let options = Bench::options(1234, Compression::Lz4, 61);
    let meta = bench.write(options, &items, &tombstones).unwrap();
    (meta, items, tombstones.to_vec())
}

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/format").join(name)
}

#[expect(clippy::disallowed_methods, reason = "the golden file lies in the source tree")]
fn read(name: &str) -> Vec<u8> {
    std::fs::read(docs(name)).unwrap_or_default()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file lies in the source tree")]
fn the_golden_file_is_what_is_written_and_its_dump_what_is_shown() {
    let bytes = golden_table();
    let text = dump(&bytes);
    assert!(text.contains("# padding"), "no block ends with its page");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(docs("golden")).unwrap();
        std::fs::write(docs("golden/table-v2.bin"), &bytes).unwrap();
        std::fs::write(docs("golden/table-v2.txt"), &text).unwrap();
    }
    assert!(read("golden/table-v2.bin") == bytes, "the bytes of a table changed");
    assert_eq!(String::from_utf8(read("golden/table-v2.txt")).unwrap(), text);
}

/// What was written when each format was made stays readable, however tables are written today.
#[test]
fn the_golden_files_open_and_answer() {
    for name in ["golden/table-v1.bin", "golden/table-v2.bin"] {
        let bench = Bench::new();
        let (meta, items, tombstones) = write_golden(&bench);
        let bytes = read(name);
        let mut checksum = Rolling::new(checksum::file_seed(&UUID, 1234));
        checksum.update(&bytes);
        let meta = TableMeta { bytes: bytes.len() as u64, checksum: checksum.value(), ..meta };
        bench.set_bytes(1234, bytes);
        let table = bench.open(&meta).unwrap();
        for Item { key, seq, .. } in &items {
            let found = get(&table, key, *seq).unwrap();
            assert_eq!(found, expected(&items, &tombstones, key, *seq));
        }
        table.verify(&mut |event| {
            assert!(!matches!(event, VerifyEvent::Problem(_)), "{name}: {event:?}");
        });
    }
}

/// Every row `| OFFSET | SIZE | MEANING |` of the page whose meaning names a constant.
#[test]
fn the_page_gives_the_offsets_of_the_code() {
    use crate::table::format::*;
    let page = String::from_utf8(read("table.md")).unwrap();
    let rows = [
        (0, 8, "magic `CLVTABLE`"),
        (HEADER_VERSION_AT, 4, "format version"),
        (HEADER_KIND_AT, 4, "file kind"),
        (HEADER_UUID_AT, 16, "database uuid"),
        (HEADER_FILE_AT, 8, "file number"),
        (HEADER_KEYSPACE_AT, 4, "keyspace number"),
        (HEADER_CRC_AT, 4, "checksum of bytes 0 to 43"),
        (0, 16, "filter: offset, length"),
        (16, 16, "range tombstones: offset, length"),
        (32, 16, "index: offset, length"),
        (48, 16, "properties: offset, length"),
        (FOOTER_VERSION_AT, 4, "format version"),
        (FOOTER_CRC_AT, 4, "checksum of bytes 0 to 67"),
        (FOOTER_MAGIC_AT, 8, "magic `CLVTBEND`"),
    ];
    for (offset, size, meaning) in rows {
        let row = format!("| {offset} | {size} | {meaning}");
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    for (what, number) in [
        ("header", HEADER_BYTES),
        ("footer", FOOTER_BYTES),
        ("trailer", TRAILER_BYTES),
        ("expansion", EXPANSION_MAX),
        ("restart point to the next", RESTART_INTERVAL_MAX),
        ("bytes of padding", PADDING_BYTES_MAX),
    ] {
        let fact = format!("{what}: {number}");
        assert!(page.contains(&fact), "the page lacks: {fact}");
    }
    assert!(page.contains(&format!("format {VERSION}")));
    let example = page.lines().find(|line| line.starts_with("000048: ")).unwrap();
    assert!(dump(&golden_table()).contains(example), "the worked example is not in the dump");
}

#[test]
fn a_dump_covers_every_byte() {
    let bytes = golden_table();
    let text = dump(&bytes);
    let mut expected = 0;
    for line in text.lines() {
        let (offset, rest) = line.split_once(": ").unwrap();
        assert_eq!(offset.parse::<usize>().unwrap(), expected, "{line}");
        let hex = rest.split(['#', ' ']).next().unwrap();
        let (shown, more) = hex.split_once("..+").unwrap_or((hex, "0"));
        expected += shown.len() / 2 + more.parse::<usize>().unwrap();
    }
    assert_eq!(expected, bytes.len());
}

proptest! {
    #[test]
    fn damage_does_not_stop_a_dump(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..6),
        cut in any::<prop::sample::Index>(),
        cuts: bool,
    ) {
        let mut bytes = golden_table();
        for (at, mask) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        prop_assert!(dump(&bytes).ends_with("end of file\n"));
    }

    #[test]
    fn arbitrary_bytes_can_be_dumped(bytes: Vec<u8>) {
        prop_assert!(dump(&bytes).ends_with("end of file\n"));
    }
}
