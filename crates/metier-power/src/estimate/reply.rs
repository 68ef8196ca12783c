//! Writes replies: one JSON object without blanks, with numbers as short as the reader needs.
//!
//! The exporter reads once, into 4096 bytes, and counts in milliwatts. Numbers have six decimals
//! where there is room, and fewer if the reply would not fit: a hundred rows of four components
//! have three or more. The rounding error of a row is carried over to the next row of its
//! component, so sums hold at any length. More rows than can fit are refused, since the exporter
//! could read none of them.

use crate::kepler_terms::PowerComponent;

/// Size of the exporter's read buffer.
pub const EXPORTER_READ_BYTES: usize = 4096;
/// Upper bound of the bytes around the numbers.
const REPLY_OVERHEAD_BYTES: usize = 128;
const MAX_DECIMALS: usize = 6;
/// Longest reason of a refusal as written: bytes of its beginning, and of its end.
const MAX_REASON_BYTES: (usize, usize) = (700, 300);
/// Hint for clients that send too many rows.
pub const FEWER_ROWS_HINT: &str = "the watts of so many do not fit in the 4096 bytes that an exporter reads; want fewer rows, in several requests";

/// Whether this many rows can fit, with a digit and a comma for each component and row.
pub fn may_fit(rows: usize, components: usize) -> bool {
    rows.saturating_mul(components).saturating_mul(2) <= EXPORTER_READ_BYTES
}

/// Writes the watts of each component, row by row. Returns false, and writes nothing, if they do
/// not fit into one read.
pub fn write_powers(to: &mut Vec<u8>, powers: &[(PowerComponent, Vec<f64>)], core_ratio: f64) -> bool {
    let decimals = decimals(powers);
    to.extend_from_slice(b"{\"powers\":{");
    for (place, (component, watts)) in powers.iter().enumerate() {
        if place > 0 {
            to.push(b',');
        }
        to.push(b'"');
        to.extend_from_slice(component.name().as_bytes());
        to.extend_from_slice(b"\":[");
        let mut over = 0.0;
        for (row, watts) in watts.iter().enumerate() {
            if row > 0 {
                to.push(b',');
            }
            // A row of 0 W stays 0; it takes no carried rounding error.
            over = if *watts == 0.0 {
                number(to, 0.0, decimals) + over
            } else {
                number(to, watts + over, decimals)
            };
        }
        to.push(b']');
    }
    to.extend_from_slice(b"},\"msg\":\"\",\"core_ratio\":");
    number(to, core_ratio, MAX_DECIMALS);
    to.push(b'}');
    let fits = to.len() <= EXPORTER_READ_BYTES;
    if !fits {
        to.clear();
    }
    fits
}

/// Writes a refusal. `powers` is an object here too: the exporter cannot read a list.
pub fn write_refusal(to: &mut Vec<u8>, why: &str) {
    to.extend_from_slice(b"{\"powers\":{},\"msg\":");
    // Serialising a string cannot fail.
    let _ = serde_json::to_writer(&mut *to, &shorten_reason(why));
    to.push(b'}');
}

/// Shortens a reason to its beginning and end, so that the reply fits into one read.
fn shorten_reason(why: &str) -> std::borrow::Cow<'_, str> {
    // Bytes of a character in JSON.
    let size = |letter: char| match letter {
        '"' | '\\' => 2,
        letter if letter.is_control() => 6,
        letter => letter.len_utf8(),
    };
    let until = |most: usize, letters: &mut dyn Iterator<Item = char>| {
        let mut room = most;
        let fits = |letter: &char| {
            let size = size(*letter);
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        };
        letters.take_while(fits).map(char::len_utf8).sum::<usize>()
    };
    if until(MAX_REASON_BYTES.0 + MAX_REASON_BYTES.1, &mut why.chars()) == why.len() {
        return why.into();
    }
    let (begin, end) =
        (until(MAX_REASON_BYTES.0, &mut why.chars()), until(MAX_REASON_BYTES.1, &mut why.chars().rev()));
    format!("{} … {}", &why[..begin], &why[why.len() - end..]).into()
}

/// Number of decimals that fit into one read.
fn decimals(powers: &[(PowerComponent, Vec<f64>)]) -> usize {
    let (mut zeros, mut numbers, mut most) = (0, 0, 1.0f64);
    for watts in powers.iter().flat_map(|(_, watts)| watts) {
        if *watts == 0.0 {
            zeros += 1;
        } else {
            numbers += 1;
            most = most.max(*watts);
        }
    }
    if numbers == 0 {
        return MAX_DECIMALS;
    }
    let room = EXPORTER_READ_BYTES.saturating_sub(REPLY_OVERHEAD_BYTES + 2 * zeros) / numbers;
    // Rounding may add a digit.
    let whole = (most + 1.0).log10().floor() as usize + 1;
    // A comma and a decimal point besides the digits.
    room.saturating_sub(whole + 2).min(MAX_DECIMALS)
}

