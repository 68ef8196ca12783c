//! A graph's service in a real cluster: chosen, put there, replaced, brought back and removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "common/lab_node.rs"]
mod lab_node;

use std::collections::BTreeMap;
use std::time::Duration;

use lab_node::LabNode;
use metier_onnx::{Bindings, Limits};
use metier_predict::latency::{Conditions, Latency};
use metier_types::Digest;
use metier_work::placing::{Demand, Oracle, Placement, Serving, choose, service};

const PATIENCE: Duration = Duration::from_secs(120);

struct Lab {
    node: LabNode,
    graph: metier_onnx::Analysis,
}

fn lab(name: &str) -> Option<Lab> {
    let Some(graphs) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!("SKIP: no graphs, because METIER_LAB_GRAPHS is not set (lab/lab up graphs)");
        return None;
    };
    let path = std::path::Path::new(&graphs).join("light-squeezenet.onnx");
    let limits = Limits::default();
    let read = metier_onnx::read(&std::fs::read(path).unwrap(), &limits).unwrap();
    let graph = metier_onnx::analyse(&read, &Bindings::default(), &limits).unwrap();
    Some(Lab { node: LabNode::take(name)?, graph })
}

impl Lab {
    fn demand(&self) -> Demand {
        Demand {
            workload: self.node.name.clone(),
            threads: 1,
            replicas: 1,
            architecture: None,
            labels: BTreeMap::from([("kubernetes.io/hostname".to_string(), "localhost".to_string())]),
        }
    }

    fn choose(&self, demand: &Demand) -> Placement {
        let latency = Latency::from_passports();
        let oracle = Oracle {
            graph: &self.graph,
            latency: &latency,
            conditions: Conditions::default(),
            store: None,
            own: None,
        };
        let survey = self.node.hands.survey(Some(&self.node.name)).unwrap();
        // The lab's node says nothing of what it is; so it is what a label would say.
        choose(&survey, demand, &|node| {
            let mut node = node.clone();
            node.labels.insert("metier.device".into(), "cloud-2-vcpu".into());
            oracle.ask(&node)
        })
    }

    fn serving(&self, image: &str, words: &[&str]) -> Serving {
        Serving {
            name: self.node.name.clone(),
            image: image.into(),
            arguments: words.iter().map(|word| word.to_string()).collect(),
            ..Serving::default()
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
    // It ends at once when it is told to, so that the next one finds room.
    let serving =
        lab.serving("busybox:local", &["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]);
    let graph = Digest::from_bytes([5; 32]);
    let first = service(&found, &demand, &serving, Some(&graph)).unwrap();
    let applied = lab.node.hands.apply(&first, PATIENCE).unwrap();
    assert!(applied.is_available && applied.action == "created", "{applied:?}");
    let free = |found: &Placement| found.chosen().unwrap().free_memory_bytes.unwrap().get();
    let again = lab.choose(&demand);
    assert_eq!(free(&again), free(&found), "what it asked for itself counts as free");

    let second =
        service(&again, &demand, &lab.serving("metier.test/no-such-image:1", &[]), Some(&graph)).unwrap();
    let applied = lab.node.hands.apply(&second, PATIENCE).unwrap();
    assert!(!applied.is_available && applied.action == "replaced", "{applied:?}");
    assert!(applied.because.as_ref().unwrap().contains("metier.test/no-such-image:1"), "{applied:?}");

    let back = lab.node.hands.rollback(&lab.node.name, PATIENCE).unwrap();
    assert!(back.is_available && back.action == "restored", "{back:?}");
    let gone = lab.node.hands.rollback(&lab.node.name, PATIENCE).unwrap();
    assert_eq!((gone.action, gone.because), ("removed", None));
    let error = lab.node.hands.rollback(&lab.node.name, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("there is none of that name"), "{error}");
}

#[test]
fn what_the_cluster_refuses_is_not_written() {
    let Some(lab) = lab("refused") else { return };
    let demand = lab.demand();
    let found = lab.choose(&demand);
    let mut serving = lab.serving("busybox:local", &[]);
    serving.environment.push(("no name".into(), "x".into()));
    let wrong = service(&found, &demand, &serving, Some(&Digest::from_bytes([5; 32]))).unwrap();
    let error = lab.node.hands.apply(&wrong, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("nothing was written") && error.contains("no name"), "{error}");
    assert!(lab.node.hands.rollback(&lab.node.name, PATIENCE).is_err(), "there is nothing to go back from");
}

#[test]
fn a_graph_that_fits_nowhere_has_a_reason_for_each_node() {
    let Some(lab) = lab("nowhere") else { return };
    let found = lab.choose(&Demand { threads: 4000, ..lab.demand() });
    assert_eq!(found.status, "infeasible");
    assert!(found.unplaced[0].because.contains("4000 cores are wanted"), "{found:?}");
    assert!(
        service(&found, &lab.demand(), &lab.serving("x", &[]), Some(&Digest::from_bytes([5; 32]))).is_none()
    );
}

#[test]
fn a_node_is_known_by_its_label_before_its_name_else_by_its_cores_and_is_left_out_where_nothing_is_known() {
    let Some(lab) = lab("known") else { return };
    let latency = Latency::from_passports();
    let conditions = Conditions::default();
    let oracle = Oracle { graph: &lab.graph, latency: &latency, conditions, store: None, own: None };
    let survey = lab.node.hands.survey(None).unwrap();
    let mut node = survey.nodes.iter().find(|node| node.name == "localhost").unwrap().clone();
    node.labels.remove("metier.device");
    let usual = oracle.ask(&node).unwrap();
    let width = usual.latency.interval().high() / usual.latency.interval().low();
    assert!(usual.passport.is_none() && width > 80.0, "{usual:?}");
    assert!(usual.latency.because().contains("(generic)"), "{}", usual.latency.because());
    let strange = metier_cluster::space::NodeFacts { architecture: "vax".into(), ..node.clone() };
    let error = oracle.ask(&strange).unwrap_err();
    assert!(error.contains("no passport is known") && error.contains("metier device bench"), "{error}");
    node.name = "Raspberry Pi 4 Model B Rev 1.4".into();
    assert_eq!(oracle.ask(&node).unwrap().passport.unwrap().id, "raspberry-pi-4b");
    node.labels.insert("metier.device".into(), "jetson-nano".into());
    assert_eq!(oracle.ask(&node).unwrap().passport.unwrap().id, "jetson-nano");
}
