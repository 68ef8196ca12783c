//! The OpenAPI document against the running server: every route responds as documented.

use std::sync::Arc;

use crate::common::*;
use metier_power::estimate::PowerEstimator;
use metier_power::node::MachineSpec;
use metier_power::selection::PipelineRegistry;
use metier_server::{Config, DoctorCheck, NodePowerConfig};
use metier_types::schema::RecordSchema;
use metier_types::*;
use serde_json::Value;

/// A server with something at every route.
fn furnished() -> (tempfile::TempDir, Server, Vec<Run>, SessionId) {
    let (folder, store) = store();
    let runs = fill(&store, 12);
    let mut with = run("alpha", BatchId::new(), 50);
    with.warnings.push(RunWarning::new("steal", "the host was busy"));
    with.missing.insert("summary.energy_joules".into(), MissingReason::without_fix("no meter"));
    with.quality.insert("summary.cpu_seconds".into(), ValueQuality::Exact);
    store.put_run(&with, &series(with.id, 1000)).unwrap();
    let tree = ProcessTree {
        schema: RecordSchema::new(),
        run: with.id,
        source: ProcessSource::Sampled,
        total: 0,
        omitted: 0,
        processes: Vec::new(),
        extra: ExtraFields::new(),
    };
    let json = serde_json::to_vec(&tree).unwrap();
    let (digest, size_bytes) = store.put_artefact(&mut &json[..]).unwrap();
    let name = "processes.json".to_string();
    let file = ArtefactRef::new(name, "application/json", digest, size_bytes);
    store.link_artefact(with.id, &file).unwrap();
    let mut new = new_session("of a job");
    new.job = Some("lab".to_string());
    let session = store.add_session(&new, 9).unwrap();
    let owner = metier_store::OwnerProcess { host: "board-7".into(), boot: "b".into(), pid: 1, started: 1 };
    store.claim_session(&device().reference(), &owner).unwrap().unwrap();
    assert_eq!(session.number, 1);
    let check = DoctorCheck { name: "x".into(), ok: true, text: "y".into(), fix: None };
    let estimator = PowerEstimator::new(PipelineRegistry::default(), MachineSpec::default()).unwrap();
    let power = NodePowerConfig {
        roots: metier_linux::KernelRoots::default(),
        interval: std::time::Duration::from_millis(20),
        estimator: Arc::new(estimator),
        engine: None,
    };
    let doctor: metier_server::config::DoctorCallback = Arc::new(move || vec![check.clone()]);
    let config = Config { doctor: Some(doctor), power: Some(power), ..Config::default() };
    let server = Server::with(&store, config);
    (folder, server, vec![with].into_iter().chain(runs).collect(), session.id)
}

#[test]
fn every_route_of_the_document_answers_as_it_says() {
    let (_folder, server, runs, session) = furnished();
    let document = server.get("/openapi.json").json();
    assert_eq!(document, metier_server::openapi());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut answered = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let id = match path {
            path if path.contains("devices") => "board-7".to_string(),
            path if path.contains("sessions") => session.to_string(),
            _ => runs[0].id.to_string(),
        };
        let Some(get) = item.get("get") else {
            assert!(item.get("post").is_some(), "{path}: {item}");
            continue;
        };
        let name = if path.contains("artefacts") { "processes.json" } else { "lab" };
        let mut target = path.replace("{id}", &id).replace("{name}", name).replace("{number}", "1");
        if path.ends_with("/compare") {
            target = format!("{target}?a={}&b={}", runs[2].batch, runs[1].batch);
        }
        let response = server.get(&target);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        let content = get["responses"]["200"]["content"].as_object().unwrap();
        let media_type = response.header("content-type").unwrap();
        let schema =
            &content.get(media_type).unwrap_or_else(|| panic!("{path} answers {media_type}"))["schema"];
        if media_type == "application/json" {
            check(&document, schema, &response.json(), path);
        }
        for parameter in get["parameters"].as_array().unwrap() {
            assert!(!parameter["description"].as_str().unwrap().is_empty(), "{path}: {parameter}");
        }
        answered += 1;
    }
    assert!(answered >= 24, "{answered}");
}

#[test]
fn every_parameter_of_the_document_is_taken() {
    let (_folder, server, runs, _) = furnished();
    let document = metier_server::openapi();
    let id = runs[0].id.to_string();
    for (path, item) in document["paths"].as_object().unwrap() {
        for parameter in item["get"]["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] != "query" {
                continue;
            }
            // An impossible value must be refused for what it is, not as an unknown parameter.
            let name = parameter["name"].as_str().unwrap();
            let target = format!("{}?{name}={}", path.replace("{id}", &id), "%00".repeat(5000));
            let target = target.replace("{name}", "lab").replace("{number}", "1");
            let problem = server.get(&target).problem(400);
            let error = problem["errors"].as_array().unwrap().iter().find(|e| is(&e["field"], name)).unwrap();
            assert!(!is(&error["got"], "an unknown parameter"), "{path} {name}: {problem}");
        }
    }
}

#[test]
fn problems_are_as_the_document_says() {
    let (_folder, server, _, _) = furnished();
    let document = metier_server::openapi();
    let content = &document["paths"]["/api/v1/runs"]["get"]["responses"]["400"]["content"];
    let problem = server.get("/api/v1/runs?limit=0&x=1").problem(400);
    check(&document, &content["application/problem+json"]["schema"], &problem, "problem");
}

/// The part of JSON Schema that our records use: enough to notice an answer that is not as
/// described.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Err(why) = fits(document, schema, value, at) {
        panic!("{why}");
    }
}

fn fits(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(&reference[1..]).ok_or(format!("{at}: {reference} leads nowhere"))?;
        return fits(document, target, value, at);
    }
    let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    if let Some(choices) = choices {
        let failed: Vec<String> =
            choices.iter().filter_map(|choice| fits(document, choice, value, at).err()).collect();
        if failed.len() == choices.len() {
            return Err(failed.join(" and "));
        }
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        return Err(format!("{at}: got {value}, want {}", schema["const"]));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{at}: {value} is none of {words:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let is_kind = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    if !kinds.is_empty() && !kinds.iter().any(is_kind) {
        return Err(format!("{at}: {value} is no {kinds:?}"));
    }
    if let Some(fields) = value.as_object() {
        for needed in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(needed) {
                return Err(format!("{at}.{needed} is absent"));
            }
        }
        for (name, field) in fields {
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, extra @ Value::Object(_)) => {
                    fits(document, extra, field, &format!("{at}.{name}"))?
                }
                (Value::Null, _) => {}
                (known, _) => fits(document, known, field, &format!("{at}.{name}"))?,
            }
        }
    }
    if let (Some(items), Value::Object(_)) = (value.as_array(), &schema["items"]) {
        for (row, item) in items.iter().enumerate().take(100) {
            fits(document, &schema["items"], item, &format!("{at}[{row}]"))?;
        }
    }
    Ok(())
}
