//! Samples a run's stacks with the kernel's software clock: shows where it spends CPU time, by
//! function.
//!
//! It needs no hardware performance counters, so it works in virtual machines. The kernel
//! interrupts each CPU at a fixed rate while the run is on it, and writes the chain of return
//! addresses into a ring buffer. A thread drains the buffers, and addresses become names when the
//! run is over.
//!
//! There are two sampling modes, both set up before the first instruction. By control group, with
//! one event per CPU: the clock continues from process to process, so a thousand short children are
//! sampled as accurately as one long process. By task, inherited by children, if the former is not
//! permitted: each child starts a new period, and shorter-lived ones are never sampled.
//!
//! Limits: chains follow frame pointers; code without them shows little more than its innermost
//! function, and a chain ends with `[unknown]` at an address outside code. Code without a name is
//! `[unknown module+0xoffset]`. Modules, processes and stacks are bounded.
//!
//! The result is the artefact `stacks.folded`, with a line `comm;outermost;…;innermost count` for
//! each distinct stack, sorted, and the object `stacks` in the record. Frames of the kernel end
//! with `_[k]`.

mod code_modules;
mod elf_symbols;
mod fold;
mod jit_symbols;
mod kernel_symbols;
mod perf_event;
mod perf_record;
mod sampled_processes;
mod stack_sampler;

use metier_types::{MissingReason, Run, RunWarning};

use self::perf_event::{PerfTarget, open_on_all_cpus};
use self::stack_sampler::{CollectedStacks, StackSampler};
use crate::observer::{ArtefactKeeper, ReadyRun, RunObserver};
use crate::spec::{STACKS_DEFAULT_HERTZ, STACKS_HERTZ_RANGE};
use metier_linux::KernelRoots;

pub const FOLDED_ARTEFACT: &str = "stacks.folded";
/// A larger share of lost samples causes a warning.
const MAX_LOST_SHARE: f64 = 0.01;

/// Samples the stacks of a run.
pub struct StackObserver {
    hertz: u32,
    roots: KernelRoots,
    sampler: Option<StackSampler>,
    collected: Option<CollectedStacks>,
    missing: Option<MissingReason>,
    way: Option<(&'static str, bool)>,
}

impl StackObserver {
    /// Samples each busy CPU `hertz` times per second.
    pub fn new(hertz: u32) -> Self {
        let hertz = hertz.clamp(*STACKS_HERTZ_RANGE.start(), *STACKS_HERTZ_RANGE.end());
        Self {
            hertz,
            roots: KernelRoots::default(),
            sampler: None,
            collected: None,
            missing: None,
            way: None,
        }
    }

    /// Whether this host permits sampling, and in which mode; checked before a run.
    pub fn check_permission(roots: &KernelRoots) -> Result<String, MissingReason> {
        let own = PerfTarget::Task(std::process::id());
        open_on_all_cpus(roots, &own, STACKS_DEFAULT_HERTZ)
            .map(|events| match events.has_kernel {
                true => "of programs and the kernel".to_string(),
                false => "of programs; kernel stacks are not permitted".to_string(),
            })
            .map_err(|error| refusal_reason(roots, &error))
    }
}

impl RunObserver for StackObserver {
    fn on_ready(&mut self, ready: ReadyRun<'_>) {
        let group = ready.group.and_then(|group| {
            let v1 = group.around.v1.get("perf_event").filter(|_| group.remove.is_empty());
            group.v2.as_ref().or(v1)
        });
        let by_group = group.and_then(|folder| std::fs::File::open(folder).ok()).map(PerfTarget::Group);
        let by_task = ready.launcher.map(PerfTarget::Task);
        let mut refusal = None;
        for target in by_group.into_iter().chain(by_task) {
            match open_on_all_cpus(&self.roots, &target, self.hertz) {
                Ok(events) => {
                    self.way = Some((target.record_name(), events.has_kernel));
                    let there =
                        ready.group.map(metier_linux::cgroup::RunCgroup::list_members).unwrap_or_default();
                    match StackSampler::start(&self.roots, events, ready.launcher, &there) {
                        Ok(sampler) => self.sampler = Some(sampler),
                        Err(error) => {
                            refusal = Some(MissingReason::without_fix(format!(
                                "no thread can be started ({error})"
                            )))
                        }
                    }
                    break;
                }
                Err(error) => refusal = Some(refusal_reason(&self.roots, &error)),
            }
        }
        if self.sampler.is_none() {
            let none = || {
                MissingReason::without_fix(
                    "the run has neither a control group nor a metier process above it",
                )
            };
            self.missing = Some(refusal.unwrap_or_else(none));
        }
    }

    fn on_ended(&mut self, _group: Option<&metier_linux::cgroup::RunCgroup>) {
        self.collected = self.sampler.take().and_then(StackSampler::stop);
    }

    fn on_cancelled(&mut self) {
        self.sampler = None;
    }

    fn on_finish(&mut self, run: &mut Run, keep: &mut ArtefactKeeper<'_>) {
        let Some(collected) = self.collected.take() else {
            let lost = || MissingReason::without_fix("the thread that collects stacks was lost");
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
            "artefact": FOLDED_ARTEFACT,
        });
        run.extra.insert("stacks".into(), record);
        let all = counts.samples + counts.lost;
        if all > 0 && counts.lost as f64 > all as f64 * MAX_LOST_SHARE {
            let text = format!(
                "{} of {all} stack samples were lost: the host was too busy to collect them",
                counts.lost
            );
            run.warnings.push(RunWarning::new("lost-stacks", text));
        }
        if counts.samples == 0 {
            let reason = "the run used too little CPU time for a sample of its stacks";
            run.missing.insert("stacks.samples".into(), MissingReason::without_fix(reason));
        }
        keep.keep_artefact(run, FOLDED_ARTEFACT, "text/plain", &mut folded.text.as_bytes());
    }
}

/// Why the kernel refuses, with the remedy.
fn refusal_reason(roots: &KernelRoots, error: &std::io::Error) -> MissingReason {
    let level = metier_linux::kernel_file::read_text(roots.proc.join("sys/kernel/perf_event_paranoid"));
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) => MissingReason::with_fix(
            format!("the kernel does not permit it (kernel.perf_event_paranoid is {level})"),
            "run as root, or: sysctl kernel.perf_event_paranoid=2",
        ),
        (Some(libc::ENOSYS | libc::ENOENT), _) | (Some(libc::EACCES | libc::EPERM), None) => {
            MissingReason::without_fix(format!("the kernel has no software clock to sample with ({error})"))
        }
        _ => MissingReason::without_fix(format!("the kernel refuses ({error})")),
    }
}
