//! A launcher ends the command when the measuring program is gone, whenever and however it detects
//! that.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A launcher with its control socket as standard input, and the test's end of that socket.
fn launcher(command: &[&str]) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_metier-launch"))
        .args(["0", "100", "0", "--"])
        .args(command)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (child, ours)
}

/// The command holds the pipe too, so reading ends only after launcher and command have ended.
fn ends(mut child: Child) {
    let mut held = child.stdout.take().unwrap();
    let waiting = std::thread::spawn(move || held.read_to_end(&mut Vec::new()));
    let until = Instant::now() + Duration::from_secs(20);
    while !waiting.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let is_over = waiting.is_finished();
    let _ = child.kill();
    child.wait().unwrap();
    assert!(is_over, "the command lingers");
}

#[test]
fn gone_before_the_start_is_reported() {
    let (child, mut ours) = launcher(&["sleep", "60"]);
    ours.write_all(b"G").unwrap();
    // The order is in the socket; the report of the start finds no reader.
    drop(ours);
    ends(child);
}

#[test]
fn gone_while_it_watches() {
    let (child, mut ours) = launcher(&["sleep", "60"]);
    ours.write_all(b"G").unwrap();
    ours.read_exact(&mut [0; 112]).unwrap();
    drop(ours);
    ends(child);
}

#[test]
fn gone_when_the_main_process_left_others_behind() {
    let (child, mut ours) = launcher(&["sh", "-c", "trap '' INT TERM; (sleep 60) & exit 0"]);
    ours.write_all(b"G").unwrap();
    drop(ours);
    ends(child);
}
