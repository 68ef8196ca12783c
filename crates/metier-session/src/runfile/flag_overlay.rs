//! Applies flags to a run file: lists and tables grow, every other field is replaced. The table of
//! fields maps each flag to its field; flags that set several fields have a rule here.
//!
//! An invalid flag becomes a fault with the flag's name. The check reports it with all other
//! faults.

use super::FieldOrigins;
use super::document::shortened;
use super::fault::RunFileFault;
use super::fields::{FieldSlot, RunFlag};
use super::file::{Dataset, Listen, NestedRun, Pod, Ready, RunFile};
use super::forms::{self, MOUNT_HINT};
use super::shell_words::split_words;
use super::source;

/// A given flag with its values; a switch has none.
#[derive(Debug, Clone)]
pub struct GivenFlag {
    pub flag: &'static RunFlag,
    pub values: Vec<String>,
}

impl RunFile {
    /// Applies flags. The check finds their faults in `origins`.
    pub fn apply_flags(&mut self, given: &[GivenFlag], origins: &mut FieldOrigins) {
        for GivenFlag { flag, values } in given {
            let mut overlay = FlagOverlay { file: self, origins, flag, name: format!("--{}", flag.name) };
            if let Err(fault) = overlay.apply(values) {
                origins.misshapen.extend(fault);
            }
        }
    }
}

struct FlagOverlay<'a> {
    file: &'a mut RunFile,
    origins: &'a mut FieldOrigins,
    flag: &'static RunFlag,
    /// Name with its dashes.
    name: String,
}

/// One fault, or all faults of a file that the flag names.
type FlagFaults = Vec<RunFileFault>;

