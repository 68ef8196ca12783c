//! The API over a real server and a real SQLite store.

use std::collections::BTreeSet;

use crate::common::*;
use metier_types::schema::RecordSchema;
use metier_types::*;
use serde_json::{Value, json};

#[test]
fn a_list_has_the_newest_first_and_what_a_table_needs() {
    let (_folder, store) = store();
    let runs = fill(&store, 5);
    let server = Server::start(&store);
    let list = server.get("/api/v1/runs").json();
    assert_eq!(list["schema"], "metier.runs/1");
    assert_eq!(list["total"], 5);
    assert_eq!(list["next"], Value::Null);
    let newest = &list["runs"][0];
    assert_eq!(newest["id"], runs[4].id.to_string());
    assert_eq!(newest["workload"]["name"], "alpha");
    assert_eq!(newest["device"]["id"], "board-7");
    assert_eq!(newest["state"], "finished");
    assert_eq!(newest["exit"]["cause"], "exited");
    assert_eq!(newest["summary"]["cpu_seconds"], 0.5);
    assert_eq!(newest["summary"]["energy_joules"], Value::Null);
    assert_eq!(newest["warnings"], 0);
    assert_eq!(newest["command"], "/bin/sleep 1");
    assert_eq!(newest["started"], "2026-03-01T00:00:04Z");
}

#[test]
fn paging_shows_every_run_once() {
    let (_folder, store) = store();
    let runs = fill(&store, 1003);
    let server = Server::start(&store);
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = server.get(&format!("/api/v1/runs?limit=100&after={after}")).json();
        assert_eq!(page["total"], 1003);
        seen.extend(
            page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_string()),
        );
        match page["next"].as_str() {
            Some(next) => after = next.to_string(),
            None => break,
        }
        assert!(seen.len() < 1003);
    }
    let want: Vec<String> = runs.iter().rev().map(|run| run.id.to_string()).collect();
    assert_eq!(seen, want);
}

#[test]
fn filters_narrow_the_list_together() {
    let (_folder, store) = store();
    let runs = fill(&store, 30);
    let mut warm = run("alpha", BatchId::new(), 100);
    warm.context.warmup = true;
    store.put_run(&warm, &[]).unwrap();
    let server = Server::start(&store);
    let total = |query: &str| server.get(&format!("/api/v1/runs?{query}")).json()["total"].as_u64().unwrap();
    assert_eq!(total(""), 30);
    assert_eq!(total("warmup=true"), 31);
    assert_eq!(total("workload=beta"), 10);
    assert_eq!(total("workload=beta&tag=odd"), 5);
    assert_eq!(total("text=ALPH"), 20);
    assert_eq!(total("text=%2Fbin%2Fsleep"), 30);
    assert_eq!(total("text=%25"), 0, "a per cent sign is no wildcard");
    assert_eq!(total("state=running"), 0);
    assert_eq!(total("state=finished&cause=exited"), 30);
    assert_eq!(total("cause=oom"), 0);
    assert_eq!(total("device=board-7"), 30);
    assert_eq!(total(&format!("batch={}", runs[0].batch)), 10);
    assert_eq!(total("since=2026-03-01T00:00:10Z&until=2026-03-01T00:00:12Z"), 2);
    assert_eq!(
        total("text=&workload=&device=&state=&cause=&tag=&batch=&since=&until=&warmup=&limit=&after="),
        30
    );
}

#[test]
fn a_run_comes_back_as_it_was_recorded() {
    let (_folder, store) = store();
    let runs = fill(&store, 1);
    let server = Server::start(&store);
    let run: Run =
        serde_json::from_value(server.get(&format!("/api/v1/runs/{}", runs[0].id)).json()).unwrap();
    assert_eq!(run, runs[0]);
}

#[test]
fn a_time_line_is_cut_and_thinned_without_making_anything_up() {
    let (_folder, store) = store();
    let run = run("alpha", BatchId::new(), 0);
    let whole = series(run.id, 20_000);
    store.put_run(&run, &whole).unwrap();
    let server = Server::start(&store);
    let path = format!("/api/v1/runs/{}/series", run.id);
    let read = |query: &str| -> Vec<Series> {
        let mut list = server.get(&format!("{path}?{query}")).json();
        assert_eq!(list["schema"], "metier.series-list/1");
        serde_json::from_value(list["series"].take()).unwrap()
    };
    let named = |series: &[Series], name: &str| series.iter().find(|s| s.name == name).unwrap().clone();

    let all = read("points=200000");
    assert_eq!(named(&all, "use"), whole[0]);
    let host = named(&all, "host");
    assert_eq!(host.columns[0].absent, [0], "a value that JSON cannot carry is absent");

    let thin = named(&read(""), "use");
    assert!(thin.times.len() <= 4000 && thin.times.len() > 1000, "{}", thin.times.len());
    let rows: BTreeSet<i64> = whole[0].times.iter().copied().collect();
    assert!(thin.times.iter().all(|time| rows.contains(time)));
    assert_eq!(thin.find_defect(), None);

    let part = read("from=1000000000&to=1999999999&name=use&points=200000");
    assert_eq!(part.len(), 1);
    assert_eq!(part[0].times.len(), 100);
    assert!(part[0].times.iter().all(|time| (1_000_000_000..2_000_000_000).contains(time)));
    assert!(read("name=nothing").is_empty());
    let problem = server.get(&format!("{path}?from=5&to=4")).problem(400);
    assert_eq!(problem["errors"][0]["field"], "from");
}

