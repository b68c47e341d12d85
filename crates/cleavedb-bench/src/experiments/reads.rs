//! What engines say of where their reads go and what their tables hold, in words for the table.

use serde_json::Value;

use super::table::labelled;

/// Where gets can end, from top to bottom.
const PLACES: [&str; 4] = ["memtables", "level 0", "level 1", "level 2 and deeper"];
/// More levels than any engine has.
const LEVELS_MAX: usize = 16;

/// What an engine said in its reports of a part, or that it says nothing.
pub(super) fn told(reports: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for report in reports {
        let phases = labelled(report).filter_map(|(label, phase)| {
            let counters = Counters(phase.get("read_counters")?);
            (counters.of("gets") > 0.0).then_some((label, counters))
        });
        for (label, counters) in phases {
            lines.push(format!("{label}: {}", counters.ends()));
            lines.push(format!("{label}: {}", counters.times()));
        }
        lines.extend(report.pointer("/engine_stats/tables").and_then(operands));
        lines.extend(report.get("engine_stats").and_then(blocks));
    }
    if lines.is_empty() {
        let nothing = "not measured: reads for each level, operands, index and value time: the \
                       engine counts none of them";
        lines.push(nothing.to_owned());
    }
    lines
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "none".to_owned() }
}

/// What an engine counted of its reads in one phase.
struct Counters<'a>(&'a Value);

impl Counters<'_> {
    fn of(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Where gets ended and which files they read, by level.
    fn ends(&self) -> String {
        let gets = self.of("gets");
        let ends = PLACES.iter().map(|place| {
            format!("{place} {}", share(self.of(&format!("gets ended in {place}")), gets))
        });
        let reads = (0..LEVELS_MAX).filter_map(|level| {
            let reads = self.of(&format!("file reads in level {level}"));
            (reads > 0.0).then(|| format!("level {level} {:.3}", reads / gets))
        });
        let reads: Vec<_> = reads.collect();
        format!(
            "{gets} gets ended in {}; table file reads (background work's too) for a get: {}; \
             operands applied for a get: {:.3}",
            ends.collect::<Vec<_>>().join(", "),
            if reads.is_empty() { "none".to_owned() } else { reads.join(", ") },
            self.of("operands applied") / gets,
        )
    }

    /// How long gets took, and reading values stored apart.
    fn times(&self) -> String {
        let (gets, all) = (self.of("gets"), self.of("get micros"));
        let (reads, values) = (self.of("blob file reads"), self.of("blob file read micros"));
        if reads == 0.0 {
            return format!("a get {:.2} us; no value was read from a blob file", all / gets);
        }
        format!(
            "a get {:.2} us, of which value time (blob file reads, {:.3} for a get) {:.2} us and \
             index time (the rest) {:.2} us",
            all / gets,
            reads / gets,
            values / gets,
            (all - values).max(0.0) / gets,
        )
    }
}

/// Entries and the share of operands by level.
fn operands(tables: &Value) -> Option<String> {
    let number = |level: &Value, name: &str| level.get(name).and_then(Value::as_f64);
    let levels = tables.as_array()?.iter();
    let figures = levels.filter_map(|level| {
        Some((number(level, "level")?, number(level, "entries")?, number(level, "operands")?))
    });
    let figures: Vec<_> = figures.collect();
    let sum = |of: fn(&(f64, f64, f64)) -> f64| figures.iter().map(of).sum::<f64>();
    let (entries, merges) = (sum(|level| level.1), sum(|level| level.2));
    let each = figures.iter().map(|(level, entries, operands)| {
        format!("level {level} {} of {entries}", share(*operands, *entries))
    });
    let each: Vec<_> = each.collect();
    let all = share(merges, entries);
    Some(format!("operands among the entries of tables: {all} of all; {}", each.join(", ")))
}

/// What CleaveDB says: it counts blocks for a get and entries of levels.
fn blocks(stats: &Value) -> Option<String> {
    let blocks = stats.get("read_amplification").and_then(Value::as_f64)?;
    let keyspaces = stats.get("keyspaces").and_then(Value::as_array).into_iter().flatten();
    let levels = keyspaces.filter_map(|keyspace| keyspace.get("levels")?.as_array()).flatten();
    let entries = levels.filter_map(|level| {
        let entries = level.get("entries")?.as_u64().filter(|entries| *entries > 0)?;
        Some(format!("level {} {entries}", level.get("level")?))
    });
    let entries: Vec<_> = entries.collect();
    Some(format!(
        "{blocks:.2} blocks fetched for a get since opening; entries by level: {}; not measured: \
         reads for each level, operands, index and value time, which it does not count",
        if entries.is_empty() { "none".to_owned() } else { entries.join(", ") },
    ))
}

#[cfg(test)]
mod tests;
