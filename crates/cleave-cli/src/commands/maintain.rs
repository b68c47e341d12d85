//! `verify`, `compact`, `reclaim`, `checkpoint`.

use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use cleavedb::{ErrorKind, Problem, VerifyReport};

use crate::args::{Checkpoint, Compact, Reclaim};
use crate::bytes;
use crate::failure::{Failure, Result};
use crate::output::{Output, done};
use crate::progress;
use crate::store::{self, Access};

/// `cleave verify`
pub fn verify(dir: &Path, json: bool) -> Result<()> {
    let db = match store::try_open(dir, Access::Read)? {
        Ok(db) => db,
        // Damage that keeps the store from opening is a finding like any other.
        Err(error) if error.kind() == ErrorKind::Corruption => {
            let report =
                VerifyReport { problems: vec![finding(&error)], ..VerifyReport::default() };
            return show(&report, json);
        }
        Err(error) => return Err(store::explain(dir, error)),
    };
    let bar = progress::bytes("verify", 0);
    let report = db.verify(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    show(&report?, json)
}

fn finding(error: &cleavedb::Error) -> Problem {
    Problem {
        file: error.file().map(Path::to_path_buf),
        offset: error.offset(),
        message: error.message().to_owned(),
    }
}

/// Prints the report. Findings decide the exit code, even where nobody reads to the end.
fn show(report: &VerifyReport, json: bool) -> Result<()> {
    let printed = print(report, json);
    if report.problems.is_empty() { printed } else { Err(Failure::told()) }
}

fn print(report: &VerifyReport, json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
        out.json(report)?;
    } else {
        for problem in &report.problems {
            let place = match (&problem.file, problem.offset) {
                (Some(file), Some(offset)) => format!("{} at offset {offset}: ", file.display()),
                (Some(file), None) => format!("{}: ", file.display()),
                (None, _) => String::new(),
            };
            out.line(format_args!("{place}{}", problem.message))?;
        }
        let verdict = match report.problems.len() {
            0 => "sound".to_owned(),
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        out.line(format_args!(
            "{verdict}: {} files, {}, {} entries checked",
            report.files,
            cleavedb_bench::report::bytes(report.bytes),
            report.entries
        ))?;
    }
    out.finish()
}

/// `cleave compact`
pub fn compact(args: &Compact, json: bool) -> Result<()> {
    let parse = |bound: &Option<std::ffi::OsString>| {
        bound.as_ref().map(|bound| bytes::parse(bound, args.hex)).transpose()
    };
    let (from, to) = (parse(&args.from)?, parse(&args.to)?);
    let db = store::open(&args.dir, Access::Write)?;
    let bar = progress::spinner("compact");
    let named = args.keyspace.as_deref();
    let in_range = from.is_some() || to.is_some();
    if named.is_none() && !in_range {
        db.compact()?;
    } else {
        let name = named.unwrap_or(store::DEFAULT_KEYSPACE);
        if let Some(keyspace) = store::existing(&db, name)? {
            if in_range {
                let from = from.map_or(Bound::Unbounded, Bound::Included);
                let to = to.map_or(Bound::Unbounded, Bound::Excluded);
                keyspace.compact_range((from, to))?;
            } else {
                keyspace.compact()?;
            }
        }
    }
    db.close()?;
    bar.finish_and_clear();
    done(json)
}

/// `cleave reclaim`
pub fn reclaim(args: &Reclaim, json: bool) -> Result<()> {
    let db = store::open(&args.dir, Access::Write)?;
    let bar = progress::spinner("reclaim: bytes freed");
    let limit = args.seconds.map(Duration::from_secs);
    let reclaimed = db.reclaim(limit, &mut |so_far| bar.set_position(so_far.bytes_freed))?;
    db.close()?;
    bar.finish_and_clear();
    let mut out = Output::new();
    if json {
        out.json(&reclaimed)?;
    } else {
        let size = cleavedb_bench::report::bytes;
        let rest = if reclaimed.is_complete { "" } else { "; the time was up" };
        out.line(format_args!(
            "{} files removed, {} freed, {} of live values moved{rest}",
            reclaimed.files,
            size(reclaimed.bytes_freed),
            size(reclaimed.bytes_moved)
        ))?;
    }
    out.finish()
}

/// `cleave checkpoint`
pub fn checkpoint(args: &Checkpoint, json: bool) -> Result<()> {
    let db = store::open(&args.dir, Access::Write)?;
    db.checkpoint(&args.target)?;
    db.close()?;
    done(json)
}
