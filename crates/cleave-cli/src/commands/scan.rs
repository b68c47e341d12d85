//! `scan` and `count`: a range of keys.

use std::ops::Bound;

use cleavedb::{Db, Keyspace, RangeIter};

use crate::args::{Bounds, Count, Place, Scan};
use crate::bytes;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::records::{LineFormat, encode};
use crate::store::{self, Access};

/// A range of keys as bytes.
enum KeyRange {
    Prefix(Vec<u8>),
    Between(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl KeyRange {
    fn parse(bounds: &Bounds, hex: bool) -> Result<Self> {
        if let Some(prefix) = &bounds.prefix {
            return Ok(Self::Prefix(bytes::parse(prefix, hex)?));
        }
        let parse = |bound: &Option<std::ffi::OsString>| {
            bound.as_ref().map(|bound| bytes::parse(bound, hex)).transpose()
        };
        let (from, to) = (parse(&bounds.from)?, parse(&bounds.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            return Err(Failure::usage(
                "--from is above --to; swap them (use --reverse to go down)",
            ));
        }
        Ok(Self::Between(
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        ))
    }

    fn open(&self, keyspace: &Keyspace) -> RangeIter {
        match self {
            Self::Prefix(prefix) => keyspace.prefix(prefix),
            Self::Between(from, to) => keyspace
                .range::<&[u8]>((from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))),
        }
    }
}

/// The store, and the pairs of the range if there is anything in the keyspace.
fn open(place: &Place, bounds: &Bounds) -> Result<(Db, Option<RangeIter>)> {
    let range = KeyRange::parse(bounds, place.hex)?;
    let db = store::open(&place.dir, Access::Read)?;
    let pairs = store::existing(&db, &place.keyspace)?.map(|keyspace| range.open(&keyspace));
    Ok((db, pairs))
}

/// `cleave scan`
pub fn scan(args: &Scan, json: bool) -> Result<()> {
    let (_db, pairs) = open(&args.place, &args.bounds)?;
    let format = if json { LineFormat::Json } else { LineFormat::Tsv };
    let hex = args.place.hex;
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut out = Output::new();
    let Some(pairs) = pairs else { return out.finish() };
    if args.keys_only {
        let mut print =
            |key: cleavedb::Result<cleavedb::Value>| out.line(encode(format, &key?, None, hex));
        if args.reverse {
            pairs.keys().rev().take(limit).try_for_each(&mut print)?;
        } else {
            pairs.keys().take(limit).try_for_each(&mut print)?;
        }
    } else {
        let mut print = |pair: cleavedb::Result<(cleavedb::Value, cleavedb::Value)>| {
            let (key, value) = pair?;
            out.line(encode(format, &key, Some(&value), hex))
        };
        if args.reverse {
            pairs.rev().take(limit).try_for_each(&mut print)?;
        } else {
            pairs.take(limit).try_for_each(&mut print)?;
        }
    }
    out.finish()
}

/// `cleave count`
pub fn count(args: &Count, json: bool) -> Result<()> {
    let (_db, pairs) = open(&args.place, &args.bounds)?;
    let mut count = 0u64;
    if let Some(pairs) = pairs {
        for key in pairs.keys() {
            key?;
            count += 1;
        }
    }
    let mut out = Output::new();
    if json {
        out.json(&serde_json::json!({ "count": count }))?;
    } else {
        out.line(count)?;
    }
    out.finish()
}
