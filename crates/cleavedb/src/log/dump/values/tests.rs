//! The golden value segment, dumps of damaged ones, and what the page says of offsets.

use super::*;
use crate::base::compress::Compression;
use crate::base::entry::FileId;
use crate::base::names::FileKind;
use crate::log::dump::dump_segment;
use crate::log::format::{FORMAT_VERSION, Sealed};
use crate::log::testing::values::{ValueBatch, ValueLog, path, spec};
use crate::log::testing::{check_golden, check_page, disk, io};
use crate::log::writer::{AppendError, SegmentSpec, SegmentWriter};
use proptest::prelude::*;

/// The segment of the golden file; its bytes must not change while the format number stays.
fn golden() -> Vec<u8> {
    let disk = disk();
    let predecessor = Some(Sealed { id: FileId(9), bytes: 777, checksum: 0xdead_beef });
    let spec = SegmentSpec { predecessor, first_seq: 41, ..spec(15) };
    assert_eq!(spec.kind, FileKind::Value);
    let writer = SegmentWriter::create(&io(&disk), &path(15), &spec);
    let mut log = ValueLog {
        writer: writer.map_err(AppendError::into_error).unwrap(),
        footer: Default::default(),
        next_seq: 41,
        buffer: Vec::new(),
    };
    let plain = ValueBatch::of(b"apple", b"a value for the log", Compression::None)
        .inline(b"pear", b"small");
    log.append(&[plain]);
    // Seqs 43 to 45 went into the journal.
    log.next_seq = 46;
    log.append(&[ValueBatch::of(b"plum", &[b'x'; 100], Compression::Lz4)]);
    log.seal();
    disk.contents(path(15))
}

fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    dump_values(bytes, &mut out);
    out
}

#[test]
fn golden_value_segment() {
    let bytes = golden();
    check_golden("value-segment", FORMAT_VERSION, &bytes, &dump(&bytes));
}

#[test]
fn the_page_gives_the_offsets_of_the_code() {
    use crate::log::separated::{BOUND_BYTES, SEPARATED_BYTES_MIN};
    check_page("value-segment", &[(0, 1, "kind: 2"), (0, 1, "version: 1")]);
    assert_eq!((BOUND_BYTES, SEPARATED_BYTES_MIN), (8 + 4, 1 + 1 + 1 + 1 + 1 + 8 + 4));
}

#[test]
fn a_dump_shows_proof_and_its_absence() {
    let good = golden();
    let text = dump(&good);
    assert_eq!(text.matches("its checksum\n").count(), 2, "{text}");
    assert!(!text.contains("does not hold") && !text.contains("bad "), "{text}");
    // A record that lost its binding in a frame that holds: made by hand, the frame mended.
    let mut moved = good.clone();
    let key_at = good.windows(5).position(|window| window == b"apple").unwrap();
    moved[key_at] = b'A';
    let text = dump(&moved);
    assert!(text.contains("payload does not match its checksum"), "{text}");
    assert!(text.contains("\"plum\"") && text.contains("frame: footer"), "{text}");
    // The dump of a journal says that such records do not belong there.
    let mut out = String::new();
    dump_segment(&good, &mut out);
    assert!(out.contains("bad record: a record of kind PutSeparated in a journal"), "{out}");
}

#[test]
fn a_record_out_of_its_place_is_shown_as_such() {
    let disk = disk();
    let mut log = ValueLog::create(&io(&disk), 15);
    let mut batch = ValueBatch::of(b"apple", b"value", Compression::None);
    // What binds is left out: the record has neither seq nor proof.
    batch.slots.clear();
    log.append(&[batch]);
    let text = dump(&disk.contents(path(15)));
    assert!(text.contains("its checksum, which does not hold"), "{text}");
}

proptest! {
    #[test]
    fn hostile_bytes_are_shown_to_the_end(junk: Vec<u8>, from in 0usize..700) {
        let mut bytes = golden();
        for (place, byte) in bytes.iter_mut().skip(from).zip(&junk) {
            *place = *byte;
        }
        for bytes in [&bytes, &junk] {
            let wanted = format!("{:06}: # end of file", bytes.len());
            prop_assert!(dump(bytes).trim_end().ends_with(&wanted));
        }
    }
}
