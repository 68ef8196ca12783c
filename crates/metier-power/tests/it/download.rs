//! Downloads from a real server on a socket, with scripted answers: complete, truncated, too large,
//! silent, not a zip.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use metier_power::catalog::PipelineCatalog;
use metier_power::kepler_terms::EnergySource;
use metier_power::pipeline::{PipelineDownload, PipelineLocation};

/// Scripted answer for the next client.
enum Say {
    /// The whole body, with an ETag.
    Whole(Vec<u8>, &'static str),
    /// A `Content-Length` of the whole body, and half of the body.
    Half(Vec<u8>),
    /// Half of the body in a chunk, without an end.
    HalfChunked(Vec<u8>),
    /// A head, then silence until the client disconnects.
    Silence,
    Plain(&'static str),
}

struct Server {
    address: SocketAddr,
    say: Sender<Say>,
    heard: Receiver<String>,
}

fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((say, answers), (tell, heard)) = (channel::<Say>(), channel());
    std::thread::spawn(move || {
        for say in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0u8; 1];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            tell.send(String::from_utf8(head).unwrap().to_lowercase()).unwrap();
            let length = |bytes: &[u8]| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", bytes.len());
            match say {
                Say::Whole(bytes, tag) => {
                    write!(stream, "{}ETag: {tag}\r\nConnection: close\r\n\r\n", length(&bytes)).unwrap();
                    stream.write_all(&bytes).unwrap();
                }
                Say::Half(bytes) => {
                    write!(stream, "{}\r\n", length(&bytes)).unwrap();
                    stream.write_all(&bytes[..bytes.len() / 2]).unwrap();
                }
                Say::HalfChunked(bytes) => {
                    let half = &bytes[..bytes.len() / 2];
                    write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
                        half.len()
                    )
                    .unwrap();
                    stream.write_all(half).unwrap();
                    stream.write_all(b"\r\n").unwrap();
                }
                Say::Silence => {
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").unwrap();
                    // Ends when the client disconnects.
                    let _ = stream.read(&mut byte);
                }
                Say::Plain(text) => stream.write_all(text.as_bytes()).unwrap(),
            }
        }
    });
    Server { address, say, heard }
}

