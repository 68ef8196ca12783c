//! The doors of Kepler's power stack as a user opens them: all beside `metier up`, and each alone
//! with `metier serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{self, Place};

struct Program {
    child: Child,
    /// What it said until it was ready.
    said: String,
}

impl Program {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("ready at ") {
            let line = lines.next().unwrap_or_else(|| panic!("it ended: {said}")).unwrap();
            said.push_str(&line);
            said.push('\n');
        }
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, said }
    }

    /// The address of a door.
    fn address(&self, door: &str) -> String {
        let before = self.said.split(&format!("/ ({door})")).next().unwrap();
        before.rsplit("http://").next().unwrap().to_string()
    }

    fn ask(&self, door: &str, line: &str, body: &str) -> String {
        self.ask_with(door, line, "", body)
    }

    fn ask_with(&self, door: &str, line: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address(door)).unwrap();
        let length = body.len();
        write!(stream, "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}").unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn stop(mut self) -> Option<i32> {
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        self.child.wait().unwrap().code()
    }
}

const MODEL: &str = r#"{"metrics":["bpf_cpu_time_ms","bpf_page_cache_hit"],"output_type":"AbsPower","source":"acpi","weight":true}"#;

fn estimate(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let request = r#"{"metrics":["bpf_cpu_time_ms"],"values":[[100]],"output_type":"AbsPower","source":"acpi","system_features":[],"system_values":[]}"#;
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn up_opens_them_all_and_closes_them_with_it() {
    let place = Place::new();
    let socket = place.path("e.sock");
    let estimator = format!("estimator={}", socket.display());
    let doors = ["--bind", "models=127.0.0.1:0", "--bind", "trainer=127.0.0.1:0", "--bind", &estimator];
    let mut arguments = vec!["up", "--no-work", "--listen", "127.0.0.1:0"];
    arguments.extend(doors);
    let up = Program::start(place.command(&arguments));
    assert!(up.ask("models", "POST /model", MODEL).starts_with("HTTP/1.1 200"));
    assert!(up.ask("trainer", "POST /train", "{}").contains("name: is missing"));
    assert!(estimate(&socket).contains("\"msg\":\"\""));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    let metrics = up.ask("models", "GET /metrics", "");
    assert!(metrics.contains("metier_power_predictor_in_use{"), "{metrics}");
    assert_eq!(up.stop(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn up_reads_keplers_settings() {
    let place = Place::new();
    let group = place.path("pipelines/ours/acpi/AbsPower/BPFOnly");
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(place.path("pipelines/ours/metadata.json"), r#"{"name":"ours"}"#).unwrap();
    let weights = r#"{"platform":{"All_Weights":{"Bias_Weight":5.0,"Numerical_Variables":{
        "bpf_cpu_time_ms":{"scale":1000.0,"weight":7.0},"bpf_page_cache_hit":{"scale":1.0,"weight":0.0}}}}}"#;
    for (name, errors) in [
        ("SGDRegressorTrainer_0", r#"{"mae":0.1,"mape":9}"#),
        ("LinearRegressionTrainer_0", r#"{"mae":0.2,"mape":3}"#),
    ] {
        std::fs::create_dir_all(group.join(name)).unwrap();
        std::fs::write(group.join(name).join("metadata.json"), errors).unwrap();
        std::fs::write(group.join(format!("{name}.json")), weights).unwrap();
    }
    let arguments = ["up", "--no-work", "--listen", "127.0.0.1:0", "--bind", "models=127.0.0.1:0"];
    std::fs::create_dir_all(place.path("keplers")).unwrap();
    for (error_key, name) in [("mae", "SGDRegressorTrainer_0"), ("mape", "LinearRegressionTrainer_0")] {
        // One in the folder of settings, the other in the environment.
        std::fs::write(place.path("keplers/ERROR_KEY"), error_key).unwrap();
        let mut command = place.command(&arguments);
        command.env("MODEL_PATH", place.path("pipelines")).env("CONFIG_PATH", place.path("keplers"));
        let up = Program::start(command);
        let reply = up.ask("models", "POST /model", MODEL);
        assert!(reply.contains(&format!("\"model_name\":\"{name}\"")), "{error_key}: {reply}");
        assert_eq!(up.stop(), Some(0));
    }
}

#[test]
fn up_takes_uploads_where_a_folder_is_named() {
    let place = Place::new();
    let folder = place.text("uploads");
    let body = r#"{"model_name":"SGDRegressorTrainer_0","source":"acpi","output_type":"AbsPower","feature_group":"BPFOnly","mae":0.5,"weights":{"platform":{"All_Weights":{"Bias_Weight":5.0,
        "Numerical_Variables":{"bpf_cpu_time_ms":{"scale":1000.0,"weight":7.0},"bpf_page_cache_hit":{"scale":1.0,"weight":0.0}}}}}}"#;
    let shown = "Authorization: Bearer a-token-that-is-long\r\n";
    let arguments = ["up", "--no-work", "--listen", "127.0.0.1:0", "--bind", "models=127.0.0.1:0"];
    for (more, status) in [(&[][..], "HTTP/1.1 400"), (&["--uploads", &folder][..], "HTTP/1.1 201")] {
        let mut command = place.command(&[&arguments[..], more].concat());
        command.env("METIER_TOKEN", "a-token-that-is-long");
        let up = Program::start(command);
        let reply = up.ask_with("models", "POST /models", shown, body);
        assert!(reply.starts_with(status), "{reply}");
        assert_eq!(up.stop(), Some(0));
    }
    assert!(place.path("uploads/uploads/acpi/AbsPower/BPFOnly/SGDRegressorTrainer_0.json").is_file());
}

