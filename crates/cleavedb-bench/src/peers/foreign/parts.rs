//! A merge operator for RocksDB that overwrites parts of values, through its C interface. An
//! operand is the place of the part (4 bytes, little-endian) and its bytes.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;

use super::functions::{Handle, Rocks};
use crate::engine::overwrite;

const PLACE_BYTES: usize = 4;

/// The operand that puts `part` at `place`.
pub(super) fn operand(place: usize, part: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok([u32::try_from(place)?.to_le_bytes().as_slice(), part].concat())
}

/// Applies one operand; false if it is none.
fn apply(value: &mut Vec<u8>, operand: &[u8]) -> bool {
    let Some((place, part)) = operand.split_first_chunk::<PLACE_BYTES>() else { return false };
    overwrite(value, u32::from_le_bytes(*place) as usize, part);
    true
}

/// The operator, which passes to the options it is set in.
pub(super) fn operator(rocks: &Rocks) -> Handle {
    // SAFETY: the callbacks have the signatures of the library's header, keep no state, and can be
    // called from any thread at any time.
    unsafe {
        (rocks.mergeoperator_create)(
            ptr::null_mut(),
            nothing,
            full_merge,
            partial_merge,
            delete_value,
            name,
        )
    }
}

extern "C" fn nothing(_state: *mut c_void) {}

extern "C" fn name(_state: *mut c_void) -> *const c_char {
    c"cleavedb-bench.parts".as_ptr()
}

/// Hands a value to the library, which gives it back to [`delete_value`].
fn give(value: Vec<u8>, bytes: *mut usize) -> *mut c_char {
    let value = value.into_boxed_slice();
    // SAFETY: the library passes a place for the length.
    unsafe { *bytes = value.len() };
    Box::into_raw(value).cast()
}

extern "C" fn delete_value(_state: *mut c_void, value: *const c_char, bytes: usize) {
    let value = ptr::slice_from_raw_parts_mut(value.cast_mut().cast::<u8>(), bytes);
    // SAFETY: pointer and length are those that `give` handed out, each given back once.
    drop(unsafe { Box::from_raw(value) });
}

extern "C" fn full_merge(
    _state: *mut c_void,
    _key: *const c_char,
    _key_bytes: usize,
    existing: *const c_char,
    existing_bytes: usize,
    operands: *const *const c_char,
    operand_bytes: *const usize,
    count: c_int,
    success: *mut c_uchar,
    bytes: *mut usize,
) -> *mut c_char {
    let mut value = Vec::new();
    let mut right = true;
    if !existing.is_null() {
        // SAFETY: the library passes a value and its length that live during the call.
        value.extend_from_slice(unsafe { slice(existing, existing_bytes) });
    }
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: both lists have `count` entries, each a pointer and its length.
        let operand = unsafe { slice(*operands.add(index), *operand_bytes.add(index)) };
        right &= apply(&mut value, operand);
    }
    // SAFETY: the library passes a place for the outcome.
    unsafe { *success = c_uchar::from(right) };
    give(value, bytes)
}

/// Parts at different places do not become one operand: they stay as they are.
extern "C" fn partial_merge(
    _state: *mut c_void,
    _key: *const c_char,
    _key_bytes: usize,
    _operands: *const *const c_char,
    _operand_bytes: *const usize,
    _count: c_int,
    success: *mut c_uchar,
    bytes: *mut usize,
) -> *mut c_char {
    // SAFETY: the library passes a place for the outcome.
    unsafe { *success = 0 };
    give(Vec::new(), bytes)
}

/// # Safety
/// `bytes` bytes at `start` are readable for as long as the result is used.
unsafe fn slice<'a>(start: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(start.cast(), bytes) }
}
