//! Dumps of whole and of damaged segments.

use super::*;
use crate::log::testing::{append, batch, disk, io, path, spec};
use crate::log::writer::SegmentWriter;
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let disk = disk();
    let mut writer = SegmentWriter::create(&io(&disk), &path(1), &spec(1, 1024)).unwrap();
    for seq in 1..4 {
        append(&mut writer, seq, 1, &batch(seq, 1, 20), 0);
    }
    disk.contents(path(1))
}

fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    dump_segment(bytes, &mut out);
    out
}

#[test]
fn a_dump_names_every_record_and_the_zeros_behind() {
    let text = dump(&sample());
    for wanted in ["\"key1\"", "\"key2\"", "\"key3\"", "zero bytes", "segment 000001"] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    assert!(text.trim_end().ends_with("001024: # end of file"));
}

#[test]
fn a_dump_goes_on_behind_damage() {
    let mut bytes = sample();
    bytes[90] ^= 1; // the header of the first frame
    let text = dump(&bytes);
    assert!(text.contains("no frame here") && !text.contains("\"key1\""), "{text}");
    assert!(text.contains("\"key2\"") && text.contains("\"key3\""), "{text}");
    let mut bytes = sample();
    bytes[80 + 40] ^= 1; // the payload of the first frame
    let text = dump(&bytes);
    assert!(text.contains("does not match its checksum") && text.contains("\"key2\""), "{text}");
}

proptest! {
    #[test]
    fn hostile_bytes_are_shown_to_the_end(junk: Vec<u8>, from in 0usize..1024) {
        let mut bytes = sample();
        for (place, byte) in bytes.iter_mut().skip(from).zip(&junk) {
            *place = *byte;
        }
        for bytes in [&bytes, &junk] {
            let wanted = format!("{:06}: # end of file", bytes.len());
            prop_assert!(dump(bytes).trim_end().ends_with(&wanted));
        }
    }
}
