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

pub use error::ScrapeError;
use line::{LineError, LineReader, shorten, unescape};

use crate::format::{ExpositionFormat, MetricKind};

/// Limits of a page.
#[derive(Debug, Clone)]
pub struct ScrapeLimits {
    /// Maximum size of the page in bytes.
    pub bytes: usize,
    /// Maximum number of samples of the page.
    pub samples: usize,
    /// Maximum number of families of the page.
    pub families: usize,
    /// Maximum number of labels of a sample.
    pub labels: usize,
}

impl Default for ScrapeLimits {
    fn default() -> Self {
        Self { bytes: 16 << 20, samples: 100_000, families: 10_000, labels: 64 }
    }
}

/// A parsed page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScrapedPage {
    /// The families, in order of their first line.
    pub families: Vec<MetricFamily>,
}

impl ScrapedPage {
    /// The family with this name, from its TYPE line or else from its samples.
    pub fn family(&self, name: &str) -> Option<&MetricFamily> {
        self.families.iter().find(|family| family.name == name)
    }

    pub fn samples(&self) -> impl Iterator<Item = &MetricSample> {
        self.families.iter().flat_map(|family| &family.samples)
    }
}

/// Samples of one name, or of all names of a histogram or summary.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricFamily {
    /// Name in the TYPE line; for counters, OpenMetrics omits `_total` there.
    pub name: String,
    /// Metric kind of the samples.
    pub kind: MetricKind,
    /// Help text, if there is one.
    pub help: Option<String>,
    /// Unit, if there is one (OpenMetrics).
    pub unit: Option<String>,
    /// The samples, in order.
    pub samples: Vec<MetricSample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// Full name, with suffixes such as `_bucket` and `_total`.
    pub name: String,
    /// Label set, in order; names are unique.
    pub labels: Vec<(String, String)>,
    pub value: f64,
    /// Timestamp in milliseconds of Unix time, if there is one.
    pub milliseconds: Option<i64>,
}

impl MetricSample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Parses a page in the given format.
pub fn parse_page(
    page: &[u8],
    format: ExpositionFormat,
    limits: &ScrapeLimits,
) -> Result<ScrapedPage, ScrapeError> {
    if page.len() > limits.bytes {
        return Err(ScrapeError::TooLarge { got: page.len(), most: limits.bytes });
    }
    let mut reader = PageReader { format, limits, families: Vec::new(), places: HashMap::new(), samples: 0 };
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
                return Err(ScrapeError::Malformed { line: lines, column: good.chars().count() + 1, what });
            }
        };
        let malformed = |wrong: LineError| {
            let column = text.get(..wrong.at).unwrap_or(text).chars().count() + 1;
            ScrapeError::Malformed { line: lines, column, what: wrong.what }
        };
        if is_ended {
            if text.is_empty() {
                continue;
            }
            return Err(malformed(LineError { at: 0, what: "more behind `# EOF`".to_string() }));
        }
        if format == ExpositionFormat::OpenMetrics && text == "# EOF" {
            is_ended = true;
            continue;
        }
        reader.read_line(text).map_err(|fault| match fault {
            LineFault::Wrong(wrong) => malformed(wrong),
            LineFault::TooMany(what, most) => ScrapeError::TooMany { line: lines, what, most },
        })?;
    }
    if format == ExpositionFormat::OpenMetrics && !is_ended {
        return Err(ScrapeError::CutOff { line: lines });
    }
    Ok(ScrapedPage { families: reader.families })
}

/// Kinds of faults in a line.
enum LineFault {
    Wrong(LineError),
    TooMany(&'static str, usize),
}

impl From<LineError> for LineFault {
    fn from(wrong: LineError) -> Self {
        Self::Wrong(wrong)
    }
}

struct PageReader<'a> {
    format: ExpositionFormat,
    limits: &'a ScrapeLimits,
    families: Vec<MetricFamily>,
    /// Index of each family by name, and whether it had a TYPE line.
    places: HashMap<String, (usize, bool)>,
    samples: usize,
}

impl PageReader<'_> {
    fn read_line(&mut self, text: &str) -> Result<(), LineFault> {
        let mut line = LineReader::new(text);
        line.skip_blanks();
        if line.is_at_end() {
            return Ok(());
        }
        if line.is_comment() {
            return self.read_comment(line);
        }
        let sample = line.take_sample(self.format, self.limits)?;
        if self.samples >= self.limits.samples {
            return Err(LineFault::TooMany("samples", self.limits.samples));
        }
        self.samples += 1;
        let place = match self.find_family(&sample.name) {
            Some(place) => place,
            None => self.family_index(&sample.name, false)?,
        };
        self.families[place].samples.push(sample);
        Ok(())
    }

    /// Parses HELP, TYPE and UNIT lines; other comments are skipped.
    fn read_comment(&mut self, mut line: LineReader<'_>) -> Result<(), LineFault> {
        let hash = line.take_word();
        if hash != "#" {
            return Ok(());
        }
        line.skip_blanks();
        let keyword = line.take_word();
        if !matches!(keyword, "HELP" | "TYPE" | "UNIT") {
            return Ok(());
        }
        line.skip_blanks();
        let name = line.take_name("a metric's name", true)?;
        if keyword == "TYPE" {
            let place = self.family_index(&name, true)?;
            line.skip_blanks();
            let before = line.is_at_end();
            let word = line.take_word();
            let Some(kind) = MetricKind::from_type_word(word) else {
                let what = match before {
                    true => "no type".to_string(),
                    false => format!(
                        "{:?} is not a metric type; want counter, gauge, histogram, summary or untyped",
                        shorten(word)
                    ),
                };
                return Ok(line.error_here(what)?);
            };
            self.families[place].kind = kind;
            line.skip_blanks();
            if !line.is_at_end() {
                return Ok(line.error_here("more behind the type")?);
            }
            return Ok(());
        }
        let place = match self.places.get(&*name) {
            Some((place, _)) => *place,
            None => self.family_index(&name, false)?,
        };
        // One blank separates; further blanks belong to the text.
        let text = line.take_rest();
        let text = text.strip_prefix([' ', '\t']).unwrap_or(text);
        let family = &mut self.families[place];
        if keyword == "HELP" {
            family.help = Some(unescape(text));
        } else {
            family.unit = Some(text.to_string());
        }
        Ok(())
    }

    /// Index of the family with this name; a new family is added.
    fn family_index(&mut self, name: &str, is_typed: bool) -> Result<usize, LineFault> {
        if let Some((place, was_typed)) = self.places.get_mut(name) {
            if is_typed && *was_typed {
                let what = format!("a second TYPE of {:?}", shorten(name));
                return Err(LineFault::Wrong(LineError { at: 0, what }));
            }
            *was_typed |= is_typed;
            return Ok(*place);
        }
        if self.families.len() >= self.limits.families {
            return Err(LineFault::TooMany("families", self.limits.families));
        }
        let place = self.families.len();
        self.families.push(MetricFamily { name: name.to_string(), ..MetricFamily::default() });
        self.places.insert(name.to_string(), (place, is_typed));
        Ok(place)
    }

    /// Index of the family of a sample: by its full name, or by its name without a suffix of the
    /// kind.
    fn find_family(&self, name: &str) -> Option<usize> {
        if let Some((place, _)) = self.places.get(name) {
            return Some(*place);
        }
        let (at, _) = name.rmatch_indices('_').next()?;
        let (stem, suffix) = name.split_at(at);
        let (place, _) = self.places.get(stem)?;
        self.families[*place].kind.suffixes().contains(&suffix).then_some(*place)
    }
}
