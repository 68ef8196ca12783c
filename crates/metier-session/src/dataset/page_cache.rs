//! Page-cache state of a dataset: drop its pages or read them in, then check the result.
//!
//! Dropping (`posix_fadvise`) is only advice to the kernel: dirty pages and mapped pages stay. So
//! the resident share is measured afterwards with `mincore`, and a run with a different state than
//! requested gets a warning.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use metier_types::PageCacheState;

use super::folder::files_of;
use super::{DatasetError, FetchWatch};

/// Largest resident share of a cold dataset, and largest missing share of a warm one.
const RESIDENCY_TOLERANCE: f64 = 0.01;
/// Bytes mapped for one `mincore` call.
const MINCORE_WINDOW_BYTES: u64 = 1 << 30;

/// Brings files and the contents of folders into a page-cache state. Returns a warning if that did
/// not work.
pub fn prepare_pages(
    paths: &[&Path],
    state: PageCacheState,
    watch: &FetchWatch<'_>,
) -> Result<Option<String>, DatasetError> {
    if state == PageCacheState::Untouched {
        return Ok(None);
    }
    let (mut resident, mut pages) = (0, 0);
    let mut files = Vec::new();
    for path in paths {
        files.extend(files_of(path, &watch.source)?);
    }
    for file in files {
        watch.check_stop()?;
        let failed =
            |reason| DatasetError::File { doing: "preparing the page cache for", path: file.clone(), reason };
        let open = File::open(&file).map_err(failed)?;
        match state {
            PageCacheState::Cold => drop_pages(&open).map_err(failed)?,
            _ => read_through(&open, watch, &file)?,
        }
        let (here, all) = residency(&open).map_err(failed)?;
        resident += here;
        pages += all;
    }
    let share = if pages == 0 { 0.0 } else { resident as f64 / pages as f64 };
    let percent = share * 100.0;
    Ok(match state {
        _ if pages == 0 => None,
        PageCacheState::Cold if share > RESIDENCY_TOLERANCE => Some(format!(
            "the dataset was to be cold, but {percent:.0} % of it stayed in the page cache: another process has it mapped, or the file system keeps it"
        )),
        PageCacheState::Warm if share < 1.0 - RESIDENCY_TOLERANCE => Some(format!(
            "the dataset was to be warm, but only {percent:.0} % of it is in the page cache: memory is short"
        )),
        _ => None,
    })
}

fn drop_pages(file: &File) -> io::Result<()> {
    // Dirty pages would stay. The error is ignored: where sync of a read-only descriptor fails,
    // metier wrote no pages.
    let _ = file.sync_all();
    // SAFETY: a valid descriptor; a length of 0 means to the end.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn read_through(mut file: &File, watch: &FetchWatch<'_>, path: &Path) -> Result<(), DatasetError> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        watch.check_stop()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(reason) => return Err(DatasetError::File { doing: "reading", path: path.into(), reason }),
        }
    }
}

/// Pages of a file that are in memory, and all of its pages.
pub fn residency(file: &File) -> io::Result<(u64, u64)> {
    let length = file.metadata()?.len();
    // SAFETY: sysconf only returns a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1);
    let (mut resident, mut pages, mut from) = (0, 0, 0);
    while from < length {
        let window = MINCORE_WINDOW_BYTES.min(length - from);
        let count = window.div_ceil(page);
        // SAFETY: a new read-only mapping of a part of an open file; nothing reads through it.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                window as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                from as libc::off_t,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut state = vec![0u8; count as usize];
        // SAFETY: the mapping just made, and a byte for each of its pages.
        let done = unsafe { libc::mincore(map, window as usize, state.as_mut_ptr()) };
        let error = io::Error::last_os_error();
        // SAFETY: the mapping just made; no other reference to it exists.
        unsafe { libc::munmap(map, window as usize) };
        if done != 0 {
            return Err(error);
        }
        resident += state.iter().filter(|byte| *byte & 1 == 1).count() as u64;
        pages += count;
        from += window;
    }
    Ok((resident, pages))
}