#[test]
fn the_process_tree_is_given_or_its_absence_explained() {
    let (_folder, store) = store();
    let with = run("alpha", BatchId::new(), 0);
    let mut without = run("alpha", BatchId::new(), 1);
    without.missing.insert("processes".into(), MissingReason::with_fix("no exit events", "run as root"));
    store.put_run(&with, &[]).unwrap();
    store.put_run(&without, &[]).unwrap();
    let tree = ProcessTree {
        schema: RecordSchema::new(),
        run: with.id,
        source: ProcessSource::Events,
        total: 1,
        omitted: 0,
        processes: vec![
            serde_json::from_value(json!({"pid": 7, "name": "true", "started_seconds": 0.0})).unwrap(),
        ],
        extra: ExtraFields::new(),
    };
    let json = serde_json::to_vec(&tree).unwrap();
    let (digest, size_bytes) = store.put_artefact(&mut &json[..]).unwrap();
    let name = "processes.json".to_string();
    let file = ArtefactRef::new(name, "application/json", digest, size_bytes);
    store.link_artefact(with.id, &file).unwrap();
    let server = Server::start(&store);
    let got = server.get(&format!("/api/v1/runs/{}/processes", with.id)).json();
    assert_eq!(serde_json::from_value::<ProcessTree>(got).unwrap(), tree);
    let problem = server.get(&format!("/api/v1/runs/{}/processes", without.id)).problem(404);
    assert!(problem["detail"].as_str().unwrap().contains("no exit events; fix: run as root"), "{problem}");
}

