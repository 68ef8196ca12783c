//! `metier place`, a profiling answer and a placement through the SOPRANO interface give the same
//! result for one cluster, graph and runtime.

use metier_cluster::inventory::join_sources;
use metier_cluster::inventory::kubernetes::KubernetesSurvey;
use metier_cluster::inventory::prometheus::PrometheusSnapshot;
use metier_onnx::graph_builder::GraphBuilder;
use metier_onnx::{DataType, OnnxLimits, ShapeBindings};
use metier_place::{AgedValue, KubernetesNode, PlacementStanding, PrometheusNode, place};
use metier_types::{Ratio, Seconds, UtcTimestamp};

use super::*;
use crate::placement_cache::SopranoConfig;

fn graph() -> GraphAnalysis {
    let mut made = GraphBuilder::new(1);
    let x = made.add_input(DataType::Float, &[1, 512]);
    let weights = made.add_weights(&[512, 512], 512);
    let y = made.encode_node("MatMul", &[&x, &weights], &[]);
    made.add_output(&y);
    let limits = OnnxLimits::default();
    let read = metier_onnx::read_onnx(&made.finish(), &limits).unwrap();
    metier_onnx::analyse_graph(&read, &ShapeBindings::default(), &limits).unwrap()
}

/// Kubernetes nodes: name, label of the device, free cores and mebibytes.
fn survey() -> KubernetesSurvey {
    let node = |(name, device, cores, memory): (&str, Option<&str>, f64, u64)| {
        let hostname = ("kubernetes.io/hostname".to_string(), format!("host-{name}"));
        let device = device.map(|device| ("metier.device".to_string(), device.to_string()));
        KubernetesNode {
            name: name.into(),
            architecture: "arm64".into(),
            system: "linux".into(),
            labels: [hostname].into_iter().chain(device).collect(),
            cores: Some(4.0),
            free_cores: Some(cores),
            free_memory: Some(Bytes(memory << 20)),
            ..KubernetesNode::default()
        }
    };
    let mut nodes: Vec<KubernetesNode> = [
        ("busy-5", Some("raspberry-pi-5"), 4.0, 4000),
        ("full-5", Some("raspberry-pi-5"), 4.0, 1),
        ("idle-4", None, 4.0, 4000),
        ("idle-5", Some("raspberry-pi-5"), 4.0, 4000),
        ("plain", None, 4.0, 4000),
        ("short", None, 0.5, 4000),
        ("sick", None, 4.0, 4000),
        ("silent", None, 4.0, 4000),
        ("twin-5", Some("raspberry-pi-5"), 4.0, 4000),
        ("used-up", Some("raspberry-pi-5"), 4.0, 4000),
    ]
    .into_iter()
    .map(node)
    .collect();
    nodes[6].obstacle = Some("it is not ready: gone".into());
    KubernetesSurvey { nodes, notes: vec![] }
}

/// Prometheus data for most of them, and for an unknown device.
fn snapshot() -> PrometheusSnapshot {
    let node = |(name, model, busy, available): (&str, Option<&str>, f64, u64)| {
        let age = Seconds(2.0);
        PrometheusNode {
            name: name.into(),
            model: model.map(str::to_string),
            architecture: Some("aarch64".into()),
            cores: Some(4),
            cpu_busy: Some(AgedValue { value: Ratio(busy), age }),
            memory_available: Some(AgedValue { value: Bytes(available << 20), age }),
            ..PrometheusNode::default()
        }
    };
    let nodes = [
        ("busy-5", None, 0.9, 4000),
        ("full-5", None, 0.0, 4000),
        // Identified by host name alone, and by model.
        ("host-idle-4", Some("Raspberry Pi 4 Model B"), 0.1, 4000),
        ("idle-5", Some("Raspberry Pi 3B"), 0.1, 4000),
        ("plain", None, 0.1, 4000),
        ("short", None, 0.1, 4000),
        ("sick", None, 0.1, 4000),
        ("stranger", Some("Raspberry Pi 5"), 0.0, 4000),
        ("twin-5", None, 0.1, 4000),
        ("used-up", None, 0.1, 1),
    ];
    let nodes = nodes.into_iter().map(node).collect();
    PrometheusSnapshot { at: UtcTimestamp::UNIX_EPOCH, nodes, warnings: vec![] }
}

/// Name and time of each suitable node, in order.
fn able(placement: &Placement) -> Vec<(String, f64)> {
    let able = placement.candidates.iter().filter(|candidate| candidate.status != PlacementStanding::LeftOut);
    able.map(|candidate| (candidate.device.clone(), candidate.prediction.as_ref().unwrap().value())).collect()
}

/// The ranking of `metier place`.
fn by_command(
    predictors: &PlacementPredictors,
    inventory: &NodeInventory,
    graph: &GraphAnalysis,
) -> Placement {
    let runtime = ONNX_RUNTIME.to_string();
    let conditions =
        InferenceConditions { runtime, threads: ALL_PROCESSORS, ..InferenceConditions::default() };
    let (latency, passports) = (&predictors.latency, &predictors.passports);
    let predictor = NodePredictor::new(latency, passports, graph.into(), conditions);
    place(inventory, &PlacementDemand::single("net"), &|node| predictor.on_node(node))
}

#[test]
fn the_same_cluster_graph_and_runtime_have_the_same_answer_everywhere() {
    let (survey, snapshot, graph) = (survey(), snapshot(), graph());
    let predictors = PlacementPredictors::without_store(&SopranoConfig::default());
    let counts = SopranoCounts { conv_layers: 9.0, total_parameters: 7.0, ..SopranoCounts::default() };
    let question = GraphQuestion { counts, graph: Some(Box::new(graph.clone())), threads: None };
    let both = join_sources(Some(Ok(&survey)), Some(Ok(&snapshot)));
    let of_kubernetes = join_sources(Some(Ok(&survey)), Some(Err("gone".into())));
    let of_prometheus = join_sources(Some(Err("gone".into())), Some(Ok(&snapshot)));
    for (inventory, first) in [(&both, "idle-5"), (&of_kubernetes, "busy-5"), (&of_prometheus, "stranger")] {
        let commanded = by_command(&predictors, inventory, &graph);
        let expected = able(&commanded);
        assert_eq!(expected[0].0, first, "{expected:?}");
        let profiled: Vec<(String, f64)> = question
            .rank_candidates(&predictors, inventory)
            .into_iter()
            .filter_map(|candidate| Some((candidate.node?, candidate.predicted_execution_time?)))
            .collect();
        assert_eq!(profiled, expected);
        let (candidates, mut placed) =
            question.rank_and_place(&predictors, inventory, &PlacementDemand::single("net"));
        placed.seconds = commanded.seconds;
        assert_eq!(placed, commanded, "all of it: order, times, memory and reasons");
        let first = &candidates[0];
        assert_eq!((first.node.as_deref(), first.predicted_execution_time), {
            let chosen = commanded.chosen().unwrap();
            (Some(chosen.device.as_str()), commanded.objective)
        });
    }
    // The joined cluster has at least one node for each rule.
    let names: Vec<String> =
        able(&by_command(&predictors, &both, &graph)).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[..2], ["idle-5", "twin-5"], "of equals the first by name");
    assert!(
        names[2..].iter().all(|name| ["busy-5", "idle-4", "plain"].contains(&name.as_str())),
        "{names:?}"
    );
}
