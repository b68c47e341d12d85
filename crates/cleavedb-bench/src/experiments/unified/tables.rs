//! The experiment's own tables: space over the time of overwriting, disk after deletes, scans over
//! updates, opening after a kill.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    COMPACT, DELETE, LEFT_SHARE, OVERWRITE, REST, SCANS, SEGMENT_BYTES, TIMES, scan_label,
    updates_until,
};
use crate::experiments::execute::{Came, PartResult};
use crate::experiments::table::labelled;
use crate::experiments::{Part, Step};
use crate::report::bytes;

/// A part on one engine.
pub(super) struct Run<'a> {
    pub(super) part: &'a Part,
    pub(super) engine: &'a str,
    reports: &'a [Value],
}

impl<'a> Run<'a> {
    /// All that were run.
    pub(super) fn all(results: &'a [PartResult]) -> impl Iterator<Item = Self> {
        results.iter().flat_map(|result| {
            result.by_engine.iter().filter_map(|(engine, came)| match came {
                Came::Reports(reports) => Some(Self { part: &result.part, engine, reports }),
                Came::NotRun(_) => None,
            })
        })
    }

    /// The figures of a step.
    pub(super) fn step(&self, label: &str) -> Option<&'a Value> {
        let mut steps = self.reports.iter().flat_map(labelled);
        steps.find(|(name, _)| *name == label).map(|(_, figures)| figures)
    }

    /// What was seen during a step.
    pub(super) fn samples(&self, label: &str) -> Vec<Seen> {
        let samples = self.step(label).and_then(|figures| figures.get("samples")?.as_array());
        samples.into_iter().flatten().map(Seen::of).collect()
    }

    /// Bytes of keys and values of the load.
    pub(super) fn data_bytes(&self) -> f64 {
        self.part.data_bytes() as f64
    }

    pub(super) fn bound(&self) -> Option<f64> {
        self.part.plan.settings.tuning.space_amplification_max
    }

    fn row(&self, cells: &[String]) -> String {
        format!("| {} | {} | {} |\n", self.part.name, self.engine, cells.join(" | "))
    }
}

/// What was seen at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "only plots ask for it"))]
    pub(super) operations: f64,
    pub(super) seconds: f64,
    pub(super) folder: f64,
    files: f64,
    pub(super) values: f64,
    live: f64,
    written: f64,
}

impl Seen {
    fn of(sample: &Value) -> Self {
        let at = |name: &str| sample.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        Self {
            operations: at("operations"),
            seconds: at("seconds"),
            folder: at("folder_bytes"),
            files: at("disk_bytes"),
            values: at("value_file_bytes"),
            live: at("value_live_bytes"),
            written: at("bytes_written"),
        }
    }
}

/// Bytes of the files with values apart that the load left, before anything was overwritten: all
/// live, with the headers that its records have in any case.
pub(super) fn loaded(seen: &[Seen]) -> f64 {
    seen.first().map_or(0.0, |first| first.values)
}

/// Bytes of garbage that are allowed under any bound.
pub(super) fn allowance(part: &Part) -> f64 {
    let scaled = part.plan.settings.tuning.separated_file_bytes;
    // Without the feature no engine takes the size that was asked for.
    let segment = scaled.filter(|_| cfg!(feature = "widths")).unwrap_or(SEGMENT_BYTES);
    2.0 * segment as f64
}

fn at(figures: &Value, pointer: &str) -> Option<f64> {
    figures.pointer(pointer)?.as_f64()
}

fn shown(figure: Option<f64>) -> String {
    match figure.filter(|figure| figure.is_finite()) {
        Some(figure) if figure.abs() >= 100.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.2}"),
        None => "-".to_owned(),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn size(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| bytes(figure as u64))
}

/// Most, mean and last of some figures; nothing where there is none.
fn course(figures: &[f64]) -> [Option<f64>; 3] {
    let most = figures.iter().copied().reduce(f64::max);
    let mean = most.map(|_| figures.iter().sum::<f64>() / figures.len() as f64);
    [most, mean, figures.last().copied()]
}

/// Share of the samples of which something is true; nothing where there is no sample.
fn share(seen: &[Seen], is: impl Fn(&Seen) -> bool) -> Option<f64> {
    let count = seen.iter().filter(|one| is(one)).count();
    (!seen.is_empty()).then(|| count as f64 / seen.len() as f64)
}

