//! Any text as a run file. All faults are reported; a valid file can be written and is valid when
//! read again.

use metier_session::runfile::{NestedRun, RunFile, parse};

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "run_file", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    repository_files("examples", ".yaml")
}

/// Whether it refers to files of this machine.
fn has_files(file: &RunFile) -> bool {
    file.needs.iter().chain(&file.with).any(|other| match other {
        NestedRun::File(_) => true,
        NestedRun::Run(file) => has_files(file),
    })
}

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok((file, origins)) = parse(text) else { return };
    if has_files(&file) {
        return;
    }
    match file.check_for_later(&origins) {
        Err(faults) => assert!(!faults.to_string().is_empty()),
        Ok(checked) => {
            let written = serde_json::to_string(&checked.file).expect("a run file can be written");
            let (file, origins) = parse(&written).expect("what is written can be read");
            let again = file.check_for_later(&origins).expect("what is valid stays valid");
            assert_eq!(serde_json::to_string(&again.file).ok(), Some(written));
        }
    }
}
