//! glibc's allocator: settings for two kinds of process, and the return of freed memory. Other C
//! libraries keep their defaults.

/// For servers that stay up: blocks of 128 KiB and more are mapped one by one and return to the
/// kernel when freed. glibc's default raises that threshold after the first large block, and keeps
/// later ones in an arena per thread.
pub fn tune_for_server() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets a parameter of the allocator and may be called at any time; a failure
    // changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

/// Returns freed memory to the kernel. It walks all arenas, which takes some milliseconds.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time; it takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// For repeated inferences: freed memory stays in one arena. Otherwise each inference maps its
/// large tensors anew, and the kernel's clearing of their pages costs more time than the
/// computation.
pub fn tune_for_inference() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets parameters of the allocator and may be called at any time; a failure
    // changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // No maps at all instead of a high threshold: older versions refuse a threshold above 32
        // MiB.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}
