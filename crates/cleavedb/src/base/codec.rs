//! Little-endian integers, varints and length-prefixed bytes, with every read checked.

use crate::base::error::{Error, Result};

/// Appends `value` as a LEB128 varint (1 to 10 bytes).
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] takes for `value`.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a signed number as a varint, small ones of either sign in few bytes.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a varint length and the bytes.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads integers and byte strings off the front of a slice; every error is `Corruption` and no
/// length is trusted before it is compared with what remains (rule F8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over the whole of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(truncated(count, self.rest.len())),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(truncated(N, self.rest.len())),
        }
    }

    /// One byte.
    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, little-endian.
    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes as they are.
    pub(crate) fn uuid(&mut self) -> Result<[u8; 16]> {
        self.array()
    }

    /// A LEB128 varint; more than 64 bits or more bytes than it needs is an error, so that each
    /// number has one encoding.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        // What nearly every number takes.
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        if let [low, high @ 1..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7);
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64> {
        if let Some(head) = self.rest.first_chunk()
            && let Some((value, bytes)) = short_varint(u64::from_le_bytes(*head))
        {
            self.rest = self.rest.get(bytes..).unwrap_or_default();
            return Ok(value);
        }
        self.varint_by_bytes()
    }

    fn varint_by_bytes(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        for (number, byte) in self.rest.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 || shift > 63 {
                return Err(Error::corruption("varint longer than 64 bits"));
            }
            value |= bits << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                if *byte == 0 && number > 0 {
                    return Err(Error::corruption("varint longer than it needs to be"));
                }
                self.rest = self.rest.get(number + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        match shift {
            64.. => Err(Error::corruption("varint longer than 64 bits")),
            _ => Err(truncated(1, 0)),
        }
    }

    /// A varint that must fit in 32 bits.
    #[inline]
    pub(crate) fn varint_u32(&mut self) -> Result<u32> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| too_large(value))
    }

    /// What [`put_signed`] wrote.
    pub(crate) fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A varint length and that many bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| too_large(length))?)
    }
}

/// The varint that a word begins with, little-endian, and its bytes; none where it does not end
/// there, or is longer than it needs to be.
#[inline]
pub(crate) fn short_varint(word: u64) -> Option<(u64, usize)> {
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // Bits in front of the one that says that the byte is the last.
    let bits = ends.trailing_zeros();
    let kept = word & (u64::MAX >> (63 - bits));
    // The last byte is not there for nothing, unless it is the only one.
    let is_needed = bits == 7 || kept >> (bits - 7) != 0;
    is_needed.then(|| (joined(kept), bits as usize / 8 + 1))
}

/// The groups of seven bits of up to eight bytes as one number: of two bytes each, then of four,
/// then of eight.
fn joined(bytes: u64) -> u64 {
    let pairs = (bytes & 0x007f_007f_007f_007f) | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

// Apart from the readers, so that these stay small enough to be built into their callers.

#[cold]
fn truncated(wanted: usize, left: usize) -> Error {
    Error::corruption(format!("truncated: {wanted} bytes wanted, {left} left"))
}

#[cold]
fn too_large(value: u64) -> Error {
    Error::corruption(format!("{value} is larger than it can be here"))
}

#[cfg(test)]
mod tests;
