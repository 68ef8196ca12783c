//! What is wrong with a run file: all of it at once, each with its place, its field, what was given and what would
//! be right.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::node::Place;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file that it is in, where that is another than the one that was given.
    pub file: Option<PathBuf>,
    /// Where in the file; `None` for what came from a flag or is not there at all.
    pub place: Option<Place>,
    /// The flag or variable that set it, where it was not the file.
    pub flag: Option<String>,
    /// Dotted, for example `limits.memory` or `mounts[1].target`; empty for the document itself.
    pub field: String,
    /// What was given; `None` where nothing was.
    pub got: Option<String>,
    /// What would be right.
    pub want: String,
}

impl Fault {
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
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let (Some(line), column) = (self.line(), self.column()) {
            write!(f, "line {line}")?;
            if let Some(column) = column {
                write!(f, ", column {column}")?;
            }
            f.write_str(": ")?;
        }
        let name = self.flag.as_deref().unwrap_or(&self.field);
        match (&self.got, name) {
            (Some(got), "") => write!(f, "{got}")?,
            (Some(got), name) => write!(f, "{name} is {got}")?,
            (None, "") => f.write_str("it is empty")?,
            (None, name) => write!(f, "{name} is not given")?,
        }
        write!(f, "; want {}", self.want)
    }
}

/// Everything that is wrong; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub(super) Vec<Fault>);

impl Faults {
    /// Each of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// The same, of this file.
    pub fn of(mut self, file: &Path) -> Self {
        self.0
            .iter_mut()
            .filter(|fault| fault.file.is_none())
            .for_each(|fault| fault.file = Some(file.into()));
        self
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Faults {
    /// One line each.
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

impl std::error::Error for Faults {}

/// Who said what a field is: the file, with the place, or a flag.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    places: BTreeMap<String, Place>,
    flags: BTreeMap<String, String>,
}

impl Origins {
    pub(super) fn at(&mut self, field: &str, place: Place) {
        self.places.insert(field.to_string(), place);
    }

    /// A flag or a variable set this field, and not the file.
    pub fn flag(&mut self, field: &str, flag: impl Into<String>) {
        self.flags.insert(field.to_string(), flag.into());
    }

    /// A fault with the place of its field, or of the nearest one around it that is written.
    pub(super) fn locate(&self, mut fault: Fault) -> Fault {
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