/// Writes a non-negative number with at most this many decimals and without trailing zeros. Returns
/// the rounding error.
fn number(to: &mut Vec<u8>, value: f64, decimals: usize) -> f64 {
    const POWERS: [u64; MAX_DECIMALS + 1] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
    let unit = POWERS[decimals.min(MAX_DECIMALS)];
    // The carried rounding error can make the value slightly negative.
    let scaled = if value < 0.0 { 0.0 } else { (value * unit as f64).round() };
    // Above 9e9 W the fixed-point form would overflow; the general form is used.
    if !(0.0..9e15).contains(&scaled) {
        let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
        let _ = serde_json::to_writer(&mut *to, &value);
        return 0.0;
    }
    let over = value - scaled / unit as f64;
    let scaled = scaled as u64;
    digits(to, scaled / unit, 1);
    let mut rest = scaled % unit;
    if rest == 0 {
        return over;
    }
    let mut places = decimals.min(MAX_DECIMALS);
    while rest.is_multiple_of(10) {
        rest /= 10;
        places -= 1;
    }
    to.push(b'.');
    digits(to, rest, places);
    over
}

fn digits(to: &mut Vec<u8>, mut value: u64, least: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while value > 0 {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    at = at.min(text.len() - least.min(text.len()));
    to.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64, decimals: usize) -> String {
        let mut to = Vec::new();
        number(&mut to, value, decimals);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn numbers_are_short() {
        for (value, decimals, want) in [
            (0.0, 6, "0"),
            (1.0, 6, "1"),
            (12.345_678_9, 6, "12.345679"),
            (12.345_678_9, 2, "12.35"),
            (0.050_4, 3, "0.05"),
            (99.999, 2, "100"),
            (0.000_001, 6, "0.000001"),
            (1e20, 3, "1e+20"),
            (f64::NAN, 3, "0.0"),
            (-0.5, 0, "0"),
        ] {
            assert_eq!(text(value, decimals), want);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_within_half_a_unit(value in 0.0..1e6f64, decimals in 0usize..=6) {
            let read: f64 = text(value, decimals).parse().unwrap();
            prop_assert!((read - value).abs() <= 0.5 * 0.1f64.powi(decimals as i32) + 1e-9);
        }

        #[test]
        fn a_hundred_rows_fit_in_one_read(watts in proptest::collection::vec(0.0..2000.0f64, 400)) {
            let rows: Vec<(PowerComponent, Vec<f64>)> = [PowerComponent::Package, PowerComponent::Core, PowerComponent::Uncore, PowerComponent::Dram]
                .iter().zip(watts.chunks(100)).map(|(component, watts)| (*component, watts.to_vec())).collect();
            let mut to = Vec::new();
            write_powers(&mut to, &rows, 0.333_333_333);
            prop_assert!(to.len() <= EXPORTER_READ_BYTES, "{}", to.len());
            let value: serde_json::Value = serde_json::from_slice(&to).unwrap();
            let got = value["powers"]["dram"][99].as_f64().unwrap();
            prop_assert!((got - watts[399]).abs() < 0.0011, "milliwatts");
        }

        #[test]
        fn sums_hold_however_short_the_numbers_are(watts in proptest::collection::vec(0.0..1.4f64, 1..900)) {
            let mut to = Vec::new();
            if write_powers(&mut to, &[(PowerComponent::Package, watts.clone()), (PowerComponent::Dram, watts.clone())], 1.0) {
                let value: serde_json::Value = serde_json::from_slice(&to).unwrap();
                let read = value["powers"]["dram"].as_array().unwrap();
                let sum: f64 = read.iter().map(|watts| watts.as_f64().unwrap()).sum();
                prop_assert!((sum - watts.iter().sum::<f64>()).abs() < 0.51, "{sum}");
            }
        }
    }

    #[test]
    fn what_takes_nothing_is_given_nothing_and_what_does_not_fit_is_not_written() {
        let mut to = Vec::new();
        let watts: Vec<f64> = (0..900).map(|row| if row % 2 == 0 { 0.7 } else { 0.0 }).collect();
        assert!(write_powers(
            &mut to,
            &[(PowerComponent::Package, watts.clone()), (PowerComponent::Dram, watts)],
            1.0
        ));
        let value: serde_json::Value = serde_json::from_slice(&to).unwrap();
        let read: Vec<f64> = serde_json::from_value(value["powers"]["package"].clone()).unwrap();
        assert!(read.iter().skip(1).step_by(2).all(|watts| *watts == 0.0));
        assert!((read.iter().sum::<f64>() - 315.0).abs() < 0.51, "{}", read.iter().sum::<f64>());
        to.clear();
        assert!(!write_powers(&mut to, &[(PowerComponent::Package, vec![0.7; 2100])], 1.0) && to.is_empty());
        assert!(may_fit(512, 4) && !may_fit(513, 4));
    }

    #[test]
    fn a_reason_is_short_whatever_was_sent() {
        for text in ["x", "\u{1}", "\"", "ä"] {
            let mut to = Vec::new();
            write_refusal(
                &mut to,
                &format!("unknown field `{}`, expected one of `metrics`", text.repeat(9000)),
            );
            let value: serde_json::Value = serde_json::from_slice(&to).unwrap();
            let why = value["msg"].as_str().unwrap();
            assert!(to.len() < 1100, "{}", to.len());
            assert!(why.starts_with("unknown field") && why.ends_with("expected one of `metrics`"), "{why}");
        }
    }

    #[test]
    fn a_refusal_can_be_read_by_a_client_that_wants_an_object() {
        let mut to = Vec::new();
        write_refusal(&mut to, "it \"broke\"\n");
        assert_eq!(String::from_utf8(to).unwrap(), r#"{"powers":{},"msg":"it \"broke\"\n"}"#);
    }
}
