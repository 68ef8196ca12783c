//! `metier run` on real commands: streams and signals pass through, and the exit codes are the
//! documented ones.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::{Place, refusal, stderr, stdout};
use serde_json::Value;

fn code(place: &Place, arguments: &[&str]) -> i32 {
    place.run(arguments).status.code().unwrap()
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let place = Place::new();
    for want in [0, 1, 3, 77, 255] {
        assert_eq!(code(&place, &["run", "-q", "--", "sh", "-c", &format!("exit {want}")]), want);
    }
}

#[test]
fn a_signal_is_128_and_its_number() {
    let place = Place::new();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        assert_eq!(code(&place, &["run", "-q", "--", "sh", "-c", &format!("kill -{name} $$")]), 128 + number);
    }
    let run = place.json(&["show", "last", "-o", "json"]);
    assert_eq!(
        (run["exit"]["cause"].as_str(), run["exit"]["signal"].as_i64()),
        (Some("signalled"), Some(11))
    );
}

#[test]
fn not_found_is_127_and_not_executable_126() {
    let place = Place::new();
    let (code, error) = place.fails(&["run", "--", "no-such-command-anywhere"]);
    assert_eq!(code, 127);
    assert!(error.contains("no-such-command-anywhere") && error.contains("not found"), "{error}");
    std::fs::write(place.path("plain.txt"), "not a program").unwrap();
    let (code, error) = place.fails(&["run", "--", "./plain.txt"]);
    assert_eq!(code, 126, "{error}");
    assert_eq!(place.fails(&["run", "--", "./no-such-file"]).0, 127);
    let none = place.json(&["runs", "-o", "json"]);
    assert_eq!(none["total"], 0, "what never started is no run");
}

