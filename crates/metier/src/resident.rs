//! What the allocator keeps and gives back. A server is there for long, and is counted by what it holds; who runs graphs again and again wants the same memory
//! each time.
//!
//! Most of the memory of a small role is the program itself: the code that read flags, settings and predictors, and is never needed again. The kernel reads it
//! from the file where it is.

/// Has the allocator give back large pieces as soon as they are free. By itself it learns from the first of them to keep the next, in an arena for each thread, and
/// [`give_back`] does not reach the ends of those. For roles that are small and answer; what learns is faster without.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator, which it takes at any time; a failure changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

/// Has the allocator keep what is free for the next inference, in one arena. By itself it gives large pieces back after each and asks for them again: pages that the
/// kernel clears cost more than what is computed in them, and by how much depends on what else was freed before. Runtimes with an arena of their own never did that.
pub fn keep_large() {
    #[cfg(target_env = "gnu")]
    // SAFETY: set numbers of the allocator, which it takes at any time; a failure changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // Not a high threshold for maps: older versions refuse one above 32 MiB, and then map everything from 128 KiB on.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// Gives back what starting took: memory that the allocator has free, and code, which comes back from the program's file page by page as it is used.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a call without arguments that matter, which only releases what the allocator has free.
    unsafe {
        libc::malloc_trim(0);
    }
    let (Ok(maps), Ok(own)) =
        (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    for (start, length) in maps.lines().filter_map(|line| code(line, &own.to_string_lossy())) {
        // SAFETY: the range is a mapping of this program's code: private, never written (it may not be), and backed by its file, from which the kernel reads
        // it again at the next use. A failure changes nothing.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
}

/// The range of a line of `maps` that is code of that program.
fn code(line: &str, program: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    // Offset, device, inode; what follows is the path, which may have blanks.
    let path = line.find('/').map(|at| &line[at..])?;
    if rights != "r-xp" || path != program {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_itself_is_given_back() {
        let of = |rights: &str, path: &str| {
            format!("55da6090d000-55da62ccd000 {rights} 00b7e000 fe:00 7061946    {path}")
        };
        let own = "/opt/a place/metier";
        assert_eq!(code(&of("r-xp", own), own), Some((0x55da_6090_d000, 0x23c_0000)));
        assert_eq!(code(&of("r--p", own), own), None, "relocated data is not in the file");
        assert_eq!(code(&of("rwxp", own), own), None);
        assert_eq!(code(&of("r-xp", "/lib/libc.so.6"), own), None);
        assert_eq!(code("55da6090d000-55da62ccd000 rw-p 00000000 00:00 0 [heap]", own), None);
    }

    #[test]
    fn the_program_goes_on_after_it() {
        give_back();
        assert_eq!((1..=10).map(|one| one.to_string()).collect::<Vec<_>>().join(",").len(), 20);
    }
}
