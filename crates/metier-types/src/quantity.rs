//! Quantities with units in their types. A bare `f64` crosses a crate boundary only inside a
//! matrix.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $inner:ty $(, $also:ident)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize, JsonSchema $(, $also)*)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number, in the unit of the type.
            pub const fn get(self) -> $inner {
                self.0
            }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::default(), Add::add)
            }
        }
    };
}

quantity!(
    /// A duration.
    Seconds,
    f64
);
quantity!(
    /// An amount of energy.
    Joules,
    f64
);
quantity!(
    /// A rate of energy.
    Watts,
    f64
);
quantity!(
    /// A dimensionless share; 1.0 is the whole.
    Ratio,
    f64
);
quantity!(
    /// A number of busy or requested processors.
    Cores,
    f64
);
quantity!(
    /// A frequency.
    Hertz,
    f64
);
quantity!(
    /// A temperature.
    Celsius,
    f64
);
quantity!(
    /// An amount of memory or data.
    Bytes,
    u64,
    Eq,
    Ord,
    Hash
);

impl Sub for Seconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Seconds {
    /// Converts whole nanoseconds, as kernel counters have them.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos as f64 / 1e9)
    }

    /// Converts whole microseconds.
    pub fn from_micros(micros: u64) -> Self {
        Self(micros as f64 / 1e6)
    }
}

impl fmt::Display for Seconds {
    /// Formats with three significant digits and a readable unit: `831 µs`, `12.4 ms`, `1.03 s`, `2
    /// min 05 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        let a = s.abs();
        let text = if !s.is_finite() {
            "?".to_string()
        } else if a >= 3600.0 {
            let minutes = (s / 60.0).round() as i64;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        } else if a >= 119.5 {
            let whole = s.round() as i64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        } else if a >= 0.9995 {
            format!("{} s", format_three_digits(s))
        } else if a >= 0.000_999_5 {
            format!("{} ms", format_three_digits(s * 1e3))
        } else if a >= 0.000_000_999_5 {
            format!("{} µs", format_three_digits(s * 1e6))
        } else if a > 0.0 {
            format!("{} ns", format_three_digits(s * 1e9))
        } else {
            "0 s".to_string()
        };
        f.pad(&text)
    }
}

impl fmt::Display for Bytes {
    /// Formats in binary units with three significant digits: `812 B`, `4.25 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let text = if unit == 0 {
            format!("{} B", self.0)
        } else {
            format!("{} {}", format_three_digits(value), UNITS[unit])
        };
        f.pad(&text)
    }
}

impl Ratio {
    /// A change with its sign.
    pub fn signed(self) -> String {
        let sign = if self.0 < 0.0 { "−" } else { "+" };
        format!("{sign}{}", Self(self.0.abs()))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} %", format_three_digits(self.0 * 100.0)))
    }
}

impl fmt::Display for Joules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} J", format_three_digits(self.0)))
    }
}

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} W", format_three_digits(self.0)))
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 >= 1e9 {
            format!("{} GHz", format_three_digits(self.0 / 1e9))
        } else {
            format!("{} MHz", format_three_digits(self.0 / 1e6))
        };
        f.pad(&text)
    }
}

impl fmt::Display for Celsius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} °C", self.0))
    }
}

/// Formats three significant digits without an exponent; numbers above 100 have no fraction.
fn format_three_digits(x: f64) -> String {
    let a = x.abs();
    if a >= 99.95 {
        format!("{x:.0}")
    } else if a >= 9.995 {
        format!("{x:.1}")
    } else if a >= 0.01 || a == 0.0 {
        format!("{x:.2}")
    } else {
        format!("{x:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_a_person_would_write_them() {
        for (seconds, want) in [
            (0.0, "0 s"),
            (0.000_000_42, "420 ns"),
            (0.000_831, "831 µs"),
            (0.0124, "12.4 ms"),
            (0.9999, "1.00 s"),
            (1.034, "1.03 s"),
            (59.96, "60.0 s"),
            (125.0, "2 min 05 s"),
            (7260.0, "2 h 01 min"),
        ] {
            assert_eq!(Seconds(seconds).to_string(), want);
        }
    }

    #[test]
    fn sizes_use_binary_units() {
        for (bytes, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1024 * 1024, "1.00 MiB"),
            (419_430_400, "400 MiB"),
            (1_073_741_824, "1.00 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), want);
        }
    }

    #[test]
    fn a_quantity_is_a_bare_number_in_json() {
        assert_eq!(serde_json::to_string(&Bytes(7)).unwrap(), "7");
        assert_eq!(serde_json::from_str::<Seconds>("1.5").unwrap(), Seconds(1.5));
    }
}
