//! Reading a page into families.
//!
//! Strict where meaning would be lost (a bad number, a label twice, a cut-off page), lenient where it is clear (blank
//! lines, comments, carriage returns, families whose samples are not together, words of the other format).

mod error;
mod line;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use error::Error;
use line::{Line, Wrong, shorten, unescaped};

use crate::format::{Format, Kind};

/// What is read at most.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of the page.
    pub bytes: usize,
    /// Samples of the page.
    pub samples: usize,
    /// Families of the page.
    pub families: usize,
    /// Labels of a sample.
    pub labels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 << 20, samples: 100_000, families: 10_000, labels: 64 }
    }
}

/// A page that was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scrape {
    /// Its families, in order of their first line.
    pub families: Vec<Family>,
}

impl Scrape {
    /// The family of that name: that of its TYPE line, or of its samples when there is none.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.families.iter().flat_map(|family| &family.samples)
    }
}

/// Samples of one name, or of one histogram's or summary's names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Family {
    /// Its name as in its TYPE line; OpenMetrics names counters there without `_total`.
    pub name: String,
    /// What its samples are.
    pub kind: Kind,
    /// What it means, if said.
    pub help: Option<String>,
    /// Its unit, if said (OpenMetrics).
    pub unit: Option<String>,
    /// Its samples, in order.
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its full name, with `_bucket`, `_total` and such.
    pub name: String,
    /// Its labels, in order; names are unique.
    pub labels: Vec<(String, String)>,
    pub value: f64,
    /// When it was taken, in milliseconds of Unix time, if said.
    pub milliseconds: Option<i64>,
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a page of that format.
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

/// What can be wrong with a line.
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
    /// Where each family is, and whether its TYPE was said.
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

    /// HELP, TYPE and UNIT lines; any other comment is skipped.
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
                        "{:?} is no type; want counter, gauge, histogram, summary or untyped",
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
        // One blank separates; those that follow belong to the text.
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

    /// The family of that name, made if it is new.
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

    /// The family that a sample belongs to: that of its name, or that of its name without a suffix of its kind.
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
