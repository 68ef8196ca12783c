//! Checks a run file: every field is checked, and all faults are reported at once.
//!
//! This module has the order of the checks and the fields that every run has. Targets, datasets,
//! readiness and co-runners have their own modules, each with an `impl` of [`RunFileCheck`].

mod corunners;
mod dataset;
mod ready;
mod target;

use std::path::{Path, PathBuf};

use metier_measure::RunSpec;
use metier_measure::spec::{GpuCount, ListenSources, ResourceLimits};
use metier_types::Bytes;

use self::target::TargetKind;
use super::checked::CheckedRun;
use super::document::shortened;
use super::fault::{FieldOrigins, RunFileFault, RunFileFaults};
use super::file::{NestedRun, RunFile};
use super::quantity::{CORES, SIZE, duration_text, millicores, size};

impl RunFile {
    pub fn check(self, origins: &FieldOrigins) -> Result<CheckedRun, RunFileFaults> {
        let input_later = origins.is_flag("input");
        RunFileCheck { input_later, ..RunFileCheck::default() }.check_all(self, origins)
    }

    /// Checks everything except the existence of files: the run starts later, perhaps on another
    /// device.
    pub fn check_for_later(self, origins: &FieldOrigins) -> Result<CheckedRun, RunFileFaults> {
        RunFileCheck { input_later: true, is_later: true, ..RunFileCheck::default() }.check_all(self, origins)
    }

    /// Checks everything, including files that a run opens only at its start.
    pub fn check_dry(self, origins: &FieldOrigins) -> Result<CheckedRun, RunFileFaults> {
        RunFileCheck { is_dry: true, ..RunFileCheck::default() }.check_all(self, origins)
    }

    /// Resolves relative paths against the folder of the file.
    pub fn resolve_paths(&mut self, folder: &Path) {
        let absolute = |path: &mut String| {
            if !path.is_empty() && !path.contains("://") {
                *path = folder.join(path.as_str()).display().to_string();
            }
        };
        let is_command = self.image.is_none() && self.pod.is_none();
        // These are paths on a pod's node or inside a container, so the file's folder does not
        // apply.
        if self.pod.is_none() {
            let probes = self.probes.iter_mut().flat_map(|probe| &mut probe.mounts);
            self.mounts.iter_mut().chain(probes).for_each(|mount| absolute(&mut mount.source));
        }
        if is_command {
            self.working_directory.iter_mut().for_each(absolute);
        }
        self.input.iter_mut().for_each(absolute);
        self.dataset.iter_mut().for_each(|dataset| absolute(&mut dataset.source));
        self.pod.iter_mut().filter_map(|pod| pod.kubeconfig.as_mut()).for_each(absolute);
        if is_command {
            self.ready.iter_mut().filter_map(|ready| ready.file.as_mut()).for_each(absolute);
        }
        for other in self.needs.iter_mut().chain(&mut self.with) {
            match other {
                NestedRun::File(path) => absolute(path),
                NestedRun::Run(file) => file.resolve_paths(folder),
            }
        }
    }
}

#[derive(Default)]
struct RunFileCheck {
    faults: Vec<RunFileFault>,
    /// The input (set by a flag) is checked only when it is read.
    input_later: bool,
    /// The run starts later: no file is checked on this device.
    is_later: bool,
    /// No run starts: files that a run opens at its start are checked now.
    is_dry: bool,
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

impl RunFileCheck {
    fn check_all(mut self, file: RunFile, origins: &FieldOrigins) -> Result<CheckedRun, RunFileFaults> {
        let checked = self.run(file, "");
        if self.faults.is_empty()
            && let Err(metier_measure::Error::Spec { field, got, want }) = checked.spec.validate()
        {
            self.faults.push(RunFileFault::new(field, got, want));
        }
        match origins.collect_faults(std::mem::take(&mut self.faults)) {
            None => Ok(checked),
            Some(faults) => Err(faults),
        }
    }

    fn wrong(&mut self, field: String, got: &str, want: &str) {
        self.faults.push(RunFileFault::new(field, format!("{:?}", shortened(got)), want));
    }

    /// Parses a text; a failure is a fault.
    fn read<T>(
        &mut self,
        field: String,
        text: Option<&String>,
        want: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = text?;
        let value = read(text);
        if value.is_none() {
            self.wrong(field, text, want);
        }
        value
    }

