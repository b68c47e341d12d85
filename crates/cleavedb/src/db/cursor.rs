//! A position among the pairs of a keyspace.

use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::db::handle::Handle;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::scan::{ScanCursor, ScanOptions, ScanSource, Values};
use crate::engine::snapshots::SnapshotPin;
use crate::index::KeyRange;

/// A cursor over one moment's pairs of a keyspace; owned, `Send`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"))?;
/// # let ks = db.keyspace("k", cleavedb::KeyspaceOptions::new())?;
/// for key in ["a", "c", "e"] {
///     ks.put(key, "1")?;
/// }
/// let mut cursor = ks.cursor()?;
/// cursor.seek("b")?;
/// assert_eq!(cursor.key(), Some(&b"c"[..]));
/// cursor.prev()?;
/// assert_eq!(cursor.key(), Some(&b"a"[..]));
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Cursor {
    cursor: ScanCursor,
    _pin: Option<Arc<SnapshotPin>>,
    _handle: Arc<Handle>,
}

impl Cursor {
    pub(crate) fn new(
        handle: Arc<Handle>,
        keyspace: Arc<KeyspaceState>,
        pin: Option<Arc<SnapshotPin>>,
    ) -> Result<Self> {
        let engine = Arc::clone(&handle.engine);
        let seq = pin.as_ref().map(|pin| pin.seq());
        let source = ScanSource::new(engine, keyspace, KeyRange::default(), seq)?;
        let how = ScanOptions { values: Values::Folded, prefetch: true };
        Ok(Self { cursor: source.cursor(how)?, _pin: pin, _handle: handle })
    }

    /// Whether values that stand in value files are read ahead once the cursor has made some steps
    /// in one direction. Default: true; see [`crate::RangeIter::prefetch`]. A run that is under way
    /// goes on as it began.
    pub fn set_prefetch(&mut self, prefetch: bool) {
        self.cursor.set_prefetch(prefetch);
    }

    /// Moves to the first pair.
    ///
    /// # Errors
    /// As [`crate::Keyspace::get`]; the same for every move.
    pub fn seek_first(&mut self) -> Result<()> {
        self.cursor.seek_first()
    }

    /// Moves to the last pair.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    pub fn seek_last(&mut self) -> Result<()> {
        self.cursor.seek_last()
    }

    /// Moves to the first pair whose key is not below `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.cursor.seek(key.as_ref())
    }

    /// Moves to the last pair whose key is not above `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.cursor.seek_for_prev(key.as_ref())
    }

    /// Moves one pair on. No effect when not [`Cursor::valid`].
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    #[expect(clippy::should_implement_trait, reason = "a cursor is not an iterator")]
    pub fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    /// Moves one pair back. No effect when not [`Cursor::valid`].
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    pub fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }

    /// Whether the cursor stands on a pair. After an error it does not, until the next seek.
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// Key of the current pair, if there is one.
    pub fn key(&self) -> Option<&[u8]> {
        self.valid().then(|| self.cursor.key())
    }

    /// Value of the current pair, if there is one.
    pub fn value(&self) -> Option<&[u8]> {
        self.valid().then(|| self.cursor.value())
    }
}
