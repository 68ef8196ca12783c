//! The workload's own count of its resource use, as one JSON object (`metier.burn/1`).
//!
//! Every report has `schema`, `workload` and `pid`; other fields depend on the workload.
//! `cpu_nanoseconds` covers the reporting process alone, `children_cpu_nanoseconds` its reaped
//! children. A file is written under a temporary name and renamed, so that a reader never sees half
//! of it.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use crate::arguments::{Arguments, Problem};
use crate::system;

/// Destination of the report.
#[derive(Debug, Clone)]
pub enum Target {
    /// No report was requested.
    Nowhere,
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Target {
    /// Parses the value of `--report`. The path is made absolute, since a daemon changes its
    /// directory.
    pub fn from_option(value: Option<OsString>) -> Result<Self, Problem> {
        match value {
            None => Ok(Self::Nowhere),
            Some(word) if word == "-" => Ok(Self::Stdout),
            Some(word) => std::path::absolute(&word)
                .map(Self::File)
                .map_err(|e| Problem::usage(format!("--report {word:?}: {e}; want a file name or -"))),
        }
    }

    /// Takes `--report`, then rejects remaining arguments.
    pub fn last_of(arguments: &mut Arguments) -> Result<Self, Problem> {
        let target = Self::from_option(arguments.option("--report"))?;
        arguments.end()?;
        Ok(target)
    }
}

/// A report under construction.
#[derive(Debug)]
pub struct Report {
    json: String,
}

impl Report {
    /// Starts the report of a workload.
    pub fn of(workload: &str) -> Self {
        let mut report = Self { json: String::from("{\"schema\":\"metier.burn/1\"") };
        report.text("workload", workload);
        report.whole("pid", u64::from(std::process::id()));
        report
    }

    /// Adds an integer.
    pub fn whole(&mut self, name: &str, value: u64) -> &mut Self {
        self.json.push_str(&format!(",\"{name}\":{value}"));
        self
    }

    /// Adds an integer or null.
    pub fn maybe(&mut self, name: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.whole(name, value),
            None => {
                self.json.push_str(&format!(",\"{name}\":null"));
                self
            }
        }
    }

    /// Adds a number of seconds.
    pub fn seconds(&mut self, name: &str, value: f64) -> &mut Self {
        self.json.push_str(&format!(",\"{name}\":{value:.9}"));
        self
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.json.push_str(&format!(",\"{name}\":\""));
        for c in value.chars() {
            match c {
                '"' | '\\' => self.json.extend(['\\', c]),
                c if (c as u32) < 0x20 => self.json.push_str(&format!("\\u{:04x}", c as u32)),
                c => self.json.push(c),
            }
        }
        self.json.push('"');
        self
    }

    /// Adds the CPU time of this process and its reaped children, and writes the report.
    pub fn finish(mut self, target: &Target) -> Result<(), Problem> {
        if matches!(target, Target::Nowhere) {
            return Ok(());
        }
        self.whole("children_cpu_nanoseconds", system::children_cpu_nanoseconds());
        self.whole("peak_resident_bytes", system::peak_resident_bytes());
        // Last, so that little CPU time is used after it.
        self.whole("cpu_nanoseconds", system::process_cpu_nanoseconds());
        self.json.push_str("}\n");
        match target {
            Target::Nowhere => Ok(()),
            Target::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(self.json.as_bytes())
                    .and_then(|()| out.flush())
                    .map_err(|e| Problem::failed(format!("write the report to stdout: {e}")))
            }
            Target::File(path) => {
                let mut draft = path.clone().into_os_string();
                draft.push(format!(".{}", std::process::id()));
                std::fs::write(&draft, &self.json)
                    .and_then(|()| std::fs::rename(&draft, path))
                    .map_err(|e| Problem::failed(format!("write the report to {}: {e}", path.display())))
            }
        }
    }
}
