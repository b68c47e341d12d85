//! The plots of a page, each a text in SVG.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 600;
const HEIGHT: u32 = 320;
const BAR_HEIGHT: u32 = 22;

/// Colours that are told apart on white.
const COLOURS: [RGBColor; 16] = [
    RGBColor(214, 39, 40),
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
    RGBColor(0, 0, 0),
    RGBColor(128, 0, 0),
    RGBColor(0, 0, 160),
    RGBColor(0, 96, 64),
    RGBColor(255, 0, 255),
    RGBColor(160, 130, 0),
];

/// A line with its name.
type Line = (String, Vec<(f64, f64)>);

fn colour(place: usize) -> RGBColor {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or(BLACK)
}

/// Draws on an empty plot of some size.
fn drawn(
    height: u32,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        draw(&root)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("a plot: {error}")
}

/// One bar for each name, the first at the top.
pub(super) fn bars(title: &str, figures: &[(String, f64)]) -> Result<String> {
    let most = figures.iter().map(|(_, figure)| *figure).fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return Ok(String::new());
    }
    let count = figures.len();
    let height = 70 + BAR_HEIGHT * u32::try_from(count).unwrap_or(1);
    drawn(height, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(title, ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(24)
            .build_cartesian_2d(0.0..most * 1.1, count as f64..0.0)
            .map_err(failed)?;
        chart.configure_mesh().disable_y_mesh().disable_y_axis().draw().map_err(failed)?;
        let bars = figures.iter().enumerate().map(|(place, (_, figure))| {
            let top = place as f64;
            let colour = colour(place).mix(0.5).filled();
            Rectangle::new([(0.0, top + 0.1), (*figure, top + 0.9)], colour)
        });
        chart.draw_series(bars).map_err(failed)?;
        let names = figures.iter().enumerate().map(|(place, (name, figure))| {
            let at = (most * 0.01, place as f64 + 0.25);
            Text::new(format!("{name}: {figure:.1}"), at, ("sans-serif", 13))
        });
        chart.draw_series(names).map_err(failed)?;
        Ok(())
    })
}

/// Latency percentiles on a logarithmic scale; `names` are their places from 0 on.
pub(super) fn percentiles(names: &[&str], lines: &[Line]) -> Result<String> {
    let figures = || lines.iter().flat_map(|(_, line)| line).map(|(_, y)| *y);
    let least = figures().filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
    let most = figures().fold(0.0, f64::max);
    if !least.is_finite() || most <= 0.0 {
        return Ok(String::new());
    }
    drawn(HEIGHT, |root| {
        let last = names.len().saturating_sub(1) as f64;
        let mut chart = ChartBuilder::on(root)
            .caption(
                "latency percentiles, microseconds; colours as of the bars",
                ("sans-serif", 15),
            )
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..last, (least * 0.8..most * 1.25).log_scale())
            .map_err(failed)?;
        let name = |x: &f64| names.get(x.round() as usize).map_or(String::new(), |n| (*n).into());
        chart
            .configure_mesh()
            .x_labels(names.len())
            .x_label_formatter(&name)
            .draw()
            .map_err(failed)?;
        for (place, (_, line)) in lines.iter().enumerate() {
            let colour = colour(place);
            let above = line.iter().filter(|(_, y)| *y > 0.0).copied();
            chart.draw_series(LineSeries::new(above, colour.stroke_width(2))).map_err(failed)?;
        }
        Ok(())
    })
}

/// Steps done over the seconds of a phase.
pub(super) fn timelines(lines: &[Line]) -> Result<String> {
    let all = || lines.iter().flat_map(|(_, line)| line);
    let seconds = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let steps = all().map(|(_, y)| *y).fold(0.0, f64::max);
    if seconds <= 0.0 || steps <= 0.0 {
        return Ok(String::new());
    }
    drawn(HEIGHT, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(
                "steps done over seconds; flat is standing still; colours as of the bars",
                ("sans-serif", 15),
            )
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..seconds, 0.0..steps)
            .map_err(failed)?;
        chart.configure_mesh().max_light_lines(1).draw().map_err(failed)?;
        for (place, (_, line)) in lines.iter().enumerate() {
            let colour = colour(place);
            let from_zero = std::iter::once((0.0, 0.0)).chain(line.iter().copied());
            chart
                .draw_series(LineSeries::new(from_zero, colour.stroke_width(2)))
                .map_err(failed)?;
        }
        Ok(())
    })
}
