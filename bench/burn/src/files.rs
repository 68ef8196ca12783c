//! Workloads that write and read a file.

use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;

use crate::arguments::{Arguments, MOST_MIB, Problem};
use crate::report::{Report, Target};

const BLOCK: usize = 1 << 20;

/// `write FILE MIB [--fsync]`: each block differs, so that storage cannot deduplicate them.
pub fn write(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let path = arguments.next_path("FILE")?;
    let mib = arguments.next_whole("MIB", MOST_MIB)?;
    let fsync = arguments.flag("--fsync");
    let target = Target::last_of(arguments)?;
    let failed = |e: std::io::Error| Problem::failed(format!("write {}: {e}", path.display()));
    let mut file = File::create(&path).map_err(failed)?;
    let mut block: Vec<u8> =
        (0..BLOCK).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for n in 0..mib {
        block[..8].copy_from_slice(&n.to_le_bytes());
        file.write_all(&block).map_err(failed)?;
    }
    if fsync {
        file.sync_all().map_err(failed)?;
    }
    let mut report = Report::of("write");
    report.whole("written_bytes", mib << 20);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `read FILE`.
pub fn read(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let path = arguments.next_path("FILE")?;
    let target = Target::last_of(arguments)?;
    let failed = |e: std::io::Error| Problem::failed(format!("read {}: {e}", path.display()));
    let mut file = File::open(&path).map_err(failed)?;
    let mut block = vec![0; BLOCK];
    let mut total = 0u64;
    loop {
        match file.read(&mut block).map_err(failed)? {
            0 => break,
            n => total += n as u64,
        }
    }
    let mut report = Report::of("read");
    report.whole("read_bytes", total);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}
