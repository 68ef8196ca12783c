//! The launcher of a remote pod reports the resource use in a file, and ends with the command's
//! status.

use std::process::Command;

/// Runs a command with times for grace, lingering and limit; returns its exit code and the report.
fn words(name: &str, times: [&str; 3], command: &[&str]) -> (i32, String) {
    let file = std::env::temp_dir().join(format!("metier-launch-{}-{name}", std::process::id()));
    let status = Command::new(env!("CARGO_BIN_EXE_metier-launch"))
        .arg("--pod")
        .args(times)
        .args(["0", "-"])
        .arg(&file)
        .arg("--")
        .args(command)
        .status()
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    (status.code().unwrap(), text)
}

#[test]
fn the_end_is_that_of_the_command() {
    let (code, text) = words("code", ["100", "0", "0"], &["sh", "-c", "exit 7"]);
    assert_eq!(code, 7);
    assert!(text.contains("\"status\":1792,"), "{text}");
    let (code, text) = words("signal", ["100", "0", "0"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(code, 137);
    assert!(text.contains("\"status\":9,"), "{text}");
    let (code, text) = words("none", ["100", "0", "0"], &["/no/such/program"]);
    assert_eq!((code, text.as_str()), (127, "{\"metier\":1,\"errno\":2}"));
}

#[test]
fn what_outlives_the_command_is_ended_and_counted() {
    let script = "trap '' INT TERM; (trap '' INT TERM; sleep 600) & exit 0";
    let (code, text) = words("left", ["50", "50", "0"], &["sh", "-c", script]);
    assert_eq!(code, 0);
    assert!(!text.contains("\"left\":0,") && text.contains("\"stuck\":0,"), "{text}");
}

#[test]
fn a_request_to_end_reaches_everybody() {
    // The parent process of the shell is the launcher.
    let script = "sleep 600 & kill -TERM $PPID; wait; sleep 600";
    let (code, text) = words("asked", ["5000", "0", "0"], &["sh", "-c", script]);
    assert_eq!(code, 143);
    assert!(text.contains("\"status\":15,"), "{text}");
}

#[test]
fn a_time_limit_is_kept_where_nobody_else_keeps_it() {
    let script = "trap '' INT TERM; while true; do sleep 1; done";
    let (code, text) = words("late", ["50", "0", "200"], &["sh", "-c", script]);
    assert_eq!(code, 137);
    assert!(text.contains("\"is_late\":true,\"rung\":3,"), "{text}");
}

#[test]
fn a_launcher_that_is_to_hold_says_when_and_ends_when_nobody_comes() {
    let file = std::env::temp_dir().join(format!("metier-launch-{}-hold", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_metier-launch"))
        .args(["--pod", "100", "0", "0", "100", "the-mark"])
        .arg(&file)
        .args(["--", "sh", "-c", "printf said; exit 4"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "saidthe-mark\n");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"status\":1024,"));
    std::fs::remove_file(&file).unwrap();
}
