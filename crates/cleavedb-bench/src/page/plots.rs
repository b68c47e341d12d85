//! The plots of a page, each a text in SVG.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 600;
pub(super) const HEIGHT: u32 = 320;
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
pub(crate) type Line = (String, Vec<(f64, f64)>);

pub(super) fn colour(place: usize) -> RGBColor {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or(BLACK)
}

/// Draws on an empty plot of some size.
pub(super) fn drawn(
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

pub(super) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("a plot: {error}")
}

/// One bar for each name, the first at the top; a name without a figure has no bar, yet its colour.
pub(crate) fn bars(title: &str, figures: &[(String, Option<f64>)]) -> Result<String> {
    let known: Vec<_> = figures
        .iter()
        .enumerate()
        .filter_map(|(place, (name, figure))| Some((colour(place), name, (*figure)?)))
        .collect();
    let most = known.iter().map(|(.., figure)| *figure).fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return Ok(String::new());
    }
    let count = known.len();
    let height = 70 + BAR_HEIGHT * u32::try_from(count).unwrap_or(1);
    drawn(height, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(title, ("sans-serif", 15))
            .margin(8)
            .margin_right(RIGHT_MARGIN)
            .x_label_area_size(24)
            .build_cartesian_2d(0.0..most * 1.1, count as f64..0.0)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(6)
            .x_label_formatter(&|x| plain(*x))
            .draw()
            .map_err(failed)?;
        let bars = known.iter().enumerate().map(|(place, (colour, _, figure))| {
            let top = place as f64;
            Rectangle::new([(0.0, top + 0.1), (*figure, top + 0.9)], colour.mix(0.5).filled())
        });
        chart.draw_series(bars).map_err(failed)?;
        let names = known.iter().enumerate().map(|(place, (_, name, figure))| {
            let at = (most * 0.01, place as f64 + 0.25);
            Text::new(format!("{name}: {}", plain(*figure)), at, ("sans-serif", 13))
        });
        chart.draw_series(names).map_err(failed)?;
        Ok(())
    })
}

/// Room for the last label of an axis.
pub(super) const RIGHT_MARGIN: u32 = 28;

/// A figure on an axis: without more digits than it needs.
pub(super) fn plain(figure: f64) -> String {
    match figure.abs() {
        f if f >= 1e6 => format!("{}M", trimmed(figure / 1e6)),
        f if f >= 1e4 => format!("{}k", trimmed(figure / 1e3)),
        _ => trimmed(figure),
    }
}

fn trimmed(figure: f64) -> String {
    let text = if figure.abs() >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.2}") };
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
            .margin_right(RIGHT_MARGIN)
            .x_label_area_size(24)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..last, (least * 0.8..most * 1.25).log_scale())
            .map_err(failed)?;
        let name = |x: &f64| names.get(x.round() as usize).map_or(String::new(), |n| (*n).into());
        chart
            .configure_mesh()
            .x_labels(names.len())
            .x_label_formatter(&name)
            .y_label_formatter(&|y| plain(*y))
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

/// Something that grows, or not, over the seconds of a phase; `from_nothing` for what is 0 at
/// first.
pub(super) fn timelines(title: &str, lines: &[Line], from_nothing: bool) -> Result<String> {
    let all = || lines.iter().flat_map(|(_, line)| line);
    let seconds = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let most = all().map(|(_, y)| *y).fold(0.0, f64::max);
    if seconds <= 0.0 || most <= 0.0 {
        return Ok(String::new());
    }
    drawn(HEIGHT, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(format!("{title}; colours as of the bars"), ("sans-serif", 15))
            .margin(8)
            .margin_right(RIGHT_MARGIN)
            .x_label_area_size(24)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..seconds, 0.0..most * 1.05)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .max_light_lines(1)
            .x_label_formatter(&|x| plain(*x))
            .y_label_formatter(&|y| plain(*y))
            .draw()
            .map_err(failed)?;
        for (place, (_, line)) in lines.iter().enumerate() {
            let colour = colour(place);
            let first = (from_nothing && !line.is_empty()).then_some((0.0, 0.0));
            let points = first.into_iter().chain(line.iter().copied());
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2))).map_err(failed)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_on_axes_are_short() {
        let shown = [0.0, 0.25, 7.0, 123.4, 9_999.0, 12_500.0, 400_000.0, 2_500_000.0].map(plain);
        assert_eq!(shown, ["0", "0.25", "7", "123", "9999", "12.5k", "400k", "2.5M"]);
    }

    #[test]
    fn a_name_without_a_figure_keeps_its_colour() {
        let bars = bars("x", &[("absent".into(), None), ("two".into(), Some(2.0))]).unwrap();
        assert!(bars.contains("two: 2") && !bars.contains("absent"));
        let RGBColor(red, green, blue) = colour(1);
        assert!(bars.contains(&format!("#{red:02X}{green:02X}{blue:02X}")), "{bars}");
    }
}
