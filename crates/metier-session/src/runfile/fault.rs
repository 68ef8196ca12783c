//! Faults of a run file, reported together. Each has its position, its field, the given value and
//! the expected one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::document::TextPosition;

/// A fault of a run file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileFault {
    /// The file of the fault, if it is not the given file.
    pub file: Option<PathBuf>,
    /// Position in the file; `None` for a value from a flag or a missing value.
    pub place: Option<TextPosition>,
    /// The flag or variable that set the field, if not the file.
    pub flag: Option<String>,
    /// Dotted, for example `limits.memory` or `mounts[1].target`; empty for the document itself.
    pub field: String,
    /// The given value; `None` if missing.
    pub got: Option<String>,
    /// The expected value.
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

    /// A missing required field.
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

    /// The fault without its position.
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

/// All faults of a run file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileFaults(pub(super) Vec<RunFileFault>);

impl RunFileFaults {
    /// All faults, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &RunFileFault> {
        self.0.iter()
    }

    /// Adds the file name to all faults that do not come from a flag.
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

/// Origin of each field: a position in the file, or a flag.
#[derive(Debug, Clone, Default)]
pub struct FieldOrigins {
    places: BTreeMap<String, TextPosition>,
    flags: BTreeMap<String, String>,
    /// Faults of values with the wrong type.
    pub(super) misshapen: Vec<RunFileFault>,
}

impl FieldOrigins {
    pub(super) fn set_place(&mut self, field: &str, place: TextPosition) {
        self.places.insert(field.to_string(), place);
    }

    /// Records that a flag or variable set this field.
    pub fn flag(&mut self, field: &str, flag: impl Into<String>) {
        self.flags.insert(field.to_string(), flag.into());
    }

    /// All faults in the order of the file; a field of the wrong type is reported once.
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

    /// Whether a flag set the field.
    pub(super) fn is_flag(&self, field: &str) -> bool {
        self.flags.contains_key(field)
    }

    /// Adds the position of the field, or of its nearest parent in the file.
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
