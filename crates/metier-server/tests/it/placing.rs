//! A graph's service in a real cluster: placed, replaced, rolled back and removed.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use metier_cluster::deployer::{self, ServingImage, graph_service};
use metier_cluster::deployment::GraphService;
use metier_cluster::inventory;
use metier_onnx::{OnnxLimits, ShapeBindings};
use metier_place::{NodeFacts, Placement, PlacementDemand, place};
use metier_predict::latency::{InferenceConditions, LatencyPredictor};
use metier_predict::node_predictor::NodePredictor;
use metier_predict::passport_resolver::PassportResolver;
use metier_types::ContentDigest;
use serde_json::json;

use crate::lab_node::LabNode;

const PATIENCE: Duration = Duration::from_secs(120);

struct Lab {
    node: LabNode,
    graph: metier_onnx::GraphAnalysis,
}

fn lab(name: &str) -> Option<Lab> {
    let Some(graphs) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!("SKIP: no graphs, because METIER_LAB_GRAPHS is not set (lab/lab up graphs)");
        return None;
    };
    let path = std::path::Path::new(&graphs).join("light-squeezenet.onnx");
    let limits = OnnxLimits::default();
    let read = metier_onnx::read_onnx(&std::fs::read(path).unwrap(), &limits).unwrap();
    let graph = metier_onnx::analyse_graph(&read, &ShapeBindings::default(), &limits).unwrap();
    Some(Lab { node: LabNode::take(name)?, graph })
}

impl Lab {
    fn demand(&self) -> PlacementDemand {
        PlacementDemand {
            workload: self.node.name.clone(),
            threads: 1,
            replicas: 1,
            architecture: None,
            labels: BTreeMap::from([("kubernetes.io/hostname".to_string(), "localhost".to_string())]),
        }
    }

    fn choose(&self, demand: &PlacementDemand) -> Placement {
        let survey = self.node.cluster.survey(Some(&self.node.name)).unwrap();
        let mut inventory = inventory::join_sources(Some(Ok(&survey)), None);
        // The lab's node says nothing of what it is; so it is what a label would say.
        for kubernetes in inventory.nodes.iter_mut().filter_map(|node| node.kubernetes.as_mut()) {
            kubernetes.labels.insert("metier.device".into(), "cloud-2-vcpu".into());
        }
        let (latency, passports) = (LatencyPredictor::from_passports(), PassportResolver::default());
        let predictor =
            NodePredictor::new(&latency, &passports, (&self.graph).into(), InferenceConditions::default());
        place(&inventory, demand, &|node| predictor.on_node(node))
    }

    fn serving(&self, image: &str, words: &[&str]) -> ServingImage {
        ServingImage {
            name: self.node.name.clone(),
            image: image.into(),
            arguments: words.iter().map(|word| word.to_string()).collect(),
            ..ServingImage::default()
        }
    }
}

