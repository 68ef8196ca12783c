//! Surveys a cluster for a placement, and deploys the graph's service on the chosen node.
//!
//! Calls block, with time limits. A server must call them from a thread that may block.

use std::path::PathBuf;
use std::time::Duration;

use metier_measure::spec::PodSpec;
use metier_place::{AppliedDeployment, Placement, PlacementDemand, requested_memory};
use metier_types::ContentDigest;
use serde_json::{Value, json};

use crate::Error;
use crate::cluster_client::ClusterClient;
use crate::deployment::{self, DeploymentAction, GraphService};
use crate::inventory::kubernetes::{self, KubernetesSurvey};

/// Time limit of a survey.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection options of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterAccess {
    /// Path of the kubeconfig; default as for `kubectl`.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// The image that serves a graph, with its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServingImage {
    pub name: String,
    pub image: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Ports that it listens on.
    pub ports: Vec<u16>,
    /// Whether a Deployment of this name that metier did not make is replaced.
    pub replaces_foreign: bool,
}

impl ServingImage {
    /// The first fault, if any: the field, the given and the expected value.
    pub fn defect(&self) -> Option<(&'static str, String, &'static str)> {
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_name = (1..=63).contains(&self.name.len())
            && self.name.chars().all(|c| is_letter(c) || c == '-')
            && self.name.starts_with(is_letter)
            && self.name.ends_with(is_letter);
        if !is_name {
            let want = "1 to 63 small letters, digits and hyphens, with a letter or digit at both ends";
            return Some(("name", format!("{:?}", self.name), want));
        }
        if self.image.is_empty() || self.image.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Some(("image", format!("{:?}", self.image), "the name of an image, such as `serve:1.2`"));
        }
        if self.ports.contains(&0) {
            return Some(("port", "0".into(), "1 to 65535"));
        }
        if self.arguments.len() > 1000 || self.environment.len() > 1000 || self.ports.len() > 100 {
            return Some(("arg", "more".into(), "at most 1000 arguments and variables, and 100 ports"));
        }
        None
    }
}

/// The name of a graph as a valid object name.
pub fn object_name(graph: &str) -> String {
    let letters = graph.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let name: String = letters.take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "graph".into() } else { name.into() }
}

/// The service of a placement; `None` if no node was chosen. `graph` is the digest of the graph's
/// file, if any.
pub fn graph_service(
    placement: &Placement,
    demand: &PlacementDemand,
    serving: &ServingImage,
    graph: Option<&ContentDigest>,
) -> Option<GraphService> {
    let chosen = placement.chosen()?;
    let (latency, memory) = (chosen.prediction.as_ref()?, chosen.memory.as_ref()?);
    let predicted =
        json!({"latency": latency, "memory": memory, "threads": chosen.threads, "passport": chosen.passport});
    let annotations = [
        (deployment::PREDICTION_ANNOTATION, Some(predicted.to_string())),
        (deployment::PREDICTOR_ANNOTATION, Some(latency.predictor().to_string())),
        (deployment::GRAPH_ANNOTATION, graph.map(ContentDigest::to_string)),
    ];
    let annotations = annotations.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    Some(GraphService {
        name: serving.name.clone(),
        image: serving.image.clone(),
        arguments: serving.arguments.clone(),
        environment: serving.environment.clone(),
        ports: serving.ports.clone(),
        replicas: demand.replicas,
        cores: f64::from(demand.threads),
        memory: requested_memory(memory.interval().high()),
        node: chosen.device.clone(),
        hostname: chosen.hostname.clone(),
        annotations: annotations.collect(),
        replaces_foreign: serving.replaces_foreign,
    })
}

/// The object to write.
pub fn manifest(service: &GraphService, namespace: &str) -> Value {
    let mut object = deployment::deployment_object(service);
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// Surveys the nodes of a cluster, and applies and rolls back Deployments.
pub struct ClusterDeployer {
    runtime: tokio::runtime::Runtime,
    cluster: ClusterClient,
}

impl ClusterDeployer {
    pub fn connect(access: &ClusterAccess) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Cluster { reason: error.to_string() })?;
        let usual = PodSpec {
            kubeconfig: access.kubeconfig.clone(),
            context: access.context.clone(),
            namespace: access.namespace.clone(),
            ..PodSpec::default()
        };
        let cluster = runtime.block_on(with_timeout(SURVEY_TIMEOUT, ClusterClient::connect(&usual)))?;
        Ok(Self { runtime, cluster })
    }

    /// The namespace of all written objects.
    pub fn namespace(&self) -> &str {
        &self.cluster.namespace
    }

    /// The nodes. The requests of a Deployment of this name count as free, since it would be
    /// replaced.
    pub fn survey(&self, name: Option<&str>) -> Result<KubernetesSurvey, Error> {
        self.runtime.block_on(with_timeout(SURVEY_TIMEOUT, async {
            let replaced = match name {
                Some(name) => deployment::pod_selector(&self.cluster, name).await?,
                None => None,
            };
            kubernetes::survey_nodes(&self.cluster, replaced.as_ref()).await
        }))
    }

    /// Applies a service after a dry run, and waits for its availability with a time limit.
    pub fn apply(&self, service: &GraphService, patience: Duration) -> Result<AppliedDeployment, Error> {
        self.runtime.block_on(async {
            let action = with_timeout(SURVEY_TIMEOUT, deployment::apply(&self.cluster, service)).await?;
            let standing = deployment::wait_until_available(&self.cluster, &service.name, patience).await;
            Ok(self.applied_deployment(&service.name, action, standing))
        })
    }

    /// Restores the previous object, and waits for its availability with a time limit.
    pub fn rollback(&self, name: &str, patience: Duration) -> Result<AppliedDeployment, Error> {
        self.runtime.block_on(async {
            let action = deployment::rollback(&self.cluster, name).await?;
            let standing = match action {
                DeploymentAction::Removed => Ok(()),
                _ => deployment::wait_until_available(&self.cluster, name, patience).await,
            };
            Ok(self.applied_deployment(name, action, standing))
        })
    }

    fn applied_deployment(
        &self,
        name: &str,
        action: DeploymentAction,
        standing: Result<(), String>,
    ) -> AppliedDeployment {
        AppliedDeployment {
            namespace: self.cluster.namespace.clone(),
            name: name.to_string(),
            action: action.name(),
            is_available: standing.is_ok() && action != DeploymentAction::Removed,
            because: standing.err(),
        }
    }
}

