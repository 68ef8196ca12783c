//! An estimator that fetches missing predictors: from a metier model server, from a server that
//! returns pickles as the original does, without any server, and from addresses of single
//! predictors.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::kepler_settings::InitialPredictor;
use metier_power::kepler_terms::{EnergySource, OutputType};
use metier_power::node::MachineSpec;
use metier_power::pipeline::{ModelServerClient, PipelineLocation};
use metier_server::kepler::{BackgroundServices, FetchConfig, KeplerServices};
use serde_json::{Value, json};

/// Weights whose idle power is that.
fn weights(idle: f64) -> Value {
    json!({ "platform": { "All_Weights": { "Bias_Weight": idle, "Categorical_Variables": {}, "Numerical_Variables": {
        "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } })
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An estimator of a small machine, which nothing that is shipped was learned on.
fn estimator(folder: &Path, asking: impl FnOnce(FetchConfig) -> FetchConfig) -> BackgroundServices {
    let asked = folder.join("asked");
    std::fs::create_dir_all(&asked).unwrap();
    let (shelf, _) = PipelineCatalog::open(vec![PipelineLocation::Path(asked.clone())], None).unwrap();
    let machine = MachineSpec { cores: Some(2.0), ..MachineSpec::default() };
    let estimator = PowerEstimator::new((*shelf.registry()).clone(), machine).unwrap();
    let asking = asking(FetchConfig { folder: asked.join("model-server"), ..FetchConfig::default() });
    let doors = KeplerServices {
        socket: Some(folder.join("estimator.sock")),
        estimator: Some(Arc::new(estimator)),
        asking: Some(asking),
        ..KeplerServices::new(Arc::new(shelf))
    };
    doors.run_in_background().unwrap()
}

fn idle_watts(folder: &Path) -> f64 {
    let mut stream = UnixStream::connect(folder.join("estimator.sock")).unwrap();
    let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "values": [[0, 0]], "output_type": "AbsPower",
        "source": "acpi", "system_features": [], "system_values": [], "trainer_name": "", "filter": "" });
    stream.write_all(request.to_string().as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let reply: Value = serde_json::from_str(&reply).unwrap();
    reply["powers"]["platform"][0].as_f64().unwrap_or_else(|| panic!("{reply}"))
}

fn wait_for(folder: &Path, watts: f64) {
    let begun = Instant::now();
    while idle_watts(folder) != watts {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} instead of {watts}", idle_watts(folder));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn model_server(address: SocketAddr) -> ModelServerClient {
    ModelServerClient::new(&format!("http://{address}/model")).unwrap()
}

#[test]
fn a_predictor_of_the_model_server_answers_also_when_the_server_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let group = "std/acpi/AbsPower/BPFOnly/SGDRegressorTrainer_0";
    let pipeline = zip(&[
        ("std/metadata.json", r#"{"name":"std"}"#),
        (&format!("{group}.json"), &weights(77.0).to_string()),
        (&format!("{group}/metadata.json"), r#"{"mae":1.5}"#),
    ]);
    let path = folder.path().join("std.zip");
    std::fs::write(&path, pipeline).unwrap();
    let (shelf, _) = PipelineCatalog::open(vec![PipelineLocation::Path(path)], None).unwrap();
    let models = KeplerServices {
        models: Some("127.0.0.1:0".parse().unwrap()),
        ..KeplerServices::new(Arc::new(shelf))
    };
    let models = models.run_in_background().unwrap();
    let address = models.opened.models.unwrap();
    let with_server = |asking| FetchConfig { server: Some(model_server(address)), ..asking };
    let doors = estimator(folder.path(), with_server);
    // The estimator answers from the start, before the fetch.
    assert!(idle_watts(folder.path()) > 0.0);
    wait_for(folder.path(), 77.0);
    doors.stop();
    models.stop();
    let doors = estimator(folder.path(), with_server);
    assert_eq!(idle_watts(folder.path()), 77.0);
    doors.stop();
}

/// Answers as the original's server does: the body of a request decides.
fn stand_in(answer: impl Fn(&str) -> (u16, &'static str, Vec<u8>) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut piece = [0u8; 4096];
            while !request.ends_with(b"}") {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => request.extend_from_slice(&piece[..count]),
                    _ => break,
                }
            }
            let (status, headers, body) = answer(&String::from_utf8_lossy(&request));
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

#[test]
fn where_an_archive_holds_pickles_only_the_weights_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let about = r#"{"model_name":"KNeighborsRegressorTrainer_1","mae":1.0,"features":["bpf_cpu_time_ms","bpf_page_cache_hit"],"output_type":"AbsPower"}"#;
    let archive = zip(&[("metadata.json", about), ("platform.pkl", "pickled")]);
    let address = stand_in(move |request| {
        assert!(request.contains(r#""source":"acpi""#) && request.contains(r#""cores":2"#), "{request}");
        if request.contains(r#""weight":true"#) {
            let mut body = weights(55.0);
            body["model_name"] = json!("LogarithmicRegressionTrainer_1");
            body["mae"] = json!(5.76);
            body["platform"]["All_Weights"].as_object_mut().unwrap().remove("Bias_Weight");
            body["platform"]["All_Weights"]["CurveFit_Weights"] = json!([10.0, 1.0, 55.0]);
            // As Python 3.11 spells its keys.
            body["machine_spec"] = json!({ "NodeAttribute.CORES": 96 });
            return (200, "Content-Type: application/json\r\n", body.to_string().into_bytes());
        }
        (
            200,
            "Content-Disposition: attachment; filename=KNeighborsRegressorTrainer_1.zip\r\n",
            archive.clone(),
        )
    });
    let doors =
        estimator(folder.path(), |asking| FetchConfig { server: Some(model_server(address)), ..asking });
    wait_for(folder.path(), 55.0);
    doors.stop();
}

#[test]
fn a_predictor_at_an_address_of_its_own_is_taken_where_the_server_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let address = stand_in(|_| (400, "", b"cannot find model for {} at the moment".to_vec()));
    let file = folder.path().join("SGDRegressorTrainer_4.json");
    std::fs::write(&file, weights(33.0).to_string()).unwrap();
    let initial = InitialPredictor {
        output_type: OutputType::AbsPower,
        source: EnergySource::Acpi,
        address: format!("file://{}", file.display()),
    };
    let doors = estimator(folder.path(), |asking| FetchConfig {
        server: Some(model_server(address)),
        initial: vec![initial],
        ..asking
    });
    wait_for(folder.path(), 33.0);
    doors.stop();
}

#[test]
fn while_nobody_has_a_predictor_the_fallback_answers() {
    let folder = tempfile::tempdir().unwrap();
    let unheard = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unheard.local_addr().unwrap();
    drop(unheard);
    let doors =
        estimator(folder.path(), |asking| FetchConfig { server: Some(model_server(address)), ..asking });
    let first = idle_watts(folder.path());
    for _ in 0..20 {
        assert_eq!(idle_watts(folder.path()), first);
    }
    assert!(first > 0.0);
    doors.stop();
}
