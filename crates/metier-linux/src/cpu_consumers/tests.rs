//! CPU consumers on a synthetic `/proc`, and on the real one.

use std::fs;
use std::path::Path;

use super::*;

struct Proc {
    _folder: tempfile::TempDir,
    roots: KernelRoots,
}

impl Proc {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        fs::create_dir_all(&proc).unwrap();
        let roots = KernelRoots { proc, sys: folder.path().join("sys"), etc: folder.path().join("etc") };
        let made = Self { _folder: folder, roots };
        made.busy(0);
        made
    }

    fn busy(&self, ticks: u64) {
        fs::write(self.roots.proc.join("stat"), format!("cpu  {ticks} 0 0 999 5 0 0 77 0 0\ncpu0 1 1\n"))
            .unwrap();
    }

    /// Name, parent, own ticks, ticks of children.
    fn process(&self, pid: u32, name: &str, parent: u32, own: u64, children: u64) {
        let folder = self.roots.proc.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let text =
            format!("{pid} ({name}) S {parent} 1 1 0 -1 0 1 0 0 0 {own} 0 {children} 0 20 0 3 0 7 1000 10\n");
        fs::write(folder.join("stat"), text).unwrap();
    }

    fn group(&self, pid: u32, path: &str) {
        fs::write(self.roots.proc.join(pid.to_string()).join("cgroup"), format!("0::{path}\n")).unwrap();
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.roots.proc.join(pid.to_string())).unwrap();
    }
}

fn of(consumers: &CpuConsumers, look: &ConsumerInterval, name: &str) -> f64 {
    let found = look.used.iter().filter(|used| used.identity.name == name);
    (found.map(|used| used.cpu.get()).sum::<f64>() * consumers.tick).round()
}

#[test]
fn what_grew_between_two_looks_is_used_and_nothing_before() {
    let proc = Proc::new();
    proc.process(10, "odd (name)", 1, 500, 0);
    proc.process(11, "still", 1, 40, 0);
    proc.busy(9000);
    let mut consumers = CpuConsumers::new(&proc.roots);
    assert_eq!(consumers.sample(), None, "nothing to compare with");
    proc.process(10, "odd (name)", 1, 560, 0);
    proc.process(12, "new", 10, 30, 0);
    proc.busy(9100);
    let look = consumers.sample().unwrap();
    assert_eq!(of(&consumers, &look, "odd (name)"), 60.0);
    assert_eq!(of(&consumers, &look, "new"), 30.0, "one that is new began since");
    assert!(look.used.iter().all(|used| used.identity.name != "still"));
    assert_eq!((look.unseen.get() * consumers.tick).round(), 10.0, "interrupts, say");
    assert_eq!((look.busy.unwrap().get() * consumers.tick).round(), 100.0);
}

#[test]
fn children_that_ended_fall_to_their_parent_and_are_not_counted_twice() {
    let proc = Proc::new();
    proc.process(20, "make", 1, 10, 0);
    proc.process(21, "cc", 20, 0, 0);
    let mut consumers = CpuConsumers::new(&proc.roots);
    consumers.sample();
    // cc is sampled at 30 ticks, uses 12 more and ends; another one with 8 ticks starts and ends
    // between the samples.
    proc.process(21, "cc", 20, 30, 0);
    proc.busy(30);
    let look = consumers.sample().unwrap();
    assert_eq!(of(&consumers, &look, "cc"), 30.0);
    proc.end(21);
    proc.process(20, "make", 1, 10, 50);
    proc.busy(50);
    let look = consumers.sample().unwrap();
    assert_eq!(of(&consumers, &look, "make"), 20.0, "50 less the 30 that cc was seen with");
    assert_eq!(look.unseen.get(), 0.0);
}

#[test]
fn a_whole_branch_that_ended_is_taken_out_of_the_ancestor_that_waited() {
    let proc = Proc::new();
    for (pid, name, parent) in [(30, "cargo", 1), (31, "wrapper", 30), (32, "rustc", 31)] {
        proc.process(pid, name, parent, 100, 0);
    }
    let mut consumers = CpuConsumers::new(&proc.roots);
    consumers.sample();
    proc.end(32);
    proc.end(31);
    // The wrapper's 100 and rustc's 100 were sampled; 15 were not.
    proc.process(30, "cargo", 1, 100, 215);
    proc.busy(15);
    let look = consumers.sample().unwrap();
    assert_eq!(of(&consumers, &look, "cargo"), 15.0);
}

