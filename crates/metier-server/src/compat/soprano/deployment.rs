//! The field `deployment` of a request: the service for a graph that is to be placed. All faults
//! are reported at once, each by its field.

use std::time::Duration;

use metier_cluster::deployer::{ServingImage, object_name};
use metier_predict::latency::conditions::REPLICA_THREADS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::value_text;
use crate::http::problem::{FieldError, shorten_text};

/// Longest argument or variable.
const MAX_TEXT_BYTES: usize = 4096;
/// Most arguments, and most variables.
const MAX_TEXTS: usize = 1000;
const MAX_PORTS: usize = 100;
/// All accepted fields.
const FIELD_NAMES: &str =
    "image, name, namespace, threads, replicas, arguments, environment, ports, within_seconds or replace";
const WANT_OBJECT: &str = "an object with the image that serves the graph: {\"image\": \"serve:1.2\"}";

/// JSON Schema of the field, for the API's description; the field itself is parsed by hand.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deployment")]
#[allow(dead_code, reason = "describes what is sent")]
pub struct DeploymentFieldSchema {
    /// The image that serves the graph.
    pub image: String,
    /// Name of the Deployment; derived from the graph's name by default.
    pub name: Option<String>,
    /// Its namespace; the server account's own by default.
    pub namespace: Option<String>,
    /// Threads of each replica, and its requested cores: 1 to 4096, default 1.
    pub threads: Option<u32>,
    /// Number of replicas, all on one node: 1 to 1000, default 1.
    pub replicas: Option<u32>,
    /// Arguments of its program.
    pub arguments: Option<Vec<String>>,
    /// Environment variables.
    pub environment: Option<std::collections::BTreeMap<String, String>>,
    /// Ports that it listens on; it is available when the first one is open.
    pub ports: Option<Vec<u16>>,
    /// How long the response may wait for availability, in seconds: 1 to 60, default 10.
    pub within_seconds: Option<u64>,
    /// Whether a Deployment of this name that metier did not make is replaced; default false.
    pub replace: Option<bool>,
}

/// The checked field.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedDeployment {
    /// The image, and how it is run.
    pub serving: ServingImage,
    pub namespace: Option<String>,
    /// Threads of each replica.
    pub threads: u32,
    pub replicas: u32,
    /// How long to wait for availability.
    pub patience: Duration,
}

/// The error for a placement without known nodes.
pub fn apply_without_nodes() -> FieldError {
    let want = "false or absent without Prometheus, since there are no nodes to choose from";
    FieldError::new("apply", "true", want)
}

/// Reads the field; the default name is derived from the graph's name.
pub fn read_deployment(value: Option<&Value>, model: &str) -> Result<CheckedDeployment, Vec<FieldError>> {
    let fields = match value {
        None | Some(Value::Null) => return Err(vec![FieldError::absent("deployment", WANT_OBJECT)]),
        Some(Value::Object(fields)) => fields,
        Some(other) => return Err(vec![FieldError::new("deployment", &value_text(other), WANT_OBJECT)]),
    };
    let mut reader = DeploymentReader { fields, seen: Vec::new(), faults: Vec::new() };
    let image = reader.text("image");
    if image.is_none() {
        reader.add_absent("image", "the name of an image, such as serve:1.2");
    }
    let name = reader.text("name").unwrap_or_else(|| object_name(model));
    let namespace = reader.text("namespace");
    let serving = |name: &str, image: &str| ServingImage {
        name: name.to_string(),
        image: image.to_string(),
        ..ServingImage::default()
    };
    // Each field is checked together with valid values for the others.
    let of_name = |name: &str| serving(name, "x").defect().map(|(_, _, want)| want);
    reader.check("name", &name, of_name(&name));
    if let Some(namespace) = &namespace {
        reader.check("namespace", namespace, of_name(namespace));
    }
    if let Some(image) = &image {
        reader.check("image", image, serving("x", image).defect().map(|(_, _, want)| want));
    }
    let threads = reader.integer("threads", REPLICA_THREADS, 4096);
    let replicas = reader.integer("replicas", 1, 1000);
    let arguments = reader.arguments();
    let environment = reader.environment();
    let ports = reader.ports();
    let within = reader.integer("within_seconds", 10, 60);
    let replaces_foreign = reader.flag("replace");
    let faults = reader.finish();
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(CheckedDeployment {
        serving: ServingImage {
            name,
            image: image.unwrap_or_default(),
            arguments,
            environment,
            ports,
            replaces_foreign,
        },
        namespace,
        threads,
        replicas,
        patience: Duration::from_secs(within.into()),
    })
}