#[test]
fn devices_and_workloads_are_listed() {
    let (_folder, store) = store();
    fill(&store, 1);
    let server = Server::start(&store);
    let devices = server.get("/api/v1/devices").json();
    assert_eq!(devices["schema"], "metier.devices/1");
    assert_eq!(serde_json::from_value::<Device>(devices["devices"][0].clone()).unwrap(), device());
    let one: Device = serde_json::from_value(server.get("/api/v1/devices/board-7").json()).unwrap();
    assert_eq!(one, device());
    let workloads = server.get("/api/v1/workloads").json();
    assert_eq!(workloads["schema"], "metier.workloads/1");
    assert_eq!(workloads["workloads"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_not_there_is_404_with_its_name() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    let id = RunId::new();
    for path in [
        format!("/api/v1/runs/{id}"),
        format!("/api/v1/runs/{id}/series"),
        format!("/api/v1/runs/{id}/processes"),
        format!("/api/v1/compare?a={id}&b={id}"),
    ] {
        let problem = server.get(&path).problem(404);
        assert!(problem["detail"].as_str().unwrap().contains(&id.to_string()), "{path}: {problem}");
    }
    assert_eq!(server.get("/api/v1/devices/none").problem(404)["errors"][0]["got"], "none");
    for path in
        ["/api/v1/nothing", "/api", "/nothing.js", "/api/v1/runs/", "/%2e%2e/Cargo.toml", "/../Cargo.toml"]
    {
        let problem = server.get(path).problem(404);
        assert!(problem["detail"].as_str().unwrap().contains("/openapi.json"));
    }
}

#[test]
fn wrong_parameters_are_refused_by_name() {
    let (_folder, store) = store();
    let run = &fill(&store, 1)[0];
    let server = Server::start(&store);
    let id = run.id;
    for (path, fields) in [
        ("/api/v1/runs?limit=0".to_string(), vec!["limit"]),
        ("/api/v1/runs?limit=1001".into(), vec!["limit"]),
        ("/api/v1/runs?limit=ten".into(), vec!["limit"]),
        ("/api/v1/runs?color=red&state=gone".into(), vec!["color", "state"]),
        (
            "/api/v1/runs?cause=x&warmup=1&since=yesterday&batch=7".into(),
            vec!["cause", "warmup", "since", "batch"],
        ),
        ("/api/v1/runs?after=not-a-cursor".into(), vec!["after"]),
        ("/api/v1/runs/banana".into(), vec!["id"]),
        (format!("/api/v1/runs/{id}?full=true"), vec!["full"]),
        (format!("/api/v1/runs/{id}/series?points=9"), vec!["points"]),
        (format!("/api/v1/runs/{id}/series?points=200001&from=-1&to=x"), vec!["points", "from", "to"]),
        ("/api/v1/compare".into(), vec!["a", "b"]),
        (format!("/api/v1/compare?a={id}&b=x,y"), vec!["b"]),
        ("/api/v1/devices?id=x".into(), vec!["id"]),
        ("/healthz?verbose=1".into(), vec!["verbose"]),
    ] {
        let problem = server.get(&path).problem(400);
        let named: Vec<&str> =
            problem["errors"].as_array().unwrap().iter().map(|e| e["field"].as_str().unwrap()).collect();
        assert_eq!(named, fields, "{path}: {problem}");
        assert!(
            problem["errors"].as_array().unwrap().iter().all(|e| e["want"].as_str().is_some()),
            "{problem}"
        );
    }
}

#[test]
fn only_get_and_head_do_anything() {
    let (_folder, store) = store();
    fill(&store, 3);
    let server = Server::start(&store);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/api/v1/runs", "/", "/nowhere", "/metrics"] {
            let response = server.request(method, path, "");
            response.problem(405);
            assert!(response.header("allow").is_some_and(|allow| allow.contains("GET")), "{method} {path}");
        }
    }
    for path in ["/api/v1/runs", "/", "/healthz", "/openapi.json"] {
        let (get, head) = (server.get(path), server.request("HEAD", path, ""));
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
}

#[test]
fn the_doctor_answers_what_the_checks_say() {
    let (_folder, store) = store();
    let check = metier_server::DoctorCheck {
        name: "cgroup".into(),
        ok: false,
        text: "not writable".into(),
        fix: Some("run as root".into()),
    };
    let expected = serde_json::to_value(&check).unwrap();
    let doctor: metier_server::config::DoctorCallback = std::sync::Arc::new(move || vec![check.clone()]);
    let config = metier_server::Config { doctor: Some(doctor), ..Default::default() };
    let server = Server::with(&store, config);
    assert_eq!(
        server.get("/api/v1/doctor").json(),
        json!({"schema": "metier.doctor/1", "checks": [expected]})
    );
    Server::start(&store).get("/api/v1/doctor").problem(503);
}

#[test]
fn ten_thousand_runs_are_listed_page_by_page() {
    let (_folder, store) = store();
    fill(&store, 10_000);
    let server = Server::start(&store);
    let (mut seen, mut after) = (BTreeSet::new(), String::new());
    for _ in 0..10 {
        let page = server.get(&format!("/api/v1/runs?limit=1000&after={after}")).json();
        seen.extend(page["runs"].as_array().unwrap().iter().map(|run| run["id"].to_string()));
        after = page["next"].as_str().unwrap_or_default().to_string();
    }
    assert_eq!((seen.len(), after.as_str()), (10_000, ""));
    assert_eq!(server.get("/api/v1/runs?text=no-such-thing").json()["total"], 0);
}

#[test]
fn a_run_under_way_shows_what_it_has_so_far() {
    let (_folder, store) = store();
    let mut run = run("alpha", BatchId::new(), 0);
    (run.state, run.ended, run.exit) = (RunState::Running, None, None);
    let owner = metier_store::OwnerProcess { host: "board-7".into(), boot: "b".into(), pid: 1, started: 1 };
    store.begin_run(&run, &owner).unwrap();
    let server = Server::start(&store);
    let rows = || {
        let list = server.get(&format!("/api/v1/runs/{}/series?name=use", run.id)).json();
        list["series"][0]["times"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(rows(), 0);
    store.append_series(run.id, &series(run.id, 100)[..1]).unwrap();
    assert_eq!(rows(), 100);
    let listed = server.get("/api/v1/runs?state=running").json();
    assert_eq!((&listed["total"], &listed["runs"][0]["exit"]), (&json!(1), &Value::Null));
    let problem = server.get(&format!("/api/v1/runs/{}/processes", run.id)).problem(404);
    assert!(problem["detail"].as_str().unwrap().contains("still under way"), "{problem}");
}

#[test]
fn many_clients_at_once_all_get_their_answer() {
    let (_folder, store) = store();
    fill(&store, 20);
    let limits = metier_server::HttpLimits { connections: 240, ..Default::default() };
    let server = Server::with(&store, metier_server::HttpConfig { limits, ..Default::default() });
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(server.get("/api/v1/runs").json()["total"], 20);
                }
            });
        }
    });
}
