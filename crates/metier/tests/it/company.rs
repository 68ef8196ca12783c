//! Runs that keep each other company, readiness and datasets, through the real program.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{self, Place, stderr, stdout};
use serde_json::Value;

fn write(place: &Place, name: &str, text: &str) {
    std::fs::write(place.path(name), text).unwrap();
}

/// All runs of the store, oldest first.
fn runs(place: &Place) -> Vec<Value> {
    let list = place.json(&["runs", "-o", "json", "--limit", "1000"]);
    let mut runs: Vec<Value> = list["runs"].as_array().unwrap().clone();
    runs.sort_by_key(|run| run["id"].as_str().unwrap().to_string());
    runs
}

fn named<'a>(runs: &'a [Value], name: &str) -> Vec<&'a Value> {
    runs.iter().filter(|run| run["workload"]["id"] == name).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < limit, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const COMPANY: &str = r#"
name: main
command: [sh, -c, "cat up; sleep 0.4"]
repeats: 2
needs:
  - name: server
    command: [sh, -c, "sleep 0.2; echo hello > up; echo now ready; sleep 60"]
    ready: {output: now ready, within: 50s}
with:
  - name: beside
    command: [sleep, "0.15"]
"#;

#[test]
fn company_is_there_ready_measured_and_linked_both_ways() {
    let place = Place::new();
    write(&place, "job.yaml", COMPANY);
    let output = place.run(&["run", "job.yaml"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "hello\nhello\n"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("[server] now ready"), "{}", stderr(&output));
    let runs = runs(&place);
    let (mains, servers, beside) = (named(&runs, "main"), named(&runs, "server"), named(&runs, "beside"));
    assert_eq!((mains.len(), servers.len()), (2, 1), "the company stays for the whole batch");
    assert!(beside.len() >= 2, "a neighbour is started again: {}", beside.len());
    let server = &servers[0]["id"];
    let full = |run: &Value| place.json(&["show", run["id"].as_str().unwrap(), "-o", "json"]);
    for main in &mains {
        let main = full(main);
        let company = main["context"]["company"].as_array().unwrap().clone();
        let wall = main["summary"]["wall_seconds"].as_f64().unwrap();
        let of_server = company.iter().find(|c| c["run"] == *server).unwrap();
        assert_eq!(
            (of_server["role"].as_str(), of_server["name"].as_str()),
            (Some("companion"), Some("server"))
        );
        let overlap = of_server["overlap_seconds"].as_f64().unwrap();
        assert!(overlap >= wall - 0.001 && overlap < wall + 30.0, "{overlap} of {wall}");
        let of_beside: Vec<_> = company.iter().filter(|c| c["role"] == "neighbour").collect();
        assert!(!of_beside.is_empty());
        for entry in &of_beside {
            assert!(entry["overlap_seconds"].as_f64().unwrap() <= overlap);
            assert!(main["context"]["neighbours"].as_array().unwrap().contains(&entry["run"]));
        }
    }
    let server = full(servers[0]);
    let back = server["context"]["company"].as_array().unwrap();
    assert_eq!(
        back.iter().map(|c| &c["run"]).collect::<Vec<_>>(),
        mains.iter().map(|m| &m["id"]).collect::<Vec<_>>()
    );
    assert_eq!((&server["exit"]["cause"], &server["state"]), (&"interrupted".into(), &"finished".into()));
    assert_eq!(server["context"]["phases"][0]["name"], "start-up");
    assert!(server["context"]["phases"][0]["to_seconds"].as_f64().unwrap() >= 0.19);
    let met = beside.iter().map(|run| full(run)).filter(|run| !run["context"]["company"].is_null()).count();
    assert!(met >= 2, "neighbours know whom they met");
    let left: Vec<_> =
        std::fs::read_dir(place.path("runtime/metier")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("company-")), "{left:?}");
}

