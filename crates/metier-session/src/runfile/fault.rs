//! What is wrong with a run file: all of it at once, each with its place, its field, what was given and what would
//! be right.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::document::TextPosition;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileFault {
    /// The file that it is in, where that is another than the one that was given.
    pub file: Option<PathBuf>,
    /// Where in the file; `None` for what came from a flag or is not there at all.
    pub place: Option<TextPosition>,
    /// The flag or variable that set it, where it was not the file.
    pub flag: Option<String>,
    /// Dotted, for example `limits.memory` or `mounts[1].target`; empty for the document itself.
    pub field: String,
    /// What was given; `None` where nothing was.
    pub got: Option<String>,
    /// What would be right.
    pub want: String,
}

impl RunFileFault {
    /// A fault of a field.
    pub fn new(field: impl Into<String>, got: impl Into<String>, want: impl Into<String>) -> Self {
        Self {
            file: None,
            place: None,
            flag: None,
            field: field.into(),
            got: Some(got.into()),
            want: want.into(),
        }
    }

    /// A fault of the document as a whole.
    pub fn document(got: &str, want: &str) -> Self {
        Self::new("", got, want)
    }

    /// Something that has to be there and is not.
    pub fn absent(field: impl Into<String>, want: impl Into<String>) -> Self {
        Self { got: None, ..Self::new(field, "", want) }
    }

    /// Line, from 1.
    pub fn line(&self) -> Option<u64> {
        self.place.map(|place| place.line).filter(|line| *line > 0)
    }

    /// Column, from 1.
    pub fn column(&self) -> Option<u64> {
        self.line().and(self.place.map(|place| place.column)).filter(|column| *column > 0)
    }

    /// What is wrong, without where.
    pub fn message(&self) -> String {
        let name = self.flag.as_deref().unwrap_or(&self.field);
        let what = match (&self.got, name) {
            (Some(got), "") => got.clone(),
            (Some(got), name) => format!("{name} is {got}"),
            (None, "") => "it is empty".into(),
            (None, name) => format!("{name} is not given"),
        };
        format!("{what}; want {}", self.want)
    }
}

impl fmt::Display for RunFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line(), self.column()) {
            (Some(file), Some(line), Some(column)) => write!(f, "{}:{line}:{column}: ", file.display())?,
            (Some(file), Some(line), None) => write!(f, "{}:{line}: ", file.display())?,
            (Some(file), None, _) => write!(f, "{}: ", file.display())?,
            (None, Some(line), Some(column)) => write!(f, "line {line}, column {column}: ")?,
            (None, Some(line), None) => write!(f, "line {line}: ")?,
            (None, None, _) => {}
        }
        f.write_str(&self.message())
    }
}

/// Everything that is wrong; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileFaults(pub(super) Vec<RunFileFault>);

impl RunFileFaults {
    /// Each of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &RunFileFault> {
        self.0.iter()
    }

    /// The same, of this file, but for those of a flag.
    pub fn in_file(mut self, file: &Path) -> Self {
        self.0
            .iter_mut()
            .filter(|fault| fault.file.is_none() && fault.flag.is_none())
            .for_each(|fault| fault.file = Some(file.into()));
        self
    }
}

impl From<RunFileFault> for RunFileFaults {
    fn from(fault: RunFileFault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for RunFileFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for RunFileFaults {}

/// Who said what a field is: the file, with the place, or a flag.
#[derive(Debug, Clone, Default)]
pub struct FieldOrigins {
    places: BTreeMap<String, TextPosition>,
    flags: BTreeMap<String, String>,
    /// What did not even have the right shape.
    pub(super) misshapen: Vec<RunFileFault>,
}

impl FieldOrigins {
    pub(super) fn set_place(&mut self, field: &str, place: TextPosition) {
        self.places.insert(field.to_string(), place);
    }

    /// A flag or a variable set this field, and not the file.
    pub fn flag(&mut self, field: &str, flag: impl Into<String>) {
        self.flags.insert(field.to_string(), flag.into());
    }

    /// Everything that is wrong, in the order of the file; a field of the wrong shape is not told twice.
    pub(super) fn collect_faults(&self, found: Vec<RunFileFault>) -> Option<RunFileFaults> {
        let is_within = |field: &str, outer: &str| {
            field.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let is_new = |fault: &RunFileFault| {
            fault.file.is_some() || !self.misshapen.iter().any(|known| is_within(&fault.field, &known.field))
        };
        let found = found.into_iter().map(|fault| self.locate(fault)).filter(is_new);
        let mut faults: Vec<RunFileFault> = self.misshapen.iter().cloned().chain(found).collect();
        faults.sort_by_key(|fault| (fault.file.is_some(), fault.line().unwrap_or(u64::MAX), fault.column()));
        (!faults.is_empty()).then_some(RunFileFaults(faults))
    }

    /// Whether a flag set it.
    pub(super) fn is_flag(&self, field: &str) -> bool {
        self.flags.contains_key(field)
    }

    /// A fault with the place of its field, or of the nearest one around it that is written.
    pub(super) fn locate(&self, mut fault: RunFileFault) -> RunFileFault {
        if fault.place.is_some() || fault.flag.is_some() {
            return fault;
        }
        let mut field = fault.field.as_str();
        loop {
            if let Some(flag) = self.flags.get(field) {
                fault.flag = Some(flag.clone());
                return fault;
            }
            if let Some(place) = self.places.get(field) {
                fault.place = Some(*place);
                return fault;
            }
            match field.rfind(['.', '[']) {
                Some(at) => field = &field[..at],
                None => return fault,
            }
        }
    }
}
