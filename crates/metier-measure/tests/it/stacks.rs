//! Stacks of real programs, sampled by the real kernel.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::spec::AccountingMode;
use metier_measure::stacks::{FOLDED_ARTEFACT, StackObserver};
use metier_measure::{CommandSpec, Error, MeasureOptions, MeasureSession, RunRecorder, RunSpec};
use metier_types::{ArtefactRef, Bytes, ContentDigest, ProcessTree, Run, RunId, Series};

/// Keeps the text of the artefact.
#[derive(Default)]
struct Keeper(Option<String>);

impl RunRecorder for Keeper {
    fn begin_run(&mut self, _: &Run) -> Result<(), Error> {
        Ok(())
    }
    fn record_samples(&mut self, _: RunId, _: Vec<Series>) {}
    fn store_artefact(
        &mut self,
        _: RunId,
        name: &str,
        media_type: &str,
        content: &mut dyn Read,
    ) -> Result<Option<ArtefactRef>, Error> {
        let mut text = String::new();
        content.read_to_string(&mut text).unwrap();
        let size = Bytes(text.len() as u64);
        assert_eq!(name, FOLDED_ARTEFACT);
        self.0 = Some(text);
        let digest: ContentDigest = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
        Ok(Some(ArtefactRef::new(name, media_type, digest, size)))
    }
    fn finish_run(&mut self, _: &mut Run, _: &ProcessTree) -> Result<(), Error> {
        Ok(())
    }
}

/// The record, and each line with its count; `None` where this kernel refuses, which is said.
fn sampled(words: &[&str], hertz: u32, accounting: AccountingMode) -> Option<(Run, Vec<(String, u64)>)> {
    if let Err(missing) = StackObserver::check_permission(&KernelRoots::default()) {
        eprintln!("SKIP: stacks cannot be sampled on this host because {missing}");
        return None;
    }
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    let mut session =
        MeasureSession::open(MeasureOptions { roots, runtime_dir: std::env::temp_dir(), device }).unwrap();
    let arguments = words[1..].iter().map(Into::into).collect();
    let mut spec = RunSpec::new(CommandSpec { program: words[0].into(), arguments });
    spec.accounting = accounting;
    let (mut stacks, mut keeper) = (StackObserver::new(hertz), Keeper::default());
    let run = session.run_with_observers(&spec, &mut keeper, &mut [&mut stacks]).unwrap().run;
    assert!(!run.missing.contains_key("stacks"), "{:?}", run.missing.get("stacks"));
    let text = keeper.0.expect("no artefact");
    let line = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        (stack.to_string(), count.parse().unwrap())
    };
    let lines: Vec<(String, u64)> = text.lines().map(line).collect();
    assert!(lines.is_sorted_by(|a, b| a.0 < b.0), "{text}");
    assert_eq!(run.extra["stacks"]["samples"], lines.iter().map(|(_, count)| count).sum::<u64>());
    assert!(run.artefacts.iter().any(|artefact| artefact.name == FOLDED_ARTEFACT));
    Some((run, lines))
}

/// A small C program with frame pointers; `None` without a compiler, which is said.
fn compiled(folder: &Path, source: &str) -> Option<PathBuf> {
    let (text, program) = (folder.join("hot.c"), folder.join("hot"));
    std::fs::write(&text, source).unwrap();
    let built = Program::new("cc")
        .args(["-O0", "-fno-omit-frame-pointer", "-w", "-o"])
        .args([&program, &text])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: no C compiler to build a program with known stacks");
        return None;
    }
    Some(program)
}

/// Three quarters of the time in one function, a quarter in another, both below `work`.
const HOT: &str = r#"
#include <time.h>
static volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
void spin_long(long n) { for (long i = 0; i < n; i++) sink += i * 31; }
void spin_short(long n) { for (long i = 0; i < n; i++) sink += i * 17; }
void work(void) { for (int i = 0; i < 50; i++) { spin_long(30000); spin_short(10000); } }
int main(int argc, char **argv) { double end = now() + (argc > 1 ? 0.01 : 1.0); while (now() < end) work(); return 0; }
"#;

fn total(lines: &[(String, u64)], holds: impl Fn(&str) -> bool) -> u64 {
    lines.iter().filter(|(stack, _)| holds(stack)).map(|(_, count)| count).sum()
}

