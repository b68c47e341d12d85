//! Entries for fuzzing: one function per decoder, each taking arbitrary bytes. Only with feature
//! `sim`; called by the targets in `fuzz/` and by the replay test on stable.
//!
//! Invariants: Z1 no input makes an entry panic, loop, or allocate beyond what its length
//! justifies. Z2 where a checksum would stop a mutated input, an entry offers it twice: as it is,
//! and with its checksums made right. Z3 what decodes is encoded and decoded again and must be the
//! same.

mod buckets;
mod directory;
mod dumps;
mod facts;
mod facts_file;
mod flex_intervals;
mod flex_pages;
mod flex_space;
mod large;
mod locator;
mod logs;
mod map;
mod operands;
mod sections;
mod seeds;
mod tables;
mod value_tables;
mod values;

pub use buckets::bucket;
pub use directory::open_directory;
pub use dumps::dump;
pub use facts_file::facts_file;
pub use flex_intervals::flex_intervals;
pub use flex_pages::flex_pages;
pub use flex_space::{flex_log, flex_segment};
pub use large::large_value;
pub use locator::locator;
pub use logs::{batch_payload, manifest_edit, manifest_file, pointer, segment};
pub use map::map;
pub use operands::merge_operators;
pub use sections::manifest_sections;
pub use seeds::seeds;
pub use tables::{
    table_block, table_file, table_filter, table_footer, table_index, table_meta, table_properties,
    table_tombstones,
};
pub use value_tables::value_table;
pub use values::{value_footer, value_handle, value_record, value_segment};

/// An entry; returns whether the input was accepted as valid.
pub type Entry = fn(&[u8]) -> bool;

/// All entries by name; fuzz targets and corpus folders have the same names.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("segment", segment),
    ("batch_payload", batch_payload),
    ("manifest_edit", manifest_edit),
    ("manifest_file", manifest_file),
    ("manifest_sections", manifest_sections),
    ("pointer", pointer),
    ("table_block", table_block),
    ("table_file", table_file),
    ("table_filter", table_filter),
    ("table_footer", table_footer),
    ("table_index", table_index),
    ("table_meta", table_meta),
    ("table_properties", table_properties),
    ("table_tombstones", table_tombstones),
    ("bucket", bucket),
    ("facts_file", facts_file),
    ("flex_intervals", flex_intervals),
    ("flex_log", flex_log),
    ("flex_pages", flex_pages),
    ("flex_segment", flex_segment),
    ("large_value", large_value),
    ("locator", locator),
    ("map", map),
    ("value_footer", value_footer),
    ("value_handle", value_handle),
    ("value_record", value_record),
    ("value_segment", value_segment),
    ("value_table", value_table),
    ("merge_operators", merge_operators),
    ("dump", dump),
    ("open_directory", open_directory),
];

/// Database of every file that an entry reads.
const UUID: [u8; 16] = *b"fuzzing database";

/// Number of the file that an entry reads.
const FILE: crate::base::entry::FileId = crate::base::entry::FileId(7);

/// Which database and file the checksums of a file are bound to.
#[derive(Clone, Copy)]
struct Identity {
    uuid: [u8; 16],
    file: crate::base::entry::FileId,
}

/// Identity of the file that an entry reads.
const OURS: Identity = Identity { uuid: UUID, file: FILE };

impl Identity {
    fn seed(self) -> u32 {
        crate::base::checksum::file_seed(&self.uuid, self.file.0)
    }
}

/// A simulated world with one folder and, where given, one file of these bytes in it.
fn world(
    kind: crate::base::names::FileKind,
    bytes: Option<&[u8]>,
) -> (crate::io::Io, crate::io::memory_disk::MemoryDisk, std::path::PathBuf) {
    let disk = crate::io::memory_disk::MemoryDisk::new();
    let io = crate::io::Io::simulated(crate::base::sync::Arc::new(disk.clone()));
    let folder = std::path::Path::new("/fuzz");
    let path = folder.join(crate::base::names::file_name(kind, FILE));
    let made = io.disk.create_dir(folder);
    let written = bytes.map_or(Ok(()), |bytes| disk.replace(&path, bytes));
    assert!(made.is_ok() && written.is_ok(), "the memory disk refuses a file");
    (io, disk, path)
}

/// Overwrites bytes where they fit.
fn overwrite(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..new.len())) {
        place.copy_from_slice(new);
    }
}

/// The array at `at`, zeros where the bytes end before.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
