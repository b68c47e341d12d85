//! Dumps of whole and of damaged manifests and pointers.

use super::*;
use crate::base::section::Section;
use crate::log::testing::{DIR, UUID, disk, io};
use crate::manifest::{Edit, Manifest};
use std::path::Path;

#[test]
fn dumps_name_sections_and_survive_damage() {
    let disk = disk();
    let section = |tag, payload: &[u8]| Section { tag, payload: payload.to_vec() };
    let snapshot = vec![section(SectionTag::ENGINE, b"first")];
    let mut manifest = Manifest::create(&io(&disk), Path::new(DIR), UUID, snapshot).unwrap();
    let sections = vec![section(SectionTag::LSM, b"table"), section(SectionTag(0x8123), b"later")];
    manifest.append(&Edit { sections }).unwrap();
    let bytes = disk.contents("/db/000001.man");
    let mut text = String::new();
    dump_manifest(&bytes, &mut text);
    for wanted in ["edit 1", "edit 2", "section: engine", "section: lsm", "(unknown, optional)"] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    for at in 0..bytes.len().min(400) {
        let mut bad = bytes.clone();
        bad[at] ^= 0xff;
        let mut text = String::new();
        dump_manifest(&bad, &mut text);
        assert!(text.trim_end().ends_with("end of file"));
    }
}

#[test]
fn a_pointer_dump_says_what_is_wrong() {
    let disk = disk();
    drop(Manifest::create(&io(&disk), Path::new(DIR), UUID, Vec::new()).unwrap());
    let mut bytes = disk.contents("/db/CURRENT");
    let dump = |bytes: &[u8]| {
        let mut text = String::new();
        dump_current(bytes, &mut text);
        text
    };
    assert!(dump(&bytes).contains("Current: manifest 000001"));
    bytes[20] ^= 1;
    assert!(dump(&bytes).contains("does not match its checksum"));
    assert!(dump(&bytes[..10]).contains("bad pointer file"));
    bytes.extend_from_slice(b"junk");
    assert!(dump(&bytes).contains("do not belong here"));
}