#[test]
fn a_door_whose_place_is_taken_is_done_without() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let models = format!("models={}", taken.local_addr().unwrap());
    let arguments =
        ["up", "--no-work", "--listen", "127.0.0.1:0", "--bind", &models, "--bind", "trainer=127.0.0.1:0"];
    let up = Program::start(place.command(&arguments));
    assert!(!up.said.contains("(models)") && up.said.contains("(trainer)"), "{}", up.said);
    assert!(up.ask("trainer", "GET /healthz", "").starts_with("HTTP/1.1 200"));
    assert_eq!(up.stop(), Some(0));
}

#[test]
fn each_role_serves_alone() {
    let place = Place::new();
    let socket = place.text("alone.sock");
    let arguments = ["serve", "estimator", "--socket", &socket, "--listen", "127.0.0.1:0", "-l", "warn"];
    let estimator = Program::start(place.command(&arguments));
    assert!(estimate(Path::new(&socket)).contains("\"msg\":\"\""));
    assert!(estimator.ask("metrics", "GET /healthz", "").contains("ok"));
    let metrics = estimator.ask("metrics", "GET /metrics", "");
    assert!(metrics.contains("metier_power_predictor_in_use{"), "{metrics}");
    assert!(estimator.ask("metrics", "POST /model", MODEL).starts_with("HTTP/1.1 404"));
    assert_eq!(estimator.stop(), Some(0));
    let models = Program::start(place.command(&["serve", "models", "--listen", "127.0.0.1:0"]));
    assert!(models.ask("models", "GET /best-models", "").contains("BPFOnly"));
    assert_eq!(models.stop(), Some(0));
    let trainer = Program::start(place.command(&["serve", "trainer", "--listen", "127.0.0.1:0"]));
    assert!(trainer.ask("trainer", "GET /jobs", "").contains("metier.power-trainings/1"));
    assert_eq!(trainer.stop(), Some(0));
}

#[test]
fn an_ending_estimator_leaves_its_successors_socket() {
    let place = Place::new();
    let socket = place.text("shared.sock");
    let arguments = ["serve", "estimator", "--socket", &socket];
    let predecessor = Program::start(place.command(&arguments));
    // As a successor does that finds no listener while the predecessor is ending.
    std::fs::remove_file(&socket).unwrap();
    let successor = Program::start(place.command(&arguments));
    assert_eq!(predecessor.stop(), Some(0));
    assert!(estimate(Path::new(&socket)).contains("\"msg\":\"\""));
    assert_eq!(successor.stop(), Some(0));
    assert!(!Path::new(&socket).exists(), "its own it removes");
}