async fn with_timeout<T>(time: Duration, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(time, asked)
        .await
        .unwrap_or_else(|_| Err(Error::Cluster { reason: format!("no answer within {} s", time.as_secs()) }))
}

#[cfg(test)]
mod tests {
    use metier_place::{
        KubernetesNode, NodeFacts, NodeInventory, PlacementEstimate, ResolvedPassport, place,
    };
    use metier_types::{Bytes, Prediction, PredictionInterval, Ratio};

    use super::*;

    fn prediction(value: f64, unit: &str) -> Prediction {
        let interval = PredictionInterval::new(value / 2.0, value * 2.0, Ratio(0.9)).unwrap();
        Prediction::new(value, unit, interval, ContentDigest::from_bytes([1; 32]), true, "x").unwrap()
    }

    fn placed(demand: &PlacementDemand) -> Placement {
        let kubernetes = KubernetesNode { name: "a".into(), ..KubernetesNode::default() };
        let node = NodeFacts { name: "a".into(), kubernetes: Some(kubernetes), prometheus: None };
        let inventory = NodeInventory { nodes: vec![node], has_kubernetes: true, ..NodeInventory::default() };
        let passport = metier_device::passport::shipped_passports()[0].clone();
        place(&inventory, demand, &|_| {
            Ok(PlacementEstimate {
                latency: prediction(0.005, "seconds"),
                memory: prediction(100e6, "bytes"),
                threads: 4,
                source: ResolvedPassport { passport: passport.clone().into(), is_generic: true },
            })
        })
    }

    #[test]
    fn a_service_requests_what_the_interval_allows() {
        let demand = PlacementDemand::single("net");
        let found = placed(&demand);
        let serving = ServingImage { name: "net".into(), image: "serve:1".into(), ..ServingImage::default() };
        let made =
            graph_service(&found, &demand, &serving, Some(&ContentDigest::from_bytes([2; 32]))).unwrap();
        assert_eq!(made.memory, Bytes(191 << 20), "200 MB in whole mebibytes");
        assert_eq!((made.node.as_str(), made.cores), ("a", 1.0));
        assert!(made.annotations["metier.predictor"].starts_with("sha256:0101"));
        let object = manifest(&made, "there");
        assert_eq!(object["metadata"]["namespace"], "there");
        let annotations = &object["metadata"]["annotations"];
        let value: Value = serde_json::from_str(annotations["metier.prediction"].as_str().unwrap()).unwrap();
        assert_eq!(value["latency"]["value"], 0.005);
        // One core is requested, and the prediction is for four threads: both values are kept
        // apart.
        assert_eq!((value["threads"].clone(), demand.threads), (json!(4), 1));
        assert!(annotations["metier.graph"].as_str().unwrap().starts_with("sha256:0202"));
        let unseen = graph_service(&found, &demand, &serving, None).unwrap();
        assert!(!unseen.annotations.contains_key("metier.graph"), "no file, no digest");
    }

    #[test]
    fn whatever_a_graph_is_called_its_object_has_a_name() {
        for (graph, name) in [("Net_v2.1", "net-v2-1"), ("--", "graph"), ("", "graph"), ("Größe", "gr--e")]
        {
            assert_eq!(object_name(graph), name);
        }
        let name = object_name(&"Ab".repeat(200));
        assert_eq!(ServingImage { name, image: "x".into(), ..ServingImage::default() }.defect(), None);
    }

    #[test]
    fn names_that_kubernetes_refuses_are_refused_here() {
        let serving =
            |name: &str| ServingImage { name: name.into(), image: "x".into(), ..ServingImage::default() };
        assert_eq!(serving("a-1").defect(), None);
        for name in ["", "-a", "a-", "A", "a_b", &"a".repeat(64)] {
            assert_eq!(serving(name).defect().unwrap().0, "name", "{name}");
        }
        assert_eq!(ServingImage { image: "a b".into(), ..serving("a") }.defect().unwrap().0, "image");
    }
}
