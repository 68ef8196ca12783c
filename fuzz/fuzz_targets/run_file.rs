//! Any text as a run file. All faults are reported; a valid file can be written and is valid when
//! read again.
#![no_main]
#![allow(dead_code, unused_imports)]

// The run files of metier-session, without Kubernetes and other launchers.
#[path = "../../crates/metier-session/src/runfile/mod.rs"]
mod runfile;

use libfuzzer_sys::fuzz_target;
use runfile::{Other, RunFile, parse};

/// Whether it refers to files of this machine.
fn leads_elsewhere(file: &RunFile) -> bool {
    file.needs.iter().chain(&file.with).any(|other| match other {
        Other::File(_) => true,
        Other::Run(file) => leads_elsewhere(file),
    })
}

fuzz_target!(|text: &str| {
    let Ok((file, origins)) = parse(text) else { return };
    if leads_elsewhere(&file) {
        return;
    }
    match file.check_for_later(&origins) {
        Err(faults) => assert!(!faults.to_string().is_empty()),
        Ok(checked) => {
            let written = serde_json::to_string(&checked.file).expect("a run file can be written");
            let (file, origins) = parse(&written).expect("what was written can be read");
            let again = file.check_for_later(&origins).expect("what was right stays right");
            assert_eq!(serde_json::to_string(&again.file).ok(), Some(written));
        }
    }
});