#[test]
fn what_parents_inherit_is_never_more_than_the_processors_did() {
    let proc = Proc::new();
    proc.process(40, "init", 0, 0, 0);
    proc.process(41, "worker", 1, 0, 0);
    let mut consumers = CpuConsumers::new(&proc.roots);
    consumers.sample();
    // An orphan's whole time is added to the process that adopted it, though most of it was long
    // ago.
    proc.process(40, "init", 0, 0, 100_000);
    proc.process(41, "worker", 1, 60, 0);
    proc.busy(80);
    let look = consumers.sample().unwrap();
    assert_eq!(of(&consumers, &look, "worker"), 60.0);
    assert_eq!(of(&consumers, &look, "init"), 20.0);
}

#[test]
fn processes_are_joined_by_command_and_by_what_is_around_them() {
    let proc = Proc::new();
    let id = "a".repeat(64);
    for pid in [50, 51, 52, 53] {
        proc.process(pid, "python3", 1, 0, 0);
    }
    proc.process(60, "kworker/0:1", 2, 0, 0);
    proc.group(50, &format!("/system.slice/docker-{id}.scope"));
    proc.group(51, &format!("/system.slice/docker-{id}.scope/inner"));
    proc.group(52, "/system.slice/app.service");
    let mut consumers = CpuConsumers::new(&proc.roots);
    consumers.sample();
    for pid in [50, 51, 52, 53] {
        proc.process(pid, "python3", 1, 10, 0);
    }
    proc.process(60, "kworker/0:1", 2, 5, 0);
    let look = consumers.sample().unwrap();
    let owner = |kind: Option<CgroupKind>| {
        let used = look
            .used
            .iter()
            .find(|used| used.identity.name == "python3" && used.identity.owner == kind)
            .unwrap();
        (used.processes, (used.cpu.get() * consumers.tick).round())
    };
    assert_eq!(owner(Some(CgroupKind::Container(id))), (2, 20.0));
    assert_eq!(owner(Some(CgroupKind::Unit("app.service".into()))), (1, 10.0));
    assert_eq!(owner(None), (1, 10.0));
    assert_eq!(of(&consumers, &look, "[kernel]"), 5.0);
}

#[test]
fn a_number_that_is_given_again_is_somebody_else() {
    let proc = Proc::new();
    proc.process(70, "one", 1, 1000, 0);
    let mut consumers = CpuConsumers::new(&proc.roots);
    consumers.sample();
    let text = "70 (two) S 1 1 1 0 -1 0 1 0 0 0 3 0 0 0 20 0 3 0 99 1000 10\n";
    fs::write(proc.roots.proc.join("70/stat"), text).unwrap();
    proc.busy(3);
    let look = consumers.sample().unwrap();
    assert_eq!((of(&consumers, &look, "two"), of(&consumers, &look, "one")), (3.0, 0.0));
}

#[test]
fn nothing_is_kept_of_those_that_are_gone_and_broken_files_are_passed_over() {
    let proc = Proc::new();
    for pid in 100..200 {
        proc.process(pid, &format!("p{pid}"), 1, 0, 0);
    }
    for (pid, text) in [("300", ""), ("301", "301 (x"), ("302", "302 (x) S a b c")] {
        fs::create_dir_all(proc.roots.proc.join(pid)).unwrap();
        fs::write(proc.roots.proc.join(pid).join("stat"), text).unwrap();
    }
    let mut consumers = CpuConsumers::new(&proc.roots);
    consumers.sample();
    for pid in 100..200 {
        proc.end(pid);
    }
    consumers.sample();
    assert_eq!((consumers.seen.len(), consumers.names.len()), (0, 0));
    let nowhere = KernelRoots { proc: Path::new("/nowhere").into(), ..proc.roots.clone() };
    let mut consumers = CpuConsumers::new(&nowhere);
    consumers.sample();
    let look = consumers.sample().unwrap();
    assert_eq!((look.busy, look.used.len()), (None, 0));
}

#[test]
fn a_loop_of_this_process_is_seen_on_the_real_host() {
    let mut consumers = CpuConsumers::new(&KernelRoots::default());
    consumers.sample();
    let mut used = 0.0;
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    for _ in 0..200 {
        let until = Instant::now() + std::time::Duration::from_millis(20);
        let mut sum = 0u64;
        while Instant::now() < until {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let look = consumers.sample().unwrap();
        let own = look.used.iter().filter(|usage| usage.identity.name == name.trim_end());
        used += own.map(|usage| usage.cpu.get()).sum::<f64>();
        if used >= 0.05 {
            return;
        }
    }
    panic!("a busy process was seen for {used} s only");
}
