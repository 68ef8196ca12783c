//! The real program: each workload uses what it was asked for and says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn burn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_metier-burn")).args(arguments).output().unwrap()
}

/// A number of a flat JSON object.
fn number(json: &str, name: &str) -> Option<f64> {
    let after = json.split_once(&format!("\"{name}\":"))?.1;
    after.split([',', '}']).next()?.trim().parse().ok()
}

fn report(arguments: &[&str]) -> String {
    let output = burn(&[arguments, &["--report", "-"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("metier-burn-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wait_for(path: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    while !Path::new(path).exists() {
        assert!(Instant::now() < end, "{path} was never written");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn cpu_burns_what_was_asked_on_one_thread_and_on_several() {
    for threads in ["1", "3"] {
        let json = report(&["cpu", "0.3", "--threads", threads]);
        let used = number(&json, "cpu_nanoseconds").unwrap() / 1e9;
        assert!((0.3..0.32).contains(&used), "{threads} threads used {used} s");
    }
}

#[test]
fn children_are_counted_and_burn_their_share() {
    let json = report(&["forkburn", "10", "5"]);
    let used = number(&json, "children_cpu_nanoseconds").unwrap() / 1e9;
    assert!((0.05..0.15).contains(&used), "{json}");
    assert_eq!(number(&json, "processes"), Some(11.0));
    assert_eq!(number(&report(&["forktrue", "3"]), "processes"), Some(4.0));
    assert_eq!(number(&report(&["forktrue", "2", "--self"]), "processes"), Some(3.0));
    assert_eq!(number(&report(&["tree", "3", "2"]), "processes"), Some(15.0));
}

#[test]
fn an_orphan_reports_after_its_parent_is_gone() {
    let folder = Folder::new("orphan");
    let file = folder.file("orphan.json");
    let status = burn(&["orphan", "0.2", "--memory", "20", "--report", &file]).status;
    assert!(status.success());
    let json = wait_for(&file);
    assert!((0.2..0.22).contains(&(number(&json, "cpu_nanoseconds").unwrap() / 1e9)), "{json}");
    assert!(number(&json, "peak_resident_bytes").unwrap() >= f64::from(20 << 20), "{json}");
}

#[test]
fn memory_is_really_touched() {
    let json = report(&["ramp", "20", "--spike", "60", "--spike-ms", "5", "--hold-ms", "5"]);
    let peak = number(&json, "peak_resident_bytes").unwrap();
    assert!((60.0..70.0).contains(&(peak / f64::from(1 << 20))), "{json}");
    let json = report(&["multi", "3", "10", "--hold-ms", "5"]);
    assert_eq!(number(&json, "touched_bytes"), Some(f64::from(30 << 20)));
}

#[test]
fn a_file_is_written_and_read_whole() {
    let folder = Folder::new("files");
    let file = folder.file("big");
    assert_eq!(number(&report(&["write", &file, "3", "--fsync"]), "written_bytes"), Some(f64::from(3 << 20)));
    assert_eq!(number(&report(&["read", &file]), "read_bytes"), Some(f64::from(3 << 20)));
}

#[test]
fn stubborn_ignores_polite_signals() {
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_metier-burn")).args(["stubborn", "1.5"]).spawn().unwrap();
    // INT is signal 2 and TERM 15: bits 1 and 14 of the mask that the kernel shows.
    let ignores = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
        mask.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & 0x4002 == 0x4002)
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !ignores(&std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap()) {
        assert!(Instant::now() < end, "it never ignored the signals");
        std::thread::sleep(Duration::from_millis(5));
    }
    for signal in ["-INT", "-TERM"] {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    }
    assert!(child.wait().unwrap().success(), "a signal ended it");
}

#[test]
fn nested_counts_what_ran_inside_it_orphans_included() {
    let folder = Folder::new("nested");
    let (group, orphan) = (folder.file("group.json"), folder.file("orphan.json"));
    let exe = env!("CARGO_BIN_EXE_metier-burn");
    let output = burn(&[
        "nested", "--report", &group, "--", exe, "orphan", "0.3", "--memory", "64", "--report", &orphan,
    ]);
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        assert!(reason.contains("make ") || reason.contains("no control group"), "{reason}");
        eprintln!("SKIP: nested control group, because this host does not let us make one: {reason}");
        return;
    }
    let (group, orphan) = (wait_for(&group), wait_for(&orphan));
    let counted = number(&group, "group_cpu_nanoseconds").unwrap();
    let known = number(&orphan, "cpu_nanoseconds").unwrap();
    // Above what the burner knows is only what starting and ending three processes costs.
    assert!(counted >= known && counted < known + 50e6, "{group} {orphan}");
    match number(&group, "group_peak_memory_bytes") {
        Some(peak) => assert!((64.0..96.0).contains(&(peak / f64::from(1 << 20))), "{group}"),
        None => assert!(group.contains("group_memory_missing"), "{group}"),
    }
    assert_eq!(burn(&["nested", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(burn(&["nested", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    assert_eq!(burn(&["nested", "/no/such/program"]).status.code(), Some(127));
}

#[test]
fn help_names_each_workload_and_wrong_words_are_named() {
    let help = String::from_utf8(burn(&["--help"]).stdout).unwrap();
    assert!(help.find("Examples:").unwrap() < help.find("Usage:").unwrap());
    for workload in ["cpu", "forktrue", "forkburn", "orphan", "ramp", "multi", "write", "read", "stubborn"] {
        assert!(help.contains(&format!("\n  {workload} ")), "{workload}");
    }
    for (arguments, named) in [
        (&["cpu", "banana"][..], "banana"),
        (&["cpu"][..], "SECONDS"),
        (&["cpu", "0", "--thread", "2"][..], "--thread"),
        (&["cpu", "0", "--report"][..], "--report"),
        (&["ramp", "9999999999"][..], "MIB"),
        (&["ramp", "10", "--spike", "5"][..], "--spike"),
        (&["tree", "40", "10"][..], "5000"),
        (&["noop", "more"][..], "more"),
        (&["nested", "--wrong", "true"][..], "--wrong"),
        (&["nested"][..], "CMD"),
        (&["bogus"][..], "bogus"),
        (&[][..], "no workload"),
    ] {
        let output = burn(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(named), "{arguments:?}: {text}");
    }
}
