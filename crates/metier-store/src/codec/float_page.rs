//! Float pages.
//!
//! ```text
//! mode 0, decimal: 0 · exponent e (byte, 0..=9) · number of exceptions (varint)
//!                  · each: rows since the one before (varint), its 64 bits
//!                  · integer page of v × 10ᵉ
//! mode 1, bits:    1 · integer page of the 64 bits; of negative numbers, the lower 63 bits
//!                  are flipped
//! ```
//!
//! Sensors and kernel files give decimal fractions (0.25, 48.5). Their binary forms look random,
//! but their digits do not. A decimal page reads back as i / 10ᵉ. It is chosen only if nearly all
//! values read back bit for bit. The few exceptions (NaN, infinities, -0.0) are stored apart; the
//! integer page repeats the value before them.
//!
//! A bits page maps floats to integers of the same order, so that close numbers have close
//! integers. Trailing zero bits (of former 32-bit floats, halves, quarters) are removed by the
//! integer page's scale. A page of no rows has no bytes.

use super::byte_reader::{ByteReader, put_varint};
use super::{CodecError, integer_page};

const POWERS_OF_TEN: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// 2⁵³: larger floats cannot represent every integer.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Appends a page with these values.
pub(super) fn encode_floats(values: &[f64], out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    if let Some((exponent, digits, exceptions)) = find_decimal_scale(values) {
        out.push(0);
        out.push(exponent);
        put_varint(out, exceptions.len() as u64);
        let mut last = 0;
        for row in exceptions {
            put_varint(out, (row - last) as u64);
            out.extend_from_slice(&values[row].to_bits().to_le_bytes());
            last = row;
        }
        integer_page::encode_integers(&digits, out);
    } else {
        out.push(1);
        let bits: Vec<i64> = values.iter().map(|value| order_bits(value.to_bits() as i64)).collect();
        integer_page::encode_integers(&bits, out);
    }
}

/// Maps float bits to integers of the same order; it is its own inverse.
fn order_bits(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn scale_to_integer(value: f64, power: f64) -> Option<i64> {
    let digits = (value * power).round();
    let same = digits.abs() < MAX_EXACT_INTEGER && (digits / power).to_bits() == value.to_bits();
    // -0.0 would read back as 0.0.
    (same && (digits != 0.0 || value.to_bits() == 0)).then_some(digits as i64)
}

/// The smallest exponent that fits all but a few values, the scaled digits, and the rows of the
/// exceptions.
fn find_decimal_scale(values: &[f64]) -> Option<(u8, Vec<i64>, Vec<usize>)> {
    let bearable = 1 + values.len() / 32;
    for (exponent, power) in POWERS_OF_TEN.into_iter().enumerate() {
        // A sample of 64 values rejects most unsuitable exponents early.
        let step = values.len().div_ceil(64);
        let misses =
            values.iter().step_by(step).filter(|value| scale_to_integer(**value, power).is_none()).count();
        if misses > bearable.min(4) {
            continue;
        }
        let mut digits = Vec::with_capacity(values.len());
        let mut exceptions = Vec::new();
        let mut last = 0;
        for (row, value) in values.iter().enumerate() {
            match scale_to_integer(*value, power) {
                Some(number) => last = number,
                None => exceptions.push(row),
            }
            digits.push(last);
            if exceptions.len() > bearable {
                break;
            }
        }
        if exceptions.len() <= bearable && exceptions.len() < values.len() {
            return Some((exponent as u8, digits, exceptions));
        }
    }
    None
}

/// Reads a page of `rows` values and appends them to `into`.
pub(super) fn decode_floats(
    reader: &mut ByteReader<'_>,
    rows: usize,
    into: &mut Vec<f64>,
) -> Result<(), CodecError> {
    if rows == 0 {
        return Ok(());
    }
    let mut digits = Vec::new();
    match reader.byte()? {
        0 => {
            let power = *POWERS_OF_TEN
                .get(reader.byte()? as usize)
                .ok_or(CodecError::Damaged("unknown exponent of a decimal page"))?;
            let count = reader.varint()?;
            if count > (reader.rest().len() / 9) as u64 {
                return Err(CodecError::Damaged("more exceptions than bytes"));
            }
            let mut exceptions = Vec::with_capacity(count as usize);
            let mut row = 0u64;
            for _ in 0..count {
                row = row.saturating_add(reader.varint()?);
                exceptions.push((row, f64::from_bits(reader.u64()?)));
            }
            if count > 0 && row >= rows as u64 {
                return Err(CodecError::Damaged("an exception outside of the series"));
            }
            integer_page::decode_integers(reader, rows, &mut digits)?;
            let start = into.len();
            into.extend(digits.iter().map(|digits| *digits as f64 / power));
            for (row, value) in exceptions {
                into[start + row as usize] = value;
            }
        }
        1 => {
            integer_page::decode_integers(reader, rows, &mut digits)?;
            into.extend(digits.iter().map(|bits| f64::from_bits(order_bits(*bits) as u64)));
        }
        _ => return Err(CodecError::Damaged("unknown mode of a float page")),
    }
    Ok(())
}