#[test]
fn a_companion_that_does_not_come_up_is_why_the_run_never_started() {
    let place = Place::new();
    for (company, parts) in [
        (
            "needs: [{command: [sh, -c, 'exit 3'], ready: {file: never}}]",
            vec!["\"sh\"", "before it was ready"],
        ),
        ("needs: [{command: [no-such-program-here]}]", vec!["no-such-program-here", "not found"]),
        (
            "needs: [{command: [sleep, '60'], ready: {file: never, within: 300ms}}]",
            vec!["300ms", "never", "was not there"],
        ),
        ("needs: [{command: ['false']}]", vec!["\"false\"", "ended at once"]),
        ("with: [{command: [no-such-program-here]}]", vec!["to be measured with", "not found"]),
    ] {
        write(&place, "job.yaml", &format!("name: main\ncommand: [touch, ran]\n{company}\n"));
        let output = place.run(&["run", "job.yaml"]);
        assert_eq!(output.status.code(), Some(125), "{company}: {}", stderr(&output));
        assert!(!place.path("ran").exists());
        let last = runs(&place).into_iter().rfind(|run| run["workload"]["id"] == "main").unwrap();
        assert_eq!(last["exit"]["cause"], "unstarted");
        let detail = last["exit"]["detail"].as_str().unwrap();
        assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
    }
}

#[test]
fn company_that_leaves_while_the_run_goes_on_is_told() {
    let place = Place::new();
    for part in ["needs", "with"] {
        let company = format!("{part}: [{{command: [sh, -c, 'sleep 0.3; exit 3']}}]");
        write(&place, "job.yaml", &format!("name: main\ncommand: [sleep, '1']\n{company}\n"));
        let output = place.run(&["run", "job.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{part}: {}", stderr(&output));
        let run = place.json(&["show", "last", "-o", "json"]);
        assert_eq!(run["workload"]["id"], "main");
        let warning = run["warnings"].as_array().unwrap().iter().find(|one| one["code"] == "company");
        let text = warning.map(|one| one["text"].as_str().unwrap()).unwrap_or_default();
        assert!(text.contains("\"sh\"") && text.contains("exit status: 3"), "{part}: {run}");
    }
}

#[test]
fn the_last_run_is_the_run_itself_and_not_who_was_beside_it() {
    let place = Place::new();
    // Started again and again, also after the main run's start.
    write(
        &place,
        "job.yaml",
        "name: main\ncommand: [sleep, '0.8']\nwith: [{name: beside, command: [sleep, '0.1']}]\n",
    );
    assert_eq!(place.run(&["run", "-q", "job.yaml"]).status.code(), Some(0));
    assert_eq!(runs(&place).iter().filter(|run| run["workload"]["id"] == "main").count(), 1);
    assert_eq!(place.json(&["show", "last", "-o", "json"])["workload"]["id"], "main");
    assert_eq!(
        place.json(&["show", "beside", "-o", "json"])["context"]["is_company"],
        true,
        "by its name it is found"
    );
}

#[test]
fn company_does_not_outlive_us_even_if_we_are_killed() {
    let place = Place::new();
    write(
        &place,
        "job.yaml",
        "command: [sh, -c, 'touch up; sleep 300']\nneeds: [{command: [sh, -c, 'echo $$ > pid; exec sleep 301']}]\n",
    );
    let mut child = place.command(&["run", "-q", "job.yaml"]).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || place.path("up").exists());
    let pid = std::fs::read_to_string(place.path("pid")).unwrap();
    let alive = || std::path::Path::new("/proc").join(pid.trim()).exists();
    assert!(alive());
    // SAFETY: a signal to a process that this test started and has not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
    child.wait().unwrap();
    until("the end of the companion", || !alive());
}

