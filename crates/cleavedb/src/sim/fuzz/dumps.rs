//! The annotated dumps, which must work on anything.

use crate::base::names::FileKind;
use crate::deltas::bucket::dump::dump_bucket;
use crate::index::flex::pages::dump::dump_pages;
use crate::index::flex::space::log::dump::dump_log;
use crate::index::flex::space::segment::dump::dump_space_segment;
use crate::log::dump::dump_segment;
use crate::log::dump::values::dump_values;
use crate::manifest::dump::{dump_current, dump_manifest};
use crate::table::dump::dump_table;
use crate::values::drops::spilled::dump::dump_facts;
use crate::values::large::dump::dump_large;
use crate::values::table::dump::dump_value_table;

use super::OURS;
use super::buckets::mend_bucket;
use super::facts_file::mend_facts;
use super::flex_pages::mend_pages;
use super::large::mend_large;
use super::logs::mend_segment;
use super::tables::mend_table;
use super::value_tables::mend_value_table;

/// Any file, given to every dump. Accepted where it begins with a magic number of ours.
pub fn dump(data: &[u8]) -> bool {
    let (mut segment, mut table) = (data.to_vec(), data.to_vec());
    let (mut values, mut large) = (data.to_vec(), data.to_vec());
    let (mut value_table, mut bucket) = (data.to_vec(), data.to_vec());
    let (mut pages, mut facts) = (data.to_vec(), data.to_vec());
    mend_facts(&mut facts, OURS);
    mend_pages(&mut pages, OURS);
    mend_bucket(&mut bucket, OURS);
    mend_value_table(&mut value_table, OURS);
    mend_segment(&mut values, FileKind::Value, OURS);
    mend_segment(&mut segment, FileKind::Journal, OURS);
    mend_table(&mut table, OURS);
    mend_large(&mut large, OURS);
    let dump_table = |bytes: &[u8], out: &mut String| {
        let _ = dump_table(bytes, out);
    };
    let dumps: [fn(&[u8], &mut String); 12] = [
        dump_bucket,
        dump_facts,
        dump_pages,
        dump_log,
        dump_space_segment,
        dump_segment,
        dump_values,
        dump_large,
        dump_value_table,
        dump_manifest,
        dump_current,
        dump_table,
    ];
    let mended = [&segment, &table, &values, &large, &value_table, &bucket, &pages, &facts];
    for bytes in std::iter::once(data).chain(mended.map(Vec::as_slice)) {
        for dump in dumps {
            let mut out = String::new();
            dump(bytes, &mut out);
            assert!(!out.is_empty(), "a dump says nothing");
            // A line shows 16 bytes at most and repeats keys escaped: bounded by the input.
            let lines = out.lines().count();
            assert!(lines <= 64 + 2 * bytes.len(), "{lines} lines for {} bytes", bytes.len());
        }
    }
    data.starts_with(b"CLV")
}
