//! Tests of the whole listener, with real sockets, pipes and files.

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_types::{AppStage, RunId, StageKind, StageSource};
use tempfile::TempDir;

use super::listener::{FIFO_NAME, LOG_FOLDER_NAME, SOCKET_NAME};
use super::socket::datagram_path;
use super::{AppRecord, MemberProcesses, RunMessageListener};
use crate::spec::ListenSources;

const ALL: ListenSources =
    ListenSources { socket: true, socket_path: None, pywaggle: true, lines: true, scrape: Vec::new() };

struct Scene {
    _above: TempDir,
    folder: PathBuf,
    listening: RunMessageListener,
}

fn scene(ways: &ListenSources) -> Scene {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("listen");
    let listening = RunMessageListener::start(ways, &folder, RunId::new(), None).unwrap();
    Scene { _above: above, folder, listening }
}

impl Scene {
    fn open(&mut self) {
        self.listening.admit_members(MemberProcesses::Family(std::process::id()), None, Path::new("/proc"));
    }

    fn finish(self) -> AppRecord {
        let (record, rows) = self.listening.finish(Duration::from_secs(1), None);
        assert!(rows.iter().all(|rows| rows.find_defect().is_none()), "{rows:?}");
        assert!(!self.folder.exists(), "nothing is left behind");
        record
    }
}

fn stage<'a>(record: &'a AppRecord, name: &str) -> &'a AppStage {
    record.stages.iter().find(|stage| stage.name == name).unwrap_or_else(|| panic!("{name}: {record:?}"))
}

#[test]
fn messages_on_the_socket_count_however_they_are_cut_and_joined() {
    let mut scene = scene(&ALL);
    // A client that connected, sent and closed before the listener was opened loses nothing.
    let mut early = UnixStream::connect(scene.folder.join(SOCKET_NAME)).unwrap();
    early.write_all(b"{\"inference_time\": {\"value\": 0.5, \"timestamp\": 1}}\n\n").unwrap();
    drop(early);
    scene.open();
    let mut stream = UnixStream::connect(scene.folder.join(SOCKET_NAME)).unwrap();
    let text = "{\"inference_time\": {\"value\": 0.25, \"timestamp\": 1}}\n\n".repeat(99);
    for piece in text.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
    }
    stream
        .write_all(b"{\"fps\": 30, \"RAM_usage\": {\"value\": 5}}{\"fps\": 31}\nnonsense\n\n{\"fps\":\n\n")
        .unwrap();
    drop(stream);
    let record = scene.finish();
    let inference = stage(&record, "inference_time");
    assert_eq!((inference.count, inference.kind), (100, StageKind::Duration));
    assert_eq!((inference.max, inference.sum), (Some(0.5), Some(0.25 * 99.0 + 0.5)));
    assert_eq!((stage(&record, "fps").count, stage(&record, "fps").kind), (2, StageKind::Rate));
    assert_eq!(stage(&record, "RAM_usage").kind, StageKind::Value);
    assert_eq!((record.counts.messages, record.counts.malformed, record.counts.dropped), (103, 2, 0));
    assert_eq!(record.counts.examples.len(), 2);
    assert_eq!(record.strangers, 0);
}

#[test]
fn datagrams_and_lines_on_the_socket_are_taken_too() {
    let mut scene = scene(&ALL);
    scene.open();
    let sender = UnixDatagram::unbound().unwrap();
    for _ in 0..20 {
        sender.send_to(b"{\"decode_ms\": 5}", datagram_path(&scene.folder.join(SOCKET_NAME))).unwrap();
    }
    let mut stream = UnixStream::connect(scene.folder.join(SOCKET_NAME)).unwrap();
    stream.write_all(b"frames 2 count\nframes 3 count").unwrap();
    drop(stream);
    let record = scene.finish();
    assert_eq!((stage(&record, "decode_ms").count, stage(&record, "decode_ms").max), (20, Some(0.005)));
    assert_eq!((stage(&record, "frames").count, stage(&record, "frames").source), (5, StageSource::Lines));
}

#[test]
fn strangers_are_refused_and_counted() {
    let mut scene = scene(&ALL);
    let outsiders = MemberProcesses::Groups(vec!["/no/such/group".into()]);
    scene.listening.admit_members(outsiders, None, Path::new("/proc"));
    let mut stream = UnixStream::connect(scene.folder.join(SOCKET_NAME)).unwrap();
    let _ = stream.write_all(b"{\"fps\": 30}\n\n");
    let sender = UnixDatagram::unbound().unwrap();
    sender.send_to(b"{\"fps\": 30}", datagram_path(&scene.folder.join(SOCKET_NAME))).unwrap();
    let record = scene.finish();
    assert_eq!((record.strangers, record.counts.messages, record.stages.len()), (2, 0, 0));
}

