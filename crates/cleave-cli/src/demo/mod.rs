//! `demo`: the engine's main job on real input, checked at every step. Stores a folder of files,
//! reads them back and compares, scans, merges, changes a part, verifies: once with all values in
//! the index and once with those that are worth it in the value log, side by side. In the second
//! store it has a writing process killed in the middle and recovers. Then it prints what all of it
//! took. Any difference fails it.

mod crash;
mod files;
mod folder;
mod report;

use std::path::{Path, PathBuf};

use cleavedb::{Db, Options};

use crate::args::Demo;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress;
use crate::store::{self, Access};

pub use crash::write_until_killed;

use files::Contents;
use report::{Report, Space};

/// Values from here on go to the value log, in the second store.
const SEPARATE_AT: u32 = 1 << 10;

/// `cleave demo`
pub fn demo(args: Demo, json: bool) -> Result<()> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => folder::repository()?,
    };
    let temporary = match &args.dir {
        Some(dir) => {
            refuse_used(dir)?;
            None
        }
        None => Some(tempfile::tempdir().map_err(|error| {
            Failure::usage(format!("no temporary directory ({error}); name one with --dir"))
        })?),
    };
    let dir = match (&args.dir, &temporary) {
        (Some(dir), _) => dir.clone(),
        (None, Some(temporary)) => temporary.path().join("store"),
        (None, None) => return Err(Failure::usage("no directory for the store")),
    };
    let report = run(&args, &folder, &dir)?;
    let printed = print(&report, json);
    match report.differences.first() {
        None => printed,
        // Even where nobody read the report to its end.
        Some(first) => Err(Failure::no(format!(
            "demo found {} differences, the first: {first}",
            report.differences.len()
        ))),
    }
}

fn print(report: &Report, json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
        out.json(report)?;
    } else {
        out.bytes(report.to_string().as_bytes())?;
    }
    out.finish()
}

/// The demo deletes and overwrites, so it works on a store of its own.
fn refuse_used(dir: &Path) -> Result<()> {
    let used = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if used || dir.is_file() {
        return Err(Failure::usage(format!(
            "'{}' is not empty; name a new directory with --dir",
            dir.display()
        )));
    }
    Ok(())
}

fn run(args: &Demo, folder: &Path, dir: &Path) -> Result<Report> {
    let found = folder::find(folder, dir, args.max_bytes)?;
    let mut report = Report::new(folder.to_path_buf(), found.skipped);
    let inline = tempfile::tempdir_in(dir.parent().unwrap_or(dir)).map_err(|error| {
        Failure::usage(format!("no directory for the other store beside '{}' ({error})", {
            dir.display()
        }))
    })?;
    report.begin("inline", None);
    use_store(args, folder, &inline.path().join("store"), &found.files, &mut report)?;
    drop(inline);
    report.begin("separated", Some(SEPARATE_AT));
    use_store(args, folder, dir, &found.files, &mut report)?;
    Ok(report)
}

/// Everything that happens to one store.
fn use_store(
    args: &Demo,
    folder: &Path,
    dir: &Path,
    files: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    let separate_at = report.separate_at();
    let open = |access| {
        // Inline values are the same under every strategy.
        let options = separate_at.map_or_else(Options::new, |_| args.creation.options());
        store::open_with(options.memory_budget(args.memory_budget), dir, access)
    };
    let db = open(Access::Create)?;
    let mut contents = Contents::new(separate_at);
    contents.store(&db, folder, files, report)?;
    contents.read_back(&db, "read back", report)?;
    contents.read_together(&db, report)?;
    contents.scan(&db, report)?;
    contents.tally(&db, report)?;
    contents.change(&db, report)?;
    report.timed("compact", || Ok(db.compact()?))?;
    contents.read_back(&db, "read changed", report)?;
    let stats = db.stats();
    report.set_space(Space {
        user_bytes_written: stats.user_bytes_written,
        bytes_written: stats.bytes_written.values().sum(),
        live_bytes: stats.live_bytes,
        disk_bytes: stats.disk_bytes,
        write_amplification: stats.write_amplification,
        space_amplification: stats.space_amplification,
    });
    db.close()?;
    if separate_at.is_some() {
        crash::kill_and_recover(args, dir, &open, report)?;
    }
    let db = open(Access::Write)?;
    contents.read_back(&db, "read at end", report)?;
    verify(&db, report)?;
    Ok(db.close()?)
}

fn verify(db: &Db, report: &mut Report) -> Result<()> {
    let bar = progress::bytes("verify", 0);
    let found = report.timed("verify", || {
        Ok(db.verify(&mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })?)
    })?;
    bar.finish_and_clear();
    report.set_bytes("verify", found.bytes);
    for problem in &found.problems {
        let file: PathBuf = problem.file.clone().unwrap_or_default();
        report.differ(format!("verify: {} {}", file.display(), problem.message));
    }
    report.verified_files += found.files;
    Ok(())
}
