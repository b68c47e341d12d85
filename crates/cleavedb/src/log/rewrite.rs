//! Makes the good part of a log segment durable after recovery, whatever an earlier sync lost.

use std::path::Path;

use crate::base::checksum::{Rolling, crc};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::io::{DiskFile, Io};
use crate::log::format::Sealed;

/// Cuts a file to its good part and makes it durable, also where nothing is cut:
/// the successor is about to name it (rule F4), and what was read need not be on the device. After
/// a failed sync the kernel may hold pages that it takes for written, so that another sync does
/// nothing; only writing the same bytes again gets them out (F9 holds: no byte changes).
pub(crate) fn cut_tail(
    io: &Io,
    path: &Path,
    seed: u32,
    sealed: &Sealed,
) -> Result<Arc<dyn DiskFile>> {
    let bytes = sealed.bytes;
    let file = io.disk.open_write(path).map_err(|e| Error::io("opening a log segment", path, e))?;
    let len = file.len().map_err(|e| Error::io("measuring a log segment", path, e))?;
    if len < bytes {
        return Err(Error::corruption(format!("file shrank to {len} bytes")).in_file(path));
    }
    if len > bytes {
        mark!("log_tail_cut");
    } else {
        // The same holds for an earlier cut: only a length that changes is written. No harm if
        // there is no room for it.
        let _ = file.set_len(bytes + 1);
    }
    file.set_len(bytes).map_err(|e| Error::io("cutting a log segment's tail", path, e))?;
    write_again(file.as_ref(), path, seed, sealed)?;
    file.sync_data().map_err(|e| Error::io("syncing a log segment", path, e))?;
    Ok(file)
}

/// Makes the good part of a file durable as [`cut_tail`] does, and leaves what lies behind it.
pub(crate) fn make_durable(io: &Io, path: &Path, seed: u32, good: &Sealed) -> Result<()> {
    let file = io.disk.open_write(path).map_err(|e| Error::io("opening a log segment", path, e))?;
    write_again(file.as_ref(), path, seed, good)?;
    file.sync_data().map_err(|e| Error::io("syncing a log segment", path, e))
}

/// Bytes copied at a time by [`write_again`].
const COPY_BYTES: usize = 256 << 10;

/// Writes the good part of a file over itself; each piece is checked before it is written, since a
/// read that went wrong must not become what the file holds.
fn write_again(file: &dyn DiskFile, path: &Path, seed: u32, sealed: &Sealed) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(sealed.bytes as usize)];
    let mut whole = Rolling::new(seed);
    let mut sums = Vec::new();
    let read = |buffer: &mut Vec<u8>, offset: u64| {
        buffer.resize((sealed.bytes - offset).min(COPY_BYTES as u64) as usize, 0);
        file.read_exact_at(buffer, offset).map_err(|e| Error::io("reading a log again", path, e))
    };
    let offsets = || (0..sealed.bytes).step_by(COPY_BYTES);
    for offset in offsets() {
        read(&mut buffer, offset)?;
        whole.update(&buffer);
        sums.push(crc(seed, &buffer));
    }
    let differs = |offset| {
        Error::corruption("a log segment reads differently a second time")
            .in_file(path)
            .at_offset(offset)
    };
    if whole.value() != sealed.checksum {
        return Err(differs(0));
    }
    for (offset, sum) in offsets().zip(sums) {
        read(&mut buffer, offset)?;
        if crc(seed, &buffer) != sum {
            return Err(differs(offset));
        }
        file.write_all_at(&buffer, offset)
            .map_err(|e| Error::io("writing a log again", path, e))?;
    }
    Ok(())
}
