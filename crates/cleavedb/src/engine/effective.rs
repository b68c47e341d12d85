//! The effective options as text: `OPTIONS` in the store says how it was last opened. For people;
//! nothing is read back from it, so that damage to it never blocks an open (promise P16).

use std::fmt::Write as _;

use crate::base::names::{OPTIONS, TEMPORARY_SUFFIX};
use crate::engine::Engine;
use crate::io::Purpose;
use crate::io::disk::OpenMode;
use crate::log::format::FORMAT_VERSION;

impl Engine {
    /// Writes the file anew. A failure is reported and otherwise ignored: nothing depends on it.
    pub(crate) fn write_options_file(&self) {
        if let Err(error) = self.try_write_options_file() {
            tracing::warn!(%error, "OPTIONS could not be written");
        }
    }

    fn try_write_options_file(&self) -> std::io::Result<()> {
        let text = self.options_text();
        let path = self.dir.join(OPTIONS);
        let draft = self.dir.join(format!("{OPTIONS}{TEMPORARY_SUFFIX}"));
        if self.io.disk.exists(&draft)? {
            self.io.disk.remove_file(&draft)?;
        }
        let file = self.io.disk.create(&draft, OpenMode::default())?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_data()?;
        self.io.meter.wrote(Purpose::Other, text.len() as u64);
        self.io.disk.rename(&draft, &path)
    }

    /// The text: TOML, with units in the names.
    pub(crate) fn options_text(&self) -> String {
        let (settings, widths) = (&self.settings, &self.widths);
        let mut text = String::from("# Effective options of the last open. For people only.\n");
        let mut line = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name} = {value}");
        };
        line("crate_version", format!("{:?}", env!("CARGO_PKG_VERSION")));
        line("format_version", FORMAT_VERSION.to_string());
        line("strategy", format!("{:?}", self.strategy_kind.name()));
        line("sync_interval_ms", settings.sync_interval.as_millis().to_string());
        line("memory_budget_bytes", settings.memory_budget.to_string());
        line("direct_reads", settings.direct_reads.to_string());
        line("direct_writes", settings.direct_writes.to_string());
        line("open_files_max", settings.open_files_max.to_string());
        line("reserve_bytes", settings.reserve_bytes.to_string());
        line("memtable_bytes", widths.memtable_bytes.to_string());
        line("journal_segment_bytes", widths.journal_segment_bytes.to_string());
        line("value_segment_bytes", widths.value_segment_bytes.to_string());
        line("value_tail_bytes", widths.value_tail_bytes.to_string());
        line("large_value_bytes", widths.large_value_bytes.to_string());
        line("large_chunk_bytes", widths.large_chunk_bytes.to_string());
        line("replay_bytes_max", widths.replay_bytes_max.to_string());
        line("block_bytes", widths.block_bytes.to_string());
        line("restart_interval", widths.restart_interval.to_string());
        line("table_bytes", widths.table_bytes.to_string());
        line("level0_runs_trigger", widths.level0_runs_trigger.to_string());
        line("level_base_bytes_min", widths.level_base_bytes_min.to_string());
        line("level_ratio", widths.level_ratio.to_string());
        text
    }
}
