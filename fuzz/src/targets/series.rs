//! Any bytes as a series of the store's codec, with length and checksum put right: mutations would
//! never match them. They are refused, or they decode to a series that survives a round trip.

use metier_store::codec::{DecodeLimits, decode_series, encode_series, xxh64};

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "series", seeds, run };

/// Magic, version, length of the body at 8, checksum at 12.
const HEADER_BYTES: usize = 20;

fn seeds() -> Vec<Vec<u8>> {
    repository_files("crates/metier-store/tests/golden", "series-1.bin")
}

fn run(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEADER_BYTES {
        let length = (bytes.len() - HEADER_BYTES) as u32;
        let checksum = xxh64(&bytes[HEADER_BYTES..]);
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..20].copy_from_slice(&checksum.to_le_bytes());
    }
    let limits = DecodeLimits { rows: 1 << 16, columns: 64, values: 1 << 18 };
    let Ok(series) = decode_series(&bytes, limits) else { return };
    let written = encode_series(&series).expect("what is decoded can be encoded");
    let again = decode_series(&written, DecodeLimits::default()).expect("what is written can be read");
    assert_eq!(encode_series(&again).ok(), Some(written));
}
