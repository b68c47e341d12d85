//! The rules that keep values from ever being wrong or lost, each with the planted bug that
//! switches it off in the engine. What a rule is worth is seen by what happens without it.
//!
//! Plain data, and the table made of it. The models of locator and map have tables of their own for
//! the rules that only a race of threads can break (`just guards` prints all).

use crate::planted::{self, Outcome};

/// A rule and how to do without it.
pub struct Guard {
    /// What it says.
    pub rule: &'static str,
    /// The planted bug that switches it off.
    pub bug: &'static str,
}

const fn guard(rule: &'static str, bug: &'static str) -> Guard {
    Guard { rule, bug }
}

/// The rules, in the order of the way of a value.
pub const GUARDS: [Guard; 33] = [
    guard("a fact kills what is older than it, and not what it states", "fact_is_not_newer"),
    guard("a fact kills nothing that a snapshot sees", "gc_facts_ignore_snapshots"),
    guard("facts that came after a collection's beginning stay", "gc_discards_late_facts"),
    guard("a version that never reaches the index has its fact", "hidden_fact_not_stated"),
    guard("merge operands supersede nothing", "merge_states_fact_of_its_base"),
    guard("a flush's edit says how far all is flushed", "flush_forgets_flushed_seq"),
    guard("what moves is stated of the place where it was", "relocated_record_not_stated"),
    guard(
        "entries that name a file are counted exactly, those that die",
        "dead_handle_not_counted",
    ),
    guard("and those that move", "relocation_keeps_counts"),
    guard("both lanes are synced before a segment is sealed", "seal_syncs_own_lane_only"),
    guard("recovery cuts off what lies beyond a gap", "frames_beyond_gap_stay"),
    guard("a handle of another epoch is searched for", "value_epoch_unchecked"),
    guard("a record read by its handle has the seq wanted", "value_record_seq_unchecked"),
    guard("a record read by the locator has the key wanted", "located_key_unchecked"),
    guard("and a seq that the reader sees", "located_seq_unchecked"),
    guard(
        "a delete or inline value takes its key out of the locator",
        "locator_removal_not_touched",
    ),
    guard("the locator is offered what is newest", "locator_offered_what_a_snapshot_sees"),
    guard("and nothing that operands lie above", "locator_offered_below_operands"),
    guard("a hit of the locator is held against range deletes", "locator_ignores_range_deletes"),
    guard("what a range delete ends leaves the locator", "locator_keeps_range_deleted"),
    guard("a checkpoint counts until the next touch", "locator_checkpoint_never_outdated"),
    guard("a value is put again only if its key is unchanged", "gc_unconditional"),
    guard("both lanes are synced before a collected file goes", "gc_no_sync"),
    guard("a collected file waits for snapshots", "gc_ignores_snapshots"),
    guard("the map is told where records went", "map_told_of_old_offset"),
    guard("and changes nothing that names another place", "map_swing_overwrites_newer"),
    guard("the map keeps a version that a snapshot sees", "map_version_for_snapshot_dropped"),
    guard("and collection its record", "map_version_for_snapshot_collected"),
    guard("a delete or inline value takes its key out of the map", "map_removal_not_touched"),
    guard("a hit of the map is held against range deletes", "map_ignores_range_deletes"),
    guard("what a range delete ends leaves the map", "map_keeps_range_deleted"),
    guard("what replay flushes stands above what is rebuilt", "map_replay_not_above_rebuilt"),
    guard("a rebuilt map has exactly the entry's version", "map_rebuilt_with_any_version"),
];

/// Switches each rule off in turn and prints who noticed, and after how many seconds; how many were
/// noticed.
pub fn print_table(seed: u64, seconds: u64) -> usize {
    println!("| rule | planted bug | caught by | seconds |\n|---|---|---|---|");
    let mut caught = 0;
    for Guard { rule, bug } in &GUARDS {
        let outcomes = planted::outcomes(seed, seconds, false, bug);
        let spent: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
        let by = outcomes.iter().find(|outcome| outcome.violation.is_some());
        caught += usize::from(by.is_some());
        let by = by.map_or("nobody", |Outcome { family, .. }| family);
        println!("| {rule} | `{bug}` | {by} | {spent:.1} |");
    }
    caught
}

#[cfg(test)]
mod tests;
