//! Round trips of footers, hostile payloads, contradictions.

use super::*;
use proptest::prelude::*;

/// (hash, step of the seq, gap, bytes above the least, key bytes, value bytes)
type Step = (u64, u64, u64, u32, u32, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (any::<u64>(), 1..1000u64, 0..5000u64, 0..70_000u32, 0..17u32, 0..=VALUE_BYTES_MAX as u32);
    proptest::collection::vec(step, 0..40)
}

fn build(steps: &[Step]) -> (FooterBuilder, Vec<Line>) {
    let mut builder = FooterBuilder::default();
    let (mut seq, mut end, mut lines) = (40, 120, Vec::new());
    for &(hash, step, gap, extra, key_bytes, value_bytes) in steps {
        seq += step;
        let bytes = SEPARATED_BYTES_MIN as u32 + key_bytes + extra;
        let line = Line { hash, seq, offset: end + gap, bytes };
        builder.add(line, key_bytes, value_bytes);
        end = line.offset + u64::from(bytes);
        lines.push(line);
    }
    (builder, lines)
}

proptest! {
    #[test]
    fn footers_round_trip(steps in steps()) {
        let (builder, lines) = build(&steps);
        prop_assert!(builder.memory_bytes() >= lines.len() * LINE_BYTES_MIN);
        let payload = builder.encode().unwrap();
        let footer = Footer::decode(&payload).unwrap();
        prop_assert_eq!(footer.totals, builder.totals());
        prop_assert_eq!(footer.totals.records, lines.len() as u64);
        let values: u64 = steps.iter().map(|step| u64::from(step.5)).sum();
        prop_assert_eq!(footer.totals.value_bytes, values);
        let keys: u64 = steps.iter().map(|step| u64::from(step.4)).sum();
        prop_assert_eq!(footer.totals.key_bytes, keys);
        prop_assert_eq!(footer.totals.smallest_seq, lines.first().map_or(0, |line| line.seq));
        prop_assert_eq!(footer.totals.largest_seq, lines.last().map_or(0, |line| line.seq));
        prop_assert_eq!(footer.lines, lines);
        let length = payload.last_chunk::<FOOTER_LENGTH_BYTES>().unwrap();
        prop_assert_eq!(u32::from_le_bytes(*length) as usize, payload.len());
        for cut in 0..payload.len() {
            prop_assert!(Footer::decode(&payload[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn hostile_payloads_are_refused_or_sound(mut payload: Vec<u8>) {
        for _ in 0..2 {
            if let Ok(footer) = Footer::decode(&payload) {
                let bytes: u64 = footer.lines.iter().map(|line| u64::from(line.bytes)).sum();
                prop_assert_eq!(bytes, footer.totals.record_bytes);
                prop_assert_eq!(footer.lines.len() as u64, footer.totals.records);
            }
            // Past the version, too.
            if let Some(first) = payload.first_mut() {
                *first = VERSION;
            }
        }
    }
}

/// A footer of one line with one number changed.
fn forged(change: impl FnOnce(&mut [u64; 9])) -> Result<Footer> {
    // records, record bytes, key bytes, value bytes, smallest seq, seqs; line: seq, gap, bytes
    let mut numbers = [1, 30, 3, 10, 7, 0, 0, 120, 30];
    change(&mut numbers);
    let mut payload = vec![VERSION];
    for (place, number) in numbers.into_iter().enumerate() {
        if place == 6 {
            payload.extend_from_slice(&[9; 8]);
        }
        put_varint(&mut payload, number);
    }
    let bytes = (payload.len() + FOOTER_LENGTH_BYTES) as u32;
    payload.extend_from_slice(&bytes.to_le_bytes());
    Footer::decode(&payload)
}

#[test]
fn contradictions_are_refused() {
    let line = Line { hash: u64::from_le_bytes([9; 8]), seq: 7, offset: 120, bytes: 30 };
    assert_eq!(forged(|_| {}).unwrap().lines, [line]);
    assert!(forged(|n| n[0] = 2).is_err(), "a record that is not listed");
    assert!(forged(|n| n[0] = u64::MAX).is_err(), "no allocation for a count");
    assert!(forged(|n| n[0] = 0).is_err(), "a line that is not counted");
    assert!(forged(|n| n[1] = 31).is_err(), "another sum of bytes");
    assert!(forged(|n| n[2] = 30 - SEPARATED_BYTES_MIN as u64).is_ok(), "nothing but the key");
    assert!(forged(|n| n[2] = 31 - SEPARATED_BYTES_MIN as u64).is_err(), "no room for the keys");
    assert!(forged(|n| n[3] = VALUE_BYTES_MAX as u64 + 1).is_err(), "a value longer than any");
    assert!(forged(|n| n[4] = 0).is_err(), "seq zero");
    assert!(forged(|n| n[4] = SEQ_MAX + 1).is_err(), "a seq beyond all seqs");
    assert!(forged(|n| n[5] = 1).is_err(), "another largest seq");
    assert!(forged(|n| n[5] = u64::MAX).is_err(), "a sum of seqs that overflows");
    assert!(forged(|n| n[6] = 1).is_err(), "a first line with a step");
    assert!(forged(|n| n[7] = u64::MAX).is_err(), "an end that overflows");
    let short = SEPARATED_BYTES_MIN as u64 - 1;
    assert!(forged(|n| (n[1], n[8]) = (short, short)).is_err(), "shorter than any record");
}

#[test]
fn a_seq_is_not_listed_twice() {
    let (builder, _) = build(&[(1, 1, 0, 0, 0, 0), (2, 1, 0, 0, 0, 0), (3, 2, 0, 0, 0, 0)]);
    let mut payload = builder.encode().unwrap();
    assert!(Footer::decode(&payload).is_ok());
    // Version and totals are 7 bytes, a line 11, of which the first 8 are the hash.
    let (second, third) = (7 + 11 + 8, 7 + 22 + 8);
    assert_eq!((payload[second], payload[third]), (1, 2));
    (payload[second], payload[third]) = (0, 3);
    assert!(Footer::decode(&payload).is_err());
}

#[test]
fn a_later_version_is_refused_by_name() {
    let mut payload = FooterBuilder::default().encode().unwrap();
    assert_eq!(Footer::decode(&payload).unwrap().totals, Totals::default());
    payload[0] = 2;
    assert_eq!(Footer::decode(&payload).unwrap_err().kind(), ErrorKind::Unsupported);
}
