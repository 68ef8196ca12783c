//! Numbers in the text formats: `NaN`, `+Inf`, `-Inf`, or the shortest text that reads back equal.

use std::fmt::Write as _;

use metier_types::{Bytes, Celsius, Hertz, Joules, Ratio, Seconds, Watts};

/// A type that can be a sample value.
pub trait SampleValue {
    fn write(&self, out: &mut String);
}

impl SampleValue for u64 {
    fn write(&self, out: &mut String) {
        let mut digits = [0u8; 20];
        let (mut at, mut rest) = (digits.len(), *self);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or("0"));
    }
}

impl SampleValue for i64 {
    fn write(&self, out: &mut String) {
        if *self < 0 {
            out.push('-');
        }
        self.unsigned_abs().write(out);
    }
}

impl SampleValue for f64 {
    fn write(&self, out: &mut String) {
        let value = *self;
        let size = value.abs();
        // Writing to a String cannot fail.
        let _ = if value.is_nan() {
            out.write_str("NaN")
        } else if value.is_infinite() {
            out.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
        } else if size != 0.0 && !(1e-6..1e17).contains(&size) {
            write!(out, "{value:e}")
        } else {
            write!(out, "{value}")
        };
    }
}

macro_rules! as_number {
    ($($of:ty => $wide:ty),*) => {$(
        impl SampleValue for $of {
            fn write(&self, out: &mut String) {
                <$wide>::from(*self).write(out);
            }
        }
    )*};
}
as_number!(u8 => u64, u16 => u64, u32 => u64, i32 => i64, f32 => f64, bool => u64);

impl SampleValue for usize {
    fn write(&self, out: &mut String) {
        (*self as u64).write(out);
    }
}

macro_rules! as_quantity {
    ($($of:ty),*) => {$(
        impl SampleValue for $of {
            fn write(&self, out: &mut String) {
                self.get().write(out);
            }
        }
    )*};
}
as_quantity!(Bytes, Celsius, Hertz, Joules, Ratio, Seconds, Watts);

/// Writes a number as a label value (`le`, `quantile`); OpenMetrics requires a decimal point.
pub(crate) fn write_canonical(value: f64, out: &mut String) {
    let begin = out.len();
    value.write(out);
    if value.is_finite() && !out[begin..].contains(['.', 'e']) {
        out.push_str(".0");
    }
}

/// Parses a number; `None` if the text is not one.
pub(crate) fn parse_number(text: &str) -> Option<f64> {
    // Rust also accepts other cases of `infinity`, as Prometheus does; it rejects blanks.
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_equal_and_specials_are_spelt_as_the_formats_want() {
        let text = |value: f64| {
            let mut out = String::new();
            value.write(&mut out);
            out
        };
        for value in [0.0, -0.0, 0.1, 1e-300, 5e-324, f64::MAX, 123_456_789.25, -1e21, 2e-7] {
            assert_eq!(parse_number(&text(value)), Some(value), "{}", text(value));
            assert!(text(value).len() < 30);
        }
        assert_eq!(text(f64::NAN), "NaN");
        assert_eq!(text(f64::INFINITY), "+Inf");
        assert_eq!(text(f64::NEG_INFINITY), "-Inf");
        let mut out = String::new();
        for whole in [0, 7, u64::MAX] {
            out.clear();
            whole.write(&mut out);
            assert_eq!(out, whole.to_string());
        }
        out.clear();
        i64::MIN.write(&mut out);
        assert_eq!(out, i64::MIN.to_string());
    }
}