#[test]
fn keplers_settings_start_each_role_wherever_it_may_write() {
    let place = Place::new();
    let (socket, config) = (place.text("set.sock"), place.path("config"));
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("PROM_SERVER"), "http://127.0.0.1:1").unwrap();
    std::fs::write(config.join("SAMPLING_INTERVAL"), "3600").unwrap();
    let temporary = place.path("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let config = config.display().to_string();
    for home in [None, Some("/proc/nowhere")] {
        let start = |arguments: &[&str]| {
            let mut command = place.command(arguments);
            for name in ["HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
                command.env_remove(name);
                home.map(|home| command.env(name, home));
            }
            command.env("TMPDIR", &temporary);
            command
        };
        let mut command = start(&["serve", "estimator", "--socket", &socket]);
        command.env("MODEL_SERVER_ENABLE", "true").env("MODEL_SERVER_URL", "http://127.0.0.1:1");
        let estimator = Program::start(command);
        assert!(estimate(Path::new(&socket)).contains("\"msg\":\"\""));
        assert_eq!(estimator.stop(), Some(0));
        let trainer = start(&["serve", "trainer", "--listen", "127.0.0.1:0", "--config-dir", &config]);
        let trainer = Program::start(trainer);
        let metrics = trainer.ask("trainer", "GET /metrics", "");
        assert!(metrics.contains("metier_power_online_rounds_total"), "{metrics}");
        assert_eq!(trainer.stop(), Some(0));
        let mut command = start(&["serve", "trainer", "--listen", "127.0.0.1:0"]);
        command.env("PROM_SERVER", "http://127.0.0.1:1");
        let trainer = Program::start(command);
        assert!(trainer.ask("trainer", "GET /metrics", "").contains("metier_power_online_rounds_total"));
        assert_eq!(trainer.stop(), Some(0));
    }
}

#[test]
fn what_would_be_reachable_by_all_is_opened_by_name_or_with_a_token() {
    let place = Place::new();
    for (arguments, word) in [
        (&["up", "--listen", "127.0.0.1:0", "--bind", "models=0.0.0.0:0"][..], "--open models"),
        (&["up", "--listen", "127.0.0.1:0", "--bind", "trainer=0.0.0.0:0"], "METIER_TOKEN"),
        (&["serve", "trainer", "--listen", "0.0.0.0:0"], "METIER_TOKEN"),
        (&["serve", "models", "--listen", "0.0.0.0:0"], "--open models"),
        (&["up", "--listen", "127.0.0.1:0", "--bind", "window=127.0.0.1:0"], "estimator=PATH"),
        (&["up", "--listen", "127.0.0.1:0", "--online", "folder"], "--prometheus"),
        (&["serve", "models", "--models", "ftp://x/y.zip"], "http(s)://"),
        (&["serve", "trainer", "--prometheus", "ftp://127.0.0.1:1"], "http"),
        (&["serve", "estimator", "--listen", "0.0.0.0:0"], "--open metrics"),
    ] {
        let output = place.run(arguments);
        let error = common::stderr(&output);
        assert!(output.status.code() == Some(2) && error.contains(word), "{arguments:?}: {error}");
    }
    let open =
        ["up", "--no-work", "--listen", "127.0.0.1:0", "--bind", "models=0.0.0.0:0", "--open", "models"];
    let up = Program::start(place.command(&open));
    let port = up.address("models").rsplit(':').next().unwrap().to_string();
    let up = Program { said: up.said.replace("0.0.0.0:", "127.0.0.1:"), ..up };
    assert!(up.ask("models", "POST /model", MODEL).starts_with("HTTP/1.1 200"), "{port}");
    assert_eq!(up.stop(), Some(0));
}
