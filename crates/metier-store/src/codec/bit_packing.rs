//! Bit packing: each number takes as many bits as the largest one needs, least significant bit
//! first.

/// Bytes after the packed data that the reader may load.
pub(super) const READ_SLACK_BYTES: usize = 8;

/// Number of bits that a value needs.
pub(super) fn bit_width(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Size in bytes of `count` packed numbers of `width` bits.
pub(super) fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends the low `width` bits of each number.
pub(super) fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut pending = 0u128;
    let mut bits = 0;
    for value in values {
        pending |= u128::from(*value) << bits;
        bits += width;
        if bits >= 64 {
            out.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= 64;
            bits -= 64;
        }
    }
    out.extend_from_slice(&(pending as u64).to_le_bytes()[..(bits as usize).div_ceil(8)]);
}

/// Reads `into.len()` numbers of `width` bits. Returns `false` if `bytes` is not at least
/// [`READ_SLACK_BYTES`] bytes longer than the packed numbers.
pub(super) fn unpack(bytes: &[u8], width: u32, into: &mut [u64]) -> bool {
    let Some(bytes) = bytes.get(..packed_len(into.len(), width) + READ_SLACK_BYTES) else { return false };
    let load = |at: usize| -> u64 {
        bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    match width {
        0 => into.fill(0),
        // At most 7 bits of the first byte belong to the number before, so one 64-bit load always
        // holds 57 bits.
        1..=57 => {
            let mask = (1u64 << width) - 1;
            let mut bit = 0usize;
            for value in into {
                *value = (load(bit >> 3) >> (bit & 7)) & mask;
                bit += width as usize;
            }
        }
        64 => {
            for (value, at) in into.iter_mut().zip((0..).step_by(8)) {
                *value = load(at);
            }
        }
        _ => {
            let mask = (1u64 << width) - 1;
            let mut bit = 0usize;
            for value in into {
                let (at, shift) = (bit >> 3, bit & 7);
                let low = load(at) >> shift;
                let high = if shift == 0 { 0 } else { u64::from(bytes[at + 8]) << (64 - shift) };
                *value = (low | high) & mask;
                bit += width as usize;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_reads_back() {
        for width in 0..=64u32 {
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            for count in [1usize, 2, 7, 127, 128] {
                let values: Vec<u64> =
                    (1..=count as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask).collect();
                let mut bytes = Vec::new();
                pack(&values, width, &mut bytes);
                assert_eq!(bytes.len(), packed_len(count, width));
                let mut back = vec![0; count];
                assert!(!unpack(&bytes, width, &mut back), "slack is required");
                bytes.extend([0xff; READ_SLACK_BYTES]);
                assert!(unpack(&bytes, width, &mut back));
                assert_eq!(back, values, "width {width}, count {count}");
            }
        }
    }
}
