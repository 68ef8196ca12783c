//! Exact parsing of times, sizes and cores: `1.5Gi` is 1610612736 bytes, not 1 and not 0.
//!
//! A decimal is an integer over a power of ten. It is multiplied by its unit before the division,
//! in integers, so that binary fractions cause no error.

use std::time::Duration;

/// Expected form of a time, for messages.
pub const DURATION: &str = "a time such as 250ms, 1.5s, 2m or 1h";
/// Expected form of a size, for messages.
pub const SIZE: &str = "a size such as 300Mi, 1.5Gi, 512MB or a number of bytes";
/// Expected form of a number of cores, for messages.
pub const CORES: &str = "cores such as 2, 0.5 or 500m";

/// Longest accepted time; a longer one is taken for a mistake.
pub const MAX_DURATION: Duration = Duration::from_secs(366 * 86_400);

/// Parses `250ms`, `1.5s`, `2m`, `1h`, `3d`. A number without a unit is accepted only if it is 0.
pub fn duration(text: &str) -> Option<Duration> {
    let (decimal, unit) = ExactDecimal::read(text)?;
    let nanos: u128 = match unit {
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "" if decimal.digits == 0 => 1,
        _ => return None,
    };
    let nanos = u64::try_from(decimal.times(nanos, RoundingMode::Nearest)?).ok()?;
    Some(Duration::from_nanos(nanos)).filter(|time| *time <= MAX_DURATION)
}

/// Parses bytes: powers of 1024 (`Ki`, `Mi`, `Gi`, `Ti`, also `KiB`) and of 1000 (`k`, `M`, `G`,
/// `T`, also `kB`). Fractions of a byte are rounded up.
pub fn size(text: &str) -> Option<u64> {
    let (decimal, unit) = ExactDecimal::read(text)?;
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let bytes: u128 = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    u64::try_from(decimal.times(bytes, RoundingMode::Up)?).ok()
}

/// Parses cores, `0.5` or `500m`, as thousandths of a core; finer values are rejected.
pub fn millicores(text: &str) -> Option<u64> {
    let (decimal, unit) = ExactDecimal::read(text)?;
    let thousandths: u128 = match unit {
        "" => 1_000,
        "m" => 1,
        _ => return None,
    };
    u64::try_from(decimal.times(thousandths, RoundingMode::Refuse)?).ok()
}

/// Formats a time so that [`duration`] parses it back.
pub fn duration_text(time: Duration) -> String {
    let nanos = time.as_nanos();
    for (unit, size) in
        [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)]
    {
        if nanos > 0 && nanos.is_multiple_of(size) {
            return format!("{}{unit}", nanos / size);
        }
    }
    match nanos % 1_000_000_000 {
        0 => "0s".into(),
        _ => {
            let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
            format!("{}s", text.trim_end_matches('0'))
        }
    }
}

enum RoundingMode {
    Nearest,
    Up,
    Refuse,
}

/// `digits` over ten to the power of `places`.
struct ExactDecimal {
    digits: u128,
    places: u32,
}

impl ExactDecimal {
    /// Splits the leading number from the rest.
    fn read(text: &str) -> Option<(Self, &str)> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        // Some parsers accept "." and "1."; here they are rejected as likely typing mistakes.
        let is_decimal = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_decimal(whole) || !is_decimal(part) || number.len() > 24 {
            return None;
        }
        let part = part.trim_end_matches('0');
        let digits = format!("{whole}{part}").parse().ok()?;
        Some((Self { digits, places: part.len() as u32 }, unit.trim_start()))
    }

    fn times(&self, unit: u128, round: RoundingMode) -> Option<u128> {
        let (product, scale) = (self.digits.checked_mul(unit)?, 10u128.checked_pow(self.places)?);
        match round {
            RoundingMode::Nearest => Some((product + scale / 2) / scale),
            RoundingMode::Up => Some(product.div_ceil(scale)),
            RoundingMode::Refuse => (product % scale == 0).then_some(product / scale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_sizes_are_exact() {
        for (text, bytes) in [
            ("1.5Gi", 1_610_612_736),
            ("300Mi", 314_572_800),
            ("512MB", 512_000_000),
            ("0.5k", 500),
            ("0.1Gi", 107_374_183),
            ("4096", 4096),
            ("2.5KiB", 2560),
            ("1.000Ti", 1 << 40),
            ("0", 0),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "Gi", "-1", "1.Gi", ".5Gi", "1.2.3", "1gi", "1e3", "5 apples", "99999999999Ti", "∞"]
        {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn cores_are_thousandths() {
        for (text, thousandths) in [("0.5", 500), ("500m", 500), ("2", 2000), ("0.25", 250), ("1.5", 1500)] {
            assert_eq!(millicores(text), Some(thousandths), "{text}");
        }
        for bad in ["", "m", "0.0005", "0.5m", "2 cores", "-1", "1,5"] {
            assert_eq!(millicores(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(duration("0.1s"), Some(Duration::from_millis(100)));
        assert_eq!(duration("1.000000001s"), Some(Duration::from_nanos(1_000_000_001)));
        assert_eq!(duration("0"), Some(Duration::ZERO));
        for bad in ["", "5", "1 parsec", "-1s", "1.s", "999999h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(nanos in 0u64..10_000_000_000_000, text in ".{0,30}") {
            let time = Duration::from_nanos(nanos);
            proptest::prop_assert_eq!(duration(&duration_text(time)), Some(time));
            let _ = (duration(&text), size(&text), millicores(&text));
        }

        #[test]
        fn a_size_in_mebibytes_agrees_with_whole_arithmetic(whole in 0u64..1_000_000, hundredths in 0u64..100) {
            let bytes = ((whole * 100 + hundredths) * (1 << 20)).div_ceil(100);
            proptest::prop_assert_eq!(size(&format!("{whole}.{hundredths:02}Mi")), Some(bytes));
        }
    }
}
