//! Shapes of field values.

use jiff::civil::DateTime;
use metier_types::{Bytes, Celsius, Hertz, Ratio, Watts};

use super::super::{BoardCore, BoardTemperature, FreeBlocks};

/// Value of a switched-off temperature sensor.
const SENSOR_OFF: f64 = -256.0;

/// Largest number of clocks or cores read from one list.
const MAX_LIST_ITEMS: usize = 1024;

/// The value after a field name.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FieldShape {
    /// `5246/7771MB`.
    Memory { used: Bytes, total: Bytes },
    /// `[47%@1420,off]`, `[17%,11%]@1734`.
    Cores(Vec<BoardCore>),
    /// `6140/5510`, `6140mW/5510mW`, `6140mW/5510mW/6400mW`.
    Power { now: Watts, mean: Option<Watts>, peak: Option<Watts> },
    /// `2%@1600`, `2%`, `@1600`, `2%@[305,305]`, `@[0,0,0]`.
    Load { load_ratio: Option<Ratio>, frequencies_hertz: Vec<Hertz> },
    /// `off`.
    Off,
    /// `NC`.
    Unconnected,
    /// `150`, a clock.
    Number(Hertz),
}

impl FieldShape {
    /// Parses a token into its shape; `None` if it has none of these.
    pub(super) fn parse(token: &str) -> Option<Self> {
        match token {
            "" => return None,
            "off" | "OFF" => return Some(Self::Off),
            "NC" => return Some(Self::Unconnected),
            _ => {}
        }
        if token.starts_with('[') {
            return parse_cores(token).map(Self::Cores);
        }
        if token.contains(['%', '@']) {
            return parse_load(token);
        }
        if token.contains('/') {
            return parse_memory(token).or_else(|| parse_power(token));
        }
        parse_megahertz(token).map(Self::Number)
    }
}

/// Bracketed detail after a memory field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryDetail {
    /// `(lfb 7x4MB)`, `(lfb 252kB)`; `(lfb kB)` has no figures.
    LargestFree(Option<FreeBlocks>),
    /// `(cached 280MB)`.
    Cached(Bytes),
}

pub(super) fn parse_memory_detail(token: &str) -> Option<MemoryDetail> {
    let inside = token.strip_prefix('(')?.strip_suffix(')')?;
    let mut words = inside.split_ascii_whitespace();
    let (word, value) = (words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    match word {
        "cached" => Some(MemoryDetail::Cached(parse_size(value)?)),
        "lfb" if unit_bytes(value).is_some() => Some(MemoryDetail::LargestFree(None)),
        "lfb" => {
            let (count, size) = match value.split_once('x') {
                Some((count, size)) => (Some(parse_digits(count)?), size),
                None => (None, value),
            };
            Some(MemoryDetail::LargestFree(Some(FreeBlocks { count, size_bytes: parse_size(size)? })))
        }
        _ => None,
    }
}

/// Whether a token can be a field name: a letter, then letters, digits, `_`, `-`, `.` and `+`.
pub(super) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+'))
}

/// `name@31.5C`, `name@52.9C/53.1C`.
pub(super) fn parse_temperature(token: &str) -> Option<BoardTemperature> {
    let (name, value) = token.rsplit_once('@')?;
    if name.is_empty() || name.contains(['@', '%', '[', '/']) {
        return None;
    }
    let degrees = |text: &str| parse_decimal(text.strip_suffix('C')?);
    let (now, largest) = match value.split_once('/') {
        Some((now, largest)) => (degrees(now)?, Some(degrees(largest)?)),
        None => (degrees(value)?, None),
    };
    let shown = |degrees: &f64| *degrees > SENSOR_OFF;
    Some(BoardTemperature {
        name: name.to_string(),
        celsius: Some(now).filter(shown).map(Celsius),
        largest_celsius: largest.filter(shown).map(Celsius),
        placeholder: name.eq_ignore_ascii_case("PMIC") && (now == 50.0 || now == 100.0),
    })
}

/// `07-09-2024` and `13:31:31`.
pub(super) fn parse_stamp(date: &str, time: &str) -> Option<DateTime> {
    let three = |text: &str, mark: char, widths: [usize; 3]| -> Option<[i16; 3]> {
        let mut parts = text.split(mark);
        let mut numbers = [0; 3];
        for (number, width) in numbers.iter_mut().zip(widths) {
            let part = parts.next().filter(|part| part.len() == width)?;
            *number = i16::try_from(parse_digits(part)?).ok()?;
        }
        parts.next().is_none().then_some(numbers)
    };
    let [month, day, year] = three(date, '-', [2, 2, 4])?;
    let [hour, minute, second] = three(time, ':', [2, 2, 2])?;
    DateTime::new(year, month as i8, day as i8, hour as i8, minute as i8, second as i8, 0).ok()
}

