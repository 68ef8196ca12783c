//! The model server with a pipeline at an address: ready after the fetch, reloaded with the token,
//! and still usable when the address is gone.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use metier_power::catalog::PipelineCatalog;
use metier_power::pipeline::PipelineLocation;
use metier_server::AccessToken;
use metier_server::kepler::KeplerServices;

const TOKEN: &str = "a-token-that-is-long";

fn pipeline() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let group = "std/acpi/AbsPower/BPFOnly/SGDRegressorTrainer_0";
    let weights = r#"{"platform":{"All_Weights":{"Bias_Weight":77.0,"Categorical_Variables":{},"Numerical_Variables":{
        "bpf_cpu_time_ms":{"scale":1000.0,"weight":7.0},"bpf_page_cache_hit":{"scale":1.0,"weight":0.0}}}}}"#;
    for (name, text) in [
        ("std/metadata.json".to_string(), r#"{"name":"std"}"#),
        (format!("{group}.json"), weights),
        (format!("{group}/metadata.json"), r#"{"mae":1.5}"#),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn ask(address: SocketAddr, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn it_is_ready_when_the_pipeline_came_and_keeps_it_when_the_address_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (go, told) = channel::<()>();
    // Answers once, when it is told to, and is gone.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0u8; 4096]);
        told.recv().unwrap();
        let zip = pipeline();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", zip.len())
            .unwrap();
        stream.write_all(&zip).unwrap();
    });
    let place = PipelineLocation::read(&format!("http://{address}/std.zip"), folder.path()).unwrap();
    let (shelf, _) = PipelineCatalog::open(vec![place], None).unwrap();
    let doors = KeplerServices {
        models: Some("127.0.0.1:0".parse().unwrap()),
        token: Some(AccessToken::new(TOKEN).unwrap()),
        ..KeplerServices::new(Arc::new(shelf))
    };
    let doors = doors.run_in_background().unwrap();
    let models = doors.opened.models.unwrap();
    assert!(ask(models, "GET /readyz", "").starts_with("HTTP/1.1 503"));
    assert!(ask(models, "GET /healthz", "").starts_with("HTTP/1.1 200"));
    go.send(()).unwrap();
    let begun = Instant::now();
    while !ask(models, "GET /readyz", "").starts_with("HTTP/1.1 200")
        || !ask(models, "GET /models?pipeline=std", "").contains("SGDRegressorTrainer_0")
    {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let model =
        "GET /model?metrics=bpf_cpu_time_ms,bpf_page_cache_hit&output_type=AbsPower&source=acpi&weight=true";
    assert!(ask(models, model, "").contains("77.0"));
    assert!(
        ask(models, "GET /metrics", "").contains("metier_power_pipeline_fetched{address=\"http://127.0.0.1:")
    );
    assert!(ask(models, "POST /reload", "").starts_with("HTTP/1.1 401"));
    let reloaded = ask(models, "POST /reload", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(
        reloaded.starts_with("HTTP/1.1 200") && reloaded.contains("the earlier version stays in use"),
        "{reloaded}"
    );
    assert!(ask(models, model, "").contains("77.0"));
    assert!(ask(models, "GET /metrics", "").contains("/std.zip\"} 0"));
    doors.stop();
}

#[test]
fn who_wants_an_archive_does_not_wait_for_addresses_that_say_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Takes everybody in, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let place = PipelineLocation::read(&format!("http://{address}/std.zip"), folder.path()).unwrap();
    let (shelf, _) = PipelineCatalog::open(vec![place], None).unwrap();
    let doors = KeplerServices {
        models: Some("127.0.0.1:0".parse().unwrap()),
        token: Some(AccessToken::new(TOKEN).unwrap()),
        ..KeplerServices::new(Arc::new(shelf))
    };
    let doors = doors.run_in_background().unwrap();
    let models = doors.opened.models.unwrap();
    let reloads: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(models).unwrap();
            write!(
                stream,
                "POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            )
            .unwrap();
            stream
        })
        .collect();
    // All three are being worked on once this is answered: the server takes requests one after the
    // other.
    assert!(ask(models, "GET /healthz", "").starts_with("HTTP/1.1 200"));
    let mut stream = TcpStream::connect(models).unwrap();
    // Far less than an address is waited for.
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let archive =
        "GET /model?metrics=bpf_cpu_time_ms,bpf_page_cache_hit&output_type=AbsPower&source=acpi HTTP/1.1";
    write!(stream, "{archive}\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(
        reply.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&reply[..reply.len().min(300)])
    );
    drop((reloads, silent));
    doors.stop();
}