/// A pipeline with one linear predictor for acpi with this constant.
fn pipeline(bias: f64) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    let weights = format!(
        r#"{{"platform":{{"All_Weights":{{"Bias_Weight":{bias},"Categorical_Variables":{{}},"Numerical_Variables":{{
            "bpf_cpu_time_ms":{{"scale":1000.0,"weight":7.0}},"bpf_page_cache_hit":{{"scale":1.0,"weight":0.0}}}}}}}}}}"#
    );
    let group = "std/acpi/AbsPower/BPFOnly/SGDRegressorTrainer_0";
    for (name, text) in [
        ("std/metadata.json".to_string(), r#"{"name":"std"}"#.to_string()),
        (format!("{group}.json"), weights),
        (format!("{group}/metadata.json"), r#"{"mae":1.5}"#.to_string()),
    ] {
        zip.start_file(name, options).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn place(server: &Server, folder: &Path) -> PipelineLocation {
    let mut download = PipelineDownload::new(&format!("http://{}/std.zip", server.address), folder).unwrap();
    download.limits.silence = Duration::from_millis(300);
    download.limits.bytes = 100_000;
    PipelineLocation::Address(download)
}

/// The weights of the selected predictor, if the pipeline is loaded.
fn weights(shelf: &PipelineCatalog) -> Option<String> {
    let registry = shelf.registry();
    let pipeline = registry.active(EnergySource::Acpi)?;
    (pipeline.name == "std").then(|| pipeline.models[0].weights.as_deref().unwrap().to_string())
}

#[test]
fn a_failed_download_keeps_what_is_there_and_says_why() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    let (shelf, warnings) = PipelineCatalog::open(vec![place(&server, folder.path())], None).unwrap();
    assert!(warnings.is_empty() && shelf.is_waiting() && weights(&shelf).is_none(), "{warnings:?}");

    // Nothing is downloaded yet: the shipped predictors answer, and the failure is reported.
    server.say.send(Say::Half(pipeline(1.0))).unwrap();
    let warnings = shelf.reload();
    assert!(warnings[0].contains("/std.zip: it broke off after"), "{warnings:?}");
    assert!(!shelf.is_waiting() && weights(&shelf).is_none());

    server.say.send(Say::Whole(pipeline(1.25), "\"one\"")).unwrap();
    assert_eq!(shelf.reload(), Vec::<String>::new());
    assert!(weights(&shelf).unwrap().contains("1.25"));

    let garbage = vec![b'x'; 5000];
    for (say, word) in [
        (Say::Half(pipeline(2.0)), "broke off after"),
        (Say::HalfChunked(pipeline(2.0)), "broke off after"),
        (Say::Silence, "no answer in time"),
        (Say::Whole(garbage, "\"two\""), "is not a readable zip"),
        (Say::Whole(vec![0; 100_001], "\"two\""), "more than 100000 bytes"),
        (Say::Plain("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "answered 404"),
        (Say::Plain("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), "answered 500"),
        (Say::Plain("power, please\r\n\r\n"), "/std.zip: "),
    ] {
        server.say.send(say).unwrap();
        let warnings = shelf.reload();
        assert!(
            warnings[0].contains(word) && warnings[0].contains("the earlier version stays in use"),
            "{word}: {warnings:?}"
        );
        assert!(weights(&shelf).unwrap().contains("1.25"), "after {word}");
        assert!(shelf.fetch_results().values().all(Result::is_err), "{word}");
    }
    let files: Vec<String> =
        std::fs::read_dir(folder.path().read_dir().unwrap().next().unwrap().unwrap().path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
    assert!(files.iter().all(|name| name == "std.zip" || name == "etag"), "nothing is left over: {files:?}");

    server.say.send(Say::Whole(pipeline(2.5), "\"three\"")).unwrap();
    assert_eq!(shelf.reload(), Vec::<String>::new());
    assert!(weights(&shelf).unwrap().contains("2.5"));
}

#[test]
fn what_came_once_is_there_at_the_next_start_and_is_not_sent_again() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    let open = || PipelineCatalog::open(vec![place(&server, folder.path())], None).unwrap().0;
    server.say.send(Say::Whole(pipeline(3.0), "\"a-tag\"")).unwrap();
    open().reload();
    assert!(!server.heard.recv().unwrap().contains("if-none-match"));
    // Without a request.
    let shelf = open();
    assert!(weights(&shelf).is_some());
    server.say.send(Say::Plain("HTTP/1.1 304 Not Modified\r\n\r\n")).unwrap();
    assert_eq!(shelf.reload(), Vec::<String>::new());
    assert!(server.heard.recv().unwrap().contains("if-none-match: \"a-tag\""));
    assert!(weights(&shelf).is_some());
}

#[test]
fn an_address_where_nobody_is_costs_nothing_but_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place =
        PipelineLocation::read(&format!("http://user:secret@{address}/std.zip?key=secret"), folder.path())
            .unwrap();
    let (shelf, _) = PipelineCatalog::open(vec![place], None).unwrap();
    let warnings = shelf.reload();
    assert!(warnings[0].contains("/std.zip") && !warnings[0].contains("secret"), "{warnings:?}");
    assert_eq!(shelf.registry().active(EnergySource::Acpi).unwrap().name, "metier-defaults");
}

#[test]
fn two_who_fetch_at_once_do_not_write_into_each_others_file() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (whole, torn) = (pipeline(1.25), vec![0u8; 100]);
    let ((begun, has_begun), (go, may_finish)) = (channel(), channel::<()>());
    let bytes = whole.clone();
    std::thread::spawn(move || {
        let answer = |stream: &mut std::net::TcpStream| {
            let _ = stream.read(&mut [0u8; 4096]).unwrap();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len()).unwrap();
        };
        // The first download starts, continues after the second is complete, and is truncated.
        let (mut first, _) = listener.accept().unwrap();
        answer(&mut first);
        first.write_all(&torn).unwrap();
        begun.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        answer(&mut second);
        second.write_all(&bytes).unwrap();
        may_finish.recv().unwrap();
        first.write_all(&torn).unwrap();
    });
    let download = PipelineDownload::new(&format!("http://{address}/std.zip"), folder.path()).unwrap();
    let other = download.clone();
    let slow = std::thread::spawn(move || other.fetch());
    has_begun.recv().unwrap();
    // Waits until the first bytes are in a file.
    let is_written = || {
        let folders = folder.path().read_dir().unwrap().flatten();
        folders
            .flat_map(|one| one.path().read_dir().unwrap().flatten())
            .any(|file| file.metadata().unwrap().len() > 0)
    };
    while !is_written() {
        std::thread::yield_now();
    }
    assert!(download.fetch().unwrap());
    go.send(()).unwrap();
    assert!(slow.join().unwrap().is_err());
    assert_eq!(std::fs::read(download.downloaded_file().unwrap()).unwrap(), whole);
}
