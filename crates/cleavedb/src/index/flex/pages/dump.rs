//! The annotated dump of a page file: what its header says, and which pages hold. It cannot know
//! which of them are live: that follows from the root in force. Pure functions over the bytes of
//! one file.

use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::index::flex::pages::format::{
    HEADER_BYTES, NodePage, Owner, PAGE_HEADER_BYTES, Page, PageAddress, PageHeader, PageKind,
    RootPage, check_header,
};
use crate::log::dump::Annotator;

/// Offset of the identity of the database in the header.
const UUID_AT: usize = 16;

/// Dumps a page file.
pub(crate) fn dump_pages(bytes: &[u8], out: &mut String) {
    let mut lines = Annotator::new(bytes, out);
    let mut stated = Reader::new(bytes.get(UUID_AT..).unwrap_or_default());
    let uuid = stated.uuid().unwrap_or_default();
    let file = FileId(stated.u64().unwrap_or_default());
    let owner = Owner { uuid, keyspace: KeyspaceId(stated.u32().unwrap_or_default()) };
    let fixed = bytes.get(..HEADER_BYTES as usize).unwrap_or(bytes);
    let verdict = check_header(fixed, &owner, file);
    match &verdict {
        Ok(()) => lines.note(format_args!("pages {file} of keyspace {}", owner.keyspace.0)),
        Err(error) => lines.note(format_args!("bad header: {error}")),
    }
    lines.field(8, "magic");
    lines.field(4, "checksum of the header");
    lines.field(4, "format version");
    lines.field(16, "database uuid");
    lines.field(8, format_args!("file {file}"));
    lines.field(4, format_args!("keyspace {}", owner.keyspace.0));
    lines.field(18, "zero");
    lines.field(1, "kind of file");
    lines.field(1, "end mark");
    while verdict.is_ok() && lines.rest().len() >= PAGE_HEADER_BYTES {
        if dump_page(&mut lines, &owner, file).is_none() {
            break;
        }
    }
    let left = lines.rest().len();
    lines.field(left, "not understood");
    lines.note("end of file");
}

/// Dumps the page that comes next; `None` where there is none.
fn dump_page(lines: &mut Annotator<'_>, owner: &Owner, file: FileId) -> Option<()> {
    let (rest, offset) = (lines.rest(), lines.offset());
    let header = PageHeader::decode(rest).ok()?;
    let bytes = rest.get(..header.bytes as usize)?;
    let body_bytes = bytes.len().checked_sub(PAGE_HEADER_BYTES)?;
    let address = PageAddress { file, offset, bytes: header.bytes, checksum: header.checksum };
    let page = Page::open(bytes, owner, &address);
    let (kind, PageHeader { count, checkpoint, length, .. }) = (header.kind.name(), header);
    let verdict = if page.is_ok() { "holds" } else { "DAMAGED" };
    lines.note(format_args!("{kind} of {length} bytes of the space, {verdict}"));
    lines.field(4, "magic of a page");
    lines.field(4, "checksum");
    lines.field(4, format_args!("version 1, {kind}"));
    lines.field(4, format_args!("{} bytes", header.bytes));
    lines.field(4, format_args!("keyspace {}", header.keyspace.0));
    lines.field(4, format_args!("{count} of them"));
    lines.field(8, format_args!("checkpoint {checkpoint}"));
    lines.field(8, format_args!("{length} bytes of the space"));
    let body = page.and_then(|page| describe(&page)).unwrap_or_else(|error| error.to_string());
    lines.field(body_bytes, body);
    Some(())
}

/// What a page's body says, in a line.
fn describe(page: &Page<'_>) -> Result<String> {
    if page.header.kind == PageKind::Root {
        let root = RootPage::decode(page)?;
        let (top, height, extents) = (root.top.offset, root.height, root.extents);
        let (file, attached) = (root.top.file, root.attached.len());
        let of = format!("{extents} extents in {height} levels below {top} of file {file}");
        return Ok(format!("{of}, {} files, {attached} bytes attached", root.files.len()));
    }
    Ok(match NodePage::decode(page)? {
        NodePage::Leaf(_) => "extents, packed".to_owned(),
        NodePage::Inner(children) => {
            let places = children.iter().take(4).map(|(_, child)| child.offset.to_string());
            format!("children at {}", places.collect::<Vec<_>>().join(", "))
        }
    })
}
