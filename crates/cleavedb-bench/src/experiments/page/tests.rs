//! What stands on an experiment's page.

use serde_json::json;

use super::*;
use crate::experiments::{Scale, find};

fn report(phases: &[(&str, &str, f64)]) -> Value {
    let labels: Vec<_> = phases.iter().map(|(label, ..)| *label).collect();
    let figures = |rate: f64| {
        json!({"operations_per_second": rate, "megabytes_per_second": rate / 10.0,
            "device_write_amplification": 1.5})
    };
    let figures = phases.iter().map(|(_, phase, rate)| {
        let mut figures = figures(*rate);
        figures["phase"] = json!(phase);
        figures
    });
    json!({"labels": labels, "phases": figures.collect::<Vec<_>>()})
}

fn results() -> Vec<PartResult> {
    let experiment = find("values", Scale::new(1e-12).unwrap()).unwrap();
    let loads = experiment.parts.iter().filter(|part| part.name.contains("1 thread, buffered"));
    let loaded = loads.enumerate().map(|(place, part)| {
        let rate = 1_000.0 * (place + 1) as f64;
        let bare = ("barewrites", "barewrites", 2.0 * rate);
        let reports = vec![report(&[bare, ("fillrandom", "fillrandom", rate)])];
        let refused = Came::NotRun("not <there>".to_owned());
        let by_engine =
            vec![("one".to_owned(), Came::Reports(reports)), ("two".to_owned(), refused)];
        PartResult { part: part.clone(), by_engine }
    });
    let mut results: Vec<_> = loaded.collect();
    let gets = experiment.parts.iter().find(|part| part.name.starts_with("cold")).unwrap();
    let reports = vec![report(&[("bare reads", "barereads", 9.0), ("gets", "readonce", 7.0)])];
    let by_engine = vec![("one".to_owned(), Came::Reports(reports))];
    results.push(PartResult { part: gets.clone(), by_engine });
    results
}

#[test]
fn parts_of_a_curve_share_a_plot_with_what_the_device_did() {
    let plots = curves(&results());
    let [rate, amplification] = plots.as_slice() else { panic!("{plots:?}") };
    assert_eq!(rate.title, "load, 1 thread, buffered: fillrandom, MB/s");
    let sizes = [1_024.0, 4_096.0, 16_384.0];
    let line = |factor: f64| (0..3).map(|n| (sizes[n], factor * (n + 1) as f64)).collect();
    let expected: [(String, Vec<(f64, f64)>); 2] =
        [("one".to_owned(), line(100.0)), ("barewrites, beside one".to_owned(), line(200.0))];
    assert_eq!(rate.lines, expected);
    assert!(amplification.title.ends_with("device write amplification"));
    assert_eq!(amplification.lines.len(), 1);
}

#[test]
fn steps_that_differ_in_a_number_make_a_curve() {
    let mut results = results();
    let scans: [(&str, &str, f64); 4] = [
        ("fillrandom", "fillrandom", 9.0),
        ("scan 10", "seekrandom", 8.0),
        ("scan 20", "seekrandom", 7.0),
        ("scan 50", "seekrandom", 5.0),
    ];
    let part = results.last_mut().unwrap();
    part.by_engine = vec![("one".to_owned(), Came::Reports(vec![report(&scans)]))];
    let name = part.part.name.clone();
    let plots = steps(&results);
    let [plot] = plots.as_slice() else { panic!("{plots:?}") };
    assert_eq!(plot.title, format!("{name}: scan, operations a second"));
    assert_eq!(plot.axis, "scan");
    assert_eq!(plot.lines, [("one".to_owned(), vec![(10.0, 8.0), (20.0, 7.0), (50.0, 5.0)])]);
}

#[test]
fn text_and_plots_stand_on_the_page() {
    let text = "# values by 1\n\nwords\n- a <list>\n\n| part | a |\n|---|---:|\n| x | 1.5 |\n\n\
                ## Longest calls\n\n| part |\n|---|\n| y |\n";
    let page = page(text, &results()).unwrap();
    assert_eq!(page.matches("<svg").count(), 3, "{page}");
    for shown in [
        "<h1>values by 1</h1>",
        "<li>a &lt;list&gt;",
        "<tr><th class=text>part<th class=text>a\n<tr><td class=text>x<td>1.5\n</table>",
        "<h2>Longest calls</h2>",
        "one, gets",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
}