#[test]
fn the_time_limit_is_124_and_the_record_says_who_ended_it() {
    let place = Place::new();
    let output = place.run(&["run", "--timeout", "200ms", "--grace", "100ms", "--", "sleep", "30"]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    let run = place.json(&["show", "last", "-o", "json"]);
    assert_eq!(run["exit"]["cause"], "timeout");
    assert!(run["exit"]["ended_by"].is_string(), "{}", run["exit"]);
}

#[test]
fn an_interrupt_is_130_and_ends_the_whole_batch() {
    let place = Place::new();
    let marker = place.path("started");
    let script = format!("echo x >> {}; sleep 30", marker.display());
    let mut child = place
        .command(&["run", "--grace", "200ms", "--repeat", "5", "--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !marker.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // SAFETY: a signal to a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "x\n", "no further repetition was started");
    assert_eq!(place.json(&["show", "last", "-o", "json"])["exit"]["cause"], "interrupted");
}

#[test]
fn our_own_failures_are_125_and_come_before_the_command() {
    let place = Place::new();
    let marker = place.text("ran");
    std::fs::write(place.path("not-a-store.db"), "this is a text file, long enough to be no database at all")
        .unwrap();
    let folder = place.text("data");
    for arguments in [
        vec!["run", "--store", "not-a-store.db", "--", "touch", &marker],
        vec!["run", "--store", "/proc/metier/x.db", "--", "touch", &marker],
        vec!["run", "--save-json", "/no/such/folder/run.json", "--", "touch", &marker],
        vec!["run", "--save-json", &folder, "--", "touch", &marker],
        vec!["run", "--input", "no-such-input", "--", "touch", &marker],
    ] {
        let (code, error) = place.fails(&arguments);
        assert_eq!(code, 125, "{arguments:?}: {error}");
        assert!(!place.path("ran").exists(), "{arguments:?} ran the command");
    }
}

#[test]
fn streams_pass_through_byte_by_byte() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut child = place
        .command(&["run", "-q", "--", "sh", "-c", "tee /dev/stderr"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = bytes.clone();
    let feeder = std::thread::spawn(move || stdin.write_all(&feed).unwrap());
    let mut errors = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        errors.read_to_end(&mut all).unwrap();
        all
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes, "stdout was changed");
    assert!(reader.join().unwrap() == bytes, "stderr was changed or added to");
}

#[test]
fn our_summary_goes_to_stderr_only() {
    let place = Place::new();
    let output = place.run(&["run", "--name", "hello", "--", "echo", "hi"]);
    assert_eq!(stdout(&output), "hi\n");
    let said = stderr(&output);
    for part in ["hello succeeded after", "wall", "cpu", "metier show"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.lines().count() <= 14, "{said}");
    assert!(!said.contains('\x1b'), "no colours where no terminal is: {said}");
    let quiet = place.run(&["run", "-q", "--", "echo", "hi"]);
    assert_eq!((stdout(&quiet).as_str(), stderr(&quiet).as_str()), ("hi\n", ""));
}

#[test]
fn the_command_sees_what_it_would_see_without_us() {
    let place = Place::new();
    let script = "env | sort; pwd; cat /proc/self/status | grep -E '^(SigBlk|SigIgn):' | sed 's/[0-9a-f]*\\([0-9a-f]\\{8\\}\\)$/\\1/'; \
                  umask; ls /proc/self/fd | wc -l; ulimit -a; nice";
    let bare = {
        let ours = place.command::<&str>(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", script]).env_clear().current_dir(place.path("")).stdin(Stdio::null());
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // A suite that runs in the background of a script has these ignored; a measured command
        // never has: it must be possible to end it. SAFETY: signal is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                Ok(())
            })
        };
        stdout(&command.output().unwrap())
    };
    let measured = stdout(&place.run(&["run", "-q", "--", "sh", "-c", script]));
    // Signal 32 aside, the last of these digits' bits, which the C library has for itself, all is
    // equal.
    let strip = |text: &str| {
        let line = |line: &str| match line
            .split_once(":\t")
            .map(|(name, bits)| (name, u32::from_str_radix(bits, 16)))
        {
            Some((name, Ok(bits))) => format!("{name} {:08x}", bits & 0x7fff_ffff),
            _ => line.to_string(),
        };
        text.lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(strip(&measured), strip(&bare));
}

/// A program in Rust cannot pass a closed stdin on: its runtime opens /dev/null in its place before
/// `main`.
#[test]
fn a_closed_stdin_is_empty_and_nothing_else_slips_into_its_place() {
    let place = Place::new();
    let mut command = place.command(&["run", "-q", "--", "sh", "-c", "wc -c; readlink /proc/self/fd/0"]);
    // SAFETY: close is async-signal-safe, and the child has no other use of descriptor 0.
    unsafe {
        command.pre_exec(|| {
            libc::close(0);
            Ok(())
        })
    };
    assert_eq!(stdout(&command.output().unwrap()), "0\n/dev/null\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_as_ever() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_metier");
    let script = format!("{program} run --no-store -q -- yes | head -n 1; echo ${{PIPESTATUS[0]}}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env("HOME", place.path("home"));
    let output = bash.output().unwrap();
    assert_eq!(stdout(&output), "y\n141\n", "{}", stderr(&output));
}

#[test]
fn save_json_holds_the_record_that_show_gives() {
    let place = Place::new();
    place.ok(&[
        "run",
        "-q",
        "--name",
        "a",
        "--tag",
        "x",
        "--tag",
        "y",
        "--save-json",
        "run.json",
        "--",
        "true",
    ]);
    let saved: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("run.json")).unwrap()).unwrap();
    let shown = place.json(&["show", "last", "-o", "json"]);
    assert_eq!(saved, shown);
    assert_eq!(saved["schema"], "metier.run/1");
    for field in
        ["id", "batch", "workload", "device", "started", "exit", "context", "quality", "summary", "missing"]
    {
        assert!(!saved[field].is_null(), "{field}");
    }
    for field in
        ["wall_seconds", "cpu_seconds", "cpu_user_seconds", "cpu_system_seconds", "peak_memory_bytes"]
    {
        assert!(saved["summary"][field].is_number(), "{field}");
    }
    assert_eq!(saved["tags"], serde_json::json!(["x", "y"]));
    let left: Vec<_> =
        std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".metier")), "{left:?}");
}

#[test]
fn save_json_goes_to_a_pipe_as_well() {
    let place = Place::new();
    let output = place.run(&["run", "-q", "--no-store", "--save-json", "/dev/stdout", "--", "true"]);
    let saved: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(saved["exit"]["code"], 0);
}

#[test]
fn repetitions_are_one_batch_and_the_first_failure_is_the_code() {
    let place = Place::new();
    let script = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; test $n -ne 3 || exit 7; test $n -ne 4 || exit 9";
    let output = place.run(&[
        "run",
        "--repeat",
        "5",
        "--save-json",
        "runs.json",
        "--name",
        "r",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(7));
    let said = stderr(&output);
    assert!(
        said.contains("3 of 5 repetitions counted, 2 failed") && said.contains("repetition 3 of 5"),
        "{said}"
    );
    let saved: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("runs.json")).unwrap()).unwrap();
    assert_eq!(saved["schema"], "metier.runs/1");
    let runs = saved["runs"].as_array().unwrap();
    let codes: Vec<i64> = runs.iter().map(|run| run["exit"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [0, 0, 7, 9, 0]);
    let batch = runs[0]["batch"].as_str().unwrap();
    assert!(runs.iter().all(|run| run["batch"] == batch));
    assert_eq!(place.json(&["runs", "--batch", batch, "-o", "json"])["total"], 5);
}

