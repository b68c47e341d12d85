//! `demo`: the engine's main job on real input, checked at every step. Stores a folder of files,
//! reads them back and compares, scans, merges, changes a part, overwrites another and collects
//! the garbage, verifies: once with all values in the index, and once for each strategy with those
//! that are worth it in the value log, side by side. In the last store it has a writing process
//! killed in the middle and recovers. Then it prints what all of it took. Any difference fails it.

mod crash;
mod files;
mod folder;
mod report;

use std::path::{Path, PathBuf};

use cleavedb::{Db, Options, Stats, StrategyKind};

use crate::args::Demo;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress;
use crate::store::{self, Access};

pub use crash::write_until_killed;

use files::Contents;
use report::{Overwrite, Report, Space, Way};

/// Values from here on go to the value log, in all stores but the first.
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
    let kept = args.creation.strategy.unwrap_or_default();
    let separated = |strategy| Way { separate_at: Some(SEPARATE_AT), strategy };
    // Inline values are the same under every strategy.
    let mut others = vec![Way { separate_at: None, strategy: kept }];
    let strategies = StrategyKind::ALL.into_iter().filter(|strategy| *strategy != kept);
    others.extend(strategies.map(separated));
    for way in others {
        let beside = tempfile::tempdir_in(dir.parent().unwrap_or(dir)).map_err(|error| {
            Failure::usage(format!("no directory for another store beside '{}' ({error})", {
                dir.display()
            }))
        })?;
        report.begin(way);
        use_store(args, folder, &beside.path().join("store"), &found.files, &mut report, false)?;
    }
    report.begin(separated(kept));
    use_store(args, folder, dir, &found.files, &mut report, true)?;
    Ok(report)
}

/// Everything that happens to one store. In the last one, a writer is killed.
fn use_store(
    args: &Demo,
    folder: &Path,
    dir: &Path,
    files: &[PathBuf],
    report: &mut Report,
    is_last: bool,
) -> Result<()> {
    let Way { separate_at, strategy } = report.way();
    let open = |access| {
        let options = Options::new().memory_budget(args.memory_budget).strategy(strategy);
        store::open_with(options, dir, access)
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
    overwrite(&db, &mut contents, report)?;
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
    if is_last {
        crash::kill_and_recover(args, dir, &open, report)?;
    }
    let db = open(Access::Write)?;
    contents.read_back(&db, "read at end", report)?;
    verify(&db, report)?;
    Ok(db.close()?)
}

/// Overwrites a part and gives back the room of what that superseded.
fn overwrite(db: &Db, contents: &mut Contents, report: &mut Report) -> Result<()> {
    db.wait_idle()?;
    let before = db.stats();
    contents.overwrite(db, report)?;
    report.timed("settle", || {
        db.compact()?;
        db.reclaim(None, &mut |_| {})?;
        Ok(db.wait_idle()?)
    })?;
    let after = db.stats();
    let written = |stats: &Stats| stats.bytes_written.values().sum::<u64>();
    let since = |of: fn(&Stats) -> u64| of(&after) - of(&before);
    report.set_overwrite(Overwrite {
        user_bytes_written: since(|stats| stats.user_bytes_written),
        bytes_written: written(&after) - written(&before),
        bytes_moved: since(|stats| stats.collection.bytes_moved),
        index_reads: since(|stats| stats.collection.index_reads),
        index_writes: since(|stats| stats.collection.index_writes),
    });
    Ok(())
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
