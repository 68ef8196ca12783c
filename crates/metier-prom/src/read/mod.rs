//! Parses a page into families.
//!
//! The parser is strict where meaning would be lost (an invalid number, a duplicate label, a
//! truncated page). It is lenient where the meaning is clear (blank lines, comments, carriage
//! returns, scattered samples of a family, type words of the other format).

mod error;
mod line;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use error::Error;
use line::{Line, Wrong, shorten, unescaped};

use crate::format::{Format, Kind};

/// Limits of a page.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum size of the page in bytes.
    pub bytes: usize,
    /// Maximum number of samples of the page.
    pub samples: usize,
    /// Maximum number of families of the page.
    pub families: usize,
    /// Maximum number of labels of a sample.
    pub labels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 << 20, samples: 100_000, families: 10_000, labels: 64 }
    }
}

/// A parsed page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scrape {
    /// The families, in order of their first line.
    pub families: Vec<Family>,
}

impl Scrape {
    /// The family with this name, from its TYPE line or else from its samples.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.families.iter().flat_map(|family| &family.samples)
    }
}

/// Samples of one name, or of all names of a histogram or summary.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Family {
    /// Name in the TYPE line; for counters, OpenMetrics omits `_total` there.
    pub name: String,
    /// Metric kind of the samples.
    pub kind: Kind,
    /// Help text, if there is one.
    pub help: Option<String>,
    /// Unit, if there is one (OpenMetrics).
    pub unit: Option<String>,
    /// The samples, in order.
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Full name, with suffixes such as `_bucket` and `_total`.
    pub name: String,
    /// Label set, in order; names are unique.
    pub labels: Vec<(String, String)>,
    pub value: f64,
    /// Timestamp in milliseconds of Unix time, if there is one.
    pub milliseconds: Option<i64>,
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Parses a page in the given format.
pub fn read(page: &[u8], format: Format, limits: &Limits) -> Result<Scrape, Error> {
    if page.len() > limits.bytes {
        return Err(Error::TooLarge { got: page.len(), most: limits.bytes });
    }
    let mut reader = Reader { format, limits, families: Vec::new(), places: HashMap::new(), samples: 0 };
    let mut lines = 0;
    let mut is_ended = false;
    for bytes in page.split_inclusive(|byte| *byte == b'\n') {
        lines += 1;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let what = "a byte that is not UTF-8".to_string();
                return Err(Error::Malformed { line: lines, column: good.chars().count() + 1, what });
            }
        };
        let malformed = |wrong: Wrong| {
            let column = text.get(..wrong.at).unwrap_or(text).chars().count() + 1;
            Error::Malformed { line: lines, column, what: wrong.what }
        };
        if is_ended {
            if text.is_empty() {
                continue;
            }
            return Err(malformed(Wrong { at: 0, what: "more behind `# EOF`".to_string() }));
        }
        if format == Format::OpenMetrics && text == "# EOF" {
            is_ended = true;
            continue;
        }
        reader.line(text).map_err(|fault| match fault {
            Fault::Wrong(wrong) => malformed(wrong),
            Fault::TooMany(what, most) => Error::TooMany { line: lines, what, most },
        })?;
    }
    if format == Format::OpenMetrics && !is_ended {
        return Err(Error::CutOff { line: lines });
    }
    Ok(Scrape { families: reader.families })
}

/// Kinds of faults in a line.
enum Fault {
    Wrong(Wrong),
    TooMany(&'static str, usize),
}

impl From<Wrong> for Fault {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

struct Reader<'a> {
    format: Format,
    limits: &'a Limits,
    families: Vec<Family>,
    /// Index of each family by name, and whether it had a TYPE line.
    places: HashMap<String, (usize, bool)>,
    samples: usize,
}

impl Reader<'_> {
    fn line(&mut self, text: &str) -> Result<(), Fault> {
        let mut line = Line::new(text);
        line.blanks();
        if line.is_at_end() {
            return Ok(());
        }
        if line.is_comment() {
            return self.comment(line);
        }
        let sample = line.sample(self.format, self.limits)?;
        if self.samples >= self.limits.samples {
            return Err(Fault::TooMany("samples", self.limits.samples));
        }
        self.samples += 1;
        let place = match self.home(&sample.name) {
            Some(place) => place,
            None => self.place(&sample.name, false)?,
        };
        self.families[place].samples.push(sample);
        Ok(())
    }

    /// Parses HELP, TYPE and UNIT lines; other comments are skipped.
    fn comment(&mut self, mut line: Line<'_>) -> Result<(), Fault> {
        let hash = line.word();
        if hash != "#" {
            return Ok(());
        }
        line.blanks();
        let keyword = line.word();
        if !matches!(keyword, "HELP" | "TYPE" | "UNIT") {
            return Ok(());
        }
        line.blanks();
        let name = line.name("a metric's name", true)?;
        if keyword == "TYPE" {
            let place = self.place(&name, true)?;
            line.blanks();
            let before = line.is_at_end();
            let word = line.word();
            let Some(kind) = Kind::from_word(word) else {
                let what = match before {
                    true => "no type".to_string(),
                    false => format!(
                        "{:?} is not a metric type; want counter, gauge, histogram, summary or untyped",
                        shorten(word)
                    ),
                };
                return Ok(line.wrong(what)?);
            };
            self.families[place].kind = kind;
            line.blanks();
            if !line.is_at_end() {
                return Ok(line.wrong("more behind the type")?);
            }
            return Ok(());
        }
        let place = match self.places.get(&*name) {
            Some((place, _)) => *place,
            None => self.place(&name, false)?,
        };
        // One blank separates; further blanks belong to the text.
        let text = line.remainder();
        let text = text.strip_prefix([' ', '\t']).unwrap_or(text);
        let family = &mut self.families[place];
        if keyword == "HELP" {
            family.help = Some(unescaped(text));
        } else {
            family.unit = Some(text.to_string());
        }
        Ok(())
    }

    /// Index of the family with this name; a new family is added.
    fn place(&mut self, name: &str, is_typed: bool) -> Result<usize, Fault> {
        if let Some((place, was_typed)) = self.places.get_mut(name) {
            if is_typed && *was_typed {
                let what = format!("a second TYPE of {:?}", shorten(name));
                return Err(Fault::Wrong(Wrong { at: 0, what }));
            }
            *was_typed |= is_typed;
            return Ok(*place);
        }
        if self.families.len() >= self.limits.families {
            return Err(Fault::TooMany("families", self.limits.families));
        }
        let place = self.families.len();
        self.families.push(Family { name: name.to_string(), ..Family::default() });
        self.places.insert(name.to_string(), (place, is_typed));
        Ok(place)
    }

    /// Index of the family of a sample: by its full name, or by its name without a suffix of the
    /// kind.
    fn home(&self, name: &str) -> Option<usize> {
        if let Some((place, _)) = self.places.get(name) {
            return Some(*place);
        }
        let (at, _) = name.rmatch_indices('_').next()?;
        let (stem, suffix) = name.split_at(at);
        let (place, _) = self.places.get(stem)?;
        self.families[*place].kind.suffixes().contains(&suffix).then_some(*place)
    }
}
