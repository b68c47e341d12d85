//! The order of a lane's segments: each names the one before it (rule F4).
//!
//! Plans a replay: which segments there are, which of them are sealed and how, and that none is
//! missing, empty, swapped or from elsewhere. No state, any thread.

use std::path::{Path, PathBuf};

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::io::{Io, Purpose};
use crate::log::format::{Sealed, SegmentHeader};
use crate::log::reader::{ReadOptions, SegmentReader};

/// One segment of a chain that holds together.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Where the file is.
    pub(crate) path: PathBuf,
    /// Number of the file.
    pub(crate) id: FileId,
    /// Its header; `None` for a last segment whose creation a crash cut short.
    pub(crate) header: Option<SegmentHeader>,
    /// What its successor or the manifest says of it; `None` for the segment in use.
    pub(crate) sealed: Option<Sealed>,
}

/// What is to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainSpec<'a> {
    /// What the frames hold.
    pub(crate) kind: FileKind,
    /// Identity of the database.
    pub(crate) uuid: [u8; 16],
    /// Numbers of the segments found, ascending; older ones than `floor` left out.
    pub(crate) found: &'a [FileId],
    /// The oldest segment that is needed: there must be one, and no older one than the first
    /// found may be needed. Zero where none is needed.
    pub(crate) floor: FileId,
    /// Segments that the manifest knows as sealed.
    pub(crate) sealed: &'a [Sealed],
    /// Why the bytes are read.
    pub(crate) purpose: Purpose,
}

/// Reads the header of every segment and checks that they form one chain.
pub(crate) fn check_chain(io: &Io, dir: &Path, spec: &ChainSpec<'_>) -> Result<Vec<Link>> {
    let mut links: Vec<Link> = Vec::with_capacity(spec.found.len());
    if spec.found.is_empty() && spec.floor.0 != 0 {
        return Err(missing(dir, spec.kind, spec.floor));
    }
    for &id in spec.found {
        let path = dir.join(file_name(spec.kind, id));
        let header = read_header(io, &path, id, spec)?;
        if let Some(header) = header {
            join(links.last_mut(), &header, &path, spec)?;
        } else if spec.found.last() != Some(&id) || id == spec.floor {
            let message = "segment without header, though it was in use";
            return Err(Error::corruption(message).in_file(&path).at_offset(0));
        } else {
            mark!("log_chain_ends_in_unborn_segment");
        }
        links.push(Link { path, id, header, sealed: None });
    }
    for &sealed in spec.sealed.iter().filter(|sealed| sealed.id >= spec.floor) {
        let Some(link) = links.iter_mut().find(|link| link.id == sealed.id) else {
            return Err(missing(dir, spec.kind, sealed.id));
        };
        if link.sealed.is_some_and(|by_successor| by_successor != sealed) {
            let message = "the manifest and the next segment disagree about this one";
            return Err(Error::corruption(message).in_file(&link.path));
        }
        link.sealed = Some(sealed);
    }
    Ok(links)
}

fn read_header(
    io: &Io,
    path: &Path,
    id: FileId,
    spec: &ChainSpec<'_>,
) -> Result<Option<SegmentHeader>> {
    let ChainSpec { kind, uuid, purpose, .. } = *spec;
    let options = ReadOptions { kind, id, uuid, sealed: None, contiguous: false, purpose };
    SegmentReader::open(io, path, options).map(|reader| reader.header().copied())
}

/// Checks that `header` follows `last`, and takes from it what `last` was sealed as.
fn join(
    last: Option<&mut Link>,
    header: &SegmentHeader,
    path: &Path,
    spec: &ChainSpec<'_>,
) -> Result<()> {
    let dir = path.parent().unwrap_or(path);
    match (last, header.predecessor) {
        (Some(last), Some(before)) if before.id == last.id => {
            last.sealed = Some(before);
            Ok(())
        }
        (Some(_), Some(before)) => Err(missing(dir, spec.kind, before.id)),
        (Some(_), None) => {
            let message = "segment names no predecessor, though there are older ones";
            Err(Error::corruption(message).in_file(path).at_offset(0))
        }
        (None, Some(before)) if before.id >= spec.floor => Err(missing(dir, spec.kind, before.id)),
        (None, _) => Ok(()),
    }
}

fn missing(dir: &Path, kind: FileKind, id: FileId) -> Error {
    Error::corruption("a log segment is missing").in_file(&dir.join(file_name(kind, id)))
}

#[cfg(test)]
mod tests;