#[test]
fn stop_on_failure_stops() {
    let place = Place::new();
    let output =
        place.run(&["run", "--repeat", "5", "--stop-on-failure", "--", "sh", "-c", "echo x >> n; exit 4"]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(std::fs::read_to_string(place.path("n")).unwrap(), "x\n");
    assert!(stderr(&output).contains("4 not run"), "{}", stderr(&output));
}

#[test]
fn warm_ups_are_kept_but_not_counted() {
    let place = Place::new();
    let output = place.run(&["run", "--warmup", "2", "--repeat", "3", "--name", "w", "--", "true"]);
    assert!(stderr(&output).contains("3 of 3 repetitions counted, 2 warm-up"), "{}", stderr(&output));
    assert_eq!(place.json(&["runs", "-o", "json"])["total"], 3);
    assert_eq!(place.json(&["runs", "--warmup", "-o", "json"])["total"], 5);
}

#[test]
fn no_store_makes_no_store() {
    let place = Place::new();
    place.ok(&["run", "-q", "--no-store", "--", "true"]);
    assert!(!place.path("data/metier/metier.db").exists());
}

#[test]
fn flags_after_the_command_are_the_commands() {
    let place = Place::new();
    assert_eq!(place.ok(&["run", "-q", "--", "echo", "--repeat", "-q", "--"]), "--repeat -q --\n");
    assert_eq!(place.ok(&["run", "-q", "echo", "--help", "-o", "x"]), "--help -o x\n");
}

#[test]
fn a_killed_measurement_is_listed_as_interrupted() {
    let place = Place::new();
    let marker = place.path("started");
    let script = format!("touch {}; sleep 30", marker.display());
    let mut child = place
        .command(&["run", "--grace", "100ms", "--name", "k", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    while !marker.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // The record is begun right after the start.
    while place.run(&["show", "k"]).status.code() != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.ok(&["run", "-q", "--name", "next", "--", "true"]);
    assert_eq!(place.json(&["show", "k", "-o", "json"])["state"], "interrupted");
}

#[test]
fn bad_flags_of_run_name_flag_value_and_what_would_be_right() {
    let place = Place::new();
    for (arguments, parts) in [
        (vec!["--timeout", "banana"], vec!["--timeout", "banana", "250ms, 1.5s, 2m or 1h"]),
        (vec!["--timeout", "5"], vec!["--timeout", "\"5\"", "250ms"]),
        (vec!["--timeout", "0"], vec!["--timeout", "above 0"]),
        (vec!["--grace=-1s"], vec!["--grace", "-1s"]),
        (vec!["--grace", "5h"], vec!["--grace", "1h"]),
        (vec!["--linger", "soon"], vec!["--linger", "soon", "250ms"]),
        (vec!["--dataset-cache-limit", "much"], vec!["--dataset-cache-limit", "much", "1.5Gi"]),
        (vec!["--interval", "1us"], vec!["--interval", "1ms to 10s"]),
        (vec!["--interval", "11s"], vec!["--interval", "1ms to 10s"]),
        (vec!["--repeat", "0"], vec!["--repeat", "\"0\"", "1 to 100000"]),
        (vec!["--repeat", "many"], vec!["--repeat", "\"many\"", "whole number"]),
        (vec!["--warmup=-1"], vec!["--warmup", "-1"]),
        (vec!["--name", ""], vec!["--name"]),
        (vec!["--name", "/x"], vec!["--name", "printable"]),
        (vec!["--tag", ""], vec!["--tag", "printable"]),
        (vec!["--nmae", "x"], vec!["--nmae", "--name"]),
        (vec!["--store", "mysql://h/d"], vec!["--store", "mysql://h/d", "postgres://"]),
    ] {
        let all: Vec<&str> = ["run"].into_iter().chain(arguments).chain(["--", "true"]).collect();
        let (code, error) = place.fails(&all);
        assert_eq!(code, 2, "{all:?}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{all:?}: {error}");
    }
    for nothing in [vec!["run"], vec!["run", "--"], vec!["run", "--", ""]] {
        let (code, error) = refusal(&place.run(&nothing));
        assert_eq!(code, 2, "{nothing:?}: {error}");
    }
}