#[test]
fn a_known_hot_function_is_found_with_its_callers_and_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), HOT) else { return };
    for accounting in [AccountingMode::Best, AccountingMode::Wait4] {
        let Some((run, lines)) = sampled(&[program.to_str().unwrap()], 499, accounting) else { return };
        if accounting == AccountingMode::Wait4 {
            assert_eq!(run.extra["stacks"]["by"], "task");
        }
        let all = total(&lines, |_| true);
        let inside = |name: &str| total(&lines, |stack| stack.split(';').any(|frame| frame == name));
        // One second of CPU time at 499 samples a second; a virtual machine's timers may skip some.
        assert!((100..1000).contains(&all), "{all} samples");
        assert!(inside("spin_long") * 10 > all * 6, "{lines:?}");
        assert!(inside("spin_short") * 10 > all && inside("spin_short") * 10 < all * 4, "{lines:?}");
        let chain =
            total(&lines, |stack| stack.starts_with("hot;") && stack.contains(";main;work;spin_long"));
        assert!(chain * 10 > all * 6, "callers up to main: {lines:?}");
    }
}

/// Code made at run time, with a file that names it, and the number of the process on standard
/// output.
#[cfg(target_arch = "x86_64")]
const MADE: &str = r#"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char **argv) {
  static const unsigned char code[] = {0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
  void *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(at, code, sizeof code);
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  FILE *names = fopen(path, "w");
  fprintf(names, "%lx %lx py::made:/app;x.py\n", (unsigned long)at, (unsigned long)sizeof code);
  fclose(names);
  FILE *place = fopen(argv[1], "w");
  fputs(path, place);
  fclose(place);
  double end = now() + 0.5;
  while (now() < end) ((void (*)(long))at)(1000000);
  return 0;
}
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn code_made_at_run_time_is_named_by_the_file_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), MADE) else { return };
    let place = folder.path().join("place");
    let words = [program.to_str().unwrap(), place.to_str().unwrap()];
    let Some((_, lines)) = sampled(&words, 499, AccountingMode::Best) else { return };
    std::fs::remove_file(std::fs::read_to_string(&place).unwrap()).unwrap();
    let made = total(&lines, |stack| stack.split(';').any(|frame| frame == "py::made:/app:x.py"));
    assert!(made * 10 > total(&lines, |_| true) * 8, "{lines:?}");
}

#[test]
fn children_that_live_shorter_than_a_period_are_sampled_by_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), HOT) else { return };
    let script = format!("i=0; while [ $i -lt 100 ]; do {} short; i=$((i+1)); done", program.display());
    let Some((run, lines)) = sampled(&["sh", "-c", &script], 49, AccountingMode::Best) else { return };
    if run.extra["stacks"]["by"] != "group" {
        eprintln!("SKIP: this host permits no sampling by control group");
        return;
    }
    // A hundred children of 10 ms each, a period of 20 ms: each alone would never be seen.
    let children = total(&lines, |stack| stack.starts_with("hot;") && stack.contains("spin_long"));
    assert!(children >= 10, "{lines:?}");
    assert!(!lines.iter().any(|(stack, _)| stack.starts_with("metier-launch")), "{lines:?}");
}

#[test]
fn a_library_without_frame_pointers_still_names_its_innermost_function() {
    let script = "sum(hash(i * 7) for i in range(6000000))";
    let Some((run, lines)) = sampled(&["python3", "-c", script], 199, AccountingMode::Best) else { return };
    assert!(lines.iter().all(|(stack, _)| stack.split(';').all(|frame| !frame.is_empty())), "{lines:?}");
    let by_module = total(&lines, |stack| stack.rsplit(';').next().unwrap().starts_with("[unknown python"));
    let named = total(&lines, |stack| stack.rsplit(';').next().unwrap().starts_with("_Py"));
    assert!(named + by_module > 0, "{lines:?}");
    assert!(run.extra["stacks"]["without_name_ratio"].is_number());
}

#[test]
fn a_run_without_cpu_time_says_why_it_has_no_stacks() {
    let Some((run, lines)) = sampled(&["true"], 1, AccountingMode::Best) else { return };
    // A sample takes a second of CPU time.
    assert!(lines.is_empty(), "{lines:?}");
    assert!(run.missing["stacks.samples"].reason.contains("too little CPU time"));
    assert_eq!(run.extra["stacks"]["lost"], 0);
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_thread_behind() {
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    let mut session =
        MeasureSession::open(MeasureOptions { roots, runtime_dir: std::env::temp_dir(), device }).unwrap();
    let spec = RunSpec::new(CommandSpec { program: "/nonexistent/program".into(), arguments: vec![] });
    let mut stacks = StackObserver::new(99);
    session.run_with_observers(&spec, &mut Keeper::default(), &mut [&mut stacks]).unwrap_err();
    let threads = || {
        let all = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        all.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
            .filter(|name| name.starts_with("metier-stacks"))
            .count()
    };
    drop(stacks);
    let begun = std::time::Instant::now();
    // Other tests of this file may be sampling at the same time; their threads end with their runs.
    while threads() > 0 && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(threads(), 0);
}
