//! Figures of a run mean the same on the terminal, in JSON, in the report and in the API, and none
//! of them says more than was measured.

use serde_json::Value;

use crate::common::{Place, stderr};
use crate::up::Server;

/// Counts in one thread.
const BUSY: &str = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done";
/// Needs far more than the memory limit in a child, and succeeds.
const KILLED_CHILD: &str = "head -c 200000000 /dev/zero | tail -c 199999999 > /dev/null; true";

fn is_root() -> bool {
    // SAFETY: takes and returns plain numbers.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        eprintln!("SKIP: this needs root, because only root may set limits and read task statistics here");
    }
    is_root
}

/// Runs a shell script and returns its record and what was printed about it.
fn measure(place: &Place, flags: &[&str], script: &str) -> (Value, String) {
    let arguments = [&["run"], flags, &["--", "sh", "-c", script]].concat();
    let output = place.run(&arguments);
    (place.json(&["show", "last", "-o", "json"]), stderr(&output))
}

/// The body of an answer of the API.
fn answer(server: &Server, path: &str) -> Value {
    let text = server.get(path, "");
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_peak_of_cores_is_one_number_everywhere_and_within_the_processors() {
    let place = Place::new();
    // Samples closer than the kernel's tick make rates of several cores.
    let (run, summary) = measure(&place, &["--interval", "3ms"], BUSY);
    if run["cpu"]["peak_cores"].is_null() {
        eprintln!("SKIP: no CPU time over time, because {}", run["missing"]["cpu.peak_cores"]);
        return;
    }
    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    let peak = run["cpu"]["peak_cores"].as_f64().unwrap();
    assert!(peak > 0.0 && peak <= processors, "{peak} of {processors}");
    assert_eq!(run["quality"]["cpu.peak_cores"], "sampled");
    let shown = format!("{peak:.2}");
    assert!(summary.contains(&format!("at most ~{shown}")), "{summary}");
    for arguments in [&["show", "last"][..], &["show", "last", "--series"], &["report", "last"]] {
        let text = place.ok(arguments);
        let is_peak =
            |line: &str| line.contains(&format!("most {shown}")) && line.to_lowercase().contains("cpu");
        assert!(text.lines().any(is_peak), "{shown}: {text}");
    }
    let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0", "--no-power"]));
    let id = run["id"].as_str().unwrap();
    assert_eq!(answer(&server, &format!("/api/v1/runs/{id}"))["cpu"]["peak_cores"], run["cpu"]["peak_cores"]);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn time_in_the_run_queue_is_that_of_the_runs_own_tasks() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    // Two busy shells on one processor: each stands in the queue while the other runs.
    let script = format!("({BUSY}) & ({BUSY}) & wait");
    let (run, _) = measure(&place, &[], &format!("taskset -pc 0 $$ >/dev/null; {script}"));
    let number =
        |path: &str| run.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {run:#}"));
    let (queued, share) = (number("/cpu/run_queue_seconds"), number("/cpu/run_queue_ratio"));
    let (cpu, wall) = (number("/summary/cpu_seconds"), number("/summary/wall_seconds"));
    // While one ran for its half of the time, the other one stood in the queue; and two tasks cannot
    // run and queue for more than twice the wall time, besides the shell that starts them.
    assert!(queued >= 0.4 * cpu && cpu + queued <= 2.1 * wall + 0.05, "{queued} s, {cpu} s of {wall} s");
    // Both always want the core, so queueing explains the wall time of all but one of them.
    assert!(share <= 1.0 - (cpu / (cpu + queued)) + 0.01 && share <= queued / wall, "{share}");
    assert_eq!(run["quality"]["cpu.run_queue_seconds"], "exact");
    let verdict = run["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("stood in the run queue") && !verdict.contains("waiting for a core"),
        "{verdict}"
    );

    // A sleeping run wants no core.
    let (run, _) = measure(&place, &[], "sleep 0.3");
    assert!(!run["verdict"].as_str().unwrap().contains("run queue"), "{}", run["verdict"]);
}

#[test]
fn a_child_killed_for_memory_is_in_the_verdict_and_a_warning() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (run, summary) = measure(&place, &["--limit-memory", "50Mi"], KILLED_CHILD);
    assert_eq!((&run["exit"]["code"], &run["memory"]["oom_kills"]), (&0.into(), &1.into()));
    let killed = "the kernel killed 1 of its processes for want of memory, under a limit of 50.0 MiB";
    assert!(run["verdict"].as_str().unwrap().contains(killed), "{}", run["verdict"]);
    assert!(!run["verdict"].as_str().unwrap().contains("succeeded"));
    let warnings = run["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "oom-kill"), "{warnings:?}");
    assert!(summary.contains(killed), "{summary}");
    let note = "The kernel killed 1 process for want of memory under memory = 50.0 MiB";
    for arguments in [&["report", "last"][..], &["show", "last"]] {
        assert!(place.ok(arguments).contains(note), "{arguments:?}");
    }
}

#[test]
fn page_faults_are_those_of_every_process_and_not_called_exact() {
    let place = Place::new();
    for script in ["true", "head -c 4096000 /dev/zero | tail -c 4096000 > /dev/null"] {
        let (run, _) = measure(&place, &[], script);
        let faults = run["memory"]["minor_faults"].as_u64().unwrap() as f64;
        let counted = faults_by_wait4(script) as f64;
        // Two starts of one program differ by a few faults; metier's includes its own fork.
        assert!(faults >= 0.8 * counted, "{script}: {faults} against {counted}");
        assert_eq!(run["quality"]["memory.minor_faults"], "estimated");
    }
}

/// Page faults without IO of a shell script and its children, as the kernel tells its parent.
#[expect(clippy::zombie_processes, reason = "wait4 reaps it, and gives its use")]
fn faults_by_wait4(script: &str) -> i64 {
    let child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
    let (mut status, mut used) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: a child that this function started and nothing else waits for; both pointers are valid.
    let used = unsafe {
        libc::wait4(child.id() as i32, &mut status, 0, used.as_mut_ptr());
        used.assume_init()
    };
    used.ru_minflt
}

#[test]
fn what_was_advised_is_tried_and_its_cost_is_said() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let burst = ["--", "sh", "-c", BUSY];
    place.ok(&[&["run", "-q", "--repeat", "3", "--name", "burst"][..], &burst].concat());
    let record = place.json(&["report", "burst", "-o", "json"]);
    let quotas = record["subjects"][0]["advice"]["quotas"].as_array().unwrap().clone();
    let limit =
        quotas.iter().find(|quota| quota["key"] == "limit.memory").unwrap()["value"].as_str().unwrap();
    assert!(quotas.iter().all(|quota| quota["key"] != "limit.cpu"), "a CPU limit throttles: {quotas:?}");

    let output = place.run(&[&["run", "--under-advice", "burst", "--name", "again"][..], &burst].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let cost = said.lines().find(|line| line.contains("under the advice of burst")).expect(&said);
    for part in [limit, "no CPU limit", "wall time", "0 throttled periods", "no process killed"] {
        assert!(cost.contains(part), "{part}: {cost}");
    }
    let run = place.json(&["show", "last", "-o", "json"]);
    assert!(run["context"]["limits"]["memory"].is_string(), "{}", run["context"]["limits"]);
    assert_eq!(run["cpu"]["throttled_periods"], 0);

    let twice = [&["run", "--under-advice", "burst", "--limit-memory", "1Gi"][..], &burst].concat();
    let (code, error) = place.fails(&twice);
    assert!(code == 2 && error.contains("--limit-memory") && error.contains("--under-advice"), "{error}");
    let (code, error) = place.fails(&[&["run", "--under-advice", "again"][..], &burst].concat());
    assert!(code == 2 && error.contains("too little to advise on"), "{error}");
}

#[test]
fn the_same_repetitions_count_on_the_terminal_and_in_the_api() {
    let place = Place::new();
    // The second repetition is interrupted, so the batch ends with it.
    let script = "echo >>n; [ $(wc -l <n) -lt 2 ] || kill -INT $$; sleep 0.1";
    place.run(&["run", "-q", "--repeat", "2", "--name", "cut", "--", "sh", "-c", script]);
    let record = place.json(&["report", "cut", "-o", "json"]);
    let on_terminal: Vec<&str> = record["subjects"][0]["spread"]["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0", "--no-power"]));
    let rows = answer(&server, "/api/v1/runs?workload=cut");
    assert_eq!(server.stop(), Some(0));
    let rows = rows["runs"].as_array().unwrap();
    let counted: Vec<&str> =
        rows.iter().filter(|row| row["counted"] == true).filter_map(|row| row["id"].as_str()).collect();
    assert_eq!((rows.len(), counted.len()), (2, 1), "{rows:?}");
    assert_eq!(counted, on_terminal);
}

#[test]
fn advice_is_the_same_in_the_api_and_in_the_report() {
    let place = Place::new();
    let (run, _) = measure(&place, &[], "true");
    let report = place.json(&["report", "last", "-o", "json"]);
    let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0", "--no-power"]));
    let told = answer(&server, &format!("/api/v1/runs/{}/advice", run["id"].as_str().unwrap()));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(told["schema"], "metier.advice/1");
    assert_eq!(told["advice"], report["subjects"][0]["advice"]);
}
