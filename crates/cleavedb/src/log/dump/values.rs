//! The annotated dump of a value segment: separated records field by field, with what their proof
//! says, and the footer line by line. Pure functions over the bytes of one file.

use crate::base::checksum::file_seed;
use crate::base::codec::{Reader, varint_len};
use crate::base::error::Result;
use crate::log::batch::{BatchReader, Separated};
use crate::log::dump::{Annotator, describe_batch, describe_record, dump_frames};
use crate::log::footer::{FOOTER_LENGTH_BYTES, Footer, Totals};
use crate::log::format::{FrameHeader, FrameKind, segment_offset};

/// Dumps a value segment.
pub(crate) fn dump_values(bytes: &[u8], out: &mut String) {
    let seed = stated_seed(bytes).unwrap_or_default();
    dump_frames(bytes, out, &|lines, header, payload| match header.kind {
        FrameKind::Data => describe_values(lines, header, payload, seed),
        FrameKind::Footer => describe_footer(lines, payload),
        FrameKind::Synced => describe_batch(lines, header, payload),
    });
}

/// The seed of a file that says who it is.
fn stated_seed(bytes: &[u8]) -> Result<u32> {
    let mut stated = Reader::new(bytes.get(segment_offset::UUID..).unwrap_or_default());
    let uuid = stated.uuid()?;
    Ok(file_seed(&uuid, stated.u64()?))
}

/// Shows the records of a batch: inline ones a line each, separated ones in parts.
fn describe_values(lines: &mut Annotator<'_>, header: &FrameHeader, payload: &[u8], seed: u32) {
    let mut records = BatchReader::of_values(payload, header.count, None);
    let mut seq = header.base_seq;
    loop {
        let before = records.rest_bytes();
        match records.next() {
            Some(Ok(record)) => {
                match record.separated {
                    Some(separated) => describe_separated(lines, &separated, seq, seed),
                    None => {
                        let length = before - records.rest_bytes();
                        lines.field(length, describe_record(&record, seq));
                    }
                }
                seq += 1;
            }
            Some(Err(error)) => {
                lines.note(format_args!("bad record: {error}"));
                return;
            }
            None => return,
        }
    }
}

fn describe_separated(
    lines: &mut Annotator<'_>,
    separated: &Separated<'_>,
    wanted_seq: u64,
    seed: u32,
) {
    let record = separated.record;
    let holds = record.holds_at(seed, lines.offset()) && record.seq == wanted_seq;
    let (space, key, stored) = (record.keyspace.0, record.key.escape_ascii(), record.stored.len());
    let how = match record.compression() {
        Ok(how) => format!("{how:?}"),
        Err(error) => error.to_string(),
    };
    let value_bytes = record.value_bytes;
    lines.field(
        record.head_bytes(),
        format_args!(
            "seq {wanted_seq}: PutSeparated keyspace {space} \"{key}\", value of {value_bytes} \
             bytes in {stored} ({how})"
        ),
    );
    lines.field(8, format_args!("its seq {}", record.seq));
    lines.field(4, if holds { "its checksum" } else { "its checksum, which does not hold" });
    lines.field(stored, "stored bytes");
}

/// Shows a footer, as far as it is one.
fn describe_footer(lines: &mut Annotator<'_>, payload: &[u8]) {
    let footer = match Footer::decode(payload) {
        Ok(footer) => footer,
        Err(error) => {
            lines.note(format_args!("bad footer: {error}"));
            return;
        }
    };
    let Totals { records, record_bytes, key_bytes, value_bytes, smallest_seq, largest_seq } =
        footer.totals;
    lines.field(1, "version of the footer");
    for (number, what) in [
        (records, "records"),
        (record_bytes, "bytes of records"),
        (key_bytes, "bytes of keys"),
        (value_bytes, "bytes of values"),
    ] {
        lines.field(varint_len(number), format_args!("{number} {what}"));
    }
    lines.field(varint_len(smallest_seq), format_args!("smallest seq {smallest_seq}"));
    lines.field(varint_len(largest_seq - smallest_seq), format_args!("largest seq {largest_seq}"));
    let (mut seq, mut end) = (smallest_seq, 0);
    for line in &footer.lines {
        let (offset, bytes) = (line.offset, line.bytes);
        let numbers = [line.seq - seq, line.offset - end, u64::from(bytes)];
        lines.field(8, format_args!("hash {:016x}", line.hash));
        lines.field(
            numbers.map(varint_len).iter().sum(),
            format_args!("seq {} at {offset:06}, {bytes} bytes", line.seq),
        );
        (seq, end) = (line.seq, line.offset + u64::from(bytes));
    }
    lines.field(FOOTER_LENGTH_BYTES, format_args!("payload of {} bytes", payload.len()));
}

#[cfg(test)]
mod tests;
