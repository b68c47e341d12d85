//! How the map comes back at opening: from the checkpoint that the last close wrote, and where that
//! does not count, from the index and the value files (MO-7).
//!
//! Invariants: MB-1 the index is scanned as it was opened, whatever the replay of the log has
//! flushed since. MB-2 the value files are read when the log has been replayed: only then it is
//! known where each of them ends.

use crate::base::checksum::KeyedHash;
use crate::base::entry::Kind;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::engine::Engine;
use crate::engine::locate::edit::SavedLocator;
use crate::engine::mapping::Mapping;
use crate::engine::view::View;
use crate::index::{CursorOptions, KeyRange};
use crate::io::Purpose;
use crate::log::footer::{Footer, Line};
use crate::log::reader::ReadOptions;
use crate::values::file_table::TableEntry;
use crate::values::locator::checkpoint::Site;
use crate::values::map::place::Place;
use crate::values::map::rebuild::Rebuild;
use crate::values::segment::scan_punched;
use crate::values::table::format::Rank;
use crate::values::table::scan::{CHUNK_BYTES, TableScan};

impl Engine {
    /// Makes what is not loaded of the map; `opened` is the view from before the log's replay.
    pub(crate) fn restore_map(&self, opened: &View) -> Result<()> {
        let Some(mapping) = &self.mapping else { return Ok(()) };
        if mapping.map.is_waiting() {
            self.rebuild_map(mapping, opened)?;
        }
        mapping.count_anew();
        Ok(())
    }

    /// Loads the checkpoint of the map, where there is one: before the log's replay, which outdates
    /// it.
    pub(crate) fn load_map(&self) {
        let Some(mapping) = &self.mapping else { return };
        let Some(saved) = self.locator_checkpoint.saved() else { return };
        if mapping.map.shards() != saved.shards.len() {
            return;
        }
        for number in 0..saved.shards.len() {
            if let Err(error) = self.load_map_shard(mapping, &saved, number) {
                tracing::warn!(shard = number, %error, "a part of the map is made anew");
            }
        }
        // A drop outdates the checkpoint, but one that did not may have left its keyspace in it.
        self.forget_dropped_in_map();
    }

    fn rebuild_map(&self, mapping: &Mapping, opened: &View) -> Result<()> {
        let start = self.io.clock.now();
        let rebuild = Rebuild::new(&mapping.map);
        let expected = self.expect_bare_entries(mapping, &rebuild, opened)?;
        if expected > 0 {
            self.offer_records(&rebuild)?;
        }
        let missing = rebuild.leave_out_missing();
        if missing > 0 {
            mark!("map_rebuilt_without_some");
        }
        mark!("map_rebuilt");
        for number in 0..mapping.map.shards() {
            rebuild.load_shard(&mapping.map, number)?;
        }
        let took = self.io.clock.now().saturating_sub(start);
        let micros = took.as_micros() as u64;
        tracing::info!(keys = expected, missing, micros, "map made of index and value files");
        Ok(())
    }

    /// Every key whose newest base in the index is bare (MB-1); how many there are.
    fn expect_bare_entries(
        &self,
        mapping: &Mapping,
        rebuild: &Rebuild,
        opened: &View,
    ) -> Result<u64> {
        let mut expected = 0;
        for (&keyspace, index) in opened.indexes.iter() {
            let mut entries = index.cursor(&CursorOptions {
                range: KeyRange::default(),
                purpose: Purpose::Other,
                fill_cache: false,
            })?;
            entries.seek_first()?;
            let mut decided: Option<Vec<u8>> = None;
            while entries.valid() {
                let is_decided = decided.as_deref() == Some(entries.key());
                if !is_decided && entries.kind() != Kind::Merge {
                    let key = decided.get_or_insert_default();
                    key.clear();
                    key.extend_from_slice(entries.key());
                    if entries.kind() == Kind::PutBare {
                        rebuild.expect(&mapping.key(keyspace, key), entries.seq());
                        expected += 1;
                    }
                }
                entries.next()?;
            }
        }
        Ok(expected)
    }

    fn load_map_shard(&self, mapping: &Mapping, saved: &SavedLocator, number: usize) -> Result<()> {
        let Some((offset, bytes)) = saved.section(number) else { return Ok(()) };
        let read = self.read_section(saved.id, offset, bytes)?;
        let site = Site { uuid: self.uuid, file: saved.id, offset };
        if mapping.map.load_section(number, &read, &site)? {
            mark!("map_shard_loaded");
        }
        Ok(())
    }

    /// The records of a segment that nobody has sealed, since whoever opened it may not write.
    fn lines_of_open(&self, entry: &TableEntry) -> Result<Vec<Line>> {
        let options = ReadOptions {
            kind: FileKind::Value,
            id: entry.file.id(),
            uuid: self.uuid,
            sealed: None,
            contiguous: false,
            purpose: Purpose::Other,
        };
        let payload = scan_punched(&self.io, entry.file.path(), options, None)?.encode();
        payload.map_or(Ok(Vec::new()), |payload| Footer::decode(&payload).map(|f| f.lines))
    }

    /// Every record of the value files (MB-2).
    fn offer_records(&self, rebuild: &Rebuild) -> Result<()> {
        let view = self.view.load_full();
        for entry in view.values.iter() {
            let container = entry.file.id();
            let lines = match entry.state.sealed {
                Some(_) => self.lines_of(entry)?,
                None => self.lines_of_open(entry)?,
            };
            for line in lines {
                let (offset, bytes) = (line.offset, line.bytes);
                let place = Place { container, file: container, offset, bytes };
                rebuild.insert_exact(line.hash, line.seq, place);
            }
        }
        let hash = KeyedHash::new(&self.uuid);
        for entry in view.values.containers() {
            let table = entry.container.table(Purpose::Other)?;
            let mut scan = TableScan::new(table, CHUNK_BYTES, Purpose::Other)?;
            while let Some(scanned) = scan.next_record()? {
                let Rank { keyspace, key, seq, file } = scanned.record.rank();
                let bytes = scanned.record.bytes() as u32;
                let container = entry.container.id();
                let place = Place { container, file, offset: scanned.offset, bytes };
                rebuild.insert_exact(hash.hash(keyspace, key), seq, place);
            }
        }
        Ok(())
    }
}
