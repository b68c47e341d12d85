//! Page files of a tree of extents, on arbitrary bytes.

use std::collections::HashMap;

use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::base::file_ids::FileIds;
use crate::base::names::FileKind;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::index::flex::pages::files::FileLimits;
use crate::index::flex::pages::format::{
    HEADER_BYTES, Owner, PAGE_HEADER_BYTES, PageAddress, PageHeader, PageKind, encode_header, seal,
};
use crate::index::flex::pages::{PageContext, PageStore};
use crate::index::flex::tree::extent::{Extent, Placed, Tag};
use crate::index::flex::tree::{Tree, TreeWidths};
use crate::io::seeded::Seeded;
use crate::io::{Io, Purpose};

use super::seeds::Seed;
use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// Where the header states the keyspace.
const KEYSPACE_AT: usize = 40;

/// A page file: the last root in it is opened, as it is and with right checksums. What holds is a
/// tree that can be changed, saved and read again.
pub fn flex_pages(data: &[u8]) -> bool {
    let accepted = is_whole(data);
    let mut mended = data.to_vec();
    mend_pages(&mut mended, OURS);
    is_whole(&mended) || accepted
}

fn context_of(
    io: Io,
    path: &std::path::Path,
    keyspace: KeyspaceId,
    next: FileId,
) -> Arc<PageContext> {
    Arc::new(PageContext {
        io,
        dir: path.parent().unwrap_or(path).to_owned(),
        owner: Owner { uuid: UUID, keyspace },
        obsolete: Arc::new(ObsoleteFiles::default()),
        ids: Arc::new(FileIds::new(next)),
        limits: FileLimits::USUAL,
    })
}

/// Pages as their lengths make them follow each other: where each begins, and what it says.
fn pages_of(bytes: &[u8]) -> Vec<(u64, PageHeader)> {
    let (mut pages, mut at) = (Vec::new(), HEADER_BYTES as usize);
    while let Some(Ok(header)) = bytes.get(at..).map(PageHeader::decode) {
        let end = at.saturating_add(header.bytes as usize);
        if (header.bytes as usize) < PAGE_HEADER_BYTES || end > bytes.len() {
            break;
        }
        pages.push((at as u64, header));
        at = end;
    }
    pages
}

fn all(tree: &Tree) -> Vec<Placed> {
    tree.walk(0..tree.length()).into_iter().flatten().collect()
}

fn is_whole(bytes: &[u8]) -> bool {
    let keyspace = KeyspaceId(u32::from_le_bytes(array_at(bytes, KEYSPACE_AT)));
    let pages = pages_of(bytes);
    let root = pages.iter().rev().find(|(_, header)| header.kind == PageKind::Root);
    let Some((offset, header)) = root.filter(|_| keyspace.0 != 0) else { return false };
    let root =
        PageAddress { file: FILE, offset: *offset, bytes: header.bytes, checksum: header.checksum };
    let (io, _, path) = world(FileKind::FlexPages, Some(bytes));
    let context = context_of(io, &path, keyspace, FileId(FILE.0 + 1));
    let Ok(mut store) = PageStore::open(&context, root, Purpose::Recovery) else { return false };
    let Some(mut tree) = store.take_tree() else { return false };
    change(&mut tree, header.checksum.into());
    let saved = save(&mut store, &tree).and_then(|root| {
        let mut again = PageStore::open(&context, root, Purpose::Recovery)?;
        Ok(again.take_tree().as_ref().map(all))
    });
    assert_eq!(saved.ok().flatten(), Some(all(&tree)), "another tree than was saved");
    true
}

/// Changes of all kinds; a tree that holds takes them, short of its bounds.
fn change(tree: &mut Tree, seed: u64) {
    let mut random = Seeded::new(seed);
    for number in 0..40 {
        let at = random.below(tree.length().saturating_add(1));
        let end = at.saturating_add(random.below(50)).min(tree.length());
        let extent = Extent::new(random.below(1 << 40), 1 + random.below(20) as u32);
        let _ = match number % 4 {
            0 => tree.update(at..end, &[extent]),
            1 => tree.collapse(at..end),
            2 => tree.set_tag(at, Tag::new(number)),
            _ => tree.insert(at, extent),
        };
    }
    assert!(tree.check().is_ok(), "a change broke the tree");
}

fn save(store: &mut PageStore, tree: &Tree) -> Result<PageAddress> {
    let draft = store.checkpoint(tree, b"beside")?;
    let root = draft.root();
    store.publish(draft)?;
    store.verify()?;
    Ok(root)
}

/// Makes the header and all checksums right, children before those that name them.
pub(super) fn mend_pages(bytes: &mut [u8], identity: Identity) {
    let keyspace = KeyspaceId(u32::from_le_bytes(array_at(bytes, KEYSPACE_AT)).max(1));
    let owner = Owner { uuid: identity.uuid, keyspace };
    if bytes.len() as u64 >= HEADER_BYTES {
        overwrite(bytes, 0, &encode_header(&owner, identity.file));
    }
    let mut checksums = HashMap::new();
    for (offset, header) in pages_of(bytes) {
        let (from, to) = (offset as usize, offset as usize + header.bytes as usize);
        let Some(page) = bytes.get_mut(from..to) else { break };
        for (at, child) in children_of(page, &header) {
            if let Some(checksum) = checksums.get(&child) {
                overwrite(page, at, &u32::to_le_bytes(*checksum));
            }
        }
        checksums.insert((identity.file.0, offset), seal(page, owner.seed(identity.file), offset));
    }
}

/// Where a page states checksums of others, and of which; as far as it can be read.
fn children_of(page: &[u8], header: &PageHeader) -> Vec<(usize, (u64, u64))> {
    let mut reader = Reader::new(page.get(PAGE_HEADER_BYTES..).unwrap_or_default());
    let mut child = |before: usize| -> Result<(usize, (u64, u64))> {
        for _ in 0..before {
            reader.varint()?;
        }
        let named = (reader.varint()?, reader.varint()?);
        reader.varint()?;
        let at = page.len() - reader.rest().len();
        reader.u32()?;
        Ok((at, named))
    };
    match header.kind {
        PageKind::Leaf => Vec::new(),
        PageKind::Inner => (0..header.count).map_while(|_| child(1).ok()).collect(),
        PageKind::Root => child(5).ok().into_iter().collect(),
    }
}

/// Files of an empty tree, of one checkpoint, and of several.
pub(super) fn seeds() -> Result<Vec<Seed>> {
    let widths = TreeWidths { leaf_extents_max: 4, children_max: 4, window_bytes: 64 };
    let mut all = Vec::new();
    for (name, extents, rounds) in [("empty", 0, 1), ("one_leaf", 3, 1), ("several", 60, 5)] {
        let (io, disk, path) = world(FileKind::FlexPages, None);
        let context = context_of(io, &path, KeyspaceId(300), FILE);
        let mut store = PageStore::new(&context);
        let mut tree = Tree::new(widths)?;
        for number in 0..extents {
            tree.append(Extent::new(1024 * number + 10, 10).with_tag(Tag::new(number as u16 % 3)))?;
        }
        for round in 0..rounds {
            save(&mut store, &tree)?;
            tree.insert(10 * round, Extent::new(1 << 30, 7))?;
        }
        let bytes = disk.contents(&path);
        all.push(("flex_pages", name, bytes.clone()));
        if rounds > 1 {
            all.push(("dump", "flex_pages", bytes));
        }
    }
    Ok(all)
}