/// All tables that have something to say.
pub(crate) fn markdown(results: &[PartResult]) -> String {
    let runs: Vec<_> = Run::all(results).collect();
    let mut out = String::new();
    let tables = [
        (
            "Space while everything is overwritten",
            OVERWRITES.replace('\n', " "),
            overwritten as fn(&Run<'_>) -> String,
        ),
        ("Disk after deletes, nothing called", DELETES.replace('\n', " "), deleted),
        ("Scans over updates, MB/s", scan_heading(), scanned),
        ("Opening after a kill", OPENINGS.replace('\n', " "), opened),
    ];
    for (title, heading, rows) in tables {
        let rows: String = runs.iter().map(rows).collect();
        if !rows.is_empty() {
            let columns = heading.matches('|').count().saturating_sub(3);
            let rule = format!("|---|---|{}", "---:|".repeat(columns));
            let _ = write!(out, "\n## {title}\n\n{heading}\n{rule}\n{rows}");
        }
    }
    out
}

const OVERWRITES: &str = "\
| part | engine | samples | value files by those of the load, most | mean | last | after settling
| value files by live records as known, most | last | above the bound, by those of the load
| the same with two files of garbage allowed | above the bound, as known
| whole folder by data, most | mean | last | put p99.9 us | put p99.99 us | bytes moved
| written by collection | WA, own account | WA, device |";

fn overwritten(run: &Run<'_>) -> String {
    let seen = run.samples(OVERWRITE);
    let Some(figures) = run.step(OVERWRITE).filter(|_| !seen.is_empty()) else {
        return String::new();
    };
    let (data, bound, allowed) = (run.data_bytes(), run.bound(), allowance(run.part));
    // An engine without such files has all in the others.
    let apart: Vec<_> = seen.iter().copied().filter(|one| one.values > 0.0).collect();
    let loaded = loaded(&seen);
    let by = |of: fn(&Seen) -> f64, seen: &[Seen], all: f64| -> Vec<f64> {
        seen.iter().map(|one| of(one) / all).collect()
    };
    let [values_most, values_mean, values_last] = course(&by(|one| one.values, &apart, loaded));
    let known = apart.iter().filter(|one| one.live > 0.0).map(|one| one.values / one.live);
    let [known_most, _, known_last] = course(&known.collect::<Vec<_>>());
    let [folder_most, folder_mean, folder_last] = course(&by(|one| one.folder, &seen, data));
    let settled = at(figures, "/value_file_bytes").filter(|all| *all > 0.0);
    let settled = settled.map(|all| all / loaded);
    let above = |of: &dyn Fn(f64, &Seen) -> bool| {
        bound.and_then(|bound| share(&apart, |one| of(bound, one)))
    };
    let whole = |pointer| size(at(figures, pointer));
    run.row(&[
        seen.len().to_string(),
        shown(values_most),
        shown(values_mean),
        shown(values_last),
        shown(settled),
        shown(known_most),
        shown(known_last),
        percent(above(&|bound, one| one.values > bound * loaded)),
        percent(above(&|bound, one| one.values > bound * loaded + allowed)),
        percent(above(&|bound, one| one.values > bound * one.live)),
        shown(folder_most),
        shown(folder_mean),
        shown(folder_last),
        shown(at(figures, "/latency_us/p999")),
        shown(at(figures, "/latency_us/p9999")),
        whole("/collection/bytes_moved"),
        whole("/collection/bytes_written"),
        shown(at(figures, "/write_amplification").filter(|figure| *figure > 0.0)),
        shown(at(figures, "/device_write_amplification")),
    ])
}

const DELETES: &str = "\
| part | engine | folder before | when the call was back | at rest | of before | below 5 % after s
| files by its own account before | at rest | of before | below 5 % after s | value files at rest
| last change after s | at rest | bytes moved | written meanwhile |";

fn deleted(run: &Run<'_>) -> String {
    let (during, resting) = (run.samples(DELETE), run.samples(REST));
    let ends = during.first().zip(during.last()).zip(resting.last());
    let Some(((before, back), last)) = ends else { return String::new() };
    let (delete, rest) = (run.step(DELETE), run.step(REST));
    let cut_short = rest.and_then(|figures| figures.get("cut_short")?.as_bool()) == Some(true);
    let sum = |pointer| {
        let both = [delete, rest].into_iter().flatten().filter_map(|figures| at(figures, pointer));
        both.reduce(|one, other| one + other)
    };
    let few = |of: fn(&Seen) -> f64| {
        let few = resting.iter().find(|one| of(one) < LEFT_SHARE * of(before));
        few.map_or_else(|| "never".to_owned(), |one| shown(Some(one.seconds)))
    };
    run.row(&[
        size(Some(before.folder)),
        size(Some(back.folder)),
        size(Some(last.folder)),
        percent(Some(last.folder / before.folder)),
        few(|one| one.folder),
        size(Some(before.files)),
        size(Some(last.files)),
        percent(Some(last.files / before.files)),
        few(|one| one.files),
        size(Some(last.values)),
        shown(Some(last_change(&resting))),
        if cut_short { "no, time was up" } else { "yes" }.to_owned(),
        size(sum("/collection/bytes_moved")),
        size(sum("/engine_bytes_written")),
    ])
}

/// Seconds until the last change of what was seen; 0 where there was none.
fn last_change(seen: &[Seen]) -> f64 {
    let sizes = |one: &Seen| [one.folder, one.files, one.values, one.live, one.written];
    let pairs = seen.windows(2).filter_map(|pair| Some((pair.first()?, pair.last()?)));
    let mut changed = pairs.filter(|(before, after)| sizes(before) != sizes(after));
    changed.next_back().map_or(0.0, |(_, after)| after.seconds)
}

fn scan_heading() -> String {
    let times: String =
        (0..=TIMES).map(|time| format!("{} updates of each | ", updates_until(time))).collect();
    format!(
        "| part | engine | pairs of a scan | {times}last by first | compacted | by first \
         | written during updates and rests | compact() s | written by it | by data |"
    )
}

fn scanned(run: &Run<'_>) -> String {
    let rate = |pairs, time| at(run.step(&scan_label(pairs, time))?, "/megabytes_per_second");
    let mut out = String::new();
    for (pairs, _) in SCANS {
        let Some(first) = rate(pairs, Some(0)) else { continue };
        let by_first = |rate: Option<f64>| shown(rate.map(|rate| rate / first));
        let (last, compacted) = (rate(pairs, Some(TIMES)), rate(pairs, None));
        let compact = |pointer| run.step(COMPACT).and_then(|figures| at(figures, pointer));
        let mut cells = vec![pairs.to_string()];
        cells.extend((0..=TIMES).map(|time| shown(rate(pairs, Some(time)))));
        let written = compact("/engine_bytes_written").filter(|written| *written > 0.0);
        let written = written.or_else(|| compact("/device_bytes/written"));
        cells.extend([
            by_first(last),
            shown(compacted),
            by_first(compacted),
            size(Some(written_meanwhile(run))),
            shown(compact("/seconds")),
            size(written),
            shown(written.map(|written| written / run.data_bytes())),
        ]);
        out.push_str(&run.row(&cells));
    }
    out
}

/// Bytes written between the load and compaction, by the engine's account or the kernel's.
fn written_meanwhile(run: &Run<'_>) -> f64 {
    let labels = run.part.steps.iter().filter_map(|step| match step {
        Step::Run { label, .. } if label != COMPACT => Some(label.as_str()),
        _ => None,
    });
    let written = |label| {
        let figures = run.step(label)?;
        let own = at(figures, "/engine_bytes_written").filter(|own| *own > 0.0);
        own.or_else(|| at(figures, "/device_bytes/written"))
    };
    labels.skip(1).filter_map(written).sum()
}

const OPENINGS: &str = "\
| part | engine | keys | folder | open s | first right get s | resident before | after that get
| after the gets | engine's memory after that get | after the gets | locator bytes after that get
| after the gets | locator keys after the gets | gets | found | gets /s | get p99 us |";

fn opened(run: &Run<'_>) -> String {
    let left = run.reports.iter().find(|report| at(report, "/open_seconds").is_some());
    let Some(report) = left else { return String::new() };
    let gets = |pointer: &str| at(report, &format!("/phases/0{pointer}"));
    let whole = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |f| format!("{f:.0}"));
    let locator = |pointer| at(report, pointer).filter(|bytes| *bytes > 0.0);
    let seconds = |pointer| at(report, pointer).map(|seconds| format!("{seconds:.3}"));
    run.row(&[
        run.part.plan.num.to_string(),
        size(gets("/disk_bytes")),
        seconds("/open_seconds").unwrap_or_default(),
        seconds("/first_get_seconds").unwrap_or_default(),
        size(at(report, "/recovered/resident_bytes/0")),
        size(at(report, "/recovered/resident_bytes/1")),
        size(at(report, "/resident_memory_bytes")),
        size(at(report, "/recovered/memory_bytes")),
        size(gets("/memory_bytes")),
        size(locator("/recovered/opened/values/locator/bytes")),
        size(locator("/engine_stats/values/locator/bytes")),
        whole(locator("/engine_stats/values/locator/keys")),
        whole(gets("/operations")),
        whole(gets("/found")),
        whole(gets("/operations_per_second")),
        shown(gets("/latency_us/p99")),
    ])
}

#[cfg(test)]
mod tests;
