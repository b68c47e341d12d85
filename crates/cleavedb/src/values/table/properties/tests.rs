//! Properties come back as they were written; sums that no records have are refused.

use super::*;

fn edge(keyspace: u32, key: &[u8]) -> EdgeKey {
    EdgeKey { keyspace: KeyspaceId(keyspace), key: key.into() }
}

fn properties() -> Properties {
    let source = |file, records, bytes| Source { file: FileId(file), records, bytes };
    Properties {
        totals: Totals {
            records: 5,
            record_bytes: 400,
            key_bytes: 30,
            value_bytes: 700,
            smallest_seq: 7,
            largest_seq: 8,
        },
        edges: Some((edge(1, b""), edge(2, b"zebra"))),
        sources: vec![source(3, 2, 150), source(4, 0, 0), source(900, 3, 250)],
    }
}

#[test]
fn properties_come_back() {
    let bytes = properties().encode();
    assert_eq!(Properties::decode(&bytes, 448).unwrap(), properties());
    assert_eq!(properties().source(FileId(900)).map(|source| source.records), Some(3));
    assert_eq!(properties().source(FileId(5)), None);
    for length in 0..bytes.len() {
        assert!(Properties::decode(&bytes[..length], 448).is_err(), "{length} bytes");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(Properties::decode(&longer, 448).is_err());
    let sources = vec![Source { file: FileId(3), records: 0, bytes: 0 }];
    let nothing = Properties { sources, ..Properties::default() };
    assert_eq!(Properties::decode(&nothing.encode(), 0).unwrap(), nothing);
}

#[test]
fn what_no_table_holds_is_refused() {
    let refused = |properties: &Properties, region_bytes| {
        assert!(Properties::decode(&properties.encode(), region_bytes).is_err(), "{properties:?}");
    };
    refused(&properties(), 399);
    refused(&properties(), 400 + 5 * 15 + 1);
    refused(&properties(), 0);
    let totals = |change: fn(&mut Totals)| {
        let mut wrong = properties();
        change(&mut wrong.totals);
        wrong
    };
    refused(&totals(|totals| totals.records = 6), 448);
    refused(&totals(|totals| totals.record_bytes = 401), 448);
    refused(&totals(|totals| totals.key_bytes = 350), 448);
    refused(&totals(|totals| totals.value_bytes = 6 << 28), 448);
    refused(&totals(|totals| totals.smallest_seq = 0), 448);
    refused(&totals(|totals| totals.largest_seq = SEQ_MAX + 1), 448);
    let reversed = Some((edge(2, b"zebra"), edge(1, b"")));
    refused(&Properties { edges: reversed, ..properties() }, 448);
    refused(&Properties { edges: Some((edge(0, b""), edge(2, b"z"))), ..properties() }, 448);
    let mut overflowing = properties();
    overflowing.sources[0].bytes = u64::MAX;
    refused(&overflowing, 448);
    let mut twice = properties();
    twice.sources[1].file = FileId(3);
    refused(&twice, 448);
}

#[test]
fn a_count_of_files_justifies_no_allocation() {
    let mut bytes = Vec::new();
    Totals::default().encode(&mut bytes);
    put_varint(&mut bytes, u64::MAX);
    assert!(Properties::decode(&bytes, 0).is_err());
}
