//! `export`: all pairs of a keyspace at one moment, as lines that `load` reads.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::args::{Export, ExportFormat};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress;
use crate::records::{LineFormat, encode};
use crate::store::{self, Access};

#[derive(Serialize)]
struct Summary {
    pairs: u64,
    bytes: u64,
}

/// `cleave export`
pub fn export(args: &Export, json: bool) -> Result<()> {
    let format = match (args.format, args.file.as_deref().and_then(Path::extension)) {
        (Some(ExportFormat::Tsv), _) => LineFormat::Tsv,
        (None, Some(extension)) if extension == "tsv" || extension == "tab" => LineFormat::Tsv,
        _ => LineFormat::Json,
    };
    let db = store::open(&args.place.dir, Access::Read)?;
    let keyspace = store::existing(&db, &args.place.keyspace)?;
    let pairs = keyspace.map(|keyspace| db.snapshot().prefix(&keyspace, b""));
    let lines = pairs.into_iter().flatten().map(|pair| {
        let (key, value) = pair?;
        Ok(encode(format, &key, Some(&value), args.place.hex))
    });
    match args.file.as_deref().map(destination).transpose()? {
        None | Some(Destination::Stdout) => to_stdout(lines),
        Some(Destination::Stream(path)) => write_lines(&path, &Kind::Stream, lines).map(drop),
        Some(Destination::File(path)) => to_file(&path, lines, json),
    }
}

/// Where the lines go.
enum Destination {
    /// Standard output.
    Stdout,
    /// A device or pipe, which is written into.
    Stream(PathBuf),
    /// A file, which is replaced when all lines are there.
    File(PathBuf),
}

/// How a path is written to.
enum Kind {
    Stream,
    File,
}

/// What the argument stands for. A link stays one: it is its target that is replaced.
fn destination(file: &Path) -> Result<Destination> {
    if file.as_os_str() == "-" {
        return Ok(Destination::Stdout);
    }
    let told = |error: std::io::Error| Failure::file("looking at", file, &error);
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => {
            Err(Failure::usage(format!("{} is a folder; name a file to write", file.display())))
        }
        Ok(found) if !found.is_file() => Ok(Destination::Stream(file.to_owned())),
        Ok(_) => fs::canonicalize(file).map(Destination::File).map_err(told),
        // A link that leads nowhere yet makes its target.
        Err(_) => match fs::read_link(file) {
            Ok(target) => Ok(Destination::File(match file.parent() {
                Some(folder) => folder.join(target),
                None => target,
            })),
            Err(_) => Ok(Destination::File(file.to_owned())),
        },
    }
}

fn to_stdout(lines: impl Iterator<Item = Result<String>>) -> Result<()> {
    let mut out = Output::new();
    for line in lines {
        out.line(line?)?;
    }
    out.finish()
}

/// Writes beside the file and renames, so that a failed export leaves the old file alone.
fn to_file(file: &Path, lines: impl Iterator<Item = Result<String>>, json: bool) -> Result<()> {
    let temporary = beside(file);
    let outcome = write_lines(&temporary, &Kind::File, lines).and_then(|summary| {
        fs::rename(&temporary, file)
            .map_err(|error| Failure::file("renaming to", file, &error))
            .map(|()| summary)
    });
    if outcome.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    let summary = outcome?;
    let mut out = Output::new();
    if json {
        out.json(&summary)?;
    } else {
        let bytes = cleavedb_bench::report::bytes(summary.bytes);
        out.line(format_args!("wrote {} pairs, {bytes}", summary.pairs))?;
    }
    out.finish()
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().map_or_else(|| OsString::from("export"), OsString::from);
    name.push(format!(".{}.tmp", std::process::id()));
    file.with_file_name(name)
}

fn write_lines(
    path: &Path,
    kind: &Kind,
    lines: impl Iterator<Item = Result<String>>,
) -> Result<Summary> {
    let told = |error: std::io::Error| Failure::file("writing", path, &error);
    let opened = match kind {
        Kind::Stream => OpenOptions::new().write(true).open(path),
        Kind::File => File::create(path),
    };
    let mut out = BufWriter::new(opened.map_err(told)?);
    let mut summary = Summary { pairs: 0, bytes: 0 };
    let bar = progress::spinner("export");
    for line in lines {
        let line = line?;
        out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(told)?;
        summary.pairs += 1;
        summary.bytes += line.len() as u64 + 1;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let file = out.into_inner().map_err(|error| told(error.into_error()))?;
    if matches!(kind, Kind::File) {
        file.sync_all().map_err(told)?;
    }
    Ok(summary)
}
