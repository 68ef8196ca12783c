//! Integer pages.
//!
//! ```text
//! mode 0, all equal:   0 · value (signed varint)
//! mode 1, 2, 3:        mode · first value v₀ (signed varint) · scale g (varint, at least 1)
//!                      · mode 3 only: slope s (signed varint)
//!                      · size of the payload (varint)
//!                      · compressed size (varint; 0 if not compressed)
//!                      · payload, LZ4 block if a stored size is given
//! payload: for each 128 of x₁ … xₙ₋₁ (the last group may be smaller):
//!          width b (byte, 0..=64) · reference m (signed varint)
//!          · (xᵢ - m) packed with b bits each, least significant bit first, padded to a byte;
//!          at the end 8 zero bytes, so that a reader may load 8 bytes at once
//! ```
//!
//! With w = (v - v₀) / g, where g is the greatest common divisor of all v - v₀ (1 if a difference
//! overflows): mode 1 has xᵢ = wᵢ, mode 2 xᵢ = wᵢ - wᵢ₋₁, mode 3 xᵢ = (wᵢ - wᵢ₋₁) - (wᵢ₋₁ - wᵢ₋₂).
//! In mode 3, s stands for the difference before the first. All arithmetic is modulo 2⁶⁴, so every
//! sequence can be encoded. A page of no rows has no bytes.

use super::bit_packing::{READ_SLACK_BYTES, bit_width, pack, packed_len, unpack};
use super::byte_reader::{ByteReader, put_signed_varint, put_varint};
use super::{CodecError, check_limit};

const GROUP_LEN: usize = 128;

/// Smaller payloads are not compressed: LZ4's overhead would exceed its gain.
const MIN_COMPRESSED_BYTES: usize = 256;

/// Appends a page with these values.
pub(super) fn encode_integers(values: &[i64], out: &mut Vec<u8>) {
    let Some((first, rest)) = values.split_first() else { return };
    if rest.iter().all(|value| value == first) {
        out.push(0);
        put_signed_varint(out, *first);
        return;
    }
    let scale = common_divisor(values, *first);
    let scaled: Vec<i64> = match scale {
        1 => rest.iter().map(|value| value.wrapping_sub(*first)).collect(),
        _ => rest.iter().map(|value| value.wrapping_sub(*first) / scale).collect(),
    };
    let slope = scaled[0];
    let orders = [
        DifferenceOrder { order: 0, slope },
        DifferenceOrder { order: 1, slope },
        DifferenceOrder { order: 2, slope },
    ];
    let Some(best) = orders.into_iter().min_by_key(|order| order.payload_bits(&scaled)) else { return };

    out.push(best.order + 1);
    put_signed_varint(out, *first);
    put_varint(out, scale as u64);
    if best.order == 2 {
        put_signed_varint(out, slope);
    }
    let payload = best.pack_payload(&scaled);
    put_varint(out, payload.len() as u64);
    if payload.len() >= MIN_COMPRESSED_BYTES {
        let smaller = lz4_flex::block::compress(&payload);
        // Decompression costs reading time, so it must save at least 5 %.
        if smaller.len() + payload.len() / 20 < payload.len() {
            put_varint(out, smaller.len() as u64);
            out.extend_from_slice(&smaller);
            return;
        }
    }
    put_varint(out, 0);
    out.extend_from_slice(&payload);
}

/// The greatest common divisor of all differences from the first value.
fn common_divisor(values: &[i64], first: i64) -> i64 {
    let mut divisor = 0i64;
    for value in values {
        let Some(difference) = value.checked_sub(first) else { return 1 };
        // In most cases the current divisor divides this difference too.
        if divisor == 0 || difference % divisor != 0 {
            let Some(mut b) = difference.checked_abs() else { return 1 };
            let mut a = divisor;
            while b != 0 {
                (a, b) = (b, a % b);
            }
            divisor = a;
            if divisor == 1 {
                return 1;
            }
        }
    }
    divisor.max(1)
}

/// The differencing order (0, 1 or 2) of a page, and the slope that order 2 starts from.
#[derive(Clone, Copy)]
struct DifferenceOrder {
    order: u8,
    slope: i64,
}

impl DifferenceOrder {
    /// Calls `each` with the differences of each group of 128.
    fn for_each_group(self, scaled: &[i64], mut each: impl FnMut(&[i64])) {
        let mut group = [0i64; GROUP_LEN];
        let (mut last, mut step) = (0i64, self.slope);
        for part in scaled.chunks(GROUP_LEN) {
            let group = &mut group[..part.len()];
            match self.order {
                0 => group.copy_from_slice(part),
                1 => {
                    for (x, w) in group.iter_mut().zip(part) {
                        *x = w.wrapping_sub(last);
                        last = *w;
                    }
                }
                _ => {
                    for (x, w) in group.iter_mut().zip(part) {
                        let difference = w.wrapping_sub(last);
                        *x = difference.wrapping_sub(step);
                        (last, step) = (*w, difference);
                    }
                }
            }
            each(group);
        }
    }

