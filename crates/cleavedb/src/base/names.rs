//! Names of the files that make up a database directory.

use crate::base::entry::FileId;

/// Kind of a file, as its header states and its name shows. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum FileKind {
    /// Journal segment: `000012.log`.
    Journal = 1,
    /// Sorted table: `000013.tbl`.
    Table = 2,
    /// Manifest: `000014.man`.
    Manifest = 3,
    /// The pointer to the manifest in force: `CURRENT`.
    Current = 4,
    /// The effective options as text: `OPTIONS`.
    Options = 5,
    /// The lock: `LOCK`.
    Lock = 6,
    /// Room to give up when the disk is full: `RESERVE`.
    Reserve = 7,
    /// There while a database is being created: `CREATING`.
    Creating = 8,
    /// Value segment: `000015.val`.
    Value = 9,
    /// One large value in a file of its own: `000016.big`.
    Large = 10,
    /// Value table, values in key order: `000017.vtb`.
    ValueTable = 11,
    /// Checkpoint of the locator: `000018.loc`.
    Locator = 12,
    /// Bucket of deltas: `000019.dlt`.
    Bucket = 13,
    /// Pages of a tree of extents: `000020.fxp`.
    FlexPages = 14,
    /// Segment of a flexible space: `000021.fxs`.
    FlexSegment = 15,
    /// Logical log of a flexible space: `000022.fxl`.
    FlexLog = 16,
    /// Facts about value files: `000023.drp`.
    Facts = 17,
}

/// Name of the pointer file.
pub(crate) const CURRENT: &str = "CURRENT";
/// Name of the options file.
pub(crate) const OPTIONS: &str = "OPTIONS";
/// Name of the lock file.
pub(crate) const LOCK: &str = "LOCK";
/// Name of the reserve file.
pub(crate) const RESERVE: &str = "RESERVE";
/// Name of the marker of an unfinished creation.
pub(crate) const CREATING: &str = "CREATING";
/// Suffix of a file being written under its final name's stem; removed at open.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

impl FileKind {
    /// Decodes a kind byte; `None` for a number that was never given out.
    pub(crate) fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Journal,
            2 => Self::Table,
            3 => Self::Manifest,
            4 => Self::Current,
            5 => Self::Options,
            6 => Self::Lock,
            7 => Self::Reserve,
            8 => Self::Creating,
            9 => Self::Value,
            10 => Self::Large,
            11 => Self::ValueTable,
            12 => Self::Locator,
            13 => Self::Bucket,
            14 => Self::FlexPages,
            15 => Self::FlexSegment,
            16 => Self::FlexLog,
            17 => Self::Facts,
            _ => return None,
        })
    }

    /// The extension of a numbered kind.
    fn extension(self) -> Option<&'static str> {
        match self {
            Self::Journal => Some("log"),
            Self::Table => Some("tbl"),
            Self::Manifest => Some("man"),
            Self::Value => Some("val"),
            Self::Large => Some("big"),
            Self::ValueTable => Some("vtb"),
            Self::Locator => Some("loc"),
            Self::Bucket => Some("dlt"),
            Self::FlexPages => Some("fxp"),
            Self::FlexSegment => Some("fxs"),
            Self::FlexLog => Some("fxl"),
            Self::Facts => Some("drp"),
            Self::Current | Self::Options | Self::Lock | Self::Reserve | Self::Creating => None,
        }
    }
}

/// Largest number of a file: far from where counting on would overflow. What claims more is not
/// ours.
pub(crate) const FILE_ID_MAX: u64 = 1 << 62;

/// The name of a numbered file.
pub(crate) fn file_name(kind: FileKind, id: FileId) -> String {
    match kind.extension() {
        Some(extension) => format!("{id}.{extension}"),
        None => match kind {
            FileKind::Current => CURRENT,
            FileKind::Options => OPTIONS,
            FileKind::Lock => LOCK,
            FileKind::Creating => CREATING,
            _ => RESERVE,
        }
        .to_owned(),
    }
}

/// Whether a name is that of a file of ours while it is being written.
pub(crate) fn is_draft(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX).is_some_and(|stem| parse_file_name(stem).is_some())
}

/// What a name says; `None` for names that are not ours.
pub(crate) fn parse_file_name(name: &str) -> Option<(FileKind, FileId)> {
    match name {
        CURRENT => return Some((FileKind::Current, FileId(0))),
        OPTIONS => return Some((FileKind::Options, FileId(0))),
        LOCK => return Some((FileKind::Lock, FileId(0))),
        RESERVE => return Some((FileKind::Reserve, FileId(0))),
        CREATING => return Some((FileKind::Creating, FileId(0))),
        _ => {}
    }
    let (stem, extension) = name.split_once('.')?;
    let kind = match extension {
        "log" => FileKind::Journal,
        "tbl" => FileKind::Table,
        "man" => FileKind::Manifest,
        "val" => FileKind::Value,
        "big" => FileKind::Large,
        "vtb" => FileKind::ValueTable,
        "loc" => FileKind::Locator,
        "dlt" => FileKind::Bucket,
        "fxp" => FileKind::FlexPages,
        "fxs" => FileKind::FlexSegment,
        "fxl" => FileKind::FlexLog,
        "drp" => FileKind::Facts,
        _ => return None,
    };
    if stem.len() < 6 || !stem.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let id = stem.parse().ok().filter(|id| (1..=FILE_ID_MAX).contains(id))?;
    (file_name(kind, FileId(id)) == name).then_some((kind, FileId(id)))
}

#[cfg(test)]
mod tests;
