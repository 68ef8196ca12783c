//! Float pages.
//!
//! ```text
//! mode 0, decimal: 0 · exponent e (byte, 0..=9) · number of exceptions (varint)
//!                  · each: rows since the one before (varint), its 64 bits · integer page of v × 10ᵉ
//! mode 1, bits:    1 · integer page of the 64 bits, negative numbers with their lower 63 bits flipped
//! ```
//!
//! Sensors and kernel files give decimal fractions (0.25, 48.5), whose bits look random and whose digits do not;
//! a decimal page reads back as i / 10ᵉ, and was only chosen where that is the very same number. Exceptions are the
//! few that are not (NaN, infinities, -0.0); the integer page repeats the value before there. In the bits of all
//! others, order is kept, so that close numbers have close bits; trailing zero bits (numbers that
//! were 32-bit floats, halves, quarters) fall to the integer page's scale. A page of no rows has no bytes.

use super::wire::{Reader, put_varint};
use super::{CodecError, integer};

const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// Above 2⁵³ whole floats are not all there.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Appends the page of some values.
pub(super) fn encode(values: &[f64], out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    if let Some((exponent, digits, exceptions)) = decimal(values) {
        out.push(0);
        out.push(exponent);
        put_varint(out, exceptions.len() as u64);
        let mut last = 0;
        for row in exceptions {
            put_varint(out, (row - last) as u64);
            out.extend_from_slice(&values[row].to_bits().to_le_bytes());
            last = row;
        }
        integer::encode(&digits, out);
    } else {
        out.push(1);
        let bits: Vec<i64> = values.iter().map(|value| flip(value.to_bits() as i64)).collect();
        integer::encode(&bits, out);
    }
}

/// Makes the order of bits the order of numbers; its own inverse.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn scaled(value: f64, power: f64) -> Option<i64> {
    let digits = (value * power).round();
    let same = digits.abs() < LARGEST && (digits / power).to_bits() == value.to_bits();
    // -0.0 has no digits of its own.
    (same && (digits != 0.0 || value.to_bits() == 0)).then_some(digits as i64)
}

/// The smallest exponent that serves all values but a few, the digits, and the rows of those few.
fn decimal(values: &[f64]) -> Option<(u8, Vec<i64>, Vec<usize>)> {
    let bearable = 1 + values.len() / 32;
    for (exponent, power) in POWERS.into_iter().enumerate() {
        // A small part tells in most cases that this exponent will not do.
        let step = values.len().div_ceil(64);
        let misses = values.iter().step_by(step).filter(|value| scaled(**value, power).is_none()).count();
        if misses > bearable.min(4) {
            continue;
        }
        let mut digits = Vec::with_capacity(values.len());
        let mut exceptions = Vec::new();
        let mut last = 0;
        for (row, value) in values.iter().enumerate() {
            match scaled(*value, power) {
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

/// Reads a page of `rows` values and appends them.
pub(super) fn decode(reader: &mut Reader<'_>, rows: usize, into: &mut Vec<f64>) -> Result<(), CodecError> {
    if rows == 0 {
        return Ok(());
    }
    let mut digits = Vec::new();
    match reader.byte()? {
        0 => {
            let power = *POWERS
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
            integer::decode(reader, rows, &mut digits)?;
            let start = into.len();
            into.extend(digits.iter().map(|digits| *digits as f64 / power));
            for (row, value) in exceptions {
                into[start + row as usize] = value;
            }
        }
        1 => {
            integer::decode(reader, rows, &mut digits)?;
            into.extend(digits.iter().map(|bits| f64::from_bits(flip(*bits) as u64)));
        }
        _ => return Err(CodecError::Damaged("unknown mode of a float page")),
    }
    Ok(())
}
