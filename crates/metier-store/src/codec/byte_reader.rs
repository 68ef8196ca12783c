//! Byte-level encoding: varints, a bounds-checked reader, and the checksum.

use super::CodecError;

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_signed_varint(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads values from the front of a slice.
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
}

const ENDS_TOO_EARLY: CodecError = CodecError::Damaged("it ends too early");

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ENDS_TOO_EARLY)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ENDS_TOO_EARLY)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32, CodecError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, CodecError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::Damaged("a number is too long"))
    }

    pub fn signed_varint(&mut self) -> Result<i64, CodecError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a varint length and checks that as many bytes follow.
    pub fn length_prefix(&mut self) -> Result<usize, CodecError> {
        let length = self.varint()?;
        if length > self.rest.len() as u64 { Err(ENDS_TOO_EARLY) } else { Ok(length as usize) }
    }

    pub fn text(&mut self) -> Result<&'a str, CodecError> {
        let length = self.length_prefix()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| CodecError::Damaged("a text is not UTF-8"))
    }
}

const XXH64_PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const XXH64_PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const XXH64_PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const XXH64_PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const XXH64_PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

fn xxh64_round(lane: u64, input: u64) -> u64 {
    lane.wrapping_add(input.wrapping_mul(XXH64_PRIME_2)).rotate_left(31).wrapping_mul(XXH64_PRIME_1)
}

/// XXH64 with seed 0 (Collet, <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>). It
/// detects damage but not tampering. It reaches several GB/s without a dependency.
pub fn xxh64(bytes: &[u8]) -> u64 {
    let (stripes, mut tail) = bytes.as_chunks::<32>();
    let mut hash = XXH64_PRIME_5;
    if !stripes.is_empty() {
        let mut lanes =
            [XXH64_PRIME_1.wrapping_add(XXH64_PRIME_2), XXH64_PRIME_2, 0, 0u64.wrapping_sub(XXH64_PRIME_1)];
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = xxh64_round(*lane, u64::from_le_bytes(*word));
            }
        }
        let [a, b, c, d] = lanes;
        hash = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        for lane in lanes {
            hash = (hash ^ xxh64_round(0, lane)).wrapping_mul(XXH64_PRIME_1).wrapping_add(XXH64_PRIME_4);
        }
    }
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((word, rest)) = tail.split_first_chunk::<8>() {
        hash ^= xxh64_round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(XXH64_PRIME_1).wrapping_add(XXH64_PRIME_4);
        tail = rest;
    }
    if let Some((word, rest)) = tail.split_first_chunk::<4>() {
        hash ^= u64::from(u32::from_le_bytes(*word)).wrapping_mul(XXH64_PRIME_1);
        hash = hash.rotate_left(23).wrapping_mul(XXH64_PRIME_2).wrapping_add(XXH64_PRIME_3);
        tail = rest;
    }
    for byte in tail {
        hash ^= u64::from(*byte).wrapping_mul(XXH64_PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(XXH64_PRIME_1);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(XXH64_PRIME_2);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(XXH64_PRIME_3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        // Values of the reference program (`xxhsum -H1`).
        assert_eq!(xxh64(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(xxh64(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }

    #[test]
    fn varints_read_back() {
        for value in [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_signed_varint(&mut out, value);
            assert_eq!(ByteReader::new(&out).signed_varint().unwrap(), value);
        }
        assert!(ByteReader::new(&[0xff; 10]).varint().is_err());
        assert!(ByteReader::new(&[0x80; 20]).varint().is_err());
    }
}
