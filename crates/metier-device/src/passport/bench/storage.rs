//! Storage benchmark of a folder: synced writes, reads that bypass the page cache, and small synced
//! writes.
//!
//! It uses one file that is unlinked at once, so nothing remains after a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use metier_types::random::SplitMix64;
use metier_types::{Bytes, ExtraFields, Passport, Seconds, StorageRate};

use super::{BenchContext, RepetitionSpread, mark_missing};

/// Bytes per write and read; also the memory alignment for direct reads.
const BLOCK_BYTES: usize = 1 << 20;
/// Largest file size; the file also uses at most a tenth of the free space.
const MAX_FILE_BYTES: u64 = 256 << 20;
const MIN_FILE_BYTES: u64 = 4 << 20;
/// Passes of each of writing and reading.
const PASSES: u32 = 3;
/// Largest number of small synced writes.
const MAX_SYNCS: usize = 200;

/// See [`super::BENCH_PARTS`].
pub fn measure(bench: &mut BenchContext, passport: &mut Passport) {
    let Some(folder) = bench.plan.folder.clone() else {
        return mark_missing(passport, "storage", "there is no folder to write to");
    };
    match measure_storage(&folder, bench.time) {
        Ok((rate, reasons)) => {
            reasons.into_iter().for_each(|(field, reason)| mark_missing(passport, field, reason));
            passport.storage = Some(rate);
        }
        Err(reason) => {
            mark_missing(passport, "storage", format!("cannot write in {}: {reason}", folder.display()))
        }
    }
}

type MissingReasons = Vec<(&'static str, String)>;

fn measure_storage(folder: &Path, time: Duration) -> io::Result<(StorageRate, MissingReasons)> {
    std::fs::create_dir_all(folder)?;
    let (file_system, free) = probe_file_system(folder)?;
    let size = (free / 10).min(MAX_FILE_BYTES) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    if size < MIN_FILE_BYTES {
        return Err(io::Error::other(format!("only {} are free", Bytes(free))));
    }
    let (mut file, direct) = create_scratch_file(folder)?;
    let mut reasons = MissingReasons::new();
    let mut spreads = Vec::new();

    let (size, write) = write_passes(&mut file, size, time.mul_f64(0.45))?;
    spreads.extend(write);
    // tmpfs has no medium below the page cache.
    let read = match (file_system.as_deref(), direct) {
        (Some("tmpfs" | "ramfs"), _) => {
            reasons.push((
                "storage.read_bytes_per_second",
                "the folder is in memory (tmpfs); nothing lies below the page cache".into(),
            ));
            None
        }
        (_, Some(mut direct)) => read_direct(&mut direct, size, time.mul_f64(0.35))
            .or_else(|_| read_uncached(&mut file, size, time.mul_f64(0.35)))?,
        (_, None) => read_uncached(&mut file, size, time.mul_f64(0.35))?,
    };
    spreads.extend(read);
    let sync = median_sync_seconds(&file, time.mul_f64(0.2))?;
    let widest = spreads
        .iter()
        .map(|spread| spread.ratio().get())
        .fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))));
    let rate = StorageRate {
        read_bytes_per_second: read.map(|spread| spread.best),
        write_bytes_per_second: write.map(|spread| spread.best),
        sync_seconds: sync.map(Seconds),
        file_bytes: Some(Bytes(size)),
        file_system,
        spread_ratio: widest.map(metier_types::Ratio),
        extra: ExtraFields::new(),
    };
    Ok((rate, reasons))
}

/// Creates an unlinked file, and opens it with `O_DIRECT` too if the file system supports that.
fn create_scratch_file(folder: &Path) -> io::Result<(File, Option<File>)> {
    let path = folder.join(format!(".metier-bench-{}", metier_types::RunId::new()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).ok();
    std::fs::remove_file(&path)?;
    Ok((file, direct))
}

/// Repeatedly writes and syncs the whole file. If the first pass is slow, the file is shortened
/// once.
fn write_passes(file: &mut File, size: u64, time: Duration) -> io::Result<(u64, Option<RepetitionSpread>)> {
    // Random bytes, which a file system cannot compress.
    let mut random = SplitMix64::new(1);
    let mut block = vec![0_u8; BLOCK_BYTES];
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_ne_bytes());
    }
    let deadline = Instant::now() + time;
    let (mut size, mut rates) = (size, Vec::new());
    for pass in 0..PASSES {
        if pass > 0 && Instant::now() >= deadline {
            break;
        }
        file.rewind()?;
        let (start, mut done) = (Instant::now(), 0);
        while done < size {
            file.write_all(&block)?;
            done += BLOCK_BYTES as u64;
            if pass == 0 && done >= MIN_FILE_BYTES && start.elapsed() >= time / PASSES {
                size = done;
            }
        }
        file.sync_data()?;
        rates.push(size as f64 / start.elapsed().as_secs_f64());
    }
    Ok((size, RepetitionSpread::from_rates(rates)))
}

