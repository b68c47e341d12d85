//! The experiment's plots: sizes over updates, disk over the seconds after deletes, scans over
//! updates. One line for each engine.

use super::tables::{Run, Seen, loaded};
use super::{DELETE, OVERWRITE, REST, SCANS, TIMES, scan_label, updates_until};
use crate::experiments::execute::PartResult;
use crate::page::series::Series;

const MIB: f64 = (1 << 20) as f64;

/// All plots of what was run.
pub(crate) fn plots(results: &[PartResult]) -> Vec<Series> {
    let mut plots: Vec<Series> = Vec::new();
    let mut add = |empty: Series, engine: &str, points: Vec<(f64, f64)>| {
        if points.is_empty() {
            return;
        }
        let line = (engine.to_owned(), points);
        match plots.iter_mut().find(|plot| plot.title == empty.title) {
            Some(plot) => plot.lines.push(line),
            None => plots.push(Series { lines: vec![line], ..empty }),
        }
    };
    for run in Run::all(results) {
        let (name, data, num) = (&run.part.name, run.data_bytes(), run.part.plan.num as f64);
        let seen = run.samples(OVERWRITE);
        let over = |of: fn(&Seen) -> f64, all: f64| -> Vec<(f64, f64)> {
            let points = seen.iter().map(|one| (one.operations / num, of(one) / all));
            points.filter(|(_, y)| *y > 0.0).collect()
        };
        let updates = "updates of each item";
        let title = format!("{name}: value files by those of the load");
        let values = Series::new(title, updates, run.bound());
        add(values, run.engine, over(|one| one.values, loaded(&seen)));
        let folder = Series::new(format!("{name}: whole folder by data"), updates, None);
        add(folder, run.engine, over(|one| one.folder, data));
        let title = format!("{name}: MiB on disk");
        let resting = run.samples(REST);
        let before = run.samples(DELETE).first().map(|one| (0.0, one.folder / MIB));
        let points = resting.iter().map(|one| (one.seconds, one.folder / MIB));
        let points = before.filter(|_| !resting.is_empty()).into_iter().chain(points);
        add(Series::new(title, "seconds left to itself", None), run.engine, points.collect());
        for (pairs, _) in SCANS {
            let rate = |time| {
                let figures = run.step(&scan_label(pairs, Some(time)))?;
                Some((updates_until(time), figures.get("megabytes_per_second")?.as_f64()?))
            };
            let points = (0..=TIMES).filter_map(rate).collect();
            let title = format!("{name}: scans of {pairs}, MB/s");
            add(Series::new(title, updates, None), run.engine, points);
        }
    }
    plots
}
