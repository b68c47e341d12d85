//! Block and value compression: none, LZ4 or zstd, kept only where it pays.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};

/// How bytes are compressed. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Compression {
    /// As they are.
    #[default]
    None = 1,
    /// LZ4: about 3 GB/s to read, half the size on text.
    Lz4 = 2,
    /// zstd level 3: about 1 GB/s to read, a third of the size on text.
    Zstd = 3,
}

impl Compression {
    /// Decodes the byte on disk.
    pub(crate) fn from_u8(byte: u8) -> Result<Self> {
        match byte {
            1 => Ok(Self::None),
            2 => Ok(Self::Lz4),
            3 => Ok(Self::Zstd),
            _ => Err(Error::corruption(format!("unknown compression {byte}"))),
        }
    }
}

/// zstd's own default: the knee of its speed and size curve.
const ZSTD_LEVEL: i32 = 3;

/// Compresses `input` into `out` (cleared first) and returns what was done: `None` where the gain
/// would be below 12 %, in which case `out` is left empty and the caller stores `input`.
pub(crate) fn compress(wanted: Compression, input: &[u8], out: &mut Vec<u8>) -> Compression {
    out.clear();
    let done = match wanted {
        Compression::None => return Compression::None,
        Compression::Lz4 => {
            out.resize(lz4_flex::block::get_maximum_output_size(input.len()), 0);
            lz4_flex::block::compress_into(input, out).map(|length| out.truncate(length)).is_ok()
        }
        Compression::Zstd => match zstd::bulk::compress(input, ZSTD_LEVEL) {
            Ok(compressed) => {
                *out = compressed;
                true
            }
            Err(_) => false,
        },
    };
    if done && out.len() <= input.len() - input.len() / 8 {
        wanted
    } else {
        out.clear();
        Compression::None
    }
}

/// Restores exactly `raw_len` bytes; the caller has bounded `raw_len` and checked the checksum.
pub(crate) fn decompress(how: Compression, input: &[u8], raw_len: usize) -> Result<Vec<u8>> {
    let restored = match how {
        Compression::None => input.to_vec(),
        Compression::Lz4 => lz4_flex::block::decompress(input, raw_len)
            .map_err(|e| Error::corruption(format!("LZ4 data does not decompress: {e}")))?,
        Compression::Zstd => zstd::bulk::decompress(input, raw_len)
            .map_err(|e| Error::corruption(format!("zstd data does not decompress: {e}")))?,
    };
    if restored.len() != raw_len {
        return Err(Error::corruption(format!(
            "decompressed to {} bytes instead of {raw_len}",
            restored.len()
        )));
    }
    Ok(restored)
}