struct DeploymentReader<'a> {
    fields: &'a Map<String, Value>,
    seen: Vec<&'static str>,
    faults: Vec<FieldError>,
}

impl<'a> DeploymentReader<'a> {
    fn get_field(&mut self, name: &'static str) -> Option<&'a Value> {
        self.seen.push(name);
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn add_fault(&mut self, name: &str, got: &str, want: impl Into<String>) {
        self.faults.push(FieldError::new(format!("deployment.{name}"), got, want));
    }

    fn add_absent(&mut self, name: &str, want: &str) {
        self.faults.push(FieldError::absent(format!("deployment.{name}"), want));
    }

    fn check(&mut self, name: &str, got: &str, defect: Option<&str>) {
        if let Some(want) = defect {
            self.add_fault(name, got, want);
        }
    }

    /// A text. For a value that is no text, or too long, a space is put before it, which no name
    /// may contain.
    fn text(&mut self, name: &'static str) -> Option<String> {
        let value = self.get_field(name)?;
        match value.as_str() {
            Some(text) if text.len() <= MAX_TEXT_BYTES => Some(text.to_string()),
            Some(text) => Some(format!(" {}", shorten_text(text))),
            None => Some(format!(" {}", value_text(value))),
        }
    }

    fn flag(&mut self, name: &'static str) -> bool {
        let Some(value) = self.get_field(name) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.add_fault(name, &value_text(value), "true or false".to_string());
            false
        })
    }