    fn run(&mut self, file: RunFile, path: &str) -> CheckedRun {
        let at = |name: &str| join(path, name);
        let kind = self.kind(&file, path);
        let target = self.target(&file, kind, path);
        let is_here = kind == TargetKind::Command;
        let mut environment = file.environment.clone();
        let mut mounts = file.mounts.clone();
        let mut artefacts = file.artefacts.clone();
        for (index, probe) in file.probes.iter().enumerate() {
            self.probe(probe, &at(&format!("probes[{index}]")), kind, &file);
            environment.extend(probe.environment.clone());
            mounts.extend(probe.mounts.iter().cloned());
            artefacts.extend(probe.artefacts.iter().cloned());
        }
        self.variables(&file.environment, &at("environment"));
        for (index, mount) in file.mounts.iter().enumerate() {
            self.mount(mount, &at(&format!("mounts[{index}]")), kind);
        }
        if kind != TargetKind::Command {
            self.targets(&file, path);
        }
        self.patterns(&file.artefacts, &at("artefacts"));
        let dataset =
            file.dataset.as_ref().and_then(|dataset| self.dataset(dataset, &at("dataset"), is_here));
        let ready = file.ready.as_ref().and_then(|ready| {
            self.ready(ready, &at("ready"), path.is_empty() && kind != TargetKind::Container)
        });
        for (name, count, least) in [("repeats", file.repeats, 1), ("warmup", file.warmup, 0)] {
            if let Some(count) = count.filter(|count| !(least..=100_000).contains(count)) {
                self.wrong(at(name), &count.to_string(), &format!("{least} to 100000"));
            }
        }
        let mut spec = RunSpec::for_target(target);
        spec.limits = self.limits(&file, path);
        if kind == TargetKind::Pod && spec.limits.gpus == Some(GpuCount::All) {
            self.wrong(at("limits.gpu"), "all", "a number: a cluster hands out GPUs one by one");
        }
        spec.mounts = mounts.iter().map(target::measured_mount).collect();
        spec.environment = environment.into_iter().collect();
        spec.artefacts = artefacts;
        spec.input = file.input.as_ref().map(PathBuf::from);
        spec.working_directory = file.working_directory.as_ref().map(PathBuf::from);
        for (name, time) in [("timeout", file.timeout), ("duration", file.duration)] {
            if let Some(time) = time.filter(|time| time.is_zero()) {
                self.wrong(at(name), &duration_text(time), "a time above 0");
            }
        }
        (spec.timeout, spec.duration) = (file.timeout, file.duration);
        spec.grace = file.grace.unwrap_or(spec.grace);
        spec.linger = file.linger.unwrap_or(spec.linger);
        spec.interval = file.interval.unwrap_or(spec.interval);
        if let Some(rate) = file.stacks.filter(|rate| !(1..=1000).contains(rate)) {
            self.wrong(at("stacks"), &rate.to_string(), "1 to 1000 samples per second");
        }
        spec.stacks = file.stacks;
        for (index, address) in file.listen.scrape.iter().enumerate() {
            if let Err(want) = metier_measure::http_get::HttpUrl::parse(address) {
                self.wrong(at(&format!("listen.scrape[{index}]")), address, want);
            }
        }
        spec.listen = ListenSources {
            socket: file.listen.socket || file.listen.socket_path.is_some(),
            socket_path: file.listen.socket_path.as_ref().map(PathBuf::from),
            pywaggle: file.listen.pywaggle,
            lines: file.listen.lines,
            scrape: file.listen.scrape.clone(),
        };
        if let Some(path) = file.listen.socket_path.as_ref().filter(|path| !path.starts_with('/')) {
            self.wrong(at("listen.socket_path"), path, "the absolute path of a socket");
        }
        for (index, tag) in file.tags.iter().enumerate() {
            if tag.is_empty() || tag.len() > 200 || tag.chars().any(char::is_control) {
                self.wrong(at(&format!("tags[{index}]")), tag, "1 to 200 printable characters");
            }
        }
        spec.tags = file.tags.clone();
        let name = "1 to 200 printable characters without '/' at either end";
        spec.name = self.read(at("name"), file.name.as_ref(), name, |text| text.parse().ok());
        if let Some(folder) = file.working_directory.as_ref() {
            if is_here && !self.is_later && !Path::new(folder).is_dir() {
                self.wrong(at("working_directory"), folder, "a folder that is there");
            } else if !is_here && !folder.starts_with('/') {
                self.wrong(at("working_directory"), folder, "an absolute path in the container");
            }
        }
        let input = file.input.as_ref().filter(|_| !self.input_later);
        if let Some(input) = input.filter(|input| std::fs::metadata(input).is_err()) {
            self.wrong(at("input"), input, "a file or folder that is there");
        }
        let needs = self.check_corunners(&file.needs, &at("needs"));
        let with = self.check_corunners(&file.with, &at("with"));
        let (warmup, repeats) = (file.warmup.unwrap_or(0), file.repeats.unwrap_or(1));
        CheckedRun { spec, dataset, needs, with, ready, warmup, repeats, file }
    }

    fn limits(&mut self, file: &RunFile, path: &str) -> ResourceLimits {
        let at = |name: &str| join(path, name);
        let given = &file.limits;
        let gpus = |text: &str| match text {
            "all" => Some(GpuCount::All),
            text => text.parse().ok().filter(|count| (1..=64).contains(count)).map(GpuCount::Count),
        };
        ResourceLimits {
            cpu: self.read(at("limits.cpu"), given.cpu.as_ref(), CORES, |text| {
                millicores(text)
                    .filter(|thousandths| (10..=100_000_000).contains(thousandths))
                    .map(|thousandths| thousandths as f64 / 1000.0)
            }),
            memory: self.read(at("limits.memory"), given.memory.as_ref(), SIZE, |text| {
                size(text).filter(|bytes| *bytes >= 1 << 20).map(Bytes)
            }),
            gpus: self.read(at("limits.gpu"), given.gpu.as_ref(), "a number of GPUs, or all", gpus),
        }
    }
}