#[test]
fn an_interrupt_while_company_gets_ready_ends_all_of_it() {
    let place = Place::new();
    write(
        &place,
        "job.yaml",
        "command: [touch, ran]\nneeds: [{command: [sh, -c, 'echo $$ > pid; exec sleep 300'], ready: {file: never}}]\n",
    );
    let mut child = place.command(&["run", "-q", "job.yaml"]).stderr(Stdio::null()).spawn().unwrap();
    until("the companion", || {
        std::fs::read_to_string(place.path("pid")).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid = std::fs::read_to_string(place.path("pid")).unwrap();
    // SAFETY: a signal to a process that this test started and has not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("the end of the companion", || !std::path::Path::new("/proc").join(pid.trim()).exists());
    assert!(!place.path("ran").exists());
}

#[test]
fn start_up_is_a_phase_and_the_figures_cover_the_whole_run() {
    let place = Place::new();
    place.ok(&["run", "-q", "--ready", "file:up", "--", "sh", "-c", "sleep 0.3; touch up; sleep 0.3"]);
    let run = place.json(&["show", "last", "-o", "json"]);
    let phase = &run["context"]["phases"][0];
    let (to, wall) =
        (phase["to_seconds"].as_f64().unwrap(), run["summary"]["wall_seconds"].as_f64().unwrap());
    assert!(phase["name"] == "start-up" && to >= 0.29 && wall >= 0.59 && to < wall, "{to} {wall}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("port:{}", listener.local_addr().unwrap().port());
    place.ok(&["run", "-q", "--ready", &port, "--", "sleep", "0.5"]);
    assert_eq!(place.json(&["show", "last", "-o", "json"])["context"]["phases"][0]["name"], "start-up");
    place.ok(&["run", "-q", "--ready", "file:never", "--", "true"]);
    let run = place.json(&["show", "last", "-o", "json"]);
    assert!(run["missing"]["context.phases"].as_str().unwrap().contains("never"), "{}", run["missing"]);
}

#[test]
fn a_dataset_is_where_the_run_is_told_and_in_its_record() {
    let place = Place::new();
    write(&place, "data.bin", "some data\n");
    let flags = ["run", "-q", "--dataset", "data.bin", "--page-cache", "warm", "--repeat", "2", "--"];
    let script = ["sh", "-c", "cat \"$1\" \"$METIER_DATASET\"; echo \"$2\"", "x", "{dataset}", "a{dataset}"];
    let output = place.run(&[flags.as_slice(), &script].concat());
    let once = "some data\nsome data\na{dataset}\n";
    assert_eq!(stdout(&output), [once, once].concat(), "{}", stderr(&output));
    let run = place.json(&["show", "last", "-o", "json"]);
    let dataset = &run["context"]["dataset"];
    assert_eq!((&dataset["size_bytes"], &dataset["page_cache"]), (&10.into(), &"warm".into()), "{dataset}");
    assert!(dataset["source"].as_str().unwrap().ends_with("data.bin"));
    assert!(dataset["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn a_dataset_that_cannot_be_had_is_why_a_run_never_started() {
    let place = Place::new();
    write(&place, "data.bin", "some data\n");
    let zeros = format!("sha256:{}", "0".repeat(64));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = format!("http://user:hunter2@127.0.0.1:{port}/x?key=hunter3");
    let store = format!("http://127.0.0.1:{port}");
    for (flags, part) in [
        (vec!["--dataset", "data.bin", "--dataset-digest", &zeros], "has the digest"),
        (vec!["--dataset", "no-such.bin"], "no-such.bin"),
        (vec!["--dataset", &nowhere], "is the store up"),
        (vec!["--dataset", "s3://bucket/key", "--dataset-endpoint", &store], "s3://bucket/key"),
        (vec!["--dataset", "s3://bucket/prefix/", "--dataset-endpoint", &store], "s3://bucket/prefix/"),
    ] {
        let output =
            place.run(&[["run", "--name", "d"].as_slice(), &flags, &["--", "touch", "ran"]].concat());
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        let run = place.json(&["show", "last", "-o", "json"]);
        assert_eq!((&run["exit"]["cause"], &run["workload"]["id"]), (&"unstarted".into(), &"d".into()));
        let detail = run["exit"]["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{detail}");
        assert!(!run.to_string().contains("hunter") && !stderr(&output).contains("hunter"), "{detail}");
        assert_eq!(stderr(&output).matches(detail).count(), 1, "once: {}", stderr(&output));
        assert!(!stderr(&output).contains("?."), "{}", stderr(&output));
    }
    assert_eq!(place.json(&["runs", "--cause", "unstarted", "-o", "json"])["total"], 5);
    // Those who want no summary are told, too.
    for flags in [vec!["--dataset", "no-such.bin"], vec!["--image", "x:1", "--engine", "/no-such.sock"]] {
        let output = place.run(&[["run", "-q"].as_slice(), &flags, &["--", "touch", "ran"]].concat());
        let (code, line) = common::refusal(&output);
        assert!(code == 125 && line.contains("no-such"), "{line}");
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn objects_and_prefixes_of_a_store_are_fetched_with_and_without_credentials() {
    let Ok(endpoint) = std::env::var("METIER_LAB_S3") else {
        eprintln!("SKIP: objects_and_prefixes_of_a_store because METIER_LAB_S3 is not set: lab/lab up s3");
        return;
    };
    let place = Place::new();
    let own = std::process::id();
    let put = |key: &str, content: &str, acl: &str| {
        let output = std::process::Command::new("curl")
            .args(["-fsS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "test-key:test-secret"])
            .args(["-X", "PUT", "-H", acl, "-H", "Content-Type: text/plain", "--data-binary", content])
            .arg(format!("{endpoint}/metier/{own}/{key}"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let (open, closed) = ("x-amz-acl: public-read", "x-amz-acl: private");
    put("open.txt", "for all", open);
    put("tree/a%20b.txt", "first", closed);
    put("tree/sub/c.txt", "second", closed);
    let run = |key: &str, keys: bool, script: &str| {
        let source = format!("s3://metier/{own}/{key}");
        let arguments = [
            "run",
            "--dataset",
            &source,
            "--dataset-endpoint",
            &endpoint,
            "--",
            "sh",
            "-c",
            script,
            "x",
            "{dataset}",
        ];
        let mut command = place.command(&arguments);
        command.env("XDG_CACHE_HOME", place.path("cache"));
        if keys {
            command.env("AWS_ACCESS_KEY_ID", "test-key").env("AWS_SECRET_ACCESS_KEY", "test-secret");
        }
        let output = command.output().unwrap();
        (output, place.json(&["show", "last", "-o", "json"]))
    };
    let (output, record) = run("open.txt", false, "cat \"$1\"");
    assert_eq!(stdout(&output), "for all", "{}", stderr(&output));
    assert_eq!(record["context"]["dataset"]["was_cached"], false);
    let (output, record) = run("tree/", true, "cd \"$1\" && cat 'a b.txt' sub/c.txt");
    assert_eq!(stdout(&output), "firstsecond", "{}", stderr(&output));
    assert_eq!(record["context"]["dataset"]["size_bytes"], 11);
    let (_, again) = run("tree/", true, "true");
    assert_eq!(
        (&again["context"]["dataset"]["was_cached"], &again["context"]["dataset"]["digest"]),
        (&true.into(), &record["context"]["dataset"]["digest"])
    );
    let text = record.to_string();
    assert!(!text.contains("test-key") && !text.contains("test-secret") && !text.contains("X-Amz"), "{text}");
    for (key, keys, part) in
        [("tree/a b.txt", false, "403"), ("none.txt", true, "NoSuchKey"), ("none/", true, "nothing under")]
    {
        let (output, record) = run(key, keys, "true");
        assert_eq!(output.status.code(), Some(125));
        let detail = record["exit"]["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{key}: {detail}");
    }
    let arguments =
        ["run", "--dataset", "s3://no-such-bucket/x", "--dataset-endpoint", &endpoint, "--", "true"];
    let mut command = place.command(&arguments);
    command.env("AWS_ACCESS_KEY_ID", "test-key").env("AWS_SECRET_ACCESS_KEY", "test-secret");
    let output = command.output().unwrap();
    assert!(stderr(&output).contains("NoSuchBucket"), "{}", stderr(&output));
}

const TLS_SERVER: &str = r#"
import http.server, ssl, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

#[test]
fn a_certificate_of_ones_own_is_trusted_only_where_it_is_named() {
    use std::io::BufRead;
    let place = Place::new();
    let made = std::process::Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
            "-days", "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(place.path(""))
        .output();
    write(&place, "server.py", TLS_SERVER);
    write(&place, "data.txt", "over TLS");
    let mut python = std::process::Command::new("python3");
    let server = python
        .arg("server.py")
        .current_dir(place.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let (true, Ok(mut server)) = (made.is_ok_and(|made| made.status.success()), server) else {
        eprintln!("SKIP: a_certificate_of_ones_own because openssl or python3 is not installed");
        return;
    };
    let mut line = String::new();
    std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = format!("https://localhost:{}/data.txt", line.trim());
    let arguments = ["run", "--dataset", &address, "--", "cat", "{dataset}"];
    let untrusted = place.command(&arguments).output().unwrap();
    let trusted = place.command(&arguments).env("SSL_CERT_FILE", place.path("cert.pem")).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(untrusted.status.code(), Some(125), "{}", stderr(&untrusted));
    assert_eq!(stdout(&trusted), "over TLS", "{}", stderr(&trusted));
}
