//! Any bytes as a series of the store's codec. They are rejected, or they decode to a series that
//! survives a round trip. Length and checksum are corrected first, because mutations would never
//! match them.
#![no_main]
#![allow(dead_code)]

// The codec of metier-store, without its databases.
#[path = "../../crates/metier-store/src/codec/mod.rs"]
mod codec;

use libfuzzer_sys::fuzz_target;
use codec::{Limits, decode, encode};
use xxhash_rust::xxh64::xxh64;

const HEAD: usize = 20;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEAD {
        let length = (bytes.len() - HEAD) as u32;
        let sum = xxh64(&bytes[HEAD..], 0);
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..20].copy_from_slice(&sum.to_le_bytes());
    }
    let limits = Limits { rows: 4096, columns: 64, values: 1 << 16 };
    let Ok(series) = decode(&bytes, limits) else { return };
    assert!(series.times.len() <= 4096 && series.columns.len() <= 64);
    let written = encode(&series).expect("what was read can be written");
    let again = decode(&written, limits).expect("what was written can be read");
    // Compares bytes instead of values: NaN is not equal to itself.
    assert_eq!(encode(&again).ok().as_deref(), Some(written.as_slice()));
});
