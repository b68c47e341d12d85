//! A sample of a value file's records: how much of the file is still live, without reading it.
//!
//! What the index has dropped is known exactly. What was superseded since, and not compacted yet,
//! is known to nobody: it is found by asking about some records. The same ones each time, so that
//! the file is read once, for their keys; a record once found dead stays dead and is not asked
//! about again.
//!
//! Owned by whoever collects; no locks. Invariant: SA-1 an estimate never grows.

use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::error::{Error, Result};
use crate::io::Purpose;
use crate::log::footer::Line;
use crate::values::file::{ValueContext, ValueFile};
use crate::values::handle::Handle;
use crate::values::strategy::RecordPlace;

/// Records in a sample: enough to tell a fifth of garbage from none; the many files of a large
/// store make its sum much more exact than each.
const RECORDS: usize = 64;
/// Bytes of a record that are read for its key. One with a longer key is left out.
pub(crate) const HEAD_BYTES: u32 = 512;

/// One record.
struct Sampled {
    keyspace: KeyspaceId,
    key: Box<[u8]>,
    seq: Seq,
    handle: Handle,
}

/// Some records of a file.
#[derive(Default)]
pub(crate) struct Sample {
    /// Those that were live when last asked about.
    live: Vec<Sampled>,
    /// Bytes of all records drawn.
    drawn_bytes: u64,
    /// The share of the file's record bytes that it was drawn of, where some were left out since
    /// they are known to be dead.
    drawn_of: Option<f64>,
}

impl Sample {
    /// Draws from the records of a file, which stand in the order of the file.
    pub(crate) fn draw(context: &ValueContext, file: &ValueFile, lines: &[Line]) -> Result<Self> {
        let mut sample = Self::default();
        let disk_file = file.disk_file()?;
        let mut head = Vec::new();
        for line in chosen(lines) {
            head.resize(line.bytes.min(HEAD_BYTES) as usize, 0);
            disk_file.read_exact_at(&mut head, line.offset).map_err(|e| {
                Error::io("reading a record", file.path(), e).at_offset(line.offset)
            })?;
            context.io.meter.read(Purpose::Collection, head.len() as u64);
            if let Some(sampled) = parse(&head, file.id(), line) {
                sample.drawn_bytes += u64::from(line.bytes);
                sample.live.push(sampled);
            }
        }
        Ok(sample)
    }

    /// The sample of records that are known to be live and make this share of the file's record
    /// bytes, the rest being known to be dead.
    pub(crate) fn of_share(self, share: f64) -> Self {
        Self { drawn_of: Some(share), ..self }
    }

    /// Asks about the records that were live so far.
    pub(crate) fn refresh(
        &mut self,
        is_live: &mut dyn FnMut(&RecordPlace<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut live = Vec::with_capacity(self.live.len());
        for sampled in std::mem::take(&mut self.live) {
            let Sampled { keyspace, ref key, seq, handle } = sampled;
            if is_live(&RecordPlace { keyspace, key, seq, handle })? {
                live.push(sampled);
            }
        }
        self.live = live;
        Ok(())
    }

    /// The share of the file's record bytes that is live; `None` where nothing could be drawn.
    pub(crate) fn live_share(&self) -> Option<f64> {
        let live: u64 = self.live.iter().map(|sampled| u64::from(sampled.handle.bytes)).sum();
        let share = (self.drawn_bytes > 0).then(|| live as f64 / self.drawn_bytes as f64);
        match self.drawn_of {
            Some(of) => Some(of * share.unwrap_or(1.0)),
            None => share,
        }
    }
}

/// All lines where there are few; else one out of each of as many neighbourhoods, by its hash, so
/// that no pattern in the order of writing shows.
fn chosen(lines: &[Line]) -> impl Iterator<Item = &Line> {
    let width = lines.len().div_ceil(RECORDS).max(1);
    lines.chunks(width).take(RECORDS).filter_map(|neighbours| {
        let hash = neighbours.first()?.hash;
        neighbours.get(((hash >> 32) % neighbours.len() as u64) as usize)
    })
}

/// Keyspace and key in the first bytes of a record. Whether the record holds is not seen.
pub(crate) fn key_of(head: &[u8]) -> Option<(KeyspaceId, &[u8])> {
    let mut reader = Reader::new(head);
    if reader.u8().ok()? != Kind::PutSeparated as u8 {
        return None;
    }
    let keyspace = KeyspaceId(reader.varint_u32().ok()?);
    Some((keyspace, reader.bytes().ok()?))
}

/// The record with these first bytes. Whether it holds is seen when it is collected.
fn parse(head: &[u8], file: FileId, line: &Line) -> Option<Sampled> {
    let (keyspace, key) = key_of(head)?;
    let key = key.into();
    let handle = Handle { file, epoch: 0, offset: line.offset, bytes: line.bytes };
    Some(Sampled { keyspace, key, seq: line.seq, handle })
}

#[cfg(test)]
mod tests;