impl FlagOverlay<'_> {
    fn apply(&mut self, values: &[String]) -> Result<(), FlagFaults> {
        match (self.flag.name, values) {
            ("image", [image]) => {
                (self.file.command, self.file.pod) = (Vec::new(), None);
                self.file.image = Some(image.clone());
                self.set("image");
            }
            ("pod", [image]) => {
                (self.file.command, self.file.image) = (Vec::new(), None);
                self.file.pod.get_or_insert_with(Pod::default).image.clone_from(image);
                self.set("pod");
                self.set("pod.image");
            }
            ("dataset", [source]) => {
                // Another dataset has another digest and possibly another store, so those are
                // reset.
                let Dataset { target, page_cache, .. } = self.file.dataset.take().unwrap_or_default();
                self.file.dataset =
                    Some(Dataset { source: source.clone(), target, page_cache, ..Dataset::default() });
                self.set("dataset");
                self.set("dataset.source");
            }
            ("ready", [sign]) => {
                let within = self.file.ready.take().and_then(|ready| ready.within);
                self.file.ready = Some(Ready { within, ..self.ready_sign(sign)? });
                for field in ["ready", "ready.port", "ready.http", "ready.file", "ready.output"] {
                    self.set(field);
                }
            }
            ("env", variables) => variables.iter().try_for_each(|text| self.variable(text))?,
            ("mount", mounts) => mounts.iter().try_for_each(|text| self.mount(text))?,
            ("needs" | "with", others) => others.iter().try_for_each(|text| self.add_corunner(text))?,
            ("listen", ways) => self.listen(ways)?,
            ("probe", files) => {
                for file in files {
                    let probe = source::load_probe(file.as_ref()).map_err(|faults| faults.0)?;
                    self.set(&format!("probes[{}]", self.file.probes.len()));
                    self.file.probes.push(probe);
                }
            }
            _ => self.apply_to_slot(values)?,
        }
        Ok(())
    }

    /// Applies a flag that sets one field.
    fn apply_to_slot(&mut self, values: &[String]) -> Result<(), FlagFaults> {
        let (field, want) = (self.flag.field, self.flag.want);
        let value = values.last().map(String::as_str).unwrap_or_default();
        let Some(slot) = self.file.slot_at(field) else { return Err(self.without_part()) };
        match slot {
            FieldSlot::Text(text) => *text = Some(value.to_string()),
            FieldSlot::Switch(is_set) => *is_set = true,
            FieldSlot::Count(count) => match value.parse() {
                Ok(number) => *count = Some(number),
                Err(_) => return Err(self.wrong(value, want)),
            },
            FieldSlot::Time(time, read) => match read(value) {
                Some(read) => *time = Some(read),
                None => return Err(self.wrong(value, want)),
            },
            FieldSlot::List(list) => {
                if self.flag.name == "entrypoint" {
                    list.clear();
                }
                let first = list.len();
                list.extend(values.iter().cloned());
                for index in first..first + values.len() {
                    self.set(&format!("{field}[{index}]"));
                }
                if first > 0 {
                    return Ok(());
                }
            }
            FieldSlot::Table(table) => {
                let had = !table.is_empty();
                for text in values {
                    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
                    let Some((name, value)) = pair else { return Err(self.wrong(text, "NAME=VALUE")) };
                    table.insert(name.to_string(), value.to_string());
                    self.origins.flag(&format!("{field}.{name}"), &self.name);
                }
                if had {
                    return Ok(());
                }
            }
            FieldSlot::Other => {}
        }
        self.set(field);
        Ok(())
    }

    fn set(&mut self, field: &str) {
        self.origins.flag(field, &self.name);
    }

    fn fault(&self, got: impl Into<String>, want: &str) -> FlagFaults {
        vec![RunFileFault { flag: Some(self.name.clone()), ..RunFileFault::new(&self.name, got, want) }]
    }

    fn wrong(&self, text: &str, want: &str) -> FlagFaults {
        self.fault(format!("{:?}", shortened(text)), want)
    }

    /// Fault of a flag whose part of the run file is missing.
    fn without_part(&self) -> FlagFaults {
        match self.flag.field.split('.').next() {
            Some("pod") => self.fault("only for a pod", "--pod IMAGE or a run file with pod too"),
            Some("dataset") => self.fault("only for a dataset", "--dataset SOURCE too"),
            _ => self.fault("only for what gets ready", "--ready SIGN or a run file with ready too"),
        }
    }

    fn variable(&mut self, text: &str) -> Result<(), FlagFaults> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, value.to_string()),
            None => match std::env::var(text) {
                Ok(value) => (text, value),
                Err(_) => return Err(self.wrong(text, "NAME=VALUE, or a NAME that is set here")),
            },
        };
        self.set(&format!("environment.{name}"));
        self.file.environment.insert(name.to_string(), value);
        Ok(())
    }

    fn mount(&mut self, text: &str) -> Result<(), FlagFaults> {
        let mut mount = forms::mount(text).ok_or_else(|| self.wrong(text, MOUNT_HINT))?;
        // A pod's mount is a path on its node, so the local working directory does not apply.
        if self.file.pod.is_none()
            && let Ok(source) = std::path::absolute(&mount.source)
        {
            mount.source = source.display().to_string();
        }
        self.set_item("mounts", self.file.mounts.len());
        self.file.mounts.push(mount);
        Ok(())
    }

    /// Parses the path of a run file, else a command line.
    fn add_corunner(&mut self, text: &str) -> Result<(), FlagFaults> {
        let other = match source::is_named_like_run_file(text.as_ref()) {
            true => NestedRun::File(text.into()),
            false => {
                let words = split_words(text).filter(|words| !words.is_empty());
                let want = "a run file, or a command with its quotes closed";
                let words = words.ok_or_else(|| self.wrong(text, want))?;
                let command = words.into_iter().map(Into::into).collect();
                NestedRun::Run(Box::new(RunFile { command, ..RunFile::default() }))
            }
        };
        let list = if self.flag.name == "needs" { &mut self.file.needs } else { &mut self.file.with };
        list.push(other);
        let index = list.len() - 1;
        self.set_item(self.flag.field, index);
        Ok(())
    }

    /// Records the flag as origin of a list item, and of the list itself for its first item.
    fn set_item(&mut self, field: &str, index: usize) {
        if index == 0 {
            self.set(field);
        }
        self.set(&format!("{field}[{index}]"));
    }

    fn listen(&mut self, ways: &[String]) -> Result<(), FlagFaults> {
        let scrape = std::mem::take(&mut self.file.listen.scrape);
        self.file.listen = Listen { scrape, ..Listen::default() };
        self.set("listen");
        let Listen { socket, socket_path, pywaggle, lines, .. } = &mut self.file.listen;
        for way in ways {
            match way.as_str() {
                "socket" => *socket = true,
                path if path.starts_with("socket=/") => {
                    (*socket, *socket_path) = (true, path.strip_prefix("socket=").map(str::to_string));
                }
                "pywaggle" => *pywaggle = true,
                "lines" => *lines = true,
                _ => {
                    let want = "socket, socket=PATH with an absolute path, pywaggle or lines";
                    return Err(self.wrong(way, want));
                }
            }
        }
        Ok(())
    }

    fn ready_sign(&self, text: &str) -> Result<Ready, FlagFaults> {
        let (ready, some) = (Ready::default(), |text: &str| Some(text.to_string()));
        Ok(match text.split_once(':') {
            Some(("port", port)) => Ready { port: some(port), ..ready },
            Some(("http" | "https", _)) => Ready { http: some(text), ..ready },
            Some(("file", path)) => Ready { file: some(path), ..ready },
            Some(("output", part)) => Ready { output: some(part), ..ready },
            _ => return Err(self.wrong(text, "port:8080, http://…, file:PATH or output:TEXT")),
        })
    }
}
