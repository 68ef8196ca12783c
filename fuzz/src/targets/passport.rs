//! Any bytes as a passport. It is refused with each fault, or it reads back equal when written.

use metier_device::passport::parse_passport;

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "passport", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    repository_files("crates/metier-device/passports", ".json")
}

fn run(bytes: &[u8]) {
    match parse_passport(bytes) {
        Err(faults) => assert!(!faults.is_empty()),
        Ok(passport) => {
            let written = serde_json::to_vec(&passport).expect("a passport can be written");
            let again = parse_passport(&written).expect("what is written can be read");
            assert_eq!(again, passport);
        }
    }
}
