//! Progress bars on stderr. They show only on a terminal (indicatif checks), so scripts and pipes
//! never see them.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A bar over a known number of bytes.
pub fn bytes(task: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_style(style(
        "{prefix} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} eta {eta}",
    ));
    bar.set_prefix(task.to_owned());
    bar
}

/// A bar over a known number of things.
pub fn steps(task: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_style(style("{prefix} [{bar:30}] {human_pos}/{human_len} {per_sec} eta {eta}"));
    bar.set_prefix(task.to_owned());
    bar
}

/// A turning mark for work of unknown length.
pub fn spinner(task: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(style("{spinner} {prefix} {human_pos}"));
    bar.set_prefix(task.to_owned());
    bar.enable_steady_tick(REDRAW_INTERVAL);
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