#[test]
fn a_burst_of_lines_is_taken_whole_by_descriptor_and_by_path() {
    let scene = scene(&ALL);
    let mut descriptor = std::fs::File::from(scene.listening.writer().unwrap().try_clone_to_owned().unwrap());
    let mut path = std::fs::OpenOptions::new().write(true).open(scene.folder.join(FIFO_NAME)).unwrap();
    let block = "inference 12.5 ms\n".repeat(200);
    for _ in 0..250 {
        descriptor.write_all(block.as_bytes()).unwrap();
        path.write_all(b"frames 1 count camera=top\n").unwrap();
    }
    let record = scene.finish();
    assert_eq!(stage(&record, "inference").count, 50_000);
    let p99 = stage(&record, "inference").p99.unwrap();
    assert!((p99 - 0.0125).abs() <= 0.01 * 0.0125, "{p99}");
    assert_eq!(
        (stage(&record, "frames").count, stage(&record, "frames").labels.as_str()),
        (250, "camera=\"top\"")
    );
    assert_eq!((record.counts.dropped, record.counts.malformed), (0, 0));
}

#[test]
fn a_plugin_log_is_followed_to_its_end_also_without_a_last_newline() {
    let scene = scene(&ALL);
    let line = |name: &str, at: &str, value: &str| {
        format!(
            "{{\"meta\":{{}},\"name\":\"{name}\",\"timestamp\":\"2026-01-31T12:00:{at}\",\"value\":{value}}}\n"
        )
    };
    let mut file = std::fs::File::create(scene.folder.join(LOG_FOLDER_NAME).join("data.ndjson")).unwrap();
    let inference = "plugin.duration.inference";
    file.write_all(line(inference, "00.000001000", "10000000").as_bytes()).unwrap();
    let second = line(inference, "02.000001000", "30000000");
    let (start, rest) = second.split_at(40);
    file.write_all(start.as_bytes()).unwrap();
    file.write_all(rest.as_bytes()).unwrap();
    file.write_all(line("upload", "02123", "\"/x/uploads/1-a.jpg\"").trim_end().as_bytes()).unwrap();
    drop(file);
    let record = scene.finish();
    let inference = stage(&record, inference);
    assert_eq!((inference.count, inference.kind), (2, StageKind::Duration));
    assert_eq!((inference.min, inference.max), (Some(10000000.0 * 1e-9), Some(30000000.0 * 1e-9)));
    assert_eq!(inference.rate_per_second, Some(0.5));
    assert_eq!((stage(&record, "upload").count, stage(&record, "upload").kind), (1, StageKind::Counter));
}

#[test]
fn rows_of_the_time_line_show_what_came_while_it_came() {
    let mut scene = scene(&ALL);
    let mut pipe = std::fs::File::from(scene.listening.writer().unwrap().try_clone_to_owned().unwrap());
    pipe.write_all(b"inference 1 s\n").unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let chunk = loop {
        scene.listening.add_row(Duration::from_secs(1), None);
        if let Some(chunk) = scene.listening.take_rows() {
            break chunk;
        }
        assert!(Instant::now() < until, "the message never came");
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!((chunk.name.as_str(), chunk.find_defect()), ("app", None));
    assert_eq!(chunk.column("inference count").unwrap().values.value_at(0), Some(1.0));
    assert_eq!(chunk.column("inference time").unwrap().values.value_at(0), Some(1e9));
    scene.finish();
}

#[test]
fn a_way_that_cannot_be_had_is_a_reason_and_the_others_work() {
    let above = tempfile::tempdir().unwrap();
    let taken = above.path().join("taken");
    std::fs::write(&taken, "a foreign file").unwrap();
    let ways = ListenSources { socket_path: Some(taken.clone()), ..ALL };
    let listening =
        RunMessageListener::start(&ways, &above.path().join("listen"), RunId::new(), None).unwrap();
    let mut pipe = std::fs::File::from(listening.writer().unwrap().try_clone_to_owned().unwrap());
    pipe.write_all(b"a 1\n").unwrap();
    let (record, _) = listening.finish(Duration::ZERO, None);
    assert_eq!(record.problems[0].0, "socket");
    assert_eq!(record.counts.messages, 1);
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "a foreign file");
}