    fn integer(&mut self, name: &'static str, usual: u32, most: u32) -> u32 {
        let Some(value) = self.get_field(name) else { return usual };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| (1..=most).contains(number)) {
            Some(number) => number,
            None => {
                self.add_fault(name, &value_text(value), format!("a whole number from 1 to {most}"));
                usual
            }
        }
    }

    fn arguments(&mut self) -> Vec<String> {
        let Some(value) = self.get_field("arguments") else { return Vec::new() };
        let word = |value: &Value| value.as_str().filter(|text| is_short(text)).map(str::to_string);
        let list = value.as_array().filter(|list| list.len() <= MAX_TEXTS);
        match list.and_then(|list| list.iter().map(word).collect()) {
            Some(words) => words,
            None => {
                let want =
                    format!("a list of at most {MAX_TEXTS} texts, each of at most {MAX_TEXT_BYTES} bytes");
                self.add_fault("arguments", &value_text(value), want);
                Vec::new()
            }
        }
    }

    fn environment(&mut self) -> Vec<(String, String)> {
        let Some(value) = self.get_field("environment") else { return Vec::new() };
        let pair = |(name, value): (&String, &Value)| {
            let is_name = !name.is_empty() && is_short(name) && !name.contains('=');
            let text = value.as_str().filter(|text| is_name && is_short(text))?;
            Some((name.clone(), text.to_string()))
        };
        let pairs = value.as_object().filter(|pairs| pairs.len() <= MAX_TEXTS);
        match pairs.and_then(|pairs| pairs.iter().map(pair).collect()) {
            Some(pairs) => pairs,
            None => {
                let want = format!(
                    "an object of at most {MAX_TEXTS} texts by the names of variables, each of at most {MAX_TEXT_BYTES} bytes"
                );
                // Variables may be secrets, so errors do not repeat them.
                self.add_fault("environment", "another value", want);
                Vec::new()
            }
        }
    }

    fn ports(&mut self) -> Vec<u16> {
        let Some(value) = self.get_field("ports") else { return Vec::new() };
        let port = |value: &Value| {
            let port = value.as_u64().and_then(|number| u16::try_from(number).ok());
            port.filter(|port| *port > 0)
        };
        let list = value.as_array().filter(|list| list.len() <= MAX_PORTS);
        match list.and_then(|list| list.iter().map(port).collect()) {
            Some(ports) => ports,
            None => {
                let want = format!("a list of at most {MAX_PORTS} numbers from 1 to 65535");
                self.add_fault("ports", &value_text(value), want);
                Vec::new()
            }
        }
    }

    /// All faults, including those of unknown fields.
    fn finish(mut self) -> Vec<FieldError> {
        let unknown = self.fields.keys().filter(|name| !self.seen.contains(&name.as_str())).take(10);
        for name in unknown.cloned().collect::<Vec<_>>() {
            self.add_fault(&shorten_text(&name), "a field that there is not", FIELD_NAMES);
        }
        self.faults
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= MAX_TEXT_BYTES && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_is_enough_and_all_else_has_a_default() {
        let deployment = read_deployment(Some(&json!({"image": "serve:1"})), "ResNet 50").unwrap();
        assert_eq!(
            (deployment.serving.name.as_str(), deployment.serving.image.as_str()),
            ("resnet-50", "serve:1")
        );
        assert_eq!(
            (deployment.threads, deployment.replicas, deployment.patience),
            (1, 1, Duration::from_secs(10))
        );
        assert_eq!(deployment.namespace, None);
        let checked_deployment = read_deployment(
            Some(&json!({
                "image": "serve:1", "name": "net", "namespace": "edge", "threads": 2, "replicas": 3,
                "arguments": ["-v"], "environment": {"A": "b"}, "ports": [8080], "within_seconds": 60,
                "replace": true,
            })),
            "m",
        )
        .unwrap();
        assert_eq!(
            checked_deployment.serving,
            ServingImage {
                name: "net".into(),
                image: "serve:1".into(),
                arguments: vec!["-v".into()],
                environment: vec![("A".into(), "b".into())],
                ports: vec![8080],
                replaces_foreign: true,
            }
        );
        assert_eq!(
            (
                checked_deployment.namespace.as_deref(),
                checked_deployment.threads,
                checked_deployment.replicas
            ),
            (Some("edge"), 2, 3)
        );
        assert_eq!(checked_deployment.patience, Duration::from_secs(60));
    }

    #[test]
    fn each_fault_is_named() {
        for (name, value) in [
            ("image", json!("")),
            ("image", json!("a b")),
            ("image", json!(7)),
            ("image", json!("x".repeat(5000))),
            ("name", json!("No Name")),
            ("name", json!(["x"])),
            ("namespace", json!("-")),
            ("threads", json!(0)),
            ("threads", json!("2")),
            ("threads", json!(4097)),
            ("replicas", json!(1.5)),
            ("replicas", json!(u64::MAX)),
            ("arguments", json!("-v")),
            ("arguments", json!(["x".repeat(5000)])),
            ("arguments", json!(vec!["x"; 1001])),
            ("environment", json!({"A": 1})),
            ("environment", json!({"A=B": "x"})),
            ("environment", json!({"": "x"})),
            ("ports", json!([0])),
            ("ports", json!([65536])),
            ("within_seconds", json!(61)),
            ("replace", json!("yes")),
            ("colour", json!("red")),
        ] {
            let mut body = json!({"image": "serve:1"});
            body[name] = value.clone();
            let faults = read_deployment(Some(&body), "m").unwrap_err();
            assert_eq!(faults.len(), 1, "{name} {value}: {faults:?}");
            assert_eq!(faults[0].field, format!("deployment.{name}"), "{value}");
            assert!(!faults[0].want.is_empty());
        }
        for nothing in [None, Some(json!(null)), Some(json!("serve:1")), Some(json!([]))] {
            assert_eq!(read_deployment(nothing.as_ref(), "m").unwrap_err()[0].field, "deployment");
        }
        let faults = read_deployment(Some(&json!({"ports": [0], "x": 1})), "m").unwrap_err();
        let names: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(names, ["deployment.image", "deployment.ports", "deployment.x"]);
        let secret =
            read_deployment(Some(&json!({"image": "x", "environment": {"A": ["secret"]}})), "m").unwrap_err();
        assert!(!format!("{secret:?}").contains("secret\""), "{secret:?}");
    }
}
