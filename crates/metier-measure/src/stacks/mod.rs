//! Where a run spends its CPU time, function by function: its stacks, sampled by the kernel's software clock.
//!
//! Needs no performance counters, so it works in virtual machines. The kernel interrupts each CPU so many times a
//! second while the run is on it and writes down the chain of return addresses into a ring buffer; a thread of
//! ours empties the buffers, and addresses become names when the run is over.
//!
//! Two ways to choose what is sampled. By control group, one event for each CPU: the clock goes on from process to
//! process, so a run of a thousand short children is sampled as truly as one long process. By task, inherited by
//! children, where that is not permitted: each child starts a period of its own, and those that live shorter than
//! one are never seen. Either is set up before the first instruction.
//!
//! Limits: chains follow frame pointers; code without them shows its innermost function and little else, and a chain
//! ends with `[unknown]` where it leads to no code. Code without a name is `[unknown module+0xoffset]`. Everything is bounded: modules, processes, stacks.
//!
//! The result is the artefact `stacks.folded`, a line `comm;outermost;…;innermost count` for each different stack,
//! sorted, and the object `stacks` in the record. Frames of the kernel end with `_[k]`.

mod elf;
mod event;
mod fold;
mod jit;
mod kernel;
mod modules;
mod processes;
mod record;
mod sampler;

use metier_types::{Missing, Run, Warning};

use self::event::{Target, open_all};
use self::sampler::{Collected, Sampler};
use crate::observer::{Keep, Observer, Ready};
use crate::spec::{STACKS_DEFAULT_HERTZ, STACKS_HERTZ};
use metier_linux::Roots;

pub const ARTEFACT: &str = "stacks.folded";
/// Share of samples that may be lost before a reader is warned.
const LOST_LIMIT: f64 = 0.01;

/// Samples the stacks of a run.
pub struct Stacks {
    hertz: u32,
    roots: Roots,
    sampler: Option<Sampler>,
    collected: Option<Collected>,
    missing: Option<Missing>,
    way: Option<(&'static str, bool)>,
}

impl Stacks {
    /// So many samples of each busy CPU per second.
    pub fn new(hertz: u32) -> Self {
        let hertz = hertz.clamp(*STACKS_HERTZ.start(), *STACKS_HERTZ.end());
        Self { hertz, roots: Roots::default(), sampler: None, collected: None, missing: None, way: None }
    }

    /// Whether this host permits it, and how; for looking before a run.
    pub fn permitted(roots: &Roots) -> Result<String, Missing> {
        let own = Target::Task(std::process::id());
        open_all(roots, &own, STACKS_DEFAULT_HERTZ)
            .map(|events| match events.has_kernel {
                true => "of programs and the kernel".to_string(),
                false => "of programs; the kernel's own are not permitted".to_string(),
            })
            .map_err(|error| refused(roots, &error))
    }
}

impl Observer for Stacks {
    fn ready(&mut self, ready: Ready<'_>) {
        let group = ready.group.and_then(|group| {
            let v1 = group.around.v1.get("perf_event").filter(|_| group.remove.is_empty());
            group.v2.as_ref().or(v1)
        });
        let by_group = group.and_then(|folder| std::fs::File::open(folder).ok()).map(Target::Group);
        let by_task = ready.launcher.map(Target::Task);
        let mut refusal = None;
        for target in by_group.into_iter().chain(by_task) {
            match open_all(&self.roots, &target, self.hertz) {
                Ok(events) => {
                    self.way = Some((target.word(), events.has_kernel));
                    let there = ready.group.map(metier_linux::cgroup::Group::members).unwrap_or_default();
                    match Sampler::start(&self.roots, events, ready.launcher, &there) {
                        Ok(sampler) => self.sampler = Some(sampler),
                        Err(error) => refusal = Some(Missing::because(format!("no thread for it ({error})"))),
                    }
                    break;
                }
                Err(error) => refusal = Some(refused(&self.roots, &error)),
            }
        }
        if self.sampler.is_none() {
            let none =
                || Missing::because("the run has neither a control group nor a process of ours above it");
            self.missing = Some(refusal.unwrap_or_else(none));
        }
    }

    fn ended(&mut self, _group: Option<&metier_linux::cgroup::Group>) {
        self.collected = self.sampler.take().and_then(Sampler::stop);
    }

    fn cancelled(&mut self) {
        self.sampler = None;
    }

    fn finish(&mut self, run: &mut Run, keep: &mut Keep<'_>) {
        let Some(collected) = self.collected.take() else {
            let lost = || Missing::because("the thread that collects stacks was lost");
            run.missing.insert("stacks".into(), self.missing.take().unwrap_or_else(lost));
            return;
        };
        let counts = collected.counts;
        let folded = collected.fold(&self.roots);
        let (way, has_kernel) = self.way.unwrap_or(("task", false));
        let record = serde_json::json!({
            "hertz": self.hertz,
            "clock": "cpu-clock",
            "by": way,
            "kernel": has_kernel,
            "samples": counts.samples,
            "lost": counts.lost,
            "without_name_ratio": folded.unnamed_ratio,
            "distinct": folded.distinct,
            "artefact": ARTEFACT,
        });
        run.extra.insert("stacks".into(), record);
        let all = counts.samples + counts.lost;
        if all > 0 && counts.lost as f64 > all as f64 * LOST_LIMIT {
            let text = format!(
                "{} of {all} stack samples were lost: the host was too busy to collect them",
                counts.lost
            );
            run.warnings.push(Warning::new("lost-stacks", text));
        }
        if counts.samples == 0 {
            let reason = "the run used too little CPU time for a sample of its stacks";
            run.missing.insert("stacks.samples".into(), Missing::because(reason));
        }
        keep.artefact(run, ARTEFACT, "text/plain", &mut folded.text.as_bytes());
    }
}

/// Why the kernel refuses, and what would help.
fn refused(roots: &Roots, error: &std::io::Error) -> Missing {
    let level = metier_linux::file::text(roots.proc.join("sys/kernel/perf_event_paranoid"));
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) => Missing::fixable(
            format!("the kernel does not permit it (kernel.perf_event_paranoid is {level})"),
            "run as root, or: sysctl kernel.perf_event_paranoid=2",
        ),
        (Some(libc::ENOSYS | libc::ENOENT), _) | (Some(libc::EACCES | libc::EPERM), None) => {
            Missing::because(format!("the kernel has no software clock to sample with ({error})"))
        }
        _ => Missing::because(format!("the kernel refuses ({error})")),
    }
}