/// `47%`.
pub(super) fn parse_percent(text: &str) -> Option<Ratio> {
    let value = parse_decimal(text.strip_suffix('%')?)?;
    (value >= 0.0).then_some(Ratio(value / 100.0))
}

fn parse_cores(token: &str) -> Option<Vec<BoardCore>> {
    let (list, behind) = token.strip_prefix('[')?.split_once(']')?;
    let shared = match behind {
        "" => None,
        clock => Some(parse_megahertz(clock.strip_prefix('@')?)?),
    };
    let core = |text: &str| -> Option<BoardCore> {
        if text.eq_ignore_ascii_case("off") {
            return Some(BoardCore { off: true, ..BoardCore::default() });
        }
        let (load, own) = match text.split_once('@') {
            Some(("", clock)) => (None, Some(parse_megahertz(clock)?)),
            Some((load, clock)) => (Some(parse_percent(load)?), Some(parse_megahertz(clock)?)),
            None => (Some(parse_percent(text)?), None),
        };
        Some(BoardCore { off: false, load_ratio: load, frequency_hertz: own.or(shared) })
    };
    list.split(',').take(MAX_LIST_ITEMS).map(|text| core(text.trim())).collect()
}

fn parse_load(token: &str) -> Option<FieldShape> {
    let (share, clock) = match token.split_once('@') {
        Some((share, clock)) => (share, Some(clock)),
        None => (token, None),
    };
    let load_ratio = if share.is_empty() { None } else { Some(parse_percent(share)?) };
    let frequencies_hertz = match clock {
        None => Vec::new(),
        Some(clock) => match clock.strip_prefix('[') {
            Some(list) => {
                let list = list.strip_suffix(']')?;
                list.split(',')
                    .take(MAX_LIST_ITEMS)
                    .map(|text| parse_megahertz(text.trim()))
                    .collect::<Option<_>>()?
            }
            None => vec![parse_megahertz(clock)?],
        },
    };
    Some(FieldShape::Load { load_ratio, frequencies_hertz })
}

fn parse_memory(token: &str) -> Option<FieldShape> {
    let (used, total) = token.split_once('/')?;
    let at = total.find(|c: char| c.is_ascii_alphabetic())?;
    let scale = unit_bytes(&total[at..])?;
    let used = used.strip_suffix(&total[at..]).unwrap_or(used);
    let bytes = |text: &str| Some(Bytes(parse_digits(text)?.checked_mul(scale)?));
    Some(FieldShape::Memory { used: bytes(used)?, total: bytes(&total[..at])? })
}

/// Largest power of a rail, a megawatt: no board comes near, and sums of rails stay exact.
const MAX_MILLIWATTS: u64 = 1_000_000_000;

fn parse_power(token: &str) -> Option<FieldShape> {
    let mut parts = token.split('/');
    let (now, mean, peak) = (parts.next()?, parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    // Either all numbers carry the unit or none does; a mixture is a truncated line.
    let has_unit = now.ends_with("mW");
    let watts = |text: &str| -> Option<Watts> {
        let number = if has_unit { text.strip_suffix("mW")? } else { text };
        let (sign, digits) = number.strip_prefix('-').map_or((1.0, number), |digits| (-1.0, digits));
        let milliwatts = parse_digits(digits).filter(|number| *number <= MAX_MILLIWATTS)?;
        Some(Watts(sign * milliwatts as f64 / 1e3))
    };
    let peak = match peak {
        Some(peak) => Some(watts(peak)?),
        None => None,
    };
    Some(FieldShape::Power { now: watts(now)?, mean: Some(watts(mean)?), peak })
}

/// Parses `252kB` as bytes. Despite their names, the units are powers of 1024.
fn parse_size(text: &str) -> Option<Bytes> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    Some(Bytes(parse_digits(&text[..at])?.checked_mul(unit_bytes(&text[at..])?)?))
}

fn unit_bytes(text: &str) -> Option<u64> {
    match text {
        "B" => Some(1),
        "kB" | "KB" => Some(1 << 10),
        "MB" => Some(1 << 20),
        "GB" => Some(1 << 30),
        _ => None,
    }
}

/// Parses a clock in megahertz.
fn parse_megahertz(text: &str) -> Option<Hertz> {
    parse_decimal(text).filter(|value| *value >= 0.0).map(|value| Hertz(value * 1e6))
}

/// Digits only; the standard library accepts more, such as a sign.
fn parse_digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Digits, at most one point and a minus; the standard library accepts more.
fn parse_decimal(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (before, after) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (digits.len() <= 24 && plain(before) && plain(after)).then(|| text.parse().ok())?
}
