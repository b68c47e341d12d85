//! The bytes of one file, shared page by page between all disks that were copied from each other.
//!
//! Owned by one inode; a copy costs one pointer a page, and a write copies only the pages it
//! touches that somebody else still holds.
//!
//! I1: a page absent from `pages` reads as zeros. I2: bytes at and behind `len` are zeros.

use std::collections::BTreeSet;

use crate::base::sync::Arc;
use crate::io::aligned::copy_prefix;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// A sparse, copy-on-write file image.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    len: u64,
    pages: Vec<Option<Arc<Page>>>,
    /// Pages that were given back as a whole, and not written since.
    punched: BTreeSet<usize>,
}

/// One page's part of a byte range.
struct Piece {
    page: usize,
    start: usize,
    len: usize,
}

/// Cuts `len` bytes at `offset` into pieces of pages.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = offset;
    let end = offset + len as u64;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let page = (at / PAGE_BYTES as u64) as usize;
        let start = (at % PAGE_BYTES as u64) as usize;
        let len = (PAGE_BYTES - start).min((end - at) as usize);
        at += len as u64;
        Some(Piece { page, start, len })
    })
}

impl Image {
    /// An image of these bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut image = Self::default();
        image.write(0, bytes);
        image
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Copies what lies at `offset` into `buffer`; returns the number of bytes before the end.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let available = self.len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut rest = buffer.get_mut(..available).unwrap_or(&mut []);
        for piece in pieces(offset, available) {
            let Some((to, after)) = rest.split_at_mut_checked(piece.len) else { break };
            match self.page(piece.page).and_then(|page| page.get(piece.start..)) {
                Some(from) => {
                    copy_prefix(to, from);
                }
                None => to.fill(0),
            }
            rest = after;
        }
        available
    }

    /// Writes bytes, extending the file where they go behind its end.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for piece in pieces(offset, bytes.len()) {
            let Some((from, after)) = rest.split_at_checked(piece.len) else { break };
            if let Some(to) =
                self.page_mut(piece.page).get_mut(piece.start..piece.start + piece.len)
            {
                to.copy_from_slice(from);
            }
            rest = after;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Cuts, or extends with zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let kept = len.div_ceil(PAGE_BYTES as u64) as usize;
            self.pages.truncate(kept);
            drop(self.punched.split_off(&((len / PAGE_BYTES as u64) as usize)));
            let tail = (len % PAGE_BYTES as u64) as usize;
            if tail != 0
                && let Some(Some(page)) = self.pages.get_mut(kept.saturating_sub(1))
                && let Some(behind) = Arc::make_mut(page).get_mut(tail..)
            {
                behind.fill(0);
            }
        }
        self.len = len;
    }

    /// Gives back what whole pages there are in a range, and fills the rest of it with zeros; what
    /// lies behind the end is left as it is.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let len = self.len.saturating_sub(offset).min(len) as usize;
        for piece in pieces(offset, len) {
            if piece.len == PAGE_BYTES {
                if let Some(page) = self.pages.get_mut(piece.page) {
                    *page = None;
                }
                self.punched.insert(piece.page);
            } else if let Some(Some(page)) = self.pages.get_mut(piece.page)
                && let Some(bytes) =
                    Arc::make_mut(page).get_mut(piece.start..piece.start + piece.len)
            {
                bytes.fill(0);
            }
        }
    }

    /// The length without what was given back.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.len.saturating_sub((self.punched.len() * PAGE_BYTES) as u64)
    }

    /// All bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Feeds length and contents to `feed`; equal images feed equal bytes, however they were made.
    pub(super) fn digest(&self, mut feed: impl FnMut(&[u8])) {
        feed(&self.len.to_le_bytes());
        for (number, page) in self.pages.iter().enumerate() {
            let Some(page) = page else { continue };
            if page.iter().any(|&byte| byte != 0) {
                feed(&(number as u64).to_le_bytes());
                feed(&page[..]);
            }
        }
    }

    fn page(&self, number: usize) -> Option<&Page> {
        self.pages.get(number)?.as_deref()
    }

    #[expect(clippy::indexing_slicing, reason = "the vector was just made long enough")]
    fn page_mut(&mut self, number: usize) -> &mut Page {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        self.punched.remove(&number);
        let page = self.pages[number].get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        Arc::make_mut(page)
    }
}
