//! Command-line parser: positional arguments in order, options by name.
//!
//! No library is used: the program must start fast and stay small, because its own cost is part of
//! its reports.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Maximum duration of a workload in seconds.
pub const MOST_SECONDS: f64 = 24.0 * 3600.0;
/// Maximum number of children, or of processes in a tree.
pub const MOST_PROCESSES: u64 = 100_000;
/// Maximum memory or file size in MiB.
pub const MOST_MIB: u64 = 1 << 20;

/// Options without a value; all others take one.
const FLAGS: [&str; 3] = ["--fsync", "--from-now", "--self"];

/// Error of a workload.
#[derive(Debug)]
pub struct Problem {
    text: String,
    code: u8,
}

impl Problem {
    /// The command line is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 2 }
    }

    /// The workload failed.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 1 }
    }

    /// The workload failed with a specific exit code.
    pub fn with_code(text: impl Into<String>, code: u8) -> Self {
        Self { text: text.into(), code }
    }

    /// The message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

/// The arguments after the workload's name.
#[derive(Debug, Default)]
pub struct Arguments {
    positional: std::collections::VecDeque<OsString>,
    options: BTreeMap<String, OsString>,
    /// Whether help was requested.
    pub help: bool,
}

impl Arguments {
    /// Parses the arguments.
    pub fn read(words: impl Iterator<Item = OsString>) -> Result<Self, Problem> {
        let mut arguments = Self::default();
        let mut words = words;
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            match text.as_str() {
                "-h" | "--help" => arguments.help = true,
                flag if FLAGS.contains(&flag) => {
                    arguments.options.insert(text, OsString::new());
                }
                option if option.starts_with("--") => {
                    let (name, value) = match option.split_once('=') {
                        Some((name, value)) => (name.to_string(), OsString::from(value)),
                        None => {
                            let value = words.next();
                            (text.clone(), value.ok_or_else(|| missing_value(option))?)
                        }
                    };
                    arguments.options.insert(name, value);
                }
                _ => arguments.positional.push_back(word),
            }
        }
        Ok(arguments)
    }

    /// The next positional argument.
    pub fn next(&mut self, what: &str) -> Result<OsString, Problem> {
        self.positional.pop_front().ok_or_else(|| Problem::usage(format!("{what} is missing")))
    }

    /// The next positional argument as a path.
    pub fn next_path(&mut self, what: &str) -> Result<PathBuf, Problem> {
        self.next(what).map(PathBuf::from)
    }

    /// The next positional argument as an integer up to `most`.
    pub fn next_whole(&mut self, what: &str, most: u64) -> Result<u64, Problem> {
        let word = self.next(what)?;
        whole(what, &word, most)
    }

    /// The next positional argument as a number up to `most`.
    pub fn next_number(&mut self, what: &str, most: f64) -> Result<f64, Problem> {
        let word = self.next(what)?;
        number(what, &word, most)
    }

    /// Whether a flag was given.
    pub fn flag(&mut self, name: &str) -> bool {
        self.options.remove(name).is_some()
    }

    /// An option's value as text.
    pub fn option(&mut self, name: &str) -> Option<OsString> {
        self.options.remove(name)
    }

    /// An option's value as an integer up to `most`.
    pub fn option_whole(&mut self, name: &str, most: u64) -> Result<Option<u64>, Problem> {
        self.options.remove(name).map(|word| whole(name, &word, most)).transpose()
    }

    /// An option's value as a number up to `most`.
    pub fn option_number(&mut self, name: &str, most: f64) -> Result<Option<f64>, Problem> {
        self.options.remove(name).map(|word| number(name, &word, most)).transpose()
    }

    /// Rejects unused arguments: a misspelt option must not be ignored.
    pub fn end(&mut self) -> Result<(), Problem> {
        if let Some(word) = self.positional.pop_front() {
            return Err(Problem::usage(format!("{word:?} is one argument too many")));
        }
        match self.options.keys().next() {
            Some(name) => {
                Err(Problem::usage(format!("this workload has no option {name}; see `metier-burn --help`")))
            }
            None => Ok(()),
        }
    }
}

/// Error for a last option without its value.
pub fn missing_value(option: &str) -> Problem {
    Problem::usage(format!("{option} needs a value"))
}

fn whole(what: &str, word: &OsString, most: u64) -> Result<u64, Problem> {
    word.to_str()
        .and_then(|text| text.parse().ok())
        .filter(|n| *n <= most)
        .ok_or_else(|| Problem::usage(format!("{what} is {word:?}; want a whole number from 0 to {most}")))
}

fn number(what: &str, word: &OsString, most: f64) -> Result<f64, Problem> {
    word.to_str()
        .and_then(|text| text.parse().ok())
        .filter(|x| (0.0..=most).contains(x))
        .ok_or_else(|| Problem::usage(format!("{what} is {word:?}; want a number from 0 to {most}")))
}
