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

/// Gives back what starting took: memory that the allocator has free, and code and constants, which come back from the program's file page by page as they are used.
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
    for (start, length) in of_file(&maps, &own.to_string_lossy()) {
        // SAFETY: the range is a mapping of this program's code or constants: private, never written (it may not be), and backed by its file, from which the kernel reads
        // it again at the next use. A failure changes nothing.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
}

/// The ranges of `maps` that are the same in that program's file: its code, and the constants that lie before it. What lies behind it is for reading, too, but was
/// written when the program was started: addresses that depend on where it lies.
fn of_file(maps: &str, program: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut has_code = false;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        // Offset, device, inode; what follows is the path, which may have blanks.
        if line.find('/').map(|at| &line[at..]) != Some(program) {
            continue;
        }
        let is_code = rights == "r-xp";
        let is_constant = rights == "r--p" && !has_code;
        has_code |= is_code;
        let ends = range.split_once('-').and_then(|(start, end)| {
            let start = usize::from_str_radix(start, 16).ok()?;
            Some((start, usize::from_str_radix(end, 16).ok()?.checked_sub(start)?))
        });
        ranges.extend(ends.filter(|_| is_code || is_constant));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_the_same_in_the_program_s_file_is_given_back() {
        let own = "/opt/a place/metier";
        let maps = [
            format!("1000-2000 r--p 00000000 fe:00 7    {own}"),
            format!("2000-5000 r-xp 00001000 fe:00 7    {own}"),
            format!("5000-6000 r--p 00004000 fe:00 7    {own}"),
            format!("6000-7000 rw-p 00005000 fe:00 7    {own}"),
            "7000-8000 rw-p 00000000 00:00 0    [heap]".to_string(),
            "8000-9000 r-xp 00000000 fe:00 8    /lib/libc.so.6".to_string(),
        ]
        .join("\n");
        assert_eq!(of_file(&maps, own), [(0x1000, 0x1000), (0x2000, 0x3000)]);
        assert_eq!(of_file("", own), []);
    }

    #[test]
    fn the_program_goes_on_after_it() {
        give_back();
        assert_eq!((1..=10).map(|one| one.to_string()).collect::<Vec<_>>().join(",").len(), 20);
    }
}
