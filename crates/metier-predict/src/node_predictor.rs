//! Predicts a graph's cost on a node of a cluster, for the ranking.

use metier_onnx::GraphAnalysis;
use metier_place::{NodeFacts, PlacementEstimate, ResolvedPassport};
use metier_types::{Prediction, Ratio};

use crate::latency::{InferenceConditions, LatencyError, LatencyPredictor, SopranoCounts};
use crate::passport_resolver::PassportResolver;

/// Workload description: the graph, counts of its layers, or both.
#[derive(Debug, Clone, Copy)]
pub struct GraphWorkload<'a> {
    pub graph: Option<&'a GraphAnalysis>,
    /// Used without a graph, or if the graph has unknown sizes.
    pub counts: Option<SopranoCounts>,
}

impl<'a> From<&'a GraphAnalysis> for GraphWorkload<'a> {
    fn from(graph: &'a GraphAnalysis) -> Self {
        Self { graph: Some(graph), counts: None }
    }
}

/// Predicts one graph on many nodes.
#[derive(Debug)]
pub struct NodePredictor<'a> {
    latency: &'a LatencyPredictor,
    passports: &'a PassportResolver,
    workload: GraphWorkload<'a>,
    conditions: InferenceConditions,
    /// Equal for all nodes.
    memory: Result<Prediction, String>,
}

impl<'a> NodePredictor<'a> {
    /// The conditions' load is used for nodes with unknown load.
    pub fn new(
        latency: &'a LatencyPredictor,
        passports: &'a PassportResolver,
        workload: GraphWorkload<'a>,
        conditions: InferenceConditions,
    ) -> Self {
        // With unknown sizes, the live activations are unknown.
        let is_whole =
            |graph: &&GraphAnalysis| graph.peak_activation_bytes.is_some() || workload.counts.is_none();
        let memory = match (workload.graph.filter(is_whole), &workload.counts) {
            (Some(graph), _) => latency.memory(graph, &conditions).map_err(|error| error.to_string()),
            (None, Some(counts)) => latency.memory_of_counts(counts).map_err(|error| error.to_string()),
            (None, None) => Err("neither a graph nor its counts are known".to_string()),
        };
        Self { latency, passports, workload, conditions, memory }
    }

    /// Predicts time and memory on a node under its current load. The error is the reason why there
    /// is no prediction.
    pub fn on_node(&self, node: &NodeFacts) -> Result<PlacementEstimate, String> {
        self.on_passport(self.passports.resolve(node)?, node.cpu_busy())
    }

    /// Predicts on a device under this load.
    pub fn on_passport(
        &self,
        source: ResolvedPassport,
        load: Option<Ratio>,
    ) -> Result<PlacementEstimate, String> {
        let passport = &source.passport;
        let mut conditions = self.conditions.on(passport);
        // More threads than processors give no speedup.
        conditions.threads = conditions.threads.min(passport.device.cpu.threads.max(1));
        conditions.cpu_load = load.or(conditions.cpu_load);
        let by_counts = |counts| self.latency.counts(counts, passport, &conditions);
        let of_graph = self.workload.graph.map(|graph| self.latency.graph(graph, passport, &conditions));
        let latency = match (of_graph, &self.workload.counts) {
            (Some(Err(error @ LatencyError::Open { .. })), Some(counts)) => {
                let prediction = by_counts(counts).map_err(|error| error.to_string())?;
                let because = format!("{error}; so {}", prediction.reason());
                let (interval, predictor) = (prediction.interval(), prediction.predictor());
                Prediction::new(
                    prediction.value(),
                    prediction.unit(),
                    interval,
                    predictor,
                    prediction.in_range(),
                    because,
                )
                .map_err(|error| error.to_string())?
            }
            (Some(answered), _) => answered.map_err(|error| error.to_string())?,
            (None, Some(counts)) => by_counts(counts).map_err(|error| error.to_string())?,
            (None, None) => return Err("neither a graph nor its counts are known".to_string()),
        };
        let (memory, threads) = (self.memory.clone()?, conditions.threads);
        Ok(PlacementEstimate { latency, memory, threads, source })
    }
}

#[cfg(test)]
mod tests {
    use metier_place::{AgedValue, KubernetesNode, NodeFacts, PrometheusNode};
    use metier_types::Seconds;

    use super::*;
    use crate::latency::conditions::ALL_PROCESSORS;
    use crate::latency::tests::graph;

    /// A Raspberry Pi 5 by its label, with this load.
    fn pi(busy: Option<f64>) -> NodeFacts {
        let labels = [("metier.device".to_string(), "raspberry-pi-5".to_string())].into();
        let busy = busy.map(|busy| AgedValue { value: Ratio(busy), age: Seconds(1.0) });
        NodeFacts {
            name: "pi".into(),
            kubernetes: Some(KubernetesNode { labels, ..KubernetesNode::default() }),
            prometheus: Some(PrometheusNode { cpu_busy: busy, ..PrometheusNode::default() }),
        }
    }