    /// Estimated size of the payload in bits.
    fn payload_bits(self, scaled: &[i64]) -> u64 {
        let mut bits = 0;
        self.for_each_group(scaled, |group| {
            let (low, high) = min_max(group);
            bits += 24 + group.len() as u64 * u64::from(bit_width(high.wrapping_sub(low) as u64));
        });
        bits
    }

    fn pack_payload(self, scaled: &[i64]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(scaled.len() * 2 + 32);
        self.for_each_group(scaled, |group| {
            let (low, high) = min_max(group);
            let width = bit_width(high.wrapping_sub(low) as u64);
            let mut offsets = [0u64; GROUP_LEN];
            for (offset, x) in offsets.iter_mut().zip(group) {
                *offset = x.wrapping_sub(low) as u64;
            }
            payload.push(width as u8);
            put_signed_varint(&mut payload, low);
            pack(&offsets[..group.len()], width, &mut payload);
        });
        payload.extend_from_slice(&[0; READ_SLACK_BYTES]);
        payload
    }
}

fn min_max(group: &[i64]) -> (i64, i64) {
    group.iter().fold((i64::MAX, i64::MIN), |(low, high), x| (low.min(*x), high.max(*x)))
}

/// Reads a page of `rows` values and appends them to `into`.
pub(super) fn decode_integers(
    reader: &mut ByteReader<'_>,
    rows: usize,
    into: &mut Vec<i64>,
) -> Result<(), CodecError> {
    if rows == 0 {
        return Ok(());
    }
    let mode = reader.byte()?;
    let first = reader.signed_varint()?;
    if mode == 0 {
        into.resize(into.len() + rows, first);
        return Ok(());
    }
    if mode > 3 {
        return Err(CodecError::Damaged("unknown mode of an integer page"));
    }
    let scale = reader.varint()? as i64;
    let slope = if mode == 3 { reader.signed_varint()? } else { 0 };
    let size = reader.varint()?;
    let stored = reader.length_prefix()?;
    // A group takes at most 11 bytes of header and 8 bytes per value.
    let groups = (rows - 1).div_ceil(GROUP_LEN);
    check_limit("bytes of a page", size, (groups * 11 + rows * 8 + READ_SLACK_BYTES) as u64)?;
    let room;
    let payload = if stored == 0 {
        reader.take(size as usize)?
    } else {
        // LZ4 expands at most 255 times, so a false size in a short input cannot cause a huge
        // allocation.
        check_limit("bytes of a page", size, stored as u64 * 255)?;
        let mut bytes = vec![0; size as usize];
        let compressed = reader.take(stored)?;
        if lz4_flex::block::decompress_into(compressed, &mut bytes).ok() != Some(bytes.len()) {
            return Err(CodecError::Damaged("a page does not decompress"));
        }
        room = bytes;
        &room
    };
    let mut page = ByteReader::new(payload);
    if groups * 2 + READ_SLACK_BYTES > payload.len() {
        return Err(CodecError::Damaged("a page is too short for its rows"));
    }
    into.reserve(rows);
    into.push(first);
    let (mut value, mut step) = (first, slope.wrapping_mul(scale));
    let mut left = rows - 1;
    let mut offsets = [0u64; GROUP_LEN];
    while left > 0 {
        let count = left.min(GROUP_LEN);
        let width = u32::from(page.byte()?);
        let low = page.signed_varint()?;
        let offsets = &mut offsets[..count];
        if width > 64 || !unpack(page.rest(), width, offsets) {
            return Err(CodecError::Damaged("a page is too short for its rows"));
        }
        page.take(packed_len(count, width))?;
        match mode {
            1 => into.extend(
                offsets.iter().map(|x| first.wrapping_add((*x as i64).wrapping_add(low).wrapping_mul(scale))),
            ),
            2 => into.extend(offsets.iter().map(|x| {
                value = value.wrapping_add((*x as i64).wrapping_add(low).wrapping_mul(scale));
                value
            })),
            _ => into.extend(offsets.iter().map(|x| {
                step = step.wrapping_add((*x as i64).wrapping_add(low).wrapping_mul(scale));
                value = value.wrapping_add(step);
                value
            })),
        }
        left -= count;
    }
    if page.rest() != [0; READ_SLACK_BYTES] {
        return Err(CodecError::Damaged("a page is too long for its rows"));
    }
    Ok(())
}
