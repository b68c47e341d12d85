//! The functions of the C interfaces, with the signatures of the libraries' headers (`c.h`).

use std::ffi::{c_char, c_int, c_uchar, c_void};

use anyhow::{Context, Result};
use libloading::Library;

/// A thing that only the library looks into.
pub(super) type Handle = *mut c_void;
/// Where a library puts the text of an error.
pub(super) type Error = *mut *mut c_char;
/// Bytes handed to a library.
pub(super) type Bytes = *const c_char;

/// What a merge operator of RocksDB consists of.
type Drop = extern "C" fn(Handle);
type Name = extern "C" fn(Handle) -> Bytes;
type DeleteValue = extern "C" fn(Handle, Bytes, usize);
type FullMerge = extern "C" fn(
    Handle,
    Bytes,
    usize,
    Bytes,
    usize,
    *const Bytes,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
type PartialMerge = extern "C" fn(
    Handle,
    Bytes,
    usize,
    *const Bytes,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;

/// A table of functions and the look-up that fills it.
macro_rules! functions {
    ($(#[$doc:meta])* $name:ident {
        $($function:ident: ($($argument:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name {
            $(pub(super) $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            /// Looks up every function, its name with `prefix` before it.
            pub(super) fn load(library: &'static Library, prefix: &str) -> Result<Self> {
                Ok(Self {
                    $($function: {
                        let name = format!("{prefix}_{}", stringify!($function));
                        // SAFETY: the type is the one that the library's header declares under
                        // this name; both libraries keep their C interface stable. The pointer
                        // stays valid because the library is never closed.
                        let symbol = unsafe { library.get(name.as_bytes()) };
                        *symbol.with_context(|| format!("the library has no {name}"))?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// What LevelDB and RocksDB have in common.
    Common {
        open: (Handle, Bytes, Error) -> Handle;
        close: (Handle);
        put: (Handle, Handle, Bytes, usize, Bytes, usize, Error);
        delete: (Handle, Handle, Bytes, usize, Error);
        write: (Handle, Handle, Handle, Error);
        get: (Handle, Handle, Bytes, usize, *mut usize, Error) -> *mut c_char;
        free: (Handle);
        compact_range: (Handle, Bytes, usize, Bytes, usize);
        create_iterator: (Handle, Handle) -> Handle;
        iter_destroy: (Handle);
        iter_valid: (Handle) -> c_uchar;
        iter_seek: (Handle, Bytes, usize);
        iter_seek_to_last: (Handle);
        iter_next: (Handle);
        iter_prev: (Handle);
        iter_key: (Handle, *mut usize) -> Bytes;
        iter_value: (Handle, *mut usize) -> Bytes;
        iter_get_error: (Handle, Error);
        writebatch_create: () -> Handle;
        writebatch_destroy: (Handle);
        writebatch_clear: (Handle);
        writebatch_put: (Handle, Bytes, usize, Bytes, usize);
        writebatch_delete: (Handle, Bytes, usize);
        options_create: () -> Handle;
        options_destroy: (Handle);
        options_set_create_if_missing: (Handle, c_uchar);
        options_set_write_buffer_size: (Handle, usize);
        options_set_max_open_files: (Handle, c_int);
        options_set_compression: (Handle, c_int);
        readoptions_create: () -> Handle;
        readoptions_destroy: (Handle);
        writeoptions_create: () -> Handle;
        writeoptions_destroy: (Handle);
        writeoptions_set_sync: (Handle, c_uchar);
        cache_destroy: (Handle);
    }
}

functions! {
    /// What only LevelDB has, or has otherwise.
    Level {
        options_set_cache: (Handle, Handle);
        options_set_max_file_size: (Handle, usize);
        options_set_filter_policy: (Handle, Handle);
        cache_create_lru: (usize) -> Handle;
        filterpolicy_create_bloom: (c_int) -> Handle;
        filterpolicy_destroy: (Handle);
        major_version: () -> c_int;
        minor_version: () -> c_int;
    }
}

functions! {
    /// What only RocksDB has, or has otherwise.
    Rocks {
        get_pinned: (Handle, Handle, Bytes, usize, Error) -> Handle;
        pinnableslice_value: (Handle, *mut usize) -> Bytes;
        pinnableslice_destroy: (Handle);
        get_default_column_family_handle: (Handle) -> Handle;
        delete_range_cf: (Handle, Handle, Handle, Bytes, usize, Bytes, usize, Error);
        batched_multi_get_cf: (
            Handle, Handle, Handle, usize, *const Bytes, *const usize, *mut Handle, Error, c_uchar
        );
        iter_seek_for_prev: (Handle, Bytes, usize);
        merge: (Handle, Handle, Bytes, usize, Bytes, usize, Error);
        writebatch_merge: (Handle, Bytes, usize, Bytes, usize);
        property_value: (Handle, Bytes) -> *mut c_char;
        options_enable_statistics: (Handle);
        options_statistics_get_string: (Handle) -> *mut c_char;
        property_int: (Handle, Bytes, *mut u64) -> c_int;
        flushoptions_create: () -> Handle;
        flushoptions_destroy: (Handle);
        flush: (Handle, Handle, Error);
        flush_wal: (Handle, c_uchar, Error);
        wait_for_compact_options_create: () -> Handle;
        wait_for_compact_options_destroy: (Handle);
        wait_for_compact: (Handle, Handle, Error);
        cache_create_hyper_clock: (usize, usize) -> Handle;
        write_buffer_manager_create_with_cache: (usize, Handle, c_uchar) -> Handle;
        write_buffer_manager_destroy: (Handle);
        filterpolicy_create_bloom_full: (f64) -> Handle;
        block_based_options_create: () -> Handle;
        block_based_options_destroy: (Handle);
        block_based_options_set_block_cache: (Handle, Handle);
        block_based_options_set_filter_policy: (Handle, Handle);
        block_based_options_set_cache_index_and_filter_blocks: (Handle, c_uchar);
        block_based_options_set_pin_l0_filter_and_index_blocks_in_cache: (Handle, c_uchar);
        options_set_block_based_table_factory: (Handle, Handle);
        options_set_write_buffer_manager: (Handle, Handle);
        options_set_max_background_jobs: (Handle, c_int);
        options_set_bytes_per_sync: (Handle, u64);
        options_set_level_compaction_dynamic_level_bytes: (Handle, c_uchar);
        options_set_use_direct_reads: (Handle, c_uchar);
        options_set_use_direct_io_for_flush_and_compaction: (Handle, c_uchar);
        options_set_enable_blob_files: (Handle, c_uchar);
        options_set_min_blob_size: (Handle, u64);
        options_set_blob_compression_type: (Handle, c_int);
        options_set_enable_blob_gc: (Handle, c_uchar);
        options_set_blob_gc_age_cutoff: (Handle, f64);
        options_set_blob_cache: (Handle, Handle);
        options_set_uint64add_merge_operator: (Handle);
        options_set_merge_operator: (Handle, Handle);
        mergeoperator_create: (
            Handle, Drop, FullMerge, PartialMerge, DeleteValue, Name
        ) -> Handle;
        options_set_target_file_size_base: (Handle, u64);
        options_set_max_bytes_for_level_multiplier: (Handle, f64);
        options_set_blob_file_size: (Handle, u64);
        options_set_blob_gc_force_threshold: (Handle, f64);
        block_based_options_set_no_block_cache: (Handle, c_uchar);
    }
}