    fn resnet_counts() -> SopranoCounts {
        SopranoCounts {
            conv_layers: 53.0,
            pool_layers: 2.0,
            fc_layers: 1.0,
            filter_details: 26_560.0,
            total_parameters: 25_610_153.0,
            model_input_size: 602_112.0,
            model_output_size: 4000.0,
        }
    }

    fn predicted(
        workload: GraphWorkload<'_>,
        conditions: InferenceConditions,
        busy: Option<f64>,
    ) -> PlacementEstimate {
        let (latency, passports) = (LatencyPredictor::from_passports(), PassportResolver::default());
        NodePredictor::new(&latency, &passports, workload, conditions).on_node(&pi(busy)).unwrap()
    }

    fn of_counts(conditions: InferenceConditions, busy: Option<f64>) -> PlacementEstimate {
        predicted(GraphWorkload { graph: None, counts: Some(resnet_counts()) }, conditions, busy)
    }

    #[test]
    fn a_prediction_says_the_threads_that_it_is_for_and_those_are_no_more_than_there_are() {
        let of = |threads| of_counts(InferenceConditions { threads, ..InferenceConditions::default() }, None);
        assert_eq!(
            (of(ALL_PROCESSORS).threads, of(2).threads, of(4000).threads),
            (4, 2, 4),
            "it has four cores"
        );
        assert_eq!(of(ALL_PROCESSORS).latency, of(4).latency);
        assert_eq!(of(4000).latency, of(4).latency);
        assert!(of(1).latency.value() > of(4).latency.value());
    }

    #[test]
    fn a_busy_node_is_slower_and_its_own_load_goes_before_that_of_the_conditions() {
        let loaded = InferenceConditions { cpu_load: Some(Ratio(0.95)), ..InferenceConditions::default() };
        let time =
            |conditions: &InferenceConditions, busy| of_counts(conditions.clone(), busy).latency.value();
        let usual = InferenceConditions::default();
        assert!(time(&usual, Some(0.95)) > time(&usual, None));
        assert_eq!(time(&loaded, None), time(&usual, Some(0.95)));
        assert_eq!(time(&loaded, Some(0.1)), time(&usual, Some(0.1)));
    }

    #[test]
    fn the_runtime_is_a_parameter() {
        let of = |runtime: &str| {
            of_counts(InferenceConditions { runtime: runtime.into(), ..InferenceConditions::default() }, None)
                .latency
                .value()
        };
        assert_ne!(of("rten"), of("onnxruntime"));
        let (latency, passports) = (LatencyPredictor::from_passports(), PassportResolver::default());
        let conditions = InferenceConditions { runtime: "tvm".into(), ..InferenceConditions::default() };
        let workload = GraphWorkload { graph: None, counts: Some(resnet_counts()) };
        let why =
            NodePredictor::new(&latency, &passports, workload, conditions).on_node(&pi(None)).unwrap_err();
        assert!(why.contains("runtime") && why.contains("tvm"), "{why}");
    }

    #[test]
    fn counts_answer_only_where_a_graph_leaves_sizes_open() {
        let Some(whole) = graph("light-squeezenet", "data_0", &[1, 3, 224, 224]) else { return };
        let both = GraphWorkload { graph: Some(&whole), counts: Some(resnet_counts()) };
        let alone = predicted((&whole).into(), InferenceConditions::default(), None);
        assert_eq!(predicted(both, InferenceConditions::default(), None), alone);
        assert!(!alone.latency.reason().contains("from counts alone"), "{}", alone.latency.reason());
        // The sizes of its input are symbolic, and none are bound.
        let file = std::env::var("METIER_LAB_GRAPHS").unwrap() + "/ppocr4-detector.onnx";
        let limits = metier_onnx::OnnxLimits::default();
        let read = metier_onnx::read_onnx(&std::fs::read(file).unwrap(), &limits).unwrap();
        let open =
            metier_onnx::analyse_graph(&read, &metier_onnx::ShapeBindings::default(), &limits).unwrap();
        let both = GraphWorkload { graph: Some(&open), counts: Some(resnet_counts()) };
        let because = predicted(both, InferenceConditions::default(), None).latency.reason().to_string();
        assert!(because.contains("; so from counts alone"), "{because}");
        let (latency, passports) = (LatencyPredictor::from_passports(), PassportResolver::default());
        let refused =
            NodePredictor::new(&latency, &passports, (&open).into(), InferenceConditions::default());
        assert!(refused.on_node(&pi(None)).is_err());
    }
}