#[test]
fn a_service_is_made_replaced_brought_back_and_removed() {
    let Some(lab) = lab("whole") else { return };
    let demand = lab.demand();
    let found = lab.choose(&demand);
    assert_eq!(found.chosen().unwrap().device, "localhost", "{found:?}");
    assert!(found.objective.unwrap() > 0.0 && found.notes.is_empty(), "{found:?}");
    // It exits at once on SIGTERM, so that the next pod finds free cores.
    let serving =
        lab.serving("busybox:local", &["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]);
    let graph = ContentDigest::from_bytes([5; 32]);
    let first = graph_service(&found, &demand, &serving, Some(&graph)).unwrap();
    let applied = lab.node.cluster.apply(&first, PATIENCE).unwrap();
    assert!(applied.is_available && applied.action == "created", "{applied:?}");
    let free = |found: &Placement| found.chosen().unwrap().free_memory_bytes.unwrap().get();
    let again = lab.choose(&demand);
    assert_eq!(free(&again), free(&found), "what it asked for itself counts as free");

    let second =
        graph_service(&again, &demand, &lab.serving("metier.test/no-such-image:1", &[]), Some(&graph))
            .unwrap();
    let applied = lab.node.cluster.apply(&second, PATIENCE).unwrap();
    assert!(!applied.is_available && applied.action == "replaced", "{applied:?}");
    assert!(applied.because.as_ref().unwrap().contains("metier.test/no-such-image:1"), "{applied:?}");

    let back = lab.node.cluster.rollback(&lab.node.name, PATIENCE).unwrap();
    assert!(back.is_available && back.action == "restored", "{back:?}");
    let gone = lab.node.cluster.rollback(&lab.node.name, PATIENCE).unwrap();
    assert_eq!((gone.action, gone.because), ("removed", None));
    let error = lab.node.cluster.rollback(&lab.node.name, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("there is none of that name"), "{error}");
}

/// What kubectl prints; `input` goes to its stdin.
fn kubectl(lab: &Lab, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(lab.node.access.kubeconfig.as_ref().unwrap());
    command.args(["--namespace", lab.node.cluster.namespace()]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_deployment_of_someone_else_is_replaced_only_on_request() {
    let Some(lab) = lab("foreign") else { return };
    let demand = lab.demand();
    let found = lab.choose(&demand);
    let words = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"];
    let name = &lab.node.name;
    let own = graph_service(&found, &demand, &lab.serving("busybox:local", &words), None).unwrap();
    // Made by kubectl, as any object that metier does not know.
    let mut foreign = deployer::manifest(&own, lab.node.cluster.namespace());
    foreign["metadata"]["labels"] = json!({"team": "others"});
    foreign["spec"]["template"]["metadata"]["labels"] = foreign["spec"]["selector"]["matchLabels"].clone();
    kubectl(&lab, &["create", "-f", "-"], &foreign.to_string());
    let team = || kubectl(&lab, &["get", "deployment", name, "-o", "jsonpath={.metadata.labels.team}"], "");
    let error = lab.node.cluster.apply(&own, PATIENCE).unwrap_err().to_string();
    assert!(error.contains(name.as_str()) && error.contains("--replace"), "{error}");
    assert_eq!(team(), "others", "nothing was written");
    let replacing = GraphService { replaces_foreign: true, ..own.clone() };
    assert_eq!(lab.node.cluster.apply(&replacing, PATIENCE).unwrap().action, "replaced");
    assert_eq!(team(), "");
    assert_eq!(lab.node.cluster.apply(&own, PATIENCE).unwrap().action, "replaced", "it is ours now");
    let back = lab.node.cluster.rollback(name, PATIENCE).unwrap();
    assert_eq!(back.action, "restored");
    kubectl(&lab, &["delete", "deployment", name], "");
}

#[test]
fn what_the_cluster_refuses_is_not_written() {
    let Some(lab) = lab("refused") else { return };
    let demand = lab.demand();
    let found = lab.choose(&demand);
    let mut serving = lab.serving("busybox:local", &[]);
    serving.environment.push(("no name".into(), "x".into()));
    let wrong = graph_service(&found, &demand, &serving, Some(&ContentDigest::from_bytes([5; 32]))).unwrap();
    let error = lab.node.cluster.apply(&wrong, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("nothing was written") && error.contains("no name"), "{error}");
    assert!(lab.node.cluster.rollback(&lab.node.name, PATIENCE).is_err(), "there is nothing to go back from");
}

#[test]
fn a_graph_that_fits_nowhere_has_a_reason_for_each_node() {
    let Some(lab) = lab("nowhere") else { return };
    let found = lab.choose(&PlacementDemand { threads: 4000, ..lab.demand() });
    assert_eq!(found.status, "infeasible");
    assert!(found.unplaced[0].because.contains("4000 cores are wanted"), "{found:?}");
    assert!(
        graph_service(
            &found,
            &lab.demand(),
            &lab.serving("x", &[]),
            Some(&ContentDigest::from_bytes([5; 32]))
        )
        .is_none()
    );
}

#[test]
fn a_node_is_known_by_its_label_before_its_name_else_by_its_cores_and_is_left_out_where_nothing_is_known() {
    let Some(lab) = lab("known") else { return };
    let (latency, passports) = (LatencyPredictor::from_passports(), PassportResolver::default());
    let predictor =
        NodePredictor::new(&latency, &passports, (&lab.graph).into(), InferenceConditions::default());
    let survey = lab.node.cluster.survey(None).unwrap();
    let inventory = inventory::join_sources(Some(Ok(&survey)), None);
    let mut node = inventory.nodes.iter().find(|node| node.name == "localhost").unwrap().clone();
    let mut kubernetes = node.kubernetes.clone().unwrap();
    kubernetes.labels.remove("metier.device");
    node.kubernetes = Some(kubernetes.clone());
    let usual = predictor.on_node(&node).unwrap();
    let width = usual.latency.interval().high() / usual.latency.interval().low();
    assert!(usual.source.is_generic && width > 80.0, "{usual:?}");
    assert!(usual.latency.reason().contains("(generic)"), "{}", usual.latency.reason());
    let mut strange = kubernetes.clone();
    strange.architecture = "vax".into();
    let error = predictor.on_node(&NodeFacts { kubernetes: Some(strange), ..node.clone() }).unwrap_err();
    assert!(error.contains("no passport is known") && error.contains("metier device bench"), "{error}");
    node.name = "Raspberry Pi 4 Model B Rev 1.4".into();
    assert_eq!(predictor.on_node(&node).unwrap().source.passport.id, "raspberry-pi-4b");
    kubernetes.labels.insert("metier.device".into(), "jetson-nano".into());
    node.kubernetes = Some(kubernetes);
    assert_eq!(predictor.on_node(&node).unwrap().source.passport.id, "jetson-nano");
}
