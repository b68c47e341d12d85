//! Values that stand in files of their own.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::VALUE_BYTES_MAX;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::io::Purpose;
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::large::format::CHUNK_CRC_BYTES;
use crate::values::large::reader::LargeFile;
use crate::values::reader::{ValueReader, Wanted};

impl ValueReader<'_> {
    /// The file of a large value, proved to be that of the entry, to be read piece by piece.
    pub(crate) fn open_large(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<LargeFile> {
        open(self.large_file_of(&wanted.handle)?, wanted, purpose)
    }

    /// The values that gets want, in the order asked for, large ones among them: those are read one
    /// after the other, when nobody waits any more for what is read together.
    pub(crate) fn get_many(&self, wanted: &[Wanted<'_>], purpose: Purpose) -> Vec<Result<Value>> {
        let is_large = |one: &&Wanted<'_>| one.handle.is_large();
        if !wanted.iter().any(|one| is_large(&one)) {
            return self.read_many(wanted, purpose);
        }
        let others: Vec<_> = wanted.iter().filter(|one| !is_large(one)).copied().collect();
        let mut others = self.read_many(&others, purpose).into_iter();
        let missing = || Err(Error::invalid("a batched read lost a value"));
        let outcome = |one: &Wanted<'_>| match one.handle.is_large() {
            true => self.read_large(one, purpose),
            false => others.next().unwrap_or_else(missing),
        };
        wanted.iter().map(outcome).collect()
    }

    /// A large value in one piece.
    pub(super) fn read_large(&self, wanted: &Wanted<'_>, purpose: Purpose) -> Result<Value> {
        read_whole(self.large_file_of(&wanted.handle)?, wanted, purpose)
    }

    /// The file that a large value's handle names.
    pub(super) fn large_file_of(&self, handle: &Handle) -> Result<&Arc<ValueFile>> {
        let entry = self.files.get_large(handle.file).ok_or_else(|| {
            let path = self.context.dir.join(file_name(FileKind::Large, handle.file));
            let message = "an entry names the file of a large value that is not there";
            Error::corruption(message).in_file(&path)
        })?;
        Ok(&entry.file)
    }
}

fn open(file: &Arc<ValueFile>, wanted: &Wanted<'_>, purpose: Purpose) -> Result<LargeFile> {
    let large = LargeFile::open(file, u64::from(wanted.handle.bytes), purpose)?;
    large.check_key(wanted.keyspace, wanted.key)?;
    Ok(large)
}

/// A large value in one piece, unless it is too long for that.
pub(super) fn read_whole(
    file: &Arc<ValueFile>,
    wanted: &Wanted<'_>,
    purpose: Purpose,
) -> Result<Value> {
    let value_bytes = wanted.handle.bytes as usize;
    if value_bytes > VALUE_BYTES_MAX {
        let message = format!(
            "a value of {value_bytes} bytes is not handed over in one piece, which \
             {VALUE_BYTES_MAX} bytes are at most; read it with get_reader"
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let large = open(file, wanted, purpose)?;
    // The file is as long as the value needs.
    let mut value = Vec::with_capacity(value_bytes + CHUNK_CRC_BYTES);
    for number in 0..large.layout().chunks() {
        large.read_chunk(number, &mut value)?;
    }
    Ok(Value::from(value))
}
