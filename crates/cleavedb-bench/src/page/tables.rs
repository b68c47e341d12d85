//! The tables of a page.

use std::fmt::Write as _;

use crate::compare::overview::{Row, matrix};
use crate::compare::table::{cells, floor_note};
use crate::page::{Group, PERCENTILES, escape, short};
use crate::report::{bytes, waits_of};

/// Every peer and phase, the worst first; nothing where no run belongs to a round.
pub(super) fn overview(out: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    out.push_str("<h2>Overview: the better form of each side, the worst first</h2>\n");
    for why in rows.iter().filter_map(Row::invalid) {
        let _ = writeln!(
            out,
            "<p class=warn><b>INVALID</b>: {}. A peer that is slow here makes its ratios void.</p>",
            escape(&why)
        );
    }
    let _ = writeln!(out, "<p>{}</p>", escape(&floor_note(rows)));
    let matrix = matrix(rows);
    out.push_str("<p>A by B: rates / processor time for an operation.</p>\n");
    // Phases downwards: there are many more of them than engines.
    out.push_str("<div class=wide><table><tr><th>phase");
    for peer in &matrix.peers {
        let _ = write!(out, "<th>{}", escape(peer));
    }
    for (phase, cells) in &matrix.phases {
        let _ = write!(out, "\n<tr><td>{}", escape(phase));
        for cell in cells {
            let _ = write!(out, "<td>{}", escape(cell.as_deref().unwrap_or("")));
        }
    }
    out.push_str(
        "</table></div>\n<div class=wide><table><tr><th>engine<th class=text>phase\
         <th class=text>form A<th class=text>form B<th>A /s<th>B /s<th class=text>A/B<th>CPU us A\
         <th>CPU us B<th class=text>A/B<th>limit /s<th class=text>known speed of B",
    );
    for row in rows {
        out.push_str(if row.invalid().is_some() { "\n<tr class=bad>" } else { "\n<tr>" });
        for (place, cell) in cells(row).iter().enumerate() {
            let kind = if [4, 5, 7, 8, 10].contains(&place) { "" } else { " class=text" };
            let _ = write!(out, "<td{kind}>{}", escape(cell));
        }
    }
    out.push_str("</table></div>\n");
}

/// Every group's figures of one phase.
pub(super) fn phase(out: &mut String, phase: &str, groups: &[Group<'_>]) {
    out.push_str(
        "<div class=wide><table><tr><th>engine<th>/s<th>CPU us<th>p50 us<th>p99<th>p99.9<th>p99.99\
         <th>max<th>device WA<th>own WA<th>device read<th>written<th>process read<th>written\
         <th>disk\n",
    );
    for group in groups.iter().filter(|group| group.phases(phase).next().is_some()) {
        let mut row = format!("<tr><td>{}", escape(&group.name));
        let names = ["operations_per_second", "cpu_us_per_operation"].map(str::to_owned);
        let latencies = PERCENTILES.map(|name| format!("latency_us.{name}"));
        let rest = ["device_write_amplification", "write_amplification"].map(str::to_owned);
        for name in names.iter().chain(&latencies).chain(&rest) {
            let figure = group.median(phase, name);
            let _ = write!(row, "<td>{}", figure.map_or_else(|| "-".to_owned(), short));
        }
        let sizes = [
            "device_bytes.read",
            "device_bytes.written",
            "process_bytes.read",
            "process_bytes.written",
            "disk_bytes",
        ];
        for name in sizes {
            let figure = group.median(phase, name).map(|figure| bytes(figure as u64));
            let _ = write!(row, "<td>{}", figure.unwrap_or_else(|| "-".to_owned()));
        }
        let _ = writeln!(out, "{row}");
    }
    out.push_str("</table></div>\n");
}

/// The long calls of all runs of each group, with the engine's reasons.
pub(super) fn waits(out: &mut String, phase: &str, groups: &[Group<'_>]) {
    let mut rows = String::new();
    for group in groups {
        let figures: Vec<_> = group.phases(phase).collect();
        let Some(text) = waits_of(&figures) else { continue };
        let (name, runs) = (escape(&group.name), figures.len());
        let _ = writeln!(rows, "<tr><td>{name}<td>{runs}<td class=text>{}", escape(&text));
    }
    if !rows.is_empty() {
        let _ = writeln!(out, "<table><tr><th>engine<th>runs<th class=text>waits\n{rows}</table>");
    }
}
