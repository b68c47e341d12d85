//! Curves over a few sizes, one line for each name, in SVG.

use anyhow::Result;
use plotters::prelude::*;

use crate::page::plots::{HEIGHT, Line, RIGHT_MARGIN, colour, drawn, failed, plain};

/// Lines over the figures that points have, at even distances whatever lies between them, with a
/// logarithmic scale upwards and a legend. Figures of 0 are left out; nothing where there is none.
pub(crate) fn curve(title: &str, axis: &str, lines: &[Line]) -> Result<String> {
    let above = |line: &Line| {
        let points = line.1.iter().copied().filter(|(_, y)| *y > 0.0 && y.is_finite());
        points.collect::<Vec<_>>()
    };
    let points: Vec<_> = lines.iter().flat_map(above).collect();
    let mut places: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let least = points.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    if places.is_empty() {
        return Ok(String::new());
    }
    let place = |x: f64| places.iter().position(|other| *other == x).unwrap_or(0) as f64;
    drawn(HEIGHT, |root| {
        let last = places.len().saturating_sub(1).max(1) as f64;
        let mut chart = ChartBuilder::on(root)
            .caption(title, ("sans-serif", 15))
            .margin(8)
            .margin_right(RIGHT_MARGIN)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..last, (least * 0.8..most * 1.25).log_scale())
            .map_err(failed)?;
        let name = |x: &f64| {
            let at = places.get(x.round() as usize).filter(|_| x.fract() == 0.0);
            at.map_or_else(String::new, |figure| plain(*figure))
        };
        chart
            .configure_mesh()
            .x_desc(axis)
            .x_labels(places.len())
            .x_label_formatter(&name)
            .y_label_formatter(&|y| plain(*y))
            .draw()
            .map_err(failed)?;
        for (number, line) in lines.iter().enumerate() {
            let colour = colour(number);
            let points: Vec<_> = above(line).into_iter().map(|(x, y)| (place(x), y)).collect();
            if points.is_empty() {
                continue;
            }
            let marks = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(marks).map_err(failed)?;
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))
                .map_err(failed)?
                .label(line.0.as_str())
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .draw()
            .map_err(failed)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_figures_stand_on_a_curve() {
        let lines = [
            ("first".to_owned(), vec![(64.0, 10.0), (1_024.0, 1_000.0)]),
            ("second".to_owned(), vec![(64.0, 0.0), (262_144.0, 5.0)]),
            ("absent".to_owned(), vec![(64.0, 0.0)]),
        ];
        let svg = curve("rates", "bytes", &lines).unwrap();
        for shown in ["rates", "bytes", "first", "second", "262k", "1024"] {
            assert!(svg.contains(shown), "{shown}: {svg}");
        }
        assert!(!svg.contains("absent"));
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(curve("rates", "bytes", &lines[2..]).unwrap(), "");
    }
}
