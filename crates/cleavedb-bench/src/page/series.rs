//! Lines over time or operations, one for each name, with a legend.

use anyhow::Result;
use plotters::prelude::*;

use crate::page::plots::{HEIGHT, Line, RIGHT_MARGIN, colour, drawn, failed, plain};

/// Lines on even scales that both begin at 0.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What is told, with the unit upwards.
    pub(crate) title: String,
    /// What is told it over.
    pub(crate) axis: String,
    /// A figure that lines are held against: a level line.
    pub(crate) level: Option<f64>,
    /// Names and points.
    pub(crate) lines: Vec<Line>,
}

impl Series {
    /// One without lines.
    pub(crate) fn new(title: String, axis: &str, level: Option<f64>) -> Self {
        Self { title, axis: axis.to_owned(), level, lines: Vec::new() }
    }

    /// It in SVG; nothing where there is nothing above 0.
    pub(crate) fn svg(&self) -> Result<String> {
        let points = || self.lines.iter().flat_map(|line| &line.1);
        let last = points().map(|(x, _)| *x).fold(0.0, f64::max);
        let most = points().map(|(_, y)| *y).chain(self.level).fold(0.0, f64::max);
        if last <= 0.0 || points().all(|(_, y)| *y <= 0.0) {
            return Ok(String::new());
        }
        drawn(HEIGHT, |root| {
            let mut chart = ChartBuilder::on(root)
                .caption(&self.title, ("sans-serif", 15))
                .margin(8)
                .margin_right(RIGHT_MARGIN)
                .x_label_area_size(36)
                .y_label_area_size(60)
                .build_cartesian_2d(0.0..last, 0.0..most * 1.1)
                .map_err(failed)?;
            chart
                .configure_mesh()
                .max_light_lines(1)
                .x_desc(self.axis.as_str())
                .x_label_formatter(&|x| plain(*x))
                .y_label_formatter(&|y| plain(*y))
                .draw()
                .map_err(failed)?;
            if let Some(level) = self.level {
                let ends = [(0.0, level), (last, level)];
                chart.draw_series(LineSeries::new(ends, BLACK.mix(0.5))).map_err(failed)?;
            }
            for (place, (name, line)) in self.lines.iter().enumerate() {
                let colour = colour(place);
                chart
                    .draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))
                    .map_err(failed)?
                    .label(name.as_str())
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_level_and_axis_stand_on_a_series() {
        let mut series = Series::new("space".to_owned(), "updates", Some(1.25));
        assert_eq!(series.svg().unwrap(), "", "a level alone is nothing to look at");
        series.lines.push(("first".to_owned(), vec![(0.0, 1.0), (3.0, 1.2)]));
        let svg = series.svg().unwrap();
        for shown in ["space", "updates", "first"] {
            assert!(svg.contains(shown), "{shown}: {svg}");
        }
        series.level = None;
        let without = series.svg().unwrap();
        assert!(svg.matches("<polyline").count() > without.matches("<polyline").count());
    }
}
