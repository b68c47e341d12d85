//! Who has how much of the memory budget.
//!
//! Asked after each background job. Memtables have what they need, up to their bound; the locator
//! or the map, buckets, facts and what else strategies and indexes know grow to bounds of their
//! own. Indexes and filters of open tables may take half of the budget where locator and map leave
//! it, and always a quarter: a table that has no room is opened anew for each get, which is three
//! reads, one of them of all of its filter. The block cache takes the rest, an eighth at least, but
//! for what the delta cache has of it.

use crate::engine::Engine;

/// The part of the memory budget that open tables may take where nothing else needs it.
pub(crate) const TABLES_BUDGET_PART_MAX: u64 = 2;
/// The part of it that they may take in any case.
const TABLES_BUDGET_PART: u64 = 4;
/// The part of it that the block cache takes in any case.
pub(crate) const BLOCKS_BUDGET_PART: u64 = 8;

impl Engine {
    /// Gives open tables, the delta cache and the block cache what the others leave of the budget.
    pub(crate) fn balance_memory(&self) {
        let budget = self.settings.memory_budget;
        let locator = self.locating.as_ref().map_or(0, |locating| locating.figures().bytes);
        let map = self.mapping.as_ref().map_or(0, |mapping| mapping.figures().bytes);
        let tables_max = (budget / TABLES_BUDGET_PART_MAX).saturating_sub(locator + map);
        self.tables.set_budget(tables_max.max(budget / TABLES_BUDGET_PART));
        let context = &self.value_context;
        let values = context.table_indexes.memory_bytes()
            + context.repairs.memory_bytes()
            + context.cache.memory_bytes();
        let indexes: u64 =
            self.view.load().indexes.values().map(|index| index.memory_bytes()).sum();
        let known = self.facts.load().memory_bytes()
            + values
            + self.deltas.known_bytes()
            + indexes
            + locator
            + map;
        let buffers = self.iterator_bytes() + self.background_bytes() + self.value_tail_bytes();
        let taken = self.memtables_allotment() + self.tables.memory_bytes() + buffers + known;
        let both = budget.saturating_sub(taken);
        let blocks = both.saturating_sub(self.deltas.share_cache(both, budget));
        let blocks = blocks.max(budget / BLOCKS_BUDGET_PART);
        self.blocks.set_capacity(blocks.min(self.widths.block_cache_bytes_max));
    }

    /// What memtables take, and as much as may come before the next look.
    fn memtables_allotment(&self) -> u64 {
        let widths = &self.widths;
        let bytes_max = widths.memtable_bytes * (1 + widths.frozen_memtables_max as u64);
        let in_use: u64 = self.view.load().memtables().map(|table| table.memory_bytes()).sum();
        (in_use + widths.memtable_bytes).min(bytes_max)
    }
}
