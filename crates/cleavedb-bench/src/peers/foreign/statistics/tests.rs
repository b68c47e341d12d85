//! Figures are found beside their names, and nothing else is taken for one.

use super::*;

const STATISTICS: &str = "\
rocksdb.block.cache.miss COUNT : 77
rocksdb.memtable.hit COUNT : 12
rocksdb.memtable.miss COUNT : 900
rocksdb.l0.hit COUNT : 3
rocksdb.l1.hit COUNT : 0
rocksdb.l2andup.hit COUNT : 85
rocksdb.db.get.micros P50 : 2.500000 P95 : 9.1 P99 : 12.0 P100 : 55.0 COUNT : 100 SUM : 431
rocksdb.blobdb.blob.file.read.micros P50 : 1.0 P95 : 2.0 P99 : 2.0 P100 : 7.0 COUNT : 88 SUM : 160
rocksdb.read.num.merge_operands P50 : 0 P95 : 2 P99 : 3 P100 : 4 COUNT : 100 SUM : 64
";

const FILES: &str = "
** File Read Latency Histogram By Level [default] **
** Level 0 read latency histogram (micros):
Count: 41 Average: 3.1463  StdDev: 1.21
Min: 1  Median: 2.7500  Max: 9
Percentiles: P50: 2.75 P75: 3.50 P99: 8.90 P99.9: 9.00 P99.99: 9.00
** Level 5 read latency histogram (micros):
Count: 230 Average: 4.0000  StdDev: 1.00
";

#[test]
fn counters_stand_beside_their_names() {
    let counters = counters(STATISTICS, FILES);
    let expected = [
        ("blob file read micros", 160),
        ("blob file reads", 88),
        ("file reads in level 0", 41),
        ("file reads in level 5", 230),
        ("get micros", 431),
        ("gets", 100),
        ("gets ended in level 0", 3),
        ("gets ended in level 1", 0),
        ("gets ended in level 2 and deeper", 85),
        ("gets ended in memtables", 12),
        ("gets of merged values", 100),
        ("operands applied", 64),
    ];
    assert_eq!(counters, expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert!(super::counters("", "").is_empty());
    let torn = "rocksdb.l0.hit COUNT\nrocksdb.l1.hit COUNT : many\n";
    assert!(super::counters(torn, "Count: 5\n** Level x\nCount: 6\n").is_empty());
}

#[test]
fn tables_tell_entries_and_operands() {
    let levels = [
        "# data blocks=2; # entries=30; # deletions=0; # merge operands=21; raw key size=720",
        "# data blocks=0; # entries=0; # deletions=0; # merge operands=0; raw key size=0",
        "no properties",
        "# data blocks=9; # entries=400; # deletions=1; # merge operands=0; raw key size=9600",
    ];
    assert_eq!(
        tables(&levels.map(str::to_owned)),
        json!([
            {"level": 0, "entries": 30, "operands": 21},
            {"level": 3, "entries": 400, "operands": 0},
        ])
    );
}