/// Reads through a file opened with `O_DIRECT`.
fn read_direct(file: &mut File, size: u64, time: Duration) -> io::Result<Option<RepetitionSpread>> {
    // `O_DIRECT` reads need aligned memory.
    let mut memory = vec![0_u8; BLOCK_BYTES + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let block = &mut memory[from..from + BLOCK_BYTES];
    read_passes(size, time, |left| {
        if left == size {
            file.rewind()?;
        }
        file.read(block)
    })
}

/// Reads through the page cache after dropping the file from it.
fn read_uncached(file: &mut File, size: u64, time: Duration) -> io::Result<Option<RepetitionSpread>> {
    let mut block = vec![0_u8; BLOCK_BYTES];
    read_passes(size, time, |left| {
        if left == size {
            file.rewind()?;
            // SAFETY: the descriptor is open; the call only gives advice.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
        file.read(&mut block)
    })
}

fn read_passes(
    size: u64,
    time: Duration,
    mut one: impl FnMut(u64) -> io::Result<usize>,
) -> io::Result<Option<RepetitionSpread>> {
    let deadline = Instant::now() + time;
    let mut rates = Vec::new();
    while rates.is_empty() || (rates.len() < PASSES as usize && Instant::now() < deadline) {
        let (start, mut left) = (Instant::now(), size);
        while left > 0 && (left == size || start.elapsed() < time) {
            match one(left)? {
                0 => break,
                got => left = left.saturating_sub(got as u64),
            }
        }
        rates.push((size - left) as f64 / start.elapsed().as_secs_f64());
    }
    Ok(RepetitionSpread::from_rates(rates))
}

/// Median time of a small synced write; the minimum would reflect rare fast writes only.
fn median_sync_seconds(file: &File, time: Duration) -> io::Result<Option<f64>> {
    let deadline = Instant::now() + time;
    let block = [7_u8; 4096];
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < MAX_SYNCS && Instant::now() < deadline) {
        let start = Instant::now();
        file.write_all_at(&block, (times.len() % 16 * block.len()) as u64)?;
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied())
}

/// File system of a folder, if its magic number is known, and the number of free bytes.
fn probe_file_system(folder: &Path) -> io::Result<(Option<String>, u64)> {
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes())?;
    // SAFETY: zeroed is valid for this plain structure, the path ends with 0, and both outlive the
    // call.
    let about = unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        if libc::statfs(path.as_ptr(), &raw mut about) != 0 {
            return Err(io::Error::last_os_error());
        }
        about
    };
    let name = match about.f_type as u64 {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlay",
        0xf2f5_2010 => "f2fs",
        0x2fc1_2fc1 => "zfs",
        0x6969 => "nfs",
        _ => return Ok((None, about.f_bavail as u64 * about.f_bsize as u64)),
    };
    Ok((Some(name.into()), about.f_bavail as u64 * about.f_bsize as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (rate, reasons) =
            measure_storage(&folder.path().join("deep/er"), Duration::from_millis(60)).unwrap();
        assert!(std::fs::read_dir(folder.path().join("deep/er")).unwrap().next().is_none());
        let size = rate.file_bytes.unwrap().get();
        assert!(
            (MIN_FILE_BYTES..=MAX_FILE_BYTES).contains(&size) && size % BLOCK_BYTES as u64 == 0,
            "{size}"
        );
        assert!(rate.write_bytes_per_second.unwrap() > 0.0);
        assert!(rate.sync_seconds.unwrap().get() > 0.0);
        assert_eq!(rate.read_bytes_per_second.is_none(), !reasons.is_empty(), "{reasons:?}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told() {
        assert!(measure_storage(Path::new("/proc/self/no"), Duration::from_millis(10)).is_err());
    }
}
