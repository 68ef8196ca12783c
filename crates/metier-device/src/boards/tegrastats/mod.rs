//! Parser for lines of the vendor program `tegrastats`, of every board generation.
//!
//! The set of fields depends on the board, the release and the caller's privilege, and changes each
//! year. No field is read by position. The line is cut into tokens, each field is recognised by the
//! shape of its value, and unrecognised tokens are kept. `CPU [12%@1420]` are cores, `CPU 311/311`
//! is a rail and `CPU@40C` a temperature; the name alone never decides.
//!
//! Any byte sequence gives a [`Line`] without a panic. A repeated field is kept as unknown.

mod shape;
mod token;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use metier_types::{Bytes, Ratio};
use serde::Serialize;

use self::shape::{Shape, percent};
use self::token::tokens;
use super::{Engine, Memory, Morphing, Rail, Snapshot};

/// Largest number of bytes parsed of one line; the longest known line is below 1 KiB.
const LONGEST: usize = 64 * 1024;

/// Prefixes of engine names; a number or a suffix follows.
const ENGINES: [&str; 14] = [
    "NVENC", "NVDEC", "NVJPG", "MSENC", "VIC", "OFA", "NVDLA", "PVA", "APE", "NVCSI", "ISP", "SE", "TSEC",
    "VI",
];

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Line {
    /// Local time in whole seconds, if printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<jiff::civil::DateTime>,
    /// The parsed state of the board.
    #[serde(flatten)]
    pub board: Snapshot,
    /// Unrecognised tokens, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl Line {
    /// Parses a line of text.
    pub fn parse(text: &str) -> Self {
        let mut cut = text.len().min(LONGEST);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut line = Self::default();
        let tokens = tokens(&text[..cut]);
        let mut rest = tokens.as_slice();
        while let Some(first) = rest.first() {
            let taken = line.take(rest);
            if taken == 0 {
                line.unknown.push((*first).to_string());
            }
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        line
    }

    /// Parses a line of bytes; invalid UTF-8 is replaced.
    pub fn parse_bytes(bytes: &[u8]) -> Self {
        let text: Cow<'_, str> = String::from_utf8_lossy(bytes.get(..LONGEST).unwrap_or(bytes));
        Self::parse(&text)
    }

    /// Parses the field at the front of `tokens`. Returns its number of tokens, 0 if unrecognised.
    fn take(&mut self, tokens: &[&str]) -> usize {
        let (first, second) = (tokens[0], tokens.get(1).copied().unwrap_or_default());
        if let Some(temperature) = shape::temperature(first) {
            self.board.temperatures.push(temperature);
            return 1;
        }
        if self.stamp.is_none()
            && let Some(stamp) = shape::stamp(first, second)
        {
            self.stamp = Some(stamp);
            return 2;
        }
        if first == "MTS" && self.board.mts.is_none() {
            return self.take_mts(tokens);
        }
        if !shape::is_name(first) {
            return 0;
        }
        let name = first.to_string();
        match Shape::of(second) {
            Some(Shape::Memory { used, total }) => {
                self.take_memory(first, used, total, tokens.get(2).copied())
            }
            Some(Shape::Cores(cores)) if first.eq_ignore_ascii_case("CPU") && self.board.cores.is_empty() => {
                self.board.cores = cores;
                2
            }
            // An unconnected channel of the power chip.
            Some(Shape::Power { .. }) if first == "NC" => 2,
            Some(Shape::Power { now, mean, peak }) => {
                self.board.rails.push(Rail { name, now, mean, peak });
                2
            }
            Some(Shape::Unconnected) => 2,
            Some(Shape::Load { load_ratio, frequencies_hertz }) => {
                self.take_engine(Engine { name, off: false, load_ratio, frequencies_hertz })
            }
            Some(Shape::Off) if is_engine(first) => {
                self.take_engine(Engine { name, off: true, ..Engine::default() })
            }
            Some(Shape::Number(hertz)) if is_engine(first) => {
                self.take_engine(Engine { name, frequencies_hertz: vec![hertz], ..Engine::default() })
            }
            _ => 0,
        }
    }

    /// `MTS fg 1% bg 9%`.
    fn take_mts(&mut self, tokens: &[&str]) -> usize {
        let share = |index: usize, word: &str| -> Option<Ratio> {
            (tokens.get(index) == Some(&word)).then(|| percent(tokens.get(index + 1)?))?
        };
        let Some(foreground) = share(1, "fg") else { return 0 };
        let background = share(3, "bg");
        self.board.mts = Some(Morphing { foreground, background });
        if background.is_some() { 5 } else { 3 }
    }

    fn take_memory(
        &mut self,
        name: &str,
        used_bytes: Bytes,
        total_bytes: Bytes,
        group: Option<&str>,
    ) -> usize {
        let place = match name {
            "RAM" => &mut self.board.ram,
            "SWAP" => &mut self.board.swap,
            "IRAM" => &mut self.board.iram,
            _ => return 0,
        };
        if place.is_some() {
            return 0;
        }
        let mut memory = Memory { used_bytes, total_bytes, largest_free: None, cached_bytes: None };
        let has_group = match group.and_then(shape::group) {
            Some(shape::Group::LargestFree(blocks)) => {
                memory.largest_free = blocks;
                true
            }
            Some(shape::Group::Cached(bytes)) => {
                memory.cached_bytes = Some(bytes);
                true
            }
            None => false,
        };
        *place = Some(memory);
        2 + usize::from(has_group)
    }

    fn take_engine(&mut self, engine: Engine) -> usize {
        match engine.engine() {
            "EMC" if self.board.emc.is_none() => self.board.emc = Some(engine),
            "EMC" => return 0,
            gpu if gpu.starts_with("GR3D") => self.board.gpus.push(engine),
            _ => self.board.engines.push(engine),
        }
        2
    }
}

/// Whether a bare number or `off` after this name is the state of an engine.
fn is_engine(name: &str) -> bool {
    let stem = name.strip_suffix("_FREQ");
    let bare = stem.unwrap_or(name).trim_end_matches(|c: char| c.is_ascii_digit());
    stem.is_some() || ENGINES.contains(&bare) || bare == "EMC" || bare.starts_with("GR3D")
}
