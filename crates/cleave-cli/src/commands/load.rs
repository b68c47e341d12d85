//! `load`: pairs from lines or from the files of a folder, in batches, durable at the end.
//!
//! A load is not one transaction: when it fails, the batches before the failure are stored, and
//! loading again stores the same pairs once more, which changes nothing.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cleavedb::{Batch, Db, Durability, KEY_BYTES_MAX, Keyspace, VALUE_BYTES_MAX};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{Load, LoadFormat};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress;
use crate::records::{LineFormat, decode};
use crate::store;

/// Operations in one batch.
const BATCH_OPERATIONS: usize = 1000;

/// Key and value bytes after which a batch is committed.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes read from a file of lines at a time.
const READ_BYTES: usize = 256 << 10;

/// What was loaded.
#[derive(Serialize)]
struct Summary {
    pairs: u64,
    bytes: u64,
    skipped: u64,
    seconds: f64,
}

/// `cleave load`
pub fn load(args: &Load, json: bool) -> Result<()> {
    let start = Instant::now();
    let format = format_of(args)?;
    let source = match format {
        LoadFormat::Folder => Source::Folder(find_files(&args.source)?),
        LoadFormat::Jsonl => Source::Lines(LineFormat::Json, open_lines(&args.source)?),
        LoadFormat::Tsv => Source::Lines(LineFormat::Tsv, open_lines(&args.source)?),
    };
    let db = store::create(&args.place.dir, &args.creation)?;
    let keyspace = store::created(&db, &args.place.keyspace)?;
    let mut loader = Loader::new(&db, keyspace);
    match source {
        Source::Folder(files) => load_files(&mut loader, &args.source, files)?,
        Source::Lines(form, lines) => load_lines(&mut loader, args, form, lines)?,
    }
    let summary = loader.finish(start)?;
    db.close()?;
    let mut out = Output::new();
    if json {
        out.json(&summary)?;
    } else {
        let skipped = match summary.skipped {
            0 => String::new(),
            count => format!(", {count} files skipped (unreadable or too large)"),
        };
        let bytes = cleavedb_bench::report::bytes(summary.bytes);
        out.line(format_args!(
            "loaded {} pairs, {bytes}, in {:.2} s{skipped}",
            summary.pairs, summary.seconds
        ))?;
    }
    out.finish()
}

enum Source {
    Folder(Vec<FoundFile>),
    Lines(LineFormat, Lines),
}

struct Lines {
    reader: Box<dyn BufRead>,
    total: Option<u64>,
}

struct FoundFile {
    path: PathBuf,
    bytes: u64,
}

fn format_of(args: &Load) -> Result<LoadFormat> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    if args.source.is_dir() {
        return Ok(LoadFormat::Folder);
    }
    match args.source.extension().and_then(|extension| extension.to_str()) {
        Some("jsonl" | "ndjson" | "json") => Ok(LoadFormat::Jsonl),
        Some("tsv" | "tab") => Ok(LoadFormat::Tsv),
        _ if args.source.as_os_str() != "-" && !args.source.exists() => {
            Err(Failure::usage(format!("there is no file or folder '{}'", args.source.display())))
        }
        _ => Err(Failure::usage(format!(
            "the form of '{}' cannot be told from its name; add --format jsonl or --format tsv",
            args.source.display()
        ))),
    }
}

fn open_lines(path: &Path) -> Result<Lines> {
    if path.as_os_str() == "-" {
        let reader = Box::new(BufReader::with_capacity(READ_BYTES, std::io::stdin()));
        return Ok(Lines { reader, total: None });
    }
    let told = |error: &std::io::Error| Failure::file("reading", path, error);
    let file = File::open(path).map_err(|error| told(&error))?;
    let metadata = file.metadata().map_err(|error| told(&error))?;
    if metadata.is_dir() {
        let path = path.display();
        return Err(Failure::usage(format!("'{path}' is a folder; load it with --format folder")));
    }
    let reader = Box::new(BufReader::with_capacity(READ_BYTES, file));
    Ok(Lines { reader, total: Some(metadata.len()) })
}

/// Collects pairs into batches.
struct Loader<'a> {
    db: &'a Db,
    keyspace: Keyspace,
    batch: Batch,
    batch_bytes: usize,
    pairs: u64,
    bytes: u64,
    skipped: u64,
}

impl<'a> Loader<'a> {
    fn new(db: &'a Db, keyspace: Keyspace) -> Self {
        let batch = db.batch();
        Self { db, keyspace, batch, batch_bytes: 0, pairs: 0, bytes: 0, skipped: 0 }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        for (what, length, most) in
            [("key", key.len(), KEY_BYTES_MAX), ("value", value.len(), VALUE_BYTES_MAX)]
        {
            if length > most {
                let message = format!("the {what} has {length} bytes, {most} is the most");
                return Err(Failure::usage(message));
            }
        }
        self.batch.put(&self.keyspace, key, value);
        self.batch_bytes += key.len() + value.len();
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if self.batch.len() >= BATCH_OPERATIONS || self.batch_bytes >= BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        Ok(self.batch.commit(Durability::Buffered)?)
    }

    fn finish(mut self, start: Instant) -> Result<Summary> {
        if !self.batch.is_empty() {
            self.commit()?;
        }
        self.db.sync()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Summary { pairs: self.pairs, bytes: self.bytes, skipped: self.skipped, seconds })
    }
}

fn load_lines(
    loader: &mut Loader<'_>,
    args: &Load,
    format: LineFormat,
    lines: Lines,
) -> Result<()> {
    let bar = match lines.total {
        Some(total) => progress::bytes("load", total),
        None => progress::spinner("load"),
    };
    let outcome = read_lines(loader, args, format, lines, &bar);
    bar.finish_and_clear();
    outcome
}

fn read_lines(
    loader: &mut Loader<'_>,
    args: &Load,
    format: LineFormat,
    mut lines: Lines,
    bar: &ProgressBar,
) -> Result<()> {
    let name = args.source.display();
    let mut line = Vec::new();
    let mut number = 0u64;
    loop {
        line.clear();
        let read = lines
            .reader
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::file("reading", &args.source, &error))?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        bar.inc(if lines.total.is_some() { read as u64 } else { 1 });
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let pair = decode(format, text, args.place.hex)
            .map_err(|problem| Failure::usage(format!("'{name}' line {number}: {problem}")))?;
        if let Some((key, value)) = pair {
            loader
                .add(&key, &value)
                .map_err(|failure| failure.context(&format!("'{name}' line {number}")))?;
        }
    }
}

/// Regular files below `folder`, in path order. What cannot be listed is left out, except
/// `folder` itself.
fn find_files(folder: &Path) -> Result<Vec<FoundFile>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(dir) = open.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if dir == folder => return Err(Failure::file("reading", folder, &error)),
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                files.push(FoundFile { path: entry.path(), bytes });
            }
        }
    }
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn load_files(loader: &mut Loader<'_>, folder: &Path, files: Vec<FoundFile>) -> Result<()> {
    let bar = progress::bytes("load", files.iter().map(|file| file.bytes).sum());
    for file in files {
        let key = file.path.strip_prefix(folder).unwrap_or(&file.path).as_os_str().as_bytes();
        let value = if file.bytes > VALUE_BYTES_MAX as u64 || key.len() > KEY_BYTES_MAX {
            None
        } else {
            fs::read(&file.path).ok()
        };
        match value {
            Some(value) => loader.add(key, &value)?,
            None => loader.skipped += 1,
        }
        bar.inc(file.bytes);
    }
    bar.finish_and_clear();
    Ok(())
}
