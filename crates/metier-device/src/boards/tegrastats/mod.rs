//! Parser for lines of the vendor program `tegrastats`, of every board generation.
//!
//! The set of fields depends on the board, the release and the caller's privilege, and changes each
//! year. No field is read by position. The line is cut into tokens, each field is recognised by the
//! shape of its value, and unrecognised tokens are kept. `CPU [12%@1420]` are cores, `CPU 311/311`
//! is a rail and `CPU@40C` a temperature; the name alone never decides.
//!
//! Any byte sequence gives a [`Line`] without a panic. A repeated field is kept as unknown.

mod field_shape;
mod tokenizer;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use metier_types::{Bytes, Ratio};
use serde::Serialize;

use self::field_shape::{FieldShape, parse_percent};
use self::tokenizer::tokenize;
use super::{BoardEngine, BoardMemory, BoardSnapshot, CodeMorphing, PowerRail};

/// Largest number of bytes parsed of one line; the longest known line is below 1 KiB.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Prefixes of engine names; a number or a suffix follows.
const ENGINE_NAMES: [&str; 14] = [
    "NVENC", "NVDEC", "NVJPG", "MSENC", "VIC", "OFA", "NVDLA", "PVA", "APE", "NVCSI", "ISP", "SE", "TSEC",
    "VI",
];

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TegrastatsLine {
    /// Local time in whole seconds, if printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<jiff::civil::DateTime>,
    /// The parsed state of the board.
    #[serde(flatten)]
    pub board: BoardSnapshot,
    /// Unrecognised tokens, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl TegrastatsLine {
    /// Parses a line of text.
    pub fn parse(text: &str) -> Self {
        let mut cut = text.len().min(MAX_LINE_BYTES);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut line = Self::default();
        let tokens = tokenize(&text[..cut]);
        let mut rest = tokens.as_slice();
        while let Some(first) = rest.first() {
            let taken = line.take_field(rest);
            if taken == 0 {
                line.unknown.push((*first).to_string());
            }
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        line
    }

    /// Parses a line of bytes; invalid UTF-8 is replaced.
    pub fn parse_bytes(bytes: &[u8]) -> Self {
        let text: Cow<'_, str> = String::from_utf8_lossy(bytes.get(..MAX_LINE_BYTES).unwrap_or(bytes));
        Self::parse(&text)
    }

    /// Parses the field at the front of `tokens`. Returns its number of tokens, 0 if unrecognised.
    fn take_field(&mut self, tokens: &[&str]) -> usize {
        let (first, second) = (tokens[0], tokens.get(1).copied().unwrap_or_default());
        if let Some(temperature) = field_shape::parse_temperature(first) {
            self.board.temperatures.push(temperature);
            return 1;
        }
        if self.stamp.is_none()
            && let Some(stamp) = field_shape::parse_stamp(first, second)
        {
            self.stamp = Some(stamp);
            return 2;
        }
        if first == "MTS" && self.board.mts.is_none() {
            return self.take_mts(tokens);
        }
        if !field_shape::is_name(first) {
            return 0;
        }
        let name = first.to_string();
        match FieldShape::parse(second) {
            Some(FieldShape::Memory { used, total }) => {
                self.take_memory(first, used, total, tokens.get(2).copied())
            }
            Some(FieldShape::Cores(cores))
                if first.eq_ignore_ascii_case("CPU") && self.board.cores.is_empty() =>
            {
                self.board.cores = cores;
                2
            }
            // An unconnected channel of the power chip.
            Some(FieldShape::Power { .. }) if first == "NC" => 2,
            Some(FieldShape::Power { now, mean, peak }) => {
                self.board.rails.push(PowerRail { name, now, mean, peak });
                2
            }
            Some(FieldShape::Unconnected) => 2,
            Some(FieldShape::Load { load_ratio, frequencies_hertz }) => {
                self.take_engine(BoardEngine { name, off: false, load_ratio, frequencies_hertz })
            }
            Some(FieldShape::Off) if is_engine_name(first) => {
                self.take_engine(BoardEngine { name, off: true, ..BoardEngine::default() })
            }
            Some(FieldShape::Number(hertz)) if is_engine_name(first) => self.take_engine(BoardEngine {
                name,
                frequencies_hertz: vec![hertz],
                ..BoardEngine::default()
            }),
            _ => 0,
        }
    }

    /// `MTS fg 1% bg 9%`.
    fn take_mts(&mut self, tokens: &[&str]) -> usize {
        let share = |index: usize, word: &str| -> Option<Ratio> {
            (tokens.get(index) == Some(&word)).then(|| parse_percent(tokens.get(index + 1)?))?
        };
        let Some(foreground) = share(1, "fg") else { return 0 };
        let background = share(3, "bg");
        self.board.mts = Some(CodeMorphing { foreground, background });
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
        let mut memory = BoardMemory { used_bytes, total_bytes, largest_free: None, cached_bytes: None };
        let has_group = match group.and_then(field_shape::parse_memory_detail) {
            Some(field_shape::MemoryDetail::LargestFree(blocks)) => {
                memory.largest_free = blocks;
                true
            }
            Some(field_shape::MemoryDetail::Cached(bytes)) => {
                memory.cached_bytes = Some(bytes);
                true
            }
            None => false,
        };
        *place = Some(memory);
        2 + usize::from(has_group)
    }

    fn take_engine(&mut self, engine: BoardEngine) -> usize {
        match engine.base_name() {
            "EMC" if self.board.emc.is_none() => self.board.emc = Some(engine),
            "EMC" => return 0,
            gpu if gpu.starts_with("GR3D") => self.board.gpus.push(engine),
            _ => self.board.engines.push(engine),
        }
        2
    }
}

/// Whether a bare number or `off` after this name is the state of an engine.
fn is_engine_name(name: &str) -> bool {
    let stem = name.strip_suffix("_FREQ");
    let bare = stem.unwrap_or(name).trim_end_matches(|c: char| c.is_ascii_digit());
    stem.is_some() || ENGINE_NAMES.contains(&bare) || bare == "EMC" || bare.starts_with("GR3D")
}
